//! Do the iterations of a loop depend on each other through buffers?
//!
//! ```text
//! for i: t[i] = a[i]; o[i] = t[i]       no: each reads what it wrote itself
//! for i: t[i] = a[i]; o[i] = t[i - 1]   yes: each reads what the one before wrote
//! ```

use super::guards::conjuncts;
use super::regions::{self, Region};
use super::span::{Span, at_most, cast};
use super::{checks, holes, injective, tree};
use crate::analysis::{Ranges, simplify};
use crate::ir::{Block, Expr, For, IterKind, Name, PrimFunc};
use crate::schedule::Failure;

/// `own_data`: what a block under the loop reads of a buffer that another one under it writes was
/// written in the same iteration, before.
pub fn own_data(func: &PrimFunc, l: &For) -> Result<(), Failure> {
    let blocks = checks::outer_blocks(l);
    let ranges = regions::loop_ranges(func);
    for (k, writer) in blocks.iter().enumerate() {
        let written = tree::writes(writer);
        for (j, reader) in blocks.iter().enumerate().filter(|(j, _)| *j != k) {
            for buffer in tree::reads(reader).intersection(&written) {
                let own = k < j && covers(func, l, (writer, reader), buffer, &ranges);
                Failure::unless(own, "own_data", &l.var, || {
                    format!(
                        "block `{}` may read elements of `{buffer}` that block `{}` writes in another iteration of loop `{}`",
                        reader.name, writer.name, l.var
                    )
                })?;
            }
        }
    }
    Ok(())
}

/// True where the part of `buffer` that the writer fills in one iteration of `l` holds all that
/// the reader wants of it in that iteration.
fn covers(func: &PrimFunc, l: &For, (writer, reader): (&Block, &Block), buffer: &Name, ranges: &Ranges) -> bool {
    let filled = regions::running(func, writer, Some(&l.var), None);
    let wanted = regions::running(func, reader, Some(&l.var), None);
    let stores = regions::stores(writer, buffer);
    let alone = std::slice::from_ref(writer);
    let whole = holes::fill_box(func, alone, func.buffer(buffer), &l.var, ranges, regions::is_box).is_ok();
    let has = regions::hull(&stores, &filled, ranges);
    let wants = regions::hull(&regions::loads(reader, buffer), &wanted, ranges);
    let shape = &func.buffer(buffer).shape;
    (whole && contains(&has, &wants, shape, ranges)) || same_points(func, l, (writer, reader), buffer, ranges)
}

/// True where `has` holds all of `wants` that lies inside the shape.
fn contains(has: &Region, wants: &Region, shape: &[Expr], ranges: &Ranges) -> bool {
    has.len() == wants.len()
        && has.iter().zip(wants).zip(shape).all(|((h, w), size)| match (h, w) {
            (Some(h), Some(w)) => {
                let whole = Span::from_zero(&cast(h.lo.dtype(), size));
                (at_most(&h.lo, &w.lo, ranges) || at_most(&h.lo, &whole.lo, ranges))
                    && (at_most(&w.hi, &h.hi, ranges) || at_most(&whole.hi, &h.hi, ranges))
            }
            (None, _) | (_, None) => false,
        })
}

/// True where the reader goes through the very elements that the writer goes through: the loops
/// inside `l` correspond one to one, and so do indices and guards.
fn same_points(func: &PrimFunc, l: &For, (writer, reader): (&Block, &Block), buffer: &Name, ranges: &Ranges) -> bool {
    let stores = regions::stores(writer, buffer);
    let [written] = stores.as_slice() else { return false };
    if [writer, reader].iter().any(|b| !tree::inner_blocks(b).is_empty()) {
        return false;
    }
    let known = conjuncts(reader.guard.as_ref());
    let known: Vec<Expr> = known.iter().map(|c| simplify(c, ranges)).collect();
    regions::loads(reader, buffer).iter().all(|read| {
        let from = inner_loops(func, l, writer, written);
        let to = inner_loops(func, l, reader, read);
        let pairs: Vec<(&For, &For)> = from.iter().copied().zip(to.iter().copied()).collect();
        let partner = |n: &Name| pairs.iter().find(|(a, _)| a.var == *n).map(|(_, b)| b.var_expr());
        let same = |(a, b): (&Expr, &Expr)| {
            let a = cast(b.dtype(), &a.subst(&partner));
            simplify(&(a - b.clone()), ranges).is_int(0)
        };
        let implied = |c: &Expr| known.contains(&simplify(&c.subst(&partner), ranges));
        from.len() == to.len()
            && pairs.iter().all(|(a, b)| a.extent == b.extent)
            && written.iter().zip(read).all(same)
            && conjuncts(writer.guard.as_ref()).iter().all(implied)
    })
}

/// The loops inside `l` around a block that its indices use, outermost first.
fn inner_loops<'a>(func: &'a PrimFunc, l: &For, block: &Block, indices: &[Expr]) -> Vec<&'a For> {
    let around = tree::loops_around(func, &block.name);
    let inside = around.into_iter().skip_while(|a| a.var != l.var).skip(1);
    inside.filter(|a| indices.iter().any(|e| e.uses_var(&a.var))).collect()
}

/// `own_results`: every iteration of the loop reduces into elements of its own: a reduction under
/// a loop that runs more than once has a spatial iterator along it.
pub fn own_results(l: &For) -> Result<(), Failure> {
    let once = l.extent.is_int(1);
    for b in checks::outer_blocks(l) {
        let along = b.iters.iter().any(|it| it.kind == IterKind::Spatial && it.binding.uses_var(&l.var));
        Failure::unless(once || !injective::reduces(b) || along, "own_results", &l.var, || {
            format!("every iteration of loop `{}` would reduce into the same elements in block `{}`", l.var, b.name)
        })?;
    }
    Ok(())
}

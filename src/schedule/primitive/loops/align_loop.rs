//! `align_loop`: a loop along a tensor begins where a vector of the tensor does.
//!
//! ```text
//! for j in 9:                         for j in 16:
//!     b0: v0 = i, v1 = j          ->      b0: v0 = i, v1 = j - i % 8 where i % 8 <= j and j < i % 8 + 9
//!         B[v0, v1] = A[v0, v1]               B[v0, v1] = A[v0, v1]
//!
//! for j in 9:                         for j in 16:
//!     b1: v0 = i, v1 = j          ->      b1: v0 = i, v1 = j
//!         t[v0] += A[v0, v1]                  t[v0] += A[v0, v1 - v0 % 8] if v0 % 8 <= v1 and v1 < v0 % 8 + 9 else 0
//!                      align_loop(j, A, 8), where rows of A have 9 elements
//! ```
//!
//! Rows of a length that no vector divides begin anywhere. Counted from the last element before them at which a vector begins,
//! all vectors of a row are aligned, and only its first and its last hold elements of other rows.
//!
//! Preconditions: `serial_loop`, `no_annotations`, `zero_min`, `blocks_below`, `several_lanes`; `one_block`: one block below;
//! `no_guard`: none along the loop; `own_iterator`: the loop is one iterator of the block, and no other uses it; `contiguous`:
//! all that the block touches of the tensor are neighbours along the loop, and begin at one place; `nothing_changes`: they may
//! begin elsewhere than a vector; of a reduced iterator `known_reducer` and `one_reduction`.
//!
//! Effect: the loop counts from there, whole vectors. A block that computes elements is guarded; a reduction takes what
//! changes nothing from iterations outside of the row, so that its first iteration, in which it begins, is always one.

use crate::analysis::{self, Ranges, gcd};
use crate::ir::{BinOp, Block, Expr, ExprKind, IterKind, IterVar, Name};
use crate::schedule::help::reducer::Reducer;
use crate::schedule::help::{checks, guards, regions, scope, tree};
use crate::schedule::{Draft, Failure};

/// Lets loop `at` begin at a multiple of `lanes` elements of `buffer`.
pub fn apply(d: &mut Draft, at: &Name, buffer: &Name, &lanes: &i64) -> Result<(), Failure> {
    let l = d.find_loop(at)?.clone();
    checks::replaceable(&l)?;
    checks::blocks_below(&l)?;
    Failure::unless(lanes > 1, "several_lanes", at, || format!("a vector of {lanes} elements begins everywhere"))?;
    let blocks = checks::outer_blocks(&l);
    let [block] = blocks.as_slice() else {
        return Err(Failure::new("one_block", at, format!("loop `{at}` holds {} blocks", blocks.len())));
    };
    Failure::unless(!block.guard.as_ref().is_some_and(|g| g.uses_var(at)), "no_guard", &block.name, || {
        format!("block `{}` has a guard along `{at}`; take this step before splits that do not divide", block.name)
    })?;
    let it = own_iterator(block, at)?;
    let ranges = scope::everywhere(&d.func);
    let begins = begins(d, block, it, buffer, &ranges)?;
    let step = gcd(analysis::multiple_of(&begins, &ranges), lanes);
    Failure::unless(step < lanes, "nothing_changes", at, || format!("all rows of `{buffer}` begin at a vector"))?;
    let before = analysis::simplify(&Expr::binary(BinOp::FloorMod, begins, Expr::int(lanes, it.dtype)), &ranges);
    let extent = whole_vectors(l.extent.clone() + Expr::int(lanes - step, l.dtype), lanes, &ranges);
    let changed = match it.kind {
        IterKind::Reduce => reduction(block, it, &before, &extent)?,
        IterKind::Spatial | IterKind::Opaque => elements(block, it, &before),
    };
    let outside = scope::around(&d.func, at);
    let name = block.name.clone();
    tree::edit_loop(&mut d.func, at, |l| l.extent = extent);
    tree::edit_block(&mut d.func, &name, |b| *b = changed);
    tree::edit_loop(&mut d.func, at, |l| {
        let mut inner = outside.clone();
        inner.enter_loop(l);
        l.body.iter_mut().for_each(|s| scope::simplify_control(s, &inner));
    });
    Ok(())
}

/// So many elements, rounded up to whole vectors.
fn whole_vectors(elements: Expr, lanes: i64, ranges: &Ranges) -> Expr {
    let n = |v| Expr::int(v, elements.dtype());
    let vectors = Expr::binary(BinOp::FloorDiv, elements.clone() + n(lanes - 1), n(lanes));
    analysis::simplify(&(vectors * n(lanes)), ranges)
}

/// The iterator that is the loop.
fn own_iterator<'b>(block: &'b Block, at: &Name) -> Result<&'b IterVar, Failure> {
    let uses: Vec<&IterVar> = block.iters.iter().filter(|it| it.binding.uses_var(at)).collect();
    match uses.as_slice() {
        [it] if it.binding.as_var() == Some(at) => Ok(it),
        _ => Err(Failure::new("own_iterator", &block.name, format!("loop `{at}` is not one iterator of it"))),
    }
}

/// The element of the buffer, over iterators of the block, that it touches where the iterator is 0.
fn begins(d: &Draft, block: &Block, it: &IterVar, buffer: &Name, ranges: &Ranges) -> Result<Expr, Failure> {
    let fail = |why: String| Failure::new("contiguous", &block.name, why);
    let b = d.find_buffer(buffer)?;
    let touched = regions::load_indices(block, buffer).into_iter().chain(regions::store_indices(block, buffer));
    let mut found: Option<Expr> = None;
    for indices in touched {
        let offset = analysis::Access { buffer: buffer.clone(), indices }.offset(b, ranges);
        let first = match analysis::linear(&offset, &it.var, ranges) {
            Some((one, first)) if one.is_int(1) && b.is_row_major() => first,
            _ => return Err(fail(format!("it does not touch neighbours of `{buffer}` along `{}`", it.var))),
        };
        if found.as_ref().is_some_and(|f| *f != first) {
            return Err(fail(format!("it touches elements of `{buffer}` that begin at several places")));
        }
        found = Some(first);
    }
    let known = |v: &Name| block.iters.iter().any(|i| i.var == *v) || d.func.extents.iter().any(|e| e.name == *v);
    match found {
        Some(first) if !first.any(&|e| e.as_var().is_some_and(|v| !known(v))) => Ok(first),
        Some(_) => Err(fail(format!("where it begins in `{buffer}` depends on loops inside of it"))),
        None => Err(fail(format!("it does not touch `{buffer}`"))),
    }
}

/// The conditions that an iteration, counted from `before` elements before the row, is one of the row.
fn inside(at: &Expr, before: &Expr, extent: &Expr) -> Expr {
    let cast = |e: &Expr| Expr::cast(at.dtype(), e.clone());
    let low = Expr::binary(BinOp::Le, cast(before), at.clone());
    let high = Expr::binary(BinOp::Lt, at.clone(), cast(before) + cast(extent));
    guards::conjoin([low, high]).expect("two conditions")
}

fn elements(block: &Block, it: &IterVar, before: &Expr) -> Block {
    let mut changed = block.clone();
    let bound = |v: &Name| block.iters.iter().find(|i| i.var == *v).map(|i| i.binding.clone());
    let before = before.subst(&bound);
    changed.guard = guards::conjoin(changed.guard.take().into_iter().chain([inside(&it.binding, &before, &it.extent)]));
    let own = changed.iters.iter_mut().find(|i| i.var == it.var).expect("the iterator is the block's");
    own.binding = it.binding.clone() - Expr::cast(it.binding.dtype(), before);
    changed
}

fn reduction(block: &Block, it: &IterVar, before: &Expr, extent: &Expr) -> Result<Block, Failure> {
    let reducer = Reducer::of(block)?;
    let Some((_, slot)) = reducer.plain() else {
        return Err(Failure::new("one_reduction", &block.name, "it has several results, or names values".to_string()));
    };
    let column = it.var_expr() - before.clone();
    let term = slot.term.subst(&|v| (*v == it.var).then(|| column.clone()));
    let value = Expr::new(ExprKind::IfThenElse {
        cond: inside(&it.var_expr(), before, &it.extent),
        then: term,
        otherwise: slot.identity.clone(),
    });
    let mut changed = block.clone();
    changed.body = reducer.stores(&[(slot.buffer.clone(), slot.indices.clone())], &[value]);
    changed.regions = None;
    let own = changed.iters.iter_mut().find(|i| i.var == it.var).expect("the iterator is the block's");
    own.extent = Expr::cast(it.dtype, extent.clone());
    Ok(changed)
}

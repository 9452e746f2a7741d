//! Puts the body of a loop into another one that runs as often, so that both take one pass.
//!
//! ```text
//! for i: b0: X[v0] = A[v0]              for i: b0: X[v0] = A[v0]
//! for j: b1: Y[v1] = A[v1] * 2    ->           b1: Y[v1] = A[v1] * 2
//! ```
//!
//! Preconditions: `loop_exists`; `serial_loop`, `no_annotations`, `zero_min`; `blocks_below`; `siblings`: both
//! stand in the same body, the first before the second; `same_extent`; `independent`: nothing under one
//! writes what is touched under the other; `nothing_between`: nothing between them touches what is
//! written under the second or writes what is read there.
//!
//! Effect: the body of the second follows that of the first; the second loop goes.

use crate::ir::{For, Name, Stmt};
use crate::schedule::help::{checks, tree};
use crate::schedule::{Draft, Failure};
use std::collections::BTreeSet;

pub fn apply(d: &mut Draft, first: &Name, second: &Name) -> Result<(), Failure> {
    let (a, b) = (d.find_loop(first)?.clone(), d.find_loop(second)?.clone());
    for l in [&a, &b] {
        checks::replaceable(l)?;
        checks::blocks_below(l)?;
    }
    let between = between(d, first, second)?;
    Failure::unless(a.extent == b.extent && a.dtype == b.dtype, "same_extent", second, || {
        format!("it has {} iterations, loop `{first}` has {}", b.extent, a.extent)
    })?;
    let (one, other) = (Touched::under(&a.body), Touched::under(&b.body));
    one.clash(&other).map_or(Ok(()), |buffer| {
        let why = format!("it and loop `{first}` do not leave `{buffer}` to one of them");
        Err(Failure::new("independent", second, why))
    })?;
    Touched::under(&between).clash(&other).map_or(Ok(()), |buffer| {
        Err(Failure::new("nothing_between", second, format!("`{buffer}` is touched between it and loop `{first}`")))
    })?;
    let own = a.var_expr();
    let body: Vec<Stmt> = b.body.iter().map(|s| s.subst(&|n| (n == second).then(|| own.clone()))).collect();
    tree::remove(&mut d.func, second);
    tree::edit_loop(&mut d.func, first, |l: &mut For| l.body.extend(body));
    Ok(())
}

/// What stands between two loops of one body, or `siblings`.
fn between(d: &Draft, first: &Name, second: &Name) -> Result<Vec<Stmt>, Failure> {
    let place = |name: &Name| {
        let path = tree::path(&d.func, name)?;
        let list = match path.len().checked_sub(2) {
            None => &d.func.body,
            Some(k) => tree::child_lists(path[k]).into_iter().find(|l| at(l, name).is_some())?,
        };
        Some((list, at(list, name)?))
    };
    let (Some((list, from)), Some((other, to))) = (place(first), place(second)) else {
        unreachable!("both were found")
    };
    Failure::unless(std::ptr::eq(list, other) && from < to, "siblings", second, || {
        format!("it does not come after loop `{first}` in the same body")
    })?;
    Ok(list[from + 1..to].to_vec())
}

fn at(list: &[Stmt], name: &Name) -> Option<usize> {
    list.iter().position(|s| tree::name_of(s) == Some(name))
}

/// The buffers that statements read and write.
struct Touched {
    reads: BTreeSet<Name>,
    writes: BTreeSet<Name>,
}

impl Touched {
    fn under(list: &[Stmt]) -> Touched {
        let blocks = || list.iter().flat_map(tree::blocks_in);
        let (mut reads, mut writes): (BTreeSet<Name>, BTreeSet<Name>) =
            (blocks().flat_map(tree::reads).collect(), blocks().flat_map(tree::writes).collect());
        // Between the loops there may be statements outside of blocks.
        list.iter().for_each(|s| {
            s.visit(&mut |s| {
                s.for_each_expr(|e| reads.extend(tree::loaded(e)));
                if let Stmt::Store { buffer, .. } = s {
                    writes.insert(buffer.clone());
                }
            })
        });
        Touched { reads, writes }
    }

    /// A buffer that one writes and the other touches.
    fn clash<'a>(&'a self, other: &'a Touched) -> Option<&'a Name> {
        let mine = self.writes.iter().find(|b| other.reads.contains(*b) || other.writes.contains(*b));
        mine.or_else(|| other.writes.iter().find(|b| self.reads.contains(*b)))
    }
}

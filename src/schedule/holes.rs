//! Does a block fill all of the box that it spans under a loop? Where its guard leaves elements out,
//! iterations of the loops outside may fill them at another time.
//!
//! ```text
//! for a in 3: for b in 2: for c in 2: t[a*3 + b*2 + c] where b*2 + c < 3    no: t[3] comes with a = 1
//! for a in 3: for b in 2: for c in 2: t[a*4 + b*2 + c] where b*2 + c < 3    yes: nobody writes t[3]
//! for a in 3: for k in 4: t[a] += .. where a*4 + k < 9                      yes: at k = 0
//! ```

use super::guards::{conjuncts, less};
use super::regions::{self, is_box};
use super::span::Running;
use super::{injective, tree};
use crate::analysis::{self, Ranges};
use crate::ir::{Block, Expr, IterKind, Name, PrimFunc};
use std::collections::BTreeSet;

/// True where what the block writes of `buffer` in one iteration of the loop `at` is a box, and all
/// of it that is written at all is written in that iteration.
pub(super) fn fills_box(func: &PrimFunc, writer: &Block, buffer: &Name, at: &Name, ranges: &Ranges) -> bool {
    let running = regions::running(func, writer, Some(at), None);
    let own = regions::store_indices(writer, buffer);
    own.iter().zip(regions::stores(writer, buffer)).all(|(own, stored)| {
        let conditions = cutting(writer, own, ranges);
        is_box(&stored, &running, ranges) && leaves_none(func, writer, &stored, &conditions, &running, ranges)
    })
}

/// The conditions of the guard, but for those that keep iterators in their domains which are
/// indices themselves: outside of the domain nobody writes.
fn cutting(writer: &Block, own: &[Expr], ranges: &Ranges) -> Vec<Expr> {
    let index = |v: &Name| own.iter().any(|e| e.as_var() == Some(v));
    let limits: Vec<Expr> = writer
        .iters
        .iter()
        .filter(|it| it.kind == IterKind::Spatial && index(&it.var))
        .map(|it| analysis::simplify(&less(&it.binding, &it.extent), ranges))
        .collect();
    let cuts = |c: &Expr| !limits.contains(&analysis::simplify(c, ranges));
    conjuncts(writer.guard.as_ref()).into_iter().filter(cuts).collect()
}

/// True where the conditions leave out no element of those at `indices`, in terms of loops, that
/// another iteration of the loops that do not run writes.
pub(super) fn leaves_none(
    func: &PrimFunc,
    writer: &Block,
    indices: &[Expr],
    conditions: &[Expr],
    running: &Running,
    ranges: &Ranges,
) -> bool {
    let used = |n: &Name| indices.iter().any(|e| e.uses_var(n));
    let first = |n: &Name| running.get(n).filter(|_| !used(n)).map(|span| span.lo.clone());
    if conditions.iter().all(|c| analysis::prove(&c.subst(&first), ranges)) {
        return true;
    }
    let around = tree::loops_around(func, &writer.name);
    let all: BTreeSet<Name> = around.iter().map(|l| l.var.clone()).chain(running.keys().cloned()).collect();
    let told = injective::recovered(indices, &all, ranges);
    let still = around.iter().filter(|l| !running.contains_key(&l.var) && !l.extent.is_int(1));
    let mut matter = still.filter(|l| used(&l.var) || conditions.iter().any(|c| c.uses_var(&l.var)));
    matter.all(|l| told.contains(&l.var))
}

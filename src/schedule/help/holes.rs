//! Do blocks fill all of the box that they span under a loop? Where its guard leaves elements out,
//! iterations of the loops outside may fill them at another time.
//!
//! ```text
//! for a in 3: for b in 2: for c in 2: t[a*3 + b*2 + c] where b*2 + c < 3    no: t[3] comes with a = 1
//! for a in 3: for b in 2: for c in 2: t[a*4 + b*2 + c] where b*2 + c < 3    yes: nobody writes t[3]
//! for a in 3: for k in 4: t[a] += .. where a*4 + k < 9                      yes: at k = 0
//! for a in 3: t[a] = ..; t[a + 5] = ..                                      no: t[a + 1] lies between
//! ```

use super::guards::{conjuncts, less};
use super::regions::{self, Region};
use super::span::{Running, cast};
use super::{cover, injective, tree};
use crate::analysis::{self, Ranges};
use crate::ir::{BinOp, Block, Buffer, Expr, ExprKind, IterKind, Name, PrimFunc, Stmt};
use std::collections::BTreeSet;

/// What tells whether indices fill a box while loops run.
pub type IsBox = fn(&[Expr], &Running, &Ranges) -> bool;

/// Fails with the name of a writer under the loop `at` that keeps what all of them write of `buffer` in
/// one iteration of it from being a box, of which whatever is written at all is written in that
/// iteration. Writers of one and the same part do; else the parts without any holes have to cover all.
pub fn fill_box(
    func: &PrimFunc,
    writers: &[Block],
    buffer: &Buffer,
    at: &Name,
    ranges: &Ranges,
    is_box: IsBox,
) -> Result<(), Name> {
    let stores: Vec<Stored> = writers.iter().flat_map(|w| Stored::by(func, w, &buffer.name, at)).collect();
    if let Some(torn) = stores.iter().find(|s| !s.fills_box(func, ranges, is_box)) {
        return Err(torn.writer.name.clone());
    }
    let [first, others @ ..] = stores.as_slice() else { return Ok(()) };
    let part = first.part(ranges);
    if others.iter().all(|s| cover::same(&s.part(ranges), &part, ranges)) {
        return Ok(());
    }
    let whole = stores.iter().filter(|s| s.is_whole(buffer, ranges)).map(|s| s.part(ranges)).collect();
    let covered = cover::joined(whole, ranges);
    let inside = |s: &&Stored| covered.iter().any(|c| cover::contains(c, &s.part(ranges), ranges));
    match stores.iter().find(|s| !inside(s)) {
        Some(apart) => Err(apart.writer.name.clone()),
        None if covered.len() == 1 => Ok(()),
        None => Err(first.writer.name.clone()),
    }
}

/// A store of a block under a loop.
struct Stored<'a> {
    writer: &'a Block,
    /// The indices in terms of the block's iterators.
    own: Vec<Expr>,
    /// The indices in terms of loops.
    indices: Vec<Expr>,
    /// The loops that run.
    running: Running,
}

impl<'a> Stored<'a> {
    fn by(func: &PrimFunc, writer: &'a Block, buffer: &Name, at: &Name) -> Vec<Stored<'a>> {
        let running = regions::running(func, writer, Some(at), None);
        let both = regions::store_indices(writer, buffer).into_iter().zip(regions::stores(writer, buffer));
        both.map(|(own, indices)| Stored { writer, own, indices, running: running.clone() }).collect()
    }

    /// The hull of what it writes.
    fn part(&self, ranges: &Ranges) -> Region {
        regions::hull(std::slice::from_ref(&self.indices), &self.running, ranges)
    }

    fn fills_box(&self, func: &PrimFunc, ranges: &Ranges, is_box: IsBox) -> bool {
        let conditions = self.cutting(ranges, |_, _| true);
        // What guards of inner blocks leave out is not looked into.
        let plain = tree::inner_blocks(self.writer).iter().all(|b| b.guard.is_none());
        plain
            && is_box(&self.indices, &self.running, ranges)
            && leaves_none(func, self.writer, &self.indices, &conditions, &self.running, ranges)
    }

    /// True where the guard leaves out nothing of the box that lies in the buffer.
    fn is_whole(&self, buffer: &Buffer, ranges: &Ranges) -> bool {
        let ends = |at: usize, extent: &Expr| {
            let size = analysis::simplify(&cast(extent.dtype(), &buffer.shape[at]), ranges);
            size == analysis::simplify(extent, ranges)
        };
        let conditions = self.cutting(ranges, ends);
        proven_once(&self.indices, &conditions, &self.running, ranges)
    }

    /// The conditions of the guard, but for those that keep iterators in their domains which are
    /// indices themselves, where `outside` says that nobody writes outside of the domain.
    fn cutting(&self, ranges: &Ranges, outside: impl Fn(usize, &Expr) -> bool) -> Vec<Expr> {
        let index = |v: &Name| self.own.iter().position(|e| e.as_var() == Some(v));
        let limits: Vec<Expr> = self
            .writer
            .iters
            .iter()
            .filter(|it| it.kind == IterKind::Spatial && index(&it.var).is_some_and(|at| outside(at, &it.extent)))
            .map(|it| undivided(&less(&it.binding, &it.extent), ranges))
            .collect();
        let cuts = |c: &Expr| !limits.contains(&undivided(c, ranges));
        conjuncts(self.writer.guard.as_ref()).into_iter().filter(cuts).collect()
    }
}

/// A condition in its simplest form: `f // 5 < 7` says that `f < 35`.
fn undivided(condition: &Expr, ranges: &Ranges) -> Expr {
    let simple = analysis::simplify(condition, ranges);
    let ExprKind::Binary { op: BinOp::Lt, a, b } = simple.kind() else { return simple };
    let ExprKind::Binary { op: BinOp::FloorDiv, a: dividend, b: by } = a.kind() else { return simple };
    match (by.as_int().filter(|c| *c > 0), b.as_int()) {
        (Some(by), Some(n)) => less(dividend, &Expr::int(n.saturating_mul(by), dividend.dtype())),
        _ => simple,
    }
}

/// True where the conditions hold for every element at `indices` at least once.
fn proven_once(indices: &[Expr], conditions: &[Expr], running: &Running, ranges: &Ranges) -> bool {
    let first = |n: &Name| running.get(n).filter(|_| !uses(indices, n)).map(|span| span.lo.clone());
    conditions.iter().all(|c| analysis::prove(&c.subst(&first), ranges))
}

fn uses(indices: &[Expr], n: &Name) -> bool {
    indices.iter().any(|e| e.uses_var(n))
}

/// True where the conditions leave out no element of those at `indices`, in terms of loops, that
/// another iteration of the loops that do not run writes.
pub fn leaves_none(
    func: &PrimFunc,
    writer: &Block,
    indices: &[Expr],
    conditions: &[Expr],
    running: &Running,
    ranges: &Ranges,
) -> bool {
    if proven_once(indices, conditions, running, ranges) {
        return true;
    }
    let path = tree::path(func, &writer.name).unwrap_or_default();
    if path.iter().rev().skip(1).any(|s| !matches!(s, Stmt::For(_))) {
        // Loops outside of a block around it run too.
        return false;
    }
    let around = tree::loops_around(func, &writer.name);
    let all: BTreeSet<Name> = around.iter().map(|l| l.var.clone()).chain(running.keys().cloned()).collect();
    let told = injective::recovered(indices, &all, ranges);
    let still = around.iter().filter(|l| !running.contains_key(&l.var) && !l.extent.is_int(1));
    let mut matter = still.filter(|l| uses(indices, &l.var) || conditions.iter().any(|c| c.uses_var(&l.var)));
    matter.all(|l| told.contains(&l.var))
}

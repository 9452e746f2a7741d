//! Gives the blocks whose tile lies inside a tensor statements without conditions.
//!
//! Where the size of a tensor is no multiple of a vector, the condition on each element keeps a copy from being one of
//! vectors, though it fails in the last block only. Statements with such a copy that is one of vectors without it are written
//! twice: without conditions under the condition that the last element of the block's tile is inside, and as they were.
//! Registers of the second are its own.
//!
//! before: `vector v < 8 { if blockIdx.x * 2048 + threadIdx.x * 8 + v < n { r[v] = p0[...] } }`
//! after:  `if blockIdx.x * 2048 + 2047 < n { vector v < 8 { r[v] = p0[...] } } else { ... }`

use super::batch::{fixed_by_instructions, uses};
use super::cluster_loads::touches_part;
use super::guards::{for_all, reads_no_memory};
use super::vectorize::as_copy;
use crate::analysis::prove;
use crate::ir::device::{DFor, DKind, DStmt, all_of, conjuncts, guarded, only_guarded};
use crate::ir::instr::Access;
use crate::ir::{BinOp, Buffer, Expr, ExprKind, Name};
use crate::lower::fact::redirect;
use crate::lower::fact::replicated::loads;
use crate::lower::nest::{Nest, THREADS};
use std::collections::{BTreeMap, BTreeSet};

/// Splits lists of statements with such a copy, inside the loops that are not unrolled.
pub fn run(nest: &mut Nest, body: Vec<DStmt>) -> Vec<DStmt> {
    list(nest, &uses(&body), body)
}

/// `everywhere` says how often the whole launch uses each buffer.
fn list(nest: &mut Nest, everywhere: &BTreeMap<Name, usize>, body: Vec<DStmt>) -> Vec<DStmt> {
    let (mut out, mut together) = (vec![], vec![]);
    for s in body {
        match s {
            DStmt::For(DFor { kind: DKind::Serial, .. }) => {
                out.extend(split(nest, everywhere, std::mem::take(&mut together)));
                out.push(s.map_lists(|inner| list(nest, everywhere, inner)));
            }
            s if stands_apart(nest, &s) => {
                out.extend(split(nest, everywhere, std::mem::take(&mut together)));
                out.push(s);
            }
            s => together.push(s),
        }
    }
    out.extend(split(nest, everywhere, together));
    out
}

/// True for what ends a phase, for what is in scope until the end of the list, and for what a block leaves to others of its
/// cluster: all of them meet behind it.
fn stands_apart(nest: &Nest, s: &DStmt) -> bool {
    matches!(s, DStmt::Barrier(_) | DStmt::Let { .. } | DStmt::Var { .. }) || touches_part(nest, s, Access::Write)
}

/// How many loops copy adjacent elements, each under a condition of its own.
fn partial_copies(nest: &mut Nest, body: &[DStmt]) -> usize {
    let mut found = vec![];
    let mut note = |s: &DStmt| {
        if let DStmt::For(l) = s
            && l.kind == DKind::Vectorized
            && let Some((cond, then)) = only_guarded(&l.body)
            && cond.uses_var(&l.var)
        {
            found.push(l.with_body(then.to_vec()));
        }
    };
    body.iter().for_each(|s| s.visit(&mut note));
    let decisions = nest.decisions.len();
    let copies = found.iter().filter(|l| as_copy(nest, l).is_some()).count();
    nest.decisions.truncate(decisions);
    copies
}

fn split(nest: &mut Nest, everywhere: &BTreeMap<Name, usize>, body: Vec<DStmt>) -> Vec<DStmt> {
    let copies = partial_copies(nest, &body);
    if copies == 0 {
        return body;
    }
    // Conditions may be left on all of them: the first vector of a row that begins anywhere is whole in no tile.
    let pays = |nest: &mut Nest, cond: &Expr, then: &[DStmt]| {
        !conjuncts(cond).iter().any(is_rare) && partial_copies(nest, then) < copies
    };
    apart(nest, everywhere, &body, pays).map_or(body, |s| vec![s])
}

/// True for a condition that half of all remainders do not meet, or more: of rows that begin anywhere few begin at a vector.
fn is_rare(cond: &Expr) -> bool {
    let ExprKind::Binary { op: BinOp::Lt, a, b } = cond.kind() else { return false };
    let ExprKind::Binary { op: BinOp::FloorMod, b: modulus, .. } = a.kind() else { return false };
    modulus.as_int().zip(b.as_int()).is_some_and(|(m, n)| 2 * n <= m)
}

/// Statements without conditions under one that their tile is whole, and else as they are. `None` where no such condition tells,
/// and where it does not pay, given the condition and the statements without the others.
pub(super) fn apart(
    nest: &mut Nest,
    everywhere: &BTreeMap<Name, usize>,
    body: &[DStmt],
    pays: impl FnOnce(&mut Nest, &Expr, &[DStmt]) -> bool,
) -> Option<DStmt> {
    let mut whole = Whole { nest, loops: vec![], conds: vec![] };
    let then = whole.statements(body.to_vec());
    let cond = all_of(whole.conds)?;
    pays(nest, &cond, &then).then(|| DStmt::If { cond, then, otherwise: with_own_registers(nest, everywhere, body) })
}

/// Statements in a block, or a step of a loop, whose tile is whole.
struct Whole<'n, 'a> {
    nest: &'n Nest<'a>,
    /// The loops around, with their extents.
    loops: Vec<(Name, i64)>,
    /// What has to hold.
    conds: Vec<Expr>,
}

impl Whole<'_, '_> {
    fn statements(&mut self, body: Vec<DStmt>) -> Vec<DStmt> {
        body.into_iter().flat_map(|s| self.statement(s)).collect()
    }

    fn statement(&mut self, s: DStmt) -> Vec<DStmt> {
        let known = self.loops.len();
        if let DStmt::For(DFor { var, extent, .. }) = &s {
            self.loops.extend(extent.as_int().map(|n| (var.clone(), n)));
        }
        let s = s.map_lists(|inner| self.statements(inner));
        self.loops.truncate(known);
        match s {
            DStmt::If { cond, then, otherwise } if otherwise.is_empty() => {
                let left = conjuncts(&cond).into_iter().filter(|c| !self.always(c));
                guarded(all_of(left), then)
            }
            s => vec![s],
        }
    }

    /// True for a condition that holds for all threads and steps where it does for the last; that it does is noted.
    fn always(&mut self, cond: &Expr) -> bool {
        let threads = THREADS.iter().map(|t| (Name::new(t.name()), self.nest.threads(*t)));
        let all: Vec<(Name, i64)> = self.loops.iter().cloned().chain(threads).collect();
        let Some(holds) = for_all(&self.nest.ranges, cond, &all).filter(|_| reads_no_memory(cond)) else {
            return false;
        };
        if !prove(&holds, &self.nest.ranges) && !self.conds.contains(&holds) {
            self.conds.push(holds);
        }
        true
    }
}

/// The statements with names of their own for the registers that nothing else uses, and that hold no sums: what a step adds to
/// may be what another has left.
pub(super) fn with_own_registers(nest: &mut Nest, everywhere: &BTreeMap<Name, usize>, body: &[DStmt]) -> Vec<DStmt> {
    let inside = uses(body);
    let fixed = fixed_by_instructions(body);
    let summed = summed(body);
    let own =
        |n: &Name| nest.is_local(n) && !fixed.contains(n) && !summed.contains(n) && inside.get(n) == everywhere.get(n);
    let names: Vec<Name> = inside.keys().filter(|n| own(n)).cloned().collect();
    let renamed: BTreeMap<Name, Name> = names.into_iter().map(|n| (n.clone(), copy_of(nest, &n))).collect();
    redirect::all(body, &|name, at| Some((renamed.get(name)?.clone(), at.clone())))
}

/// The buffers that some statement stores to what it reads of them.
fn summed(body: &[DStmt]) -> BTreeSet<Name> {
    let mut out = BTreeSet::new();
    for s in body {
        s.visit(&mut |s| {
            if let DStmt::Store { buffer, value, .. } = s {
                let mut read = BTreeSet::new();
                loads(value, &mut read);
                out.extend(read.contains(buffer).then(|| buffer.clone()));
            }
        });
    }
    out
}

fn copy_of(nest: &mut Nest, name: &Name) -> Name {
    let like = nest.buffers.get(name).cloned();
    let copy = nest.fresh(&format!("{name}_last"));
    nest.buffers.extend(like.map(|b| (copy.clone(), Buffer { name: copy.clone(), ..b })));
    copy
}

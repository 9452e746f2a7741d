//! What the warpgroups that multiply do, together at each tile or in turn.
//!
//! In turn, a warpgroup waits until the one before has issued the products of its own tile, which then has the tensor
//! cores; it issues its own while that one stores its results. Each takes the slots of the ring that its tiles were
//! copied to, and leaves out those of the others.

use super::ring::{Ring, THREAD, assign, constant, first_of, index_of, op, sync, thread, variable, when};
use super::{Roles, Tiles, Who, ahead, resize};
use crate::analysis::simplify;
use crate::ir::device::{DStmt, index_var};
use crate::ir::instr::{At, Instr, Op, Sync};
use crate::ir::kernel::Barrier;
use crate::ir::{BinOp, DType, Expr, ExprKind, Name, Scope};
use crate::lower::fact::redirect;
use crate::lower::fact::warps::WARPGROUP;
use crate::lower::nest::Nest;
use crate::lower::pass::pipeline::is_zero;
use std::collections::BTreeMap;

/// Warpgroups that multiply in turn.
pub struct Turns {
    /// Barriers that let each begin.
    pub go: Name,
    /// The phase of its barrier that a warpgroup waits for next.
    phase: Name,
    /// The number of the thread in its warpgroup.
    thread: Name,
}

impl Turns {
    /// Of so many warpgroups.
    pub fn new(nest: &mut Nest, n: i64) -> Turns {
        let go = nest.scratch("go", DType::U64, Expr::i64(n), Scope::Shared);
        let turns = Turns { go, phase: nest.fresh("turn"), thread: nest.fresh("thread") };
        nest.ranges.set(turns.phase.clone(), 0, 1);
        nest.ranges.set(turns.thread.clone(), 0, i64::from(WARPGROUP) - 1);
        turns
    }
}

impl Roles {
    /// What the warpgroups that multiply do with the statements around the loop.
    pub(super) fn computing(
        &self,
        nest: &mut Nest,
        tiles: Option<&Tiles>,
        before: &[DStmt],
        after: Vec<DStmt>,
    ) -> Vec<DStmt> {
        let (ring, prev) = (Ring::new(nest, self.l.stages), nest.fresh("prev"));
        nest.ranges.set(prev.clone(), 0, self.l.stages - 1);
        let mut out = ring.declare(0).to_vec();
        if self.lags() {
            out.push(variable(&prev, Expr::i32(0)));
        }
        if let Some(turns) = &self.turns {
            // the first turn waits for no one
            let first = op(BinOp::Eq, index_of(&self.group), 0);
            out.push(variable(&turns.phase, Expr::cast(DType::I32, first)));
            let second = op(BinOp::Eq, index_of(&self.group), 1);
            out.push(when(second, ring.skip(self.steps).to_vec()));
            let number = op(BinOp::FloorMod, thread(), i64::from(WARPGROUP));
            out.push(constant(&turns.thread, number));
        }
        let (mut body, compute) = self.without_zeros(nest, before);
        let (loaded, compute) = ahead::loads(nest, (&self.l.var, self.steps), compute);
        body.extend(loaded);
        body.extend(self.products(nest, &ring, &prev, &compute));
        body.extend(after);
        let body: Vec<DStmt> = body.into_iter().map(|s| self.with_group(nest, s)).collect();
        let body = self.with_own_rows(nest, body);
        out.extend(match (tiles, &self.turns) {
            (Some(tiles), Some(_)) => tiles.each(nest, &Who::InTurn(&index_of(&self.group), self.l.roles), body),
            (Some(tiles), None) => tiles.each(nest, &Who::Warps, body),
            (None, _) => body,
        });
        out
    }

    /// The statements before the loop and the loop's products, of which the first do not add where the sums start
    /// from zero.
    fn without_zeros(&self, nest: &Nest, before: &[DStmt]) -> (Vec<DStmt>, Vec<DStmt>) {
        let mut seen: Vec<At> = vec![];
        let mut compute = self.compute.clone();
        let not_first = Expr::binary(BinOp::Lt, Expr::i64(0), index_var(&self.l.var));
        for s in &mut compute {
            if let DStmt::Instr(i) = s
                && matches!(i.op, Op::Wgmma { .. } | Op::WgmmaRegisters { .. })
                && !seen.contains(&i.places[0])
            {
                seen.push(i.places[0].clone());
                i.values[0] = not_first.clone();
            }
        }
        let zero = |s: &DStmt| seen.first().is_some_and(|d| zeroes(nest, s, &d.array));
        let rest: Vec<DStmt> = before.iter().filter(|s| !zero(s)).cloned().collect();
        if rest.len() < before.len() { (rest, compute) } else { (rest, self.compute.clone()) }
    }

    /// Arrivals by which a warpgroup gives a slot back: one for each warp where threads have read it themselves.
    pub(super) fn releases(&self) -> i64 {
        let warps = WARPGROUP / self.warp;
        if self.compute.iter().any(reads_registers) { i64::from(warps) } else { 1 }
    }

    /// True where products of a step go on while the next one begins.
    fn lags(&self) -> bool {
        self.releases() == 1 && self.added.is_empty()
    }

    /// The marked loop, and what ends it. Where each step makes registers anew that products read, or adds what they gave to other
    /// sums, it waits for its own and gives back the slot that it has read.
    fn products(&self, nest: &Nest, ring: &Ring, prev: &Name, compute: &[DStmt]) -> Vec<DStmt> {
        let wait = |left| sync(Sync::WgmmaWait { left }, None, None);
        let mut step = vec![ring.wait(&self.full)];
        step.extend(self.placed(nest, compute, ring));
        let slot = if self.lags() { index_of(prev) } else { ring.at() };
        let (who, give_back) = self.give_back(slot, i64::from(WARPGROUP) / self.releases());
        if self.lags() {
            let later = Expr::binary(BinOp::Lt, Expr::i64(0), index_var(&self.l.var));
            step.push(wait(1));
            step.push(when(Expr::binary(BinOp::And, later, who.clone()), vec![give_back.clone()]));
            step.push(assign(prev, ring.slot()));
        } else {
            step.push(wait(0));
            // threads of a warp have read what they loaded of the slot
            step.extend((self.releases() > 1).then_some(DStmt::Barrier(Barrier::Warp)));
            step.push(when(who.clone(), vec![give_back.clone()]));
            step.extend(self.added.iter().cloned());
        }
        step.extend(ring.next());
        let mut out = vec![self.steps(step)];
        if let Some(turns) = &self.turns {
            let own = index_of(&self.group);
            let phase = Expr::var(turns.phase.clone(), DType::I32);
            let turn = sync(Sync::MbarrierWait, Some((&turns.go, own.clone())), Some(index_of(&turns.phase)));
            out.splice(0..0, [turn, assign(&turns.phase, Expr::i32(1) - phase)]);
            let other = Some((&turns.go, Expr::i64(1) - own));
            out.push(when(first(), vec![sync(Sync::MbarrierArrive, other, None)]));
        }
        if self.lags() {
            out.extend([wait(0), when(who, vec![give_back])]);
        }
        if self.turns.is_some() {
            out.extend(ring.skip(self.steps));
        }
        out
    }

    /// Gives a slot back to the block that filled it, or to all that did, and which threads do: the first of each so many
    /// arrives, or the first ones, each at a block of its own.
    fn give_back(&self, slot: Expr, threads: i64) -> (Expr, DStmt) {
        if self.peers == 1 {
            return (first_of(threads), sync(Sync::MbarrierArrive, Some((&self.empty, slot)), None));
        }
        let peer = op(BinOp::FloorMod, thread(), threads);
        let arrive = Instr::new(Op::PeerArrive, [At::new(&self.empty, slot)], [peer.clone()]);
        (op(BinOp::Lt, peer, self.peers), DStmt::Instr(arrive))
    }

    /// Statements in which each of the warpgroups that take turns has arrays for its own warps.
    fn with_own_rows(&self, nest: &mut Nest, body: Vec<DStmt>) -> Vec<DStmt> {
        if self.turns.is_none() {
            return body;
        }
        let mut lengths = BTreeMap::new();
        for name in nest.of_warps.clone() {
            let Some(len) = nest.buffers.get(&name).and_then(|b| b.len()) else { continue };
            resize(nest, &name, len * self.l.roles);
            lengths.insert(name, len);
        }
        redirect::all(&body, &|name, at| {
            let own = index_of(&self.group) * Expr::i64(*lengths.get(name)?);
            Some((name.clone(), simplify(&(at.clone() + own), &nest.ranges)))
        })
    }

    /// A statement with the warpgroup's number in place of the quotient that it is, and the thread's number in the
    /// warpgroup where these work apart.
    pub(super) fn with_group(&self, nest: &Nest, s: DStmt) -> DStmt {
        s.map_exprs(&mut |e| {
            let named = self.named(e);
            if named == *e { named } else { simplify(&named, &nest.ranges) }
        })
    }

    fn named(&self, e: &Expr) -> Expr {
        let is_thread = |e: &Expr| e.as_var().is_some_and(|n| n.as_str() == THREAD);
        match (e.kind(), &self.turns) {
            (ExprKind::Binary { op: BinOp::FloorDiv, a, b }, None)
                if b.is_int(i64::from(WARPGROUP)) && is_thread(a) =>
            {
                index_of(&self.group)
            }
            (ExprKind::Var { .. }, Some(turns)) if is_thread(e) => index_of(&turns.thread),
            _ => e.map_children(|c| self.named(c)),
        }
    }
}

/// True for a product whose first operand is in registers.
fn reads_registers(s: &DStmt) -> bool {
    matches!(s, DStmt::Instr(i) if matches!(i.op, Op::WgmmaRegisters { .. }))
}

/// True for the first thread of each warpgroup.
fn first() -> Expr {
    first_of(i64::from(WARPGROUP))
}

/// True for a nest that sets all registers of an array to zero, and nothing else.
pub fn zeroes(nest: &Nest, s: &DStmt, array: &Name) -> bool {
    let (mut n, mut at) = (1, s);
    while let DStmt::For(l) = at {
        let ([inner], Some(steps)) = (l.body.as_slice(), l.extent.as_int()) else { return false };
        (n, at) = (n * steps, inner);
    }
    let DStmt::Store { buffer, value, .. } = at else { return false };
    buffer == array && is_zero(value) && nest.buffers.get(array).and_then(|b| b.len()) == Some(n)
}

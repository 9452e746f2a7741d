//! Reduction in registers over any threads of the block, through shared memory.
//!
//! When: block scope; the layouts reduce over threads, whichever they are: a column sum over
//! `threadIdx.y`, or a number of lanes that is no power of two.
//!
//! before: `Tx.cta.sum(r, a)`, over 4 threads that are 64 apart
//! after:  `stage[thread] = a[0]; barrier; if thread / 64 == 0 { sum = stage[thread]; for i in 3 {`
//!         `sum = sum + stage[thread + 64 (i + 1)] } }; r[0] = sum`
//!
//! Every thread stages its elements; after a barrier the first of each group sums up to 32 of them in
//! order. More are halved step by step, with a barrier for each step. All threads of the group do the
//! last sum where the destination is replicated over them. In a tile program another barrier stands in
//! front, because in a loop slow threads may still read what was staged before.
//!
//! Declines by `storage_scope`, `dtype`, `exec_scope`, `all_threads`, `layout`, `reduced_threads` and
//! `scratch`.

use super::OPS;
use super::registers::{Registers, Shares, ask, declared};
use crate::ir::device::{DKind, DStmt, guarded};
use crate::ir::kernel::Barrier;
use crate::ir::{BinOp, Expr, Name, Scope, TileCall};
use crate::tile::{Cx, Emit, Plan, Refusals, Variant, WARP};

pub(super) const VARIANT: Variant = Variant { name: "staged", ops: OPS, priority: 5, only_forced: false, plan };

fn plan(call: &TileCall, cx: &Cx, r: &mut Refusals) -> Option<Plan> {
    let (shares, combine) = ask(call, cx, r, true);
    r.ask_if("reduced_threads", shares.as_ref().ok(), several);
    Shares::ask_stage(&shares, cx.threads(), cx, r);
    let found = Registers { shares: shares.ok()?, combine: combine?, accum: call.accum };
    Some(Box::new(move |e| emit(&found, e)))
}

/// That threads have something to exchange.
fn several(shares: &Shares) -> Result<(), String> {
    if shares.group() > 1 {
        return Ok(());
    }
    Err(format!("no threads reduce together, each has all that it needs of `{}`", shares.src.view.buffer))
}

/// Partial results in shared memory, `[member of the group, element, group]`.
struct Stage {
    name: Name,
    own: Expr,
    group: Expr,
    groups: i64,
    values: i64,
}

impl Stage {
    fn at(&self, emit: &Emit, member: Expr, number: &Expr) -> Vec<Expr> {
        let row = member * Expr::i64(self.values) + number.clone();
        vec![emit.simple(row * Expr::i64(self.groups) + self.group.clone())]
    }

    fn load(&self, r: &Registers, emit: &Emit, member: Expr, number: &Expr) -> Expr {
        Expr::load(self.name.clone(), self.at(emit, member, number), r.combine.acc)
    }
}

fn emit(r: &Registers, emit: &mut Emit) -> Vec<DStmt> {
    let threads = emit.cx().threads();
    let (group, groups) = r.group_number(emit, threads);
    let (own, values) = (r.member(emit), r.shares.values());
    let stem = format!("{}_stage", r.shares.dst.view.buffer);
    let name = emit.scratch(&stem, r.combine.acc, r.shares.group() * values * groups, Scope::Shared);
    let stage = Stage { name, own, group, groups, values };
    let mut out = vec![];
    if emit.guard_scratch {
        out.push(DStmt::Barrier(Barrier::Block));
    }
    out.extend(r.for_each_value(emit, |emit, kept, number| {
        let acc = r.variable(emit, "acc");
        let mut out = declared(&acc, r.own(emit, kept, &acc, false));
        let at = stage.at(emit, stage.own.clone(), &number);
        out.push(DStmt::store(stage.name.clone(), at, acc.get()));
        out
    }));
    let mut left = r.shares.group();
    if left > WARP {
        out.extend(halve(r, emit, &stage));
        left = 1;
    }
    out.push(DStmt::Barrier(Barrier::Block));
    out.extend(r.for_each_value(emit, |emit, kept, number| add(r, emit, &stage, kept, number, left)));
    out
}

/// Halves the staged values until one is left per group and element; the last barrier is missing.
fn halve(r: &Registers, emit: &mut Emit, stage: &Stage) -> Vec<DStmt> {
    let mut out = vec![];
    let mut step = (r.shares.group() as u64).next_power_of_two() as i64 / 2;
    while step > 0 {
        let lower = Expr::binary(BinOp::Lt, stage.own.clone(), Expr::i64(step.min(r.shares.group() - step)));
        let body = r.for_each_value(emit, |emit, _, number| {
            let mine = stage.load(r, emit, stage.own.clone(), &number);
            let other = stage.load(r, emit, stage.own.clone() + Expr::i64(step), &number);
            let at = stage.at(emit, stage.own.clone(), &number);
            vec![DStmt::store(stage.name.clone(), at, r.combine.apply(mine, other))]
        });
        out.push(DStmt::Barrier(Barrier::Block));
        out.extend(guarded(Some(lower), body));
        step /= 2;
    }
    out
}

/// One element: the sum of the `left` staged values of the group.
fn add(r: &Registers, emit: &mut Emit, stage: &Stage, kept: &[Expr], number: Expr, left: i64) -> Vec<DStmt> {
    let sum = r.variable(emit, "sum");
    let mut sums = vec![sum.set(stage.load(r, emit, Expr::i64(0), &number))];
    if left > 1 {
        sums.push(emit.repeat("i", left - 1, DKind::Unrolled, |emit, i| {
            let next = stage.load(r, emit, i + Expr::i64(1), &number);
            vec![sum.set(r.combine.apply(sum.get(), next))]
        }));
    }
    if !r.shares.to_all {
        let is_first = Expr::binary(BinOp::Eq, stage.own.clone(), Expr::i64(0));
        sums = guarded(Some(is_first), sums);
        sums.insert(0, sum.set(r.combine.identity.clone()));
    }
    let mut out = declared(&sum, sums);
    out.push(r.finish(emit, kept, sum.get()));
    out
}

//! Reduction in registers over neighbouring threads of several warps, with one barrier.
//!
//! When: block scope; the threads that the layouts reduce over are neighbours, whole warps and more
//! than one.
//!
//! before: `Tx.cta.sum(r, a)`, one element in each of 64 neighbouring threads
//! after:  `acc = a[0]; 5 shuffles; if thread % 32 == 0 { stage[thread / 32] = acc }; barrier;`
//!         `sum = stage[thread / 64 * 2 + thread % 2]; 1 shuffle; r[0] = sum`
//!
//! Each warp reduces by shuffles and its first lane stages one partial result per element; every warp
//! then loads those of its group and reduces them by shuffles again, so that all threads have the
//! result. All elements of a thread are staged before the one barrier. In a tile program another
//! barrier stands in front, because in a loop slow threads may still read what was staged before.
//!
//! Declines by `storage_scope`, `dtype`, `exec_scope`, `all_threads`, `layout`, `reduced_warps` and `scratch`.

use super::registers::{Registers, Shares, ask, declared};
use super::{OPS, WIDTH};
use crate::ir::device::{DStmt, guarded};
use crate::ir::kernel::Barrier;
use crate::ir::{BinOp, Expr, ExprKind, Name, Scope, TileCall};
use crate::tile::{Cx, Emit, Plan, Refusals, Variant, WARP};

pub(super) const VARIANT: Variant = Variant { name: "cross_warp", ops: OPS, priority: 10, only_forced: false, plan };

fn plan(call: &TileCall, cx: &Cx, r: &mut Refusals) -> Option<Plan> {
    let (shares, combine) = ask(call, cx, r, true);
    r.ask_if("reduced_warps", shares.as_ref().ok(), whole_warps);
    Shares::ask_stage(&shares, cx.threads() / WARP, cx, r);
    let found = Registers { shares: shares.ok()?, combine: combine?, accum: call.accum };
    Some(Box::new(move |e| emit(&found, e)))
}

/// That neighbouring threads of two or more whole warps reduce together.
fn whole_warps(shares: &Shares) -> Result<(), String> {
    match shares.threads.as_slice() {
        [it] if it.stride == 1 && it.extent > WARP && it.extent % WARP == 0 => Ok(()),
        [it] => Err(format!(
            "{} threads at stride {} reduce together, which are not neighbours of two or more whole warps",
            it.extent, it.stride
        )),
        several => Err(format!(
            "{} threads reduce together along {} strides, which are not neighbours of two or more whole warps",
            shares.group(),
            several.len()
        )),
    }
}

fn emit(r: &Registers, emit: &mut Emit) -> Vec<DStmt> {
    let thread = emit.cx().thread();
    let slots = emit.cx().threads() / WARP * r.shares.values();
    let stage = emit.scratch(&format!("{}_stage", r.shares.dst.view.buffer), r.combine.acc, slots, Scope::Shared);
    let mut out = vec![];
    if emit.guard_scratch {
        out.push(DStmt::Barrier(Barrier::Block));
    }
    out.extend(r.for_each_value(emit, |emit, kept, number| first(r, emit, kept, number, &stage, &thread)));
    out.push(DStmt::Barrier(Barrier::Block));
    out.extend(r.for_each_value(emit, |emit, kept, number| second(r, emit, kept, number, &stage, &thread)));
    out
}

/// One element within each warp, staged by the first lane.
fn first(r: &Registers, emit: &mut Emit, kept: &[Expr], number: Expr, stage: &Name, thread: &Expr) -> Vec<DStmt> {
    let acc = r.variable(emit, "acc");
    let mut out = declared(&acc, r.own(emit, kept, &acc, false));
    out.extend(r.shuffles(emit, &acc, &masks(WARP), WIDTH));
    let at = emit.simple(binary(BinOp::FloorDiv, thread, WARP) * Expr::i64(r.shares.values()) + number);
    let lane = emit.simple(binary(BinOp::FloorMod, thread, WARP));
    let is_first = Expr::binary(BinOp::Eq, lane, Expr::i64(0));
    out.extend(guarded(Some(is_first), vec![DStmt::store(stage.clone(), vec![at], acc.get())]));
    out
}

/// One element over the warps of the group.
fn second(r: &Registers, emit: &mut Emit, kept: &[Expr], number: Expr, stage: &Name, thread: &Expr) -> Vec<DStmt> {
    let warps = r.shares.group() / WARP;
    let width = (warps as u64).next_power_of_two() as i64;
    let sum = r.variable(emit, "sum");
    let from = emit.simple(binary(BinOp::FloorMod, thread, width));
    let group = binary(BinOp::FloorDiv, thread, r.shares.group());
    let at = emit.simple((group * Expr::i64(warps) + from.clone()) * Expr::i64(r.shares.values()) + number);
    let load = Expr::load(stage.clone(), vec![at], r.combine.acc);
    let have = Expr::binary(BinOp::Lt, from, Expr::i64(warps));
    let value = match width == warps {
        true => load,
        false => Expr::new(ExprKind::IfThenElse { cond: have, then: load, otherwise: r.combine.identity.clone() }),
    };
    let mut out = declared(&sum, vec![sum.set(value)]);
    out.extend(r.shuffles(emit, &sum, &masks(width), width as u32));
    out.push(r.finish(emit, kept, sum.get()));
    out
}

/// The masks of a butterfly over neighbouring lanes, greatest first.
fn masks(lanes: i64) -> Vec<u32> {
    (0..lanes.trailing_zeros()).rev().map(|k| 1 << k).collect()
}

fn binary(op: BinOp, a: &Expr, n: i64) -> Expr {
    Expr::binary(op, a.clone(), Expr::i64(n))
}

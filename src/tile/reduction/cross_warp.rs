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

use super::registers::{Registers, declared, is_cta, layouts_match, stage_fits};
use super::{OPS, WIDTH};
use crate::ir::device::{DStmt, guarded};
use crate::ir::kernel::Barrier;
use crate::ir::{BinOp, Expr, ExprKind, Name, Scope, TileCall};
use crate::tile::predicates::{ALL_THREADS, all_local, one_numeric_dtype};
use crate::tile::{Cx, Emit, Predicate, Variant, WARP};

pub(super) const VARIANT: Variant = Variant {
    name: "cross_warp",
    ops: OPS,
    priority: 10,
    only_forced: false,
    when: &[
        Predicate { name: "storage_scope", check: all_local },
        Predicate { name: "dtype", check: one_numeric_dtype },
        Predicate { name: "exec_scope", check: is_cta },
        ALL_THREADS,
        Predicate { name: "layout", check: layouts_match },
        Predicate { name: "reduced_warps", check: reduced_warps },
        Predicate { name: "scratch", check: scratch },
    ],
    emit,
};

/// That neighbouring threads of two or more whole warps reduce together.
fn reduced_warps(call: &TileCall, cx: &Cx) -> Result<(), String> {
    let Ok(r) = Registers::of(call, cx) else { return Ok(()) };
    match r.threads.as_slice() {
        [it] if it.stride == 1 && it.extent > WARP && it.extent % WARP == 0 => Ok(()),
        [it] => Err(format!(
            "{} threads at stride {} reduce together, which are not neighbours of two or more whole warps",
            it.extent, it.stride
        )),
        several => Err(format!(
            "{} threads reduce together along {} strides, which are not neighbours of two or more whole warps",
            r.group(),
            several.len()
        )),
    }
}

fn scratch(call: &TileCall, cx: &Cx) -> Result<(), String> {
    stage_fits(call, cx, |threads| threads / WARP)
}

fn emit(call: &TileCall, emit: &mut Emit) -> Vec<DStmt> {
    let r = Registers::of(call, &emit.cx()).unwrap_or_else(|why| panic!("`cross_warp` accepted the call: {why}"));
    let thread = emit.cx().thread();
    let (acc, values) = (r.combine.acc, r.values());
    let slots = emit.cx().threads() / WARP * values;
    let stage = emit.scratch(&format!("{}_stage", r.dst.view.buffer), acc, slots, Scope::Shared);
    let mut out = vec![];
    if emit.guard_scratch {
        out.push(DStmt::Barrier(Barrier::Block));
    }
    out.extend(r.for_each_value(emit, |emit, kept, number| first(&r, emit, kept, number, &stage, &thread)));
    out.push(DStmt::Barrier(Barrier::Block));
    out.extend(r.for_each_value(emit, |emit, kept, number| second(&r, call, emit, (kept, number), &stage, &thread)));
    out
}

/// One element within each warp, staged by the first lane.
fn first(r: &Registers, emit: &mut Emit, kept: &[Expr], number: Expr, stage: &Name, thread: &Expr) -> Vec<DStmt> {
    let acc = r.variable(emit, "acc");
    let mut out = declared(&acc, r.own(emit, kept, &acc, false));
    out.extend(r.shuffles(emit, &acc, &masks(WARP), WIDTH));
    let at = emit.simple(binary(BinOp::FloorDiv, thread, WARP) * Expr::i64(r.values()) + number);
    let lane = emit.simple(binary(BinOp::FloorMod, thread, WARP));
    let is_first = Expr::binary(BinOp::Eq, lane, Expr::i64(0));
    out.extend(guarded(Some(is_first), vec![DStmt::store(stage.clone(), vec![at], acc.get())]));
    out
}

/// One element over the warps of the group.
fn second(
    r: &Registers,
    call: &TileCall,
    emit: &mut Emit,
    (kept, number): (&[Expr], Expr),
    stage: &Name,
    thread: &Expr,
) -> Vec<DStmt> {
    let warps = r.group() / WARP;
    let width = (warps as u64).next_power_of_two() as i64;
    let sum = r.variable(emit, "sum");
    let from = emit.simple(binary(BinOp::FloorMod, thread, width));
    let group = binary(BinOp::FloorDiv, thread, r.group());
    let at = emit.simple((group * Expr::i64(warps) + from.clone()) * Expr::i64(r.values()) + number);
    let load = Expr::load(stage.clone(), vec![at], r.combine.acc);
    let have = Expr::binary(BinOp::Lt, from, Expr::i64(warps));
    let value = match width == warps {
        true => load,
        false => Expr::new(ExprKind::IfThenElse { cond: have, then: load, otherwise: r.combine.identity() }),
    };
    let mut out = declared(&sum, vec![sum.set(value)]);
    out.extend(r.shuffles(emit, &sum, &masks(width), width as u32));
    out.push(r.finish(emit, call, kept, sum.get()));
    out
}

/// The masks of a butterfly over neighbouring lanes, greatest first.
fn masks(lanes: i64) -> Vec<u32> {
    (0..lanes.trailing_zeros()).rev().map(|k| 1 << k).collect()
}

fn binary(op: BinOp, a: &Expr, n: i64) -> Expr {
    Expr::binary(op, a.clone(), Expr::i64(n))
}

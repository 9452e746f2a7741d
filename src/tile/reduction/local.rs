//! Reduction in registers, over a thread's own elements and over lanes of its warp.
//!
//! When: source and destination are registers of one type; the threads that the layouts reduce over
//! (shards of the source that are replicas of the destination, or absent from it) are lanes of a warp,
//! a power of two of them; the layouts cover the scope's threads.
//!
//! before: `Tx.warp.sum(r[0:32], a[0:32, 0:8])`, element `(i, j)` in lane `i`, reduced over both axes
//! after:  `r = 0; for j in 8 { r = r + a[j] }; for mask in 16, 8, 4, 2, 1 { r = r + shuffle_xor(r, mask) }`
//!
//! Each thread first reduces what it holds, in order. With `accum` the old destination is the first
//! operand where no lanes take part, and is merged once after the shuffles where they do. 16-bit
//! floats are accumulated in float32 and rounded once.
//!
//! Declines by `storage_scope`, `dtype`, `all_threads`, `layout` and `lanes`.

use super::registers::{Registers, declared, lane_masks, layouts_match};
use super::{OPS, WIDTH};
use crate::ir::device::DStmt;
use crate::ir::{Expr, TileCall};
use crate::tile::predicates::{ALL_THREADS, all_local, one_numeric_dtype};
use crate::tile::{Cx, Emit, Predicate, Variant};

pub(super) const VARIANT: Variant = Variant {
    name: "local",
    ops: OPS,
    priority: 10,
    only_forced: false,
    when: &[
        Predicate { name: "storage_scope", check: all_local },
        Predicate { name: "dtype", check: one_numeric_dtype },
        ALL_THREADS,
        Predicate { name: "layout", check: layouts_match },
        Predicate { name: "lanes", check: lanes },
    ],
    emit,
};

/// That threads that reduce together are lanes of one warp.
fn lanes(call: &TileCall, cx: &Cx) -> Result<(), String> {
    let Ok(r) = Registers::of(call, cx) else { return Ok(()) };
    if lane_masks(&r.threads).is_some() {
        return Ok(());
    }
    Err(format!(
        "{} threads reduce together, at strides {:?} of extents {:?}, which are not a power of two of lanes of one warp",
        r.group(),
        r.threads.iter().map(|it| it.stride).collect::<Vec<_>>(),
        r.threads.iter().map(|it| it.extent).collect::<Vec<_>>()
    ))
}

fn emit(call: &TileCall, emit: &mut Emit) -> Vec<DStmt> {
    let r = Registers::of(call, &emit.cx()).unwrap_or_else(|why| panic!("`local` accepted the call: {why}"));
    let masks = lane_masks(&r.threads).unwrap_or_default();
    r.for_each_value(emit, |emit, kept, _| value(&r, call, emit, kept, &masks))
}

/// One element of the destination.
fn value(r: &Registers, call: &TileCall, emit: &mut Emit, kept: &[Expr], masks: &[u32]) -> Vec<DStmt> {
    let result = r.result(emit, kept);
    let in_place = r.combine.acc == r.dst.view.dtype;
    if in_place && masks.is_empty() {
        return r.own(emit, kept, &result, call.accum);
    }
    if in_place && !call.accum {
        let mut out = r.own(emit, kept, &result, false);
        out.extend(r.shuffles(emit, &result, masks, WIDTH));
        return out;
    }
    let acc = r.variable(emit, "acc");
    let mut out = vec![];
    let onto = call.accum && masks.is_empty();
    if onto {
        out.push(acc.set(r.old(emit, &result)));
    }
    out.extend(r.own(emit, kept, &acc, onto));
    out.extend(r.shuffles(emit, &acc, masks, WIDTH));
    match onto {
        true => out.push(result.set(Expr::cast(r.dst.view.dtype, acc.get()))),
        false => out.push(r.finish(emit, call, kept, acc.get())),
    }
    declared(&acc, out)
}

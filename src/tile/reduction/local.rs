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

use super::registers::{Registers, Shares, ask, declared, lane_masks};
use super::{OPS, WIDTH};
use crate::ir::device::DStmt;
use crate::ir::{Expr, TileCall};
use crate::tile::{Cx, Emit, Plan, Refusals, Variant};

pub(super) const VARIANT: Variant = Variant { name: "local", ops: OPS, priority: 10, only_forced: false, plan };

fn plan(call: &TileCall, cx: &Cx, r: &mut Refusals) -> Option<Plan> {
    let (shares, combine) = ask(call, cx, r, false);
    let masks = r.ask_if("lanes", shares.as_ref().ok(), lanes);
    let (masks, found) = (masks?, Registers { shares: shares.ok()?, combine: combine?, accum: call.accum });
    Some(Box::new(move |e| found.for_each_value(e, |e, kept, _| value(&found, e, kept, &masks))))
}

/// The masks of the shuffles: threads that reduce together are lanes of one warp.
fn lanes(shares: &Shares) -> Result<Vec<u32>, String> {
    lane_masks(&shares.threads).ok_or_else(|| {
        format!(
            "{} threads reduce together, at strides {:?} of extents {:?}, which are not a power of two of lanes of one warp",
            shares.group(),
            shares.threads.iter().map(|it| it.stride).collect::<Vec<_>>(),
            shares.threads.iter().map(|it| it.extent).collect::<Vec<_>>()
        )
    })
}

/// One element of the destination.
fn value(r: &Registers, emit: &mut Emit, kept: &[Expr], masks: &[u32]) -> Vec<DStmt> {
    let result = r.result(emit, kept);
    let in_place = r.combine.acc == r.shares.dst.view.dtype;
    if in_place && masks.is_empty() {
        return r.own(emit, kept, &result, r.accum);
    }
    if in_place && !r.accum {
        let mut out = r.own(emit, kept, &result, false);
        out.extend(r.shuffles(emit, &result, masks, WIDTH));
        return out;
    }
    let acc = r.variable(emit, "acc");
    let mut out = vec![];
    let onto = r.accum && masks.is_empty();
    if onto {
        out.push(acc.set(r.old(emit, &result)));
    }
    out.extend(r.own(emit, kept, &acc, onto));
    out.extend(r.shuffles(emit, &acc, masks, WIDTH));
    match onto {
        true => out.push(result.set(Expr::cast(r.shares.dst.view.dtype, acc.get()))),
        false => out.push(r.finish(emit, kept, acc.get())),
    }
    declared(&acc, out)
}

//! One access per side of exactly 16, 32, 64, 128 or 256 bits, for programs that say so.
//!
//! When: a call names the variant, at thread scope, over a tile of that many bits whose elements are
//! adjacent and aligned to the width on both sides. 256 bits are between device memory and registers
//! alone, where the target has such loads. `cache=` goes to the access of device memory.
//!
//! before: `Tx.copy(R[0:4], A[i * 4:i * 4 + 4], dispatch="vec_128b", cache="nc")` of float32
//! after:  `copy4 no_allocate R[0] <- A[i * 4]`
//!
//! Declines other sizes, and what takes more than one access.

use super::vec_auto::{How, Move};
use super::{OPS, check};
use crate::ir::TileCall;
use crate::tile::predicates::one_thread;
use crate::tile::{Cx, Plan, Refusals, Variant, View};

pub(super) const VEC_256B: Variant = variant("vec_256b", plan::<256>);
pub(super) const VEC_128B: Variant = variant("vec_128b", plan::<128>);
pub(super) const VEC_64B: Variant = variant("vec_64b", plan::<64>);
pub(super) const VEC_32B: Variant = variant("vec_32b", plan::<32>);
pub(super) const VEC_16B: Variant = variant("vec_16b", plan::<16>);

const fn variant(name: &'static str, plan: fn(&TileCall, &Cx, &mut Refusals) -> Option<Plan>) -> Variant {
    Variant { name, ops: OPS, priority: 20, only_forced: true, plan }
}

fn plan<const N: i64>(call: &TileCall, cx: &Cx, r: &mut Refusals) -> Option<Plan> {
    let pair = check::pair(call, cx, r);
    check::overlap(call, r);
    let hint = check::cache_options(call, r);
    one_thread(call, r);
    let how = How::ask(&pair, call, cx, r);
    r.ask_of("size", &pair, |pair| match bits(pair.dst.len(), &pair.dst) {
        bits if bits == N => Ok(()),
        bits => Err(format!("the tile is of {bits} bits, not {N}")),
    });
    r.ask_of("width", &pair, |pair| {
        check::same_shape(pair)?;
        match bits(How::lanes(&how, pair, cx)?, &pair.dst) {
            bits if bits == N => Ok(()),
            bits => Err(format!("the widest access that both sides allow is of {bits} bits, not {N}")),
        }
    });
    Some(Move { pair: pair.ok()?, how: how.ok()?, hint: hint?, scope: call.scope }.plan())
}

fn bits(elements: i64, of: &View) -> i64 {
    elements * 8 * of.dtype.bytes() as i64
}

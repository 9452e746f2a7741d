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

use super::{OPS, Pair, check, vec_auto};
use crate::ir::TileCall;
use crate::tile::predicates::ONE_THREAD;
use crate::tile::{Cx, Predicate, Variant};

pub(super) const VEC_256B: Variant = Bits::<256>::variant("vec_256b");
pub(super) const VEC_128B: Variant = Bits::<128>::variant("vec_128b");
pub(super) const VEC_64B: Variant = Bits::<64>::variant("vec_64b");
pub(super) const VEC_32B: Variant = Bits::<32>::variant("vec_32b");
pub(super) const VEC_16B: Variant = Bits::<16>::variant("vec_16b");

/// A width.
struct Bits<const N: i64>;

impl<const N: i64> Bits<N> {
    const WHEN: &'static [Predicate] = &[
        check::OPERANDS,
        check::DTYPE,
        check::SAME_SHAPE,
        check::OVERLAP,
        check::CACHE,
        check::OPTIONS,
        ONE_THREAD,
        vec_auto::PARTITION,
        Predicate { name: "size", check: size::<N> },
        Predicate { name: "width", check: width::<N> },
    ];

    const fn variant(name: &'static str) -> Variant {
        Variant { name, ops: OPS, priority: 20, only_forced: true, when: Self::WHEN, emit: vec_auto::emit }
    }
}

fn size<const N: i64>(call: &TileCall, cx: &Cx) -> Result<(), String> {
    let dst = Pair::of(call, cx)?.dst;
    match dst.len() * 8 * dst.dtype.bytes() as i64 {
        bits if bits == N => Ok(()),
        bits => Err(format!("the tile is of {bits} bits, not {N}")),
    }
}

fn width<const N: i64>(call: &TileCall, cx: &Cx) -> Result<(), String> {
    let bits = vec_auto::lanes(call, cx)? * 8 * Pair::of(call, cx)?.dst.dtype.bytes() as i64;
    if bits == N {
        return Ok(());
    }
    Err(format!("the widest access that both sides allow is of {bits} bits, not {N}"))
}

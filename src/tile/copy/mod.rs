//! `copy`: elements move between device memory, shared memory and registers as they are.
//!
//! No variant waits for other threads, before or after: the program says where it needs a barrier.

mod bundle;
pub(super) mod check;
mod fallback;
mod ldstmatrix;
mod pair;
mod tcgen05;
mod vec_auto;
mod vec_bits;
mod vec_shifted;
mod walk;

pub(super) use bundle::Bundle;
pub(super) use pair::{Pair, box_of, spread};
pub(super) use vec_auto::moved;
pub(super) use walk::{Side, Walk};

use super::Variant;
use crate::ir::TileOp;

const OPS: &[TileOp] = &[TileOp::Copy];

/// The variants.
pub(super) static TABLE: &[Variant] = &[
    tcgen05::LOAD,
    tcgen05::STORE,
    ldstmatrix::VARIANT,
    vec_bits::VEC_256B,
    vec_bits::VEC_128B,
    vec_bits::VEC_64B,
    vec_bits::VEC_32B,
    vec_bits::VEC_16B,
    vec_shifted::VARIANT,
    vec_auto::VARIANT,
    fallback::VARIANT,
];

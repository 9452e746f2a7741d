//! `permute_layout`: the same elements under another layout.

mod banks;
mod warp_xor_swizzle;

use super::Variant;
use crate::ir::TileOp;

const OPS: &[TileOp] = &[TileOp::PermuteLayout];

/// The variants.
pub(super) static TABLE: &[Variant] = &[warp_xor_swizzle::VARIANT];

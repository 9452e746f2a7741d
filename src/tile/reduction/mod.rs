//! Reductions of a tile along some of its axes: `sum`, `prod`, `max`, `min`.
//!
//! Partial results are combined in an order that the variant chooses; `max` and `min` give the other
//! operand where one is NaN. With `accum` the old destination is one more operand.

mod axes;
mod combine;
mod cross_warp;
mod local;
mod registers;
mod shared;
mod sm100_packed;
mod staged;

use super::Variant;
use crate::ir::TileOp;

/// The operations of the family.
const OPS: &[TileOp] = &[TileOp::Sum, TileOp::Prod, TileOp::Max, TileOp::Min];
/// Lanes of a segment of full-width shuffles.
const WIDTH: u32 = super::WARP as u32;

/// The variants.
pub(super) static TABLE: &[Variant] =
    &[sm100_packed::VARIANT, local::VARIANT, shared::VARIANT, cross_warp::VARIANT, staged::VARIANT];

//! Reductions of a tile along some of its axes: `sum`, `prod`, `max`, `min`.
//!
//! Partial results are combined in an order that the variant chooses; `max` and `min` give the other
//! operand where one is NaN. With `accum` the old destination is one more operand.

mod axes;
mod combine;
mod cross_warp;
mod local;
mod registers;
mod staged;

use super::Variant;
use crate::ir::TileOp;

/// The operations of the family.
const OPS: &[TileOp] = &[TileOp::Sum, TileOp::Prod, TileOp::Max, TileOp::Min];
/// Lanes of a segment of full-width shuffles.
const WIDTH: u32 = super::WARP as u32;

/// The variants.
pub(super) static TABLE: &[Variant] = &[local::VARIANT, cross_warp::VARIANT, staged::VARIANT];

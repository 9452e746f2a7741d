//! `copy_async`: copies that go on while the threads do, in order with nothing until they are waited
//! for. No variant closes a group, waits, or announces bytes to a barrier: the program does.

mod bulk;
mod gate;
mod ldgsts;
mod tma;

pub(super) use bulk::place_of as barrier_of;
pub(super) use tma::map_swizzle;

use super::Variant;
use crate::ir::TileOp;

const OPS: &[TileOp] = &[TileOp::CopyAsync];

/// The variants.
pub(super) static TABLE: &[Variant] = &[ldgsts::VARIANT, tma::VARIANT, bulk::VARIANT];

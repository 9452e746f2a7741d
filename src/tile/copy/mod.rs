//! `copy`: elements move between device memory, shared memory and registers as they are.
//!
//! No variant waits for other threads, before or after: the program says where it needs a barrier.

mod bundle;
mod check;
mod fallback;
mod pair;
mod vec_auto;
mod walk;

pub(super) use bundle::Bundle;
pub(super) use pair::Pair;
pub(super) use walk::{Side, Walk};

use super::Variant;
use crate::ir::TileOp;

const OPS: &[TileOp] = &[TileOp::Copy];

/// The variants.
pub(super) static TABLE: &[Variant] = &[vec_auto::VARIANT, fallback::VARIANT];

//! The table of primitives: each step goes to the file that does it.

use super::{Draft, Failure, Step};
use crate::ir::Name;

/// Does `step` on the draft and returns the names that it made: loops for `split`, `fuse`,
/// `add_unit_loop`, blocks for `cache_read`, `cache_write`, `rfactor`, `decompose_reduction`.
pub fn apply(d: &mut Draft, step: &Step) -> Result<Vec<Name>, Failure> {
    match step {
        Step::Split { at, .. } => missing(d, at),
        Step::Fuse { loops } => missing(d, loops.first().unwrap_or(&Name::new(""))),
        Step::Reorder { loops } => missing(d, loops.first().unwrap_or(&Name::new(""))),
        Step::Bind { at, .. } => missing(d, at),
        Step::Parallel { at } => missing(d, at),
        Step::Vectorize { at } => missing(d, at),
        Step::Unroll { at } => missing(d, at),
        Step::Annotate { at, .. } => missing(d, at),
        Step::ComputeInline { block } => missing(d, block),
        Step::ReverseComputeInline { block } => missing(d, block),
        Step::ComputeAt { at, .. } => missing(d, at),
        Step::ReverseComputeAt { at, .. } => missing(d, at),
        Step::CacheRead { block, .. } => missing(d, block),
        Step::CacheWrite { block, .. } => missing(d, block),
        Step::SetScope { buffer, .. } => missing(d, buffer),
        Step::Rfactor { at, .. } => missing(d, at),
        Step::DecomposeReduction { block, .. } => missing(d, block),
        Step::TransformBlockLayout { block, .. } => missing(d, block),
        Step::AddUnitLoop { at } => missing(d, at),
    }
}

fn missing(_: &Draft, at: &Name) -> Result<Vec<Name>, Failure> {
    Err(Failure::new("primitive_landed", at, "this primitive is not in the table"))
}

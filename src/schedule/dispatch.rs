//! The table of primitives: each step goes to the file that does it.

use super::{Draft, Failure, Step};
use crate::ir::Name;
use crate::schedule::primitive::cache::{cache_read, cache_write};
use crate::schedule::primitive::cache::{reindex, stage_write};
use crate::schedule::primitive::compute::{compute_at, reverse_compute_at};
use crate::schedule::primitive::compute::{compute_inline, reverse_compute_inline};
use crate::schedule::primitive::layout::blockize;
use crate::schedule::primitive::layout::flatten_buffer;
use crate::schedule::primitive::layout::set_scope;
use crate::schedule::primitive::layout::{storage_align, transform_block_layout, transform_layout};
use crate::schedule::primitive::loops::share;
use crate::schedule::primitive::loops::{add_unit_loop, annotate, bind, fuse, parallel, reorder};
use crate::schedule::primitive::loops::{split, unroll, vectorize};
use crate::schedule::primitive::reduction::{decompose_reduction, rfactor};
use crate::schedule::primitive::reduction::{merge_reductions, online_reductions, pad_einsum, relax_arithmetic};

/// Does `step` on the draft and returns the names that it made: loops for `split`, `fuse`,
/// `add_unit_loop`, blocks for `cache_read`, `cache_write`, `rfactor`, `decompose_reduction`, `reindex`,
/// `share`, `stage_write`, `blockize`.
pub fn apply(d: &mut Draft, step: &Step) -> Result<Vec<Name>, Failure> {
    match step {
        Step::Split { at, factors } => split::apply(d, at, factors),
        Step::Fuse { loops } => fuse::apply(d, loops),
        Step::Reorder { loops } => reorder::apply(d, loops),
        Step::Bind { at, tag } => bind::apply(d, at, *tag),
        Step::Parallel { at } => parallel::apply(d, at),
        Step::Vectorize { at } => vectorize::apply(d, at),
        Step::Unroll { at } => unroll::apply(d, at),
        Step::Annotate { at, key, value } => annotate::apply(d, at, key, value),
        Step::ComputeInline { block } => compute_inline::apply(d, block),
        Step::ReverseComputeInline { block } => reverse_compute_inline::apply(d, block),
        Step::ComputeAt { block, at } => compute_at::apply(d, block, at),
        Step::ReverseComputeAt { block, at } => reverse_compute_at::apply(d, block, at),
        Step::CacheRead { block, buffer, scope } => cache_read::apply(d, block, buffer, scope),
        Step::CacheWrite { block, buffer, scope } => cache_write::apply(d, block, buffer, scope),
        Step::SetScope { buffer, scope } => set_scope::apply(d, buffer, scope),
        Step::StorageAlign { buffer, axis, factor, offset } => storage_align::apply(d, buffer, *axis, *factor, *offset),
        Step::Rfactor { at, axis } => rfactor::apply(d, at, *axis),
        Step::DecomposeReduction { block, at } => decompose_reduction::apply(d, block, at),
        Step::MergeReductions { first, second } => merge_reductions::apply(d, first, second),
        Step::OnlineReductions { first, second, at } => online_reductions::apply(d, first, second, at),
        Step::TransformBlockLayout { block, map } => transform_block_layout::apply(d, block, map),
        Step::AddUnitLoop { at } => add_unit_loop::apply(d, at),
        Step::Reindex { block, operand, map } => reindex::apply(d, block, *operand, map),
        Step::PadEinsum { block, multiples } => pad_einsum::apply(d, block, multiples),
        Step::StageWrite { block, scope } => stage_write::apply(d, block, scope),
        Step::RelaxArithmetic { block, way } => relax_arithmetic::apply(d, block, way),
        Step::Blockize { at } => blockize::apply(d, at),
        Step::TransformLayout { buffer, map } => transform_layout::apply(d, buffer, map),
        Step::FlattenBuffer { buffer } => flatten_buffer::apply(d, buffer),
        Step::Share { blocks, buffer, scope } => share::apply(d, blocks, buffer.as_ref(), scope),
    }
}

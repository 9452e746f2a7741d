//! Matrix products inside a tile: `D [M, N] = A [M, K] B [K, N]`, added to what D holds (`accum`) or
//! to a third operand.
//!
//! `transpose_a` and `transpose_b` say that A is stored as `[K, M]`, B as `[N, K]`; `alpha` is 1,
//! `beta` 0 or 1; `precision="tf32"` allows tensor cores to shorten float32 operands. Leading
//! dimensions of extent 1 (the stage of a pipeline, say) come before the two of the matrix. Products in tensor memory
//! go on by themselves, and arrive at the barrier that `mbar` names.

mod described;
mod feed;
mod fma;
pub(super) mod grid;
mod mma;
mod mma_block_scale;
mod mma_runs;
mod mma_runs_scaled;
mod mma_tf32x3;
mod mma_words;
pub(super) mod operands;
mod packed;
mod scaled;
mod share;
mod tcgen05;
mod tcgen05_block_scale;
mod tf32;
mod wgmma;
mod wgmma_tf32x3;
mod wgmma_two_level;
mod wgmma_words;

use super::Variant;
pub use wgmma_tf32x3::without_nans;

/// The variants of the family.
pub(super) static TABLE: &[Variant] = &[
    tcgen05::TCGEN05,
    wgmma::WGMMA,
    wgmma_two_level::WGMMA_TWO_LEVEL,
    wgmma_tf32x3::WGMMA_TF32X3,
    wgmma_words::WGMMA_WORDS,
    mma::MMA,
    mma_words::MMA_WORDS,
    mma_runs::MMA_RUNS,
    mma_runs_scaled::MMA_RUNS_SCALED,
    mma_tf32x3::MMA_TF32X3,
    mma_block_scale::MMA_BLOCK_SCALE,
    tcgen05_block_scale::TCGEN05_BLOCK_SCALE,
    packed::FMA_F32X2,
    fma::FMA,
];

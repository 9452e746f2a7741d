//! `matmul.quant`: products of few rows with weights of four bits, on tensor cores (`mma.sync`).
//!
//! When: the target has them; a sum of products of float16 rows with columns that are packed eight in a word along the
//! reduced axis, of constant length, less a constant and times a scale; sums in float16 or float32; at most one
//! elementwise block after it; up to 256 rows, or a number that is not constant.
//! How: as `matmul.mma`, but the values of words never lie in memory: words, scales and rows come into shared memory
//! `stages - 1` steps ahead, and each lane loads whole words and decodes them, two values at a time
//! (`lower/calls/decode_pairs.rs`), into registers that are fragments for the order of k in which the words hold it
//! (`tile/gemm/mma_words.rs`). Each warp has all rows of its columns, so that a value is decoded once for a block.
//! Rounding: values are those that the function says, sums are float32.
//! Declines: `target_kind`, `tensor_cores`, the predicates of [`Product::of`], `rows_and_columns`,
//! `operand_dtype`, `accumulator_dtype`, `one_result`, `packed_words`, `tens_of_rows`.
//!
//! ```text
//! matmul.quant on cuda:sm_90a
//! before: float16 X[64, 4096], uint32 W[4096, 512], float16 S[4096, 32]
//!         float16 O[i, j] += X[i, k] * ((float16(bitwise_and(shift_right(W[j, k // 8], uint32(k % 8 * 4)), uint32(15))) - float16(7)) * S[j, k // 128])
//! after:  blockIdx.x 128:
//!           loop 64 [tile=elementwise warps_m=1 warps_n=4], loop 128: b0_result_rf_local = 0
//!           loop 16 [stages=4]:
//!             unroll 4, threadIdx.x 128, vector 8: b0_left.shared = X
//!             unroll 2, threadIdx.x 128, vector 4: W_shared = W
//!             threadIdx.x 128: S_shared = S
//!             loop 128 [tile=elementwise warps_m=1 warps_n=4], loop 64: b0_right.local = W_shared, S_shared
//!             loop 64 [tile=gemm warps_m=1 warps_n=4 tile_variant=mma_words], loop 128, loop 64: b0_result_rf_local += b0_left.shared, b0_right.local
//!           loop 64 [tile=elementwise warps_m=1 warps_n=4], loop 128: b0_result_rf = b0_result_rf_local
//!         blockIdx.x 1024, threadIdx.x 256:
//!           unroll 4: b0_result.local += b0_result_rf
//!           O = b0_result.local
//! ```

use super::decoded;
use super::mma::{Means, Warps, by_tiles, multiplied};
use super::outline::{self, Sizes};
use super::split_k::{cluster_fits, sums};
use super::tiling::*;
use crate::ir::layout::words::{CHUNK, ROWS};
use crate::rules::find::product::Product;
use crate::rules::parts::*;

/// The rule.
pub const QUANT: Rule = Rule::new(Kind::Cuda, "matmul.quant", include_str!("../schedules/matmul.quant.toml"), quant);

/// Rows from which on weights are better decoded once for all blocks.
const MOST_ROWS: i64 = 256;
/// Rows of an accumulator fragment.
const FRAGMENT: i64 = 16;
/// Bytes of a value as it is multiplied.
const VALUE: i64 = 2;
/// The least group of values with one scale that space is kept for.
const LEAST_GROUP: i64 = 32;

struct Quant {
    /// The sizes, where all are known.
    sizes: Option<Sizes>,
    p: Product,
    /// Threads of a warp.
    warp: i64,
}

fn quant(ask: &Ask) -> Answer {
    if !ask.target.has.mma {
        return Err(ask.no("tensor_cores", "the target has no complete set of matrix instructions"));
    }
    let p = multiplied(ask)?;
    decoded::check(&p, CHUNK, ask)?;
    match p.extents()[1] {
        Some(n) if n > MOST_ROWS => {
            let why = format!("weights would be decoded again for every tile of {n} rows, more than {MOST_ROWS}");
            Err(ask.no("tens_of_rows", why))
        }
        _ => Ok(Found::new(p.schedule.clone(), Quant { warp: i64::from(ask.target.warp), sizes: Sizes::of(&p), p })),
    }
}

fn shares(k: &Knobs) -> Warps {
    Warps { block: [k.get("block_m"), k.get("block_n"), k.get("block_k_bytes") / VALUE], warps: [1, k.get("warps_n")] }
}

impl Accepted for Quant {
    fn constrain(&self, space: Space, target: &Target) -> Space {
        let (p, warp) = (&self.p, self.warp);
        let [_, _, columns, depth] = p.extents();
        let threads = move |k: &Knobs| shares(k).threads(warp);
        let space = space.require("whole_fragments", |k| whole_fragments(&shares(k)));
        let space = space.require("tile_of_columns", move |k| match columns {
            Some(n) if k.get("block_n") <= n => Ok(()),
            _ => Err(format!("the words of {} columns are not all there", k.get("block_n"))),
        });
        let space = space.require("whole_words", move |k| match (shares(k).block[2], k.get("split_k")) {
            (step, parts) if step > 0 && step % CHUNK == 0 && depth.is_none_or(|n| n % (step * parts) == 0) => Ok(()),
            (step, _) => Err(format!("the reduced axis is no whole number of steps of {step} in each part")),
        });
        let space = threads_per_block(space, target, threads);
        let (passed, sum) = (passed_rows(p, move |k| threads(k) / warp), p.dtype);
        let space = tiles_in_shared(space, target, stage_bytes, move |k| passed(k) + sums(k, shares(k).block, sum));
        let space = tile_in_registers(space, target, threads, move |k| registers(&shares(k), warp));
        preferred(cluster_fits(space, p, target), p, target)
    }

    fn schedule(&self, s: &mut Schedule, k: &Knobs) -> Done {
        let by = Means { variant: Some("mma_words"), decoded: &[1], ..Means::default() };
        by_tiles(s, &self.p, &shares(k), self.warp, k, &by)
    }

    fn outline(&self, k: &Knobs) -> Option<Outline> {
        Some(outline::quant(self.sizes.as_ref()?, self.warp, k))
    }
}

fn whole_fragments(w: &Warps) -> Result<(), String> {
    let [m, n, _] = w.block;
    match m > 0 && n > 0 && m % FRAGMENT == 0 && w.warps[1] > 0 && n % (ROWS * w.warps[1]) == 0 {
        true => Ok(()),
        false => Err(format!("{m} rows and {n} columns of a tile are no whole fragments of {} warps", w.warps[1])),
    }
}

/// Bytes of rows, words and scales of a step.
fn stage_bytes(k: &Knobs) -> i64 {
    let [m, n, step] = shares(k).block;
    step * (m * VALUE + n / 2) + n * over(step, LEAST_GROUP) * VALUE
}

/// Registers of a thread: sums, values and scales of some columns, and rows.
fn registers(w: &Warps, warp: i64) -> i64 {
    let [m, n, _] = w.block;
    let columns = n / w.warps[1].max(1);
    m * columns / warp + columns * 5 / 4 + 36
}

fn preferred(space: Space, p: &Product, target: &Target) -> Space {
    let [_, rows, _, depth] = p.extents();
    let space = tile_within_result(space, p, [16, 32]);
    let space = space.prefer("tile_within_depth", move |k| match depth {
        Some(n) if shares(k).block[2] * (k.get("stages") - 1) > n.max(shares(k).block[2]) => {
            Err("more tiles are on their way than there are".into())
        }
        _ => Ok(()),
    });
    let space = space.prefer("decoded_once", move |k| match rows {
        Some(n) if k.get("block_m") < n.min(64) => Err("weights are decoded again for other rows".into()),
        _ => Ok(()),
    });
    let (sms, blocks) = (i64::from(target.sms), tiles(p));
    let space = space.prefer("fills_device", move |k| match blocks(k) {
        Some(n) if n * k.get("split_k") < sms * 3 / 4 => Err(format!("{n} tiles leave multiprocessors of {sms} idle")),
        _ => Ok(()),
    });
    parts_fill_device(space, blocks, target, 4)
}

//! `matmul.wgmma_quant`: products of tens to hundreds of rows with weights of four bits, by whole warpgroups (`wgmma`).
//!
//! When: the target has them; what `matmul.quant` takes, with 17 to 512 rows, a constant number, and factors that tensor
//! maps describe.
//! How: columns are the rows of instructions, of which a warpgroup has 64 or more and all rows of the tile, so that a
//! value is decoded once for a block. Words and rows come into shared memory by tensor maps, started by a warpgroup of
//! its own (`lower/pass/roles`). Those that multiply load words and decode them (`lower/calls/decode_bytes.rs`) into the
//! registers that are the first operand of their instructions (`tile/gemm/wgmma_words.rs`); scales come from memory a
//! step ahead. While the products of one warpgroup go on, others decode.
//! Rounding: values are those that the function says, sums are float32.
//! Declines: `target_kind`, `warpgroup_products`, the predicates of [`Product::of`], `rows_and_columns`,
//! `operand_dtype`, `accumulator_dtype`, `one_result`, `packed_words`, `tensor_maps`, `hundreds_of_rows`.
//!
//! ```text
//! matmul.wgmma_quant on cuda:sm_90a
//! before: float16 X[128, 4096], uint32 W[4096, 512], float16 S[4096, 32]
//!         float16 O[i, j] += X[i, k] * ((float16(bitwise_and(shift_right(W[j, k // 8], uint32(k % 8 * 4)), uint32(15))) - float16(7)) * S[j, k // 128])
//! after:  blockIdx.x 128:
//!           loop 128 [tile=elementwise warps_m=8 warps_n=1], loop 128: b0_result_rf_local = 0
//!           loop 8 [stages=4 roles=1]:
//!             loop 128 [tile=copy_async warps_m=8 warps_n=1], loop 128: b0_left.shared = X
//!             loop 128 [tile=copy_async warps_m=8 warps_n=1], loop 16: W_shared = W
//!             loop 128 [tile=elementwise warps_m=8 warps_n=1], loop 128: b0_right.local = W_shared, S
//!             loop 128 [tile=gemm warps_m=8 warps_n=1 tile_variant=wgmma_words], loop 128, loop 128: b0_result_rf_local += b0_left.shared, b0_right.local
//!           loop 128 [tile=elementwise warps_m=8 warps_n=1], loop 128: b0_result_rf = b0_result_rf_local
//!         blockIdx.x 2048, threadIdx.x 256:
//!           unroll 4: b0_result.local += b0_result_rf
//!           O = b0_result.local
//! ```

use super::decoded;
use super::mma::{Means, Warps, by_tiles, multiplied};
use super::outline::{self, Sizes};
use super::split_k::{cluster_fits, sums};
use super::tiling::*;
use super::wgmma::hundreds_of_rows;
use crate::ir::instr::{Dealt, WgmmaShape};
use crate::ir::layout::words::CHUNK;
use crate::rules::find::product::Product;
use crate::rules::parts::*;

/// The rule.
pub const WGMMA_QUANT: Rule =
    Rule::new(Kind::Cuda, "matmul.wgmma_quant", include_str!("../schedules/matmul.wgmma_quant.toml"), wgmma_quant);

/// Rows that the instructions of warps, or loads straight from memory, serve as well.
const FEW_ROWS: i64 = 16;
/// Rows from which on weights are better decoded once for all blocks.
const MOST_ROWS: i64 = 512;
/// Bytes of a value as it is multiplied.
const VALUE: i64 = 2;
/// Values along the reduced axis that a lane decodes of one load of words.
const LOAD: i64 = 32;
/// Registers of a thread that the compiler may use, where one warpgroup multiplies beside the one that copies.
const REGISTERS: i64 = 250;

struct WgmmaQuant {
    /// The sizes, where all are known.
    sizes: Option<Sizes>,
    /// The product with columns first.
    p: Product,
    /// Threads of a warp.
    warp: i64,
}

fn wgmma_quant(ask: &Ask) -> Answer {
    if !ask.target.has.wgmma {
        return Err(ask.no("warpgroup_products", "the target has no matrix instructions of warpgroups"));
    }
    let p = multiplied(ask)?;
    decoded::check(&p, CHUNK, ask)?;
    if !p.a.boxed || !p.a.along_depth || !decoded::boxed(&p) {
        return Err(ask.no("tensor_maps", "no tensor maps describe rows and words as they lie in memory"));
    }
    hundreds_of_rows(ask, &p, [FEW_ROWS, MOST_ROWS])?;
    // columns are the rows of instructions, whose first operand alone may be in registers
    let (warp, p) = (i64::from(ask.target.warp), p.turned());
    Ok(Found::new(p.schedule.clone(), WgmmaQuant { warp, sizes: Sizes::of(&p), p }))
}

/// How the warpgroups of a block share a tile, columns first.
fn shares(k: &Knobs) -> Warps {
    let block = [k.get("block_n"), k.get("block_m"), k.get("block_k_bytes") / VALUE];
    Warps { block, warps: [WgmmaShape::WARPS * k.get("groups_n"), 1] }
}

impl Accepted for WgmmaQuant {
    fn constrain(&self, space: Space, target: &Target) -> Space {
        let (p, warp) = (&self.p, self.warp);
        let [_, columns, _, depth] = p.extents();
        let space = space.require("whole_instructions", |k| whole_instructions(&shares(k)));
        let space = space.require("tile_of_columns", move |k| match columns {
            Some(n) if k.get("block_n") <= n => Ok(()),
            _ => Err(format!("the words of {} columns are not all there", k.get("block_n"))),
        });
        let space = space.require("whole_words", move |k| match (shares(k).block[2], k.get("split_k")) {
            (step, parts) if step > 0 && step % LOAD == 0 && depth.is_some_and(|n| n % (step * parts) == 0) => Ok(()),
            (step, _) => Err(format!("the reduced axis is no whole number of steps of {step} in each part")),
        });
        let space = space.require("steps_of_roles", move |k| {
            match depth.map(|n| n / (shares(k).block[2] * k.get("split_k")).max(1)) {
                Some(2..) => Ok(()),
                _ => Err("the reduced axis is a single tile".into()),
            }
        });
        let threads = move |k: &Knobs| shares(k).threads(warp) + WgmmaShape::WARPS * warp;
        let space = threads_per_block(space, target, threads);
        let (sum, passed) = (p.dtype, passed_columns(p, |k| shares(k).warps[0]));
        let more = move |k: &Knobs| passed(k) + sums(k, shares(k).block, sum);
        let space = tiles_in_shared(space, target, stage_bytes, more);
        let regs = i64::from(target.regs_per_sm);
        let space = space.require("tile_in_registers", move |k| {
            let dealt = Dealt::beside_copies(k.get("groups_n"));
            let most = dealt.map_or((regs / threads(k)).min(REGISTERS), |d| d.taken.into());
            at_most(registers(&shares(k), warp), most, "registers", "a thread")
        });
        preferred(cluster_fits(space, p, target), p, target)
    }

    fn schedule(&self, s: &mut Schedule, k: &Knobs) -> Done {
        let by = Means { variant: Some("wgmma_words"), roles: Some(1), decoded: &[0], ..Means::default() };
        by_tiles(s, &self.p, &shares(k), self.warp, k, &by)
    }

    fn outline(&self, k: &Knobs) -> Option<Outline> {
        Some(outline::wgmma_quant(self.sizes.as_ref()?, self.warp, k))
    }
}

fn whole_instructions(w: &Warps) -> Result<(), String> {
    let [columns, rows, _] = w.block;
    let of_groups = WgmmaShape::ROWS / WgmmaShape::WARPS * w.warps[0];
    if columns <= 0 || of_groups <= 0 || columns % of_groups != 0 {
        return Err(format!("{columns} columns are no whole instructions of {} warps", w.warps[0]));
    }
    let why = |_| format!("{rows} rows of a tile are no columns of an instruction, 8 to 256 by 8");
    WgmmaShape { n: rows, input: DType::F16 }.check().map_err(why)
}

/// Bytes of rows and words of a step.
fn stage_bytes(k: &Knobs) -> i64 {
    let [columns, rows, step] = shares(k).block;
    step * (rows * VALUE + columns / 2)
}

/// Registers of a thread: sums, values of a step, and what it takes to decode them.
fn registers(w: &Warps, warp: i64) -> i64 {
    let [columns, rows, step] = w.block;
    columns * (rows + step / 2) / w.threads(warp).max(1) + 48
}

fn preferred(space: Space, p: &Product, target: &Target) -> Space {
    let [_, columns, rows, _] = p.extents();
    let space = space.prefer("tile_within_result", move |k| match (rows, columns) {
        (Some(n), _) if k.get("block_m") >= 2 * n.max(FEW_ROWS) => {
            Err("most rows of a tile lie outside of the result".into())
        }
        (_, Some(n)) if k.get("block_n") >= 2 * n.max(WgmmaShape::ROWS) => {
            Err("most columns of a tile lie outside of the result".into())
        }
        _ => Ok(()),
    });
    let space = space.prefer("decoded_once", move |k| match rows {
        Some(n) if k.get("block_m") < n.min(128) => Err("weights are decoded again for other rows".into()),
        _ => Ok(()),
    });
    let sms = i64::from(target.sms);
    let blocks = columns.zip(rows);
    let tiles = move |k: &Knobs| blocks.map(|(n, m)| over(n, k.get("block_n")) * over(m, k.get("block_m")));
    let space = space.prefer("fills_device", move |k| match tiles(k) {
        Some(n) if n * k.get("split_k") < sms / 2 => Err(format!("{n} tiles leave multiprocessors of {sms} idle")),
        _ => Ok(()),
    });
    space.prefer("parts_fill_device", move |k| match tiles(k) {
        Some(n) if k.get("split_k") > 1 && n * k.get("split_k") > 4 * sms => {
            Err(format!("{n} tiles need no parts to fill {sms} multiprocessors"))
        }
        _ => Ok(()),
    })
}

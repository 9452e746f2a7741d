//! `matmul.wgmma_tf32x3`: matrix products of float32 on tensor cores by whole warpgroups, three products of tf32 for each.
//!
//! When: the target has such instructions; what `matmul.mma_tf32x3` takes, with more than 32 rows or an unknown number of them,
//! one of whose factors has neighbours along the reduced axis.
//! How: as `matmul.wgmma` where all threads copy. That factor is read from shared memory, where all threads write its low part
//! beside it while products of the high parts are under way; warpgroups have the other one in their registers, in two parts of tf32
//! (`tile/gemm/wgmma_tf32x3`). Where only the first one has such neighbours, both are exchanged, as in `matmul.wgmma_swap_ab`. A
//! step's sums are added to the others in float32: errors are of the size of those of sums in float32, but a factor is not
//! multiplied as a whole.
//! Declines: `target_kind`, `warpgroup_products`, `strict`, the predicates of [`Product::of`], `rows_and_columns`,
//! `operand_dtype`, `accumulator_dtype`, `one_result`, `beside_along_depth`, `few_rows`.
//!
//! ```text
//! matmul.wgmma_tf32x3 on cuda:sm_90a
//! before: float32 A[2048, 2048], float32 B[2048, 2048]
//!         float32 O[i, j] += A[i, k] * B[j, k]
//! after:  blockIdx.x 256:
//!           loop 128 [tile=elementwise warps_m=8 warps_n=1], loop 128: b0_result.local = 0
//!           loop 64 [stages=4]:
//!             unroll 4, threadIdx.x 256, vector 4: b0_left.shared = A
//!             unroll 4, threadIdx.x 256, vector 4: b0_right.shared = B
//!             loop 128 [tile=gemm warps_m=8 warps_n=1 tile_variant=wgmma_tf32x3], loop 128, loop 32: b0_result.local += b0_left.shared, b0_right.shared
//!           loop 128 [tile=elementwise warps_m=8 warps_n=1], loop 128: O = b0_result.local
//! ```

use super::exchange::Factors;
use super::mma::{Means, Warps, by_tiles};
use super::mma_tf32x3::split;
use super::outline::{self, Sizes};
use super::pack::{self, before, major};
use super::split_k::{self, cluster_fits};
use super::tiling::*;
use super::wgmma::{FEW_ROWS, filling, groups, whole_instructions};
use crate::ir::instr::WgmmaShape;
use crate::rules::find::einsum::Major;
use crate::rules::find::product::Product;
use crate::rules::parts::*;
use crate::rules::space::limits::over;

/// The rule.
pub const WGMMA_TF32X3: Rule =
    Rule::new(Kind::Cuda, "matmul.wgmma_tf32x3", include_str!("../schedules/matmul.wgmma_tf32x3.toml"), wgmma_tf32x3);

/// Sets of sums: those of all steps, and of one step those of the high parts and of the others.
const SETS: i64 = 3;
/// Columns of instructions whose sums one group holds.
const WIDE: i64 = 128;
/// Registers of a thread besides sums and the first factor.
const OTHERS: i64 = 20;

struct Tf32x3 {
    /// The sizes, where all are known.
    sizes: Option<Sizes>,
    p: Product,
    /// The same product as it is multiplied.
    multiplied: Product,
    factors: Factors,
    /// Threads of a warp.
    warp: i64,
}

fn wgmma_tf32x3(ask: &Ask) -> Answer {
    if !ask.target.has.wgmma {
        return Err(ask.no("warpgroup_products", "the target has no matrix instructions of warpgroups"));
    }
    let p = split(ask)?;
    let (factors, multiplied) = match [&p.a, &p.b].map(major) {
        [_, Major::Free] => (Factors::InOrder, p.clone()),
        [Major::Free, Major::Depth] => (Factors::Exchanged, p.clone().turned()),
        [Major::Depth, Major::Depth] => {
            return Err(ask.no("beside_along_depth", "neither factor has neighbours along the reduced axis"));
        }
    };
    if let Some(n) = multiplied.extents()[1].filter(|n| *n <= FEW_ROWS) {
        let of = factors.order(["rows", "columns"])[0];
        return Err(ask.no("few_rows", format!("{n} {of} leave most of an instruction's 64 unused")));
    }
    let (warp, sizes) = (i64::from(ask.target.warp), Sizes::of(&p));
    Ok(Found::new(p.schedule.clone(), Tf32x3 { sizes, p, multiplied, factors, warp }))
}

/// How the warpgroups of a block share a tile, by rows and columns of instructions.
fn shares(k: &Knobs, factors: Factors) -> Warps {
    groups(k, factors, DType::F32)
}

/// Registers of a thread: sets of sums, and two parts of the rows that it multiplies.
fn registers(k: &Knobs, factors: Factors, warp: i64) -> i64 {
    let Warps { block: [m, n, depth], .. } = shares(k, factors);
    let threads = shares(k, factors).threads(warp);
    let rows = m / factors.groups(k)[0];
    SETS * m * n / threads + 2 * rows * depth / (WgmmaShape::WARPS * warp) + OTHERS
}

impl Accepted for Tf32x3 {
    fn constrain(&self, space: Space, target: &Target) -> Space {
        let (p, warp, factors) = (&self.p, self.warp, self.factors);
        let space = space.require("whole_instructions", move |k| whole_instructions(k, factors, DType::F32));
        let threads = move |k: &Knobs| shares(k, factors).threads(warp);
        let space = threads_per_block(space, target, threads);
        let row = |k: &Knobs| k.get("block_k_bytes");
        let bytes = move |k: &Knobs| row(k) * (k.get("block_m") + k.get("block_n"));
        let (passed, sum) = (passed_rows(p, move |k| threads(k) / warp), p.dtype);
        let passed = move |k: &Knobs| if factors == Factors::InOrder { passed(k) } else { 0 };
        let space = tiles_in_shared(space, target, bytes, move |k| {
            row(k) * factors.tile(k)[1] + passed(k) + split_k::sums(k, shares(k, factors).block, sum)
        });
        let space = tile_in_registers(space, target, threads, move |k| registers(k, factors, warp));
        let [_, rows, _, depth] = self.multiplied.extents();
        let tiles = move |k: &Knobs| rows.map(|n| over(n, factors.tile(k)[0]));
        let space = whole_groups_of(pack::conditions(space, p), tiles);
        let space = parts_of_depth(space, depth, move |k| shares(k, factors).block[2]);
        let space = space.prefer("rows_of_groups", move |k| match (factors.groups(k), factors.tile(k)[1]) {
            ([_, across], n) if across > 1 && n <= WIDE => {
                Err(format!("{across} warpgroups beside each other load and split the same rows"))
            }
            _ => Ok(()),
        });
        filling(cluster_fits(space, p, target), p, factors, target)
    }

    fn schedule(&self, s: &mut Schedule, k: &Knobs) -> Done {
        let by = Means { variant: Some("wgmma_tf32x3"), factors: self.factors, ..Means::default() };
        by_tiles(s, &self.multiplied, &shares(k, self.factors), self.warp, k, &by)
    }

    fn outline(&self, k: &Knobs) -> Option<Outline> {
        let regs = registers(k, self.factors, self.warp);
        let outline = outline::wgmma_tf32x3(self.sizes.as_ref()?, (self.warp, regs), self.factors, k);
        Some(before(&self.multiplied, k, shares(k, self.factors).block, outline))
    }
}

//! `matmul.mma_tf32x3`: matrix products of float32 on tensor cores, three products of tf32 for each.
//!
//! When: the target has them, with tf32 at more than three times the rate of float32 on CUDA cores, and the function is not strict;
//! a sum of products in float32 with rows and columns whose factors float32 holds and no type of 16 bits does, in any layout,
//! batched or not; at most one elementwise block after it.
//! How: as `matmul.mma`. Fragments are split in registers into two parts of tf32 each, whose products are added in float32
//! (`tile/gemm/mma_tf32x3`): errors are of the size of those of sums in float32, but a factor is not multiplied as a whole.
//! Declines: `target_kind`, `tensor_cores`, `tf32_rate`, `strict`, the predicates of [`Product::of`], `rows_and_columns`,
//! `operand_dtype`, `accumulator_dtype`, `one_result`.
//!
//! ```text
//! matmul.mma_tf32x3 on cuda:sm_90a
//! before: float32 A[2048, 2048], float32 B[2048, 2048]
//!         float32 O[i, j] += A[i, k] * B[k, j]
//! after:  blockIdx.x 256:
//!           loop 128 [tile=elementwise warps_m=2 warps_n=4], loop 128: b0_result.local = 0
//!           loop 128 [stages=4]:
//!             unroll 2, threadIdx.x 256, vector 4: b0_left.shared = A
//!             unroll 2, threadIdx.x 256, vector 4: b0_right.shared = B
//!             loop 128 [tile=gemm warps_m=2 warps_n=4 tile_variant=mma_tf32x3], loop 128, loop 16: b0_result.local += b0_left.shared, b0_right.shared
//!           loop 128 [tile=elementwise warps_m=2 warps_n=4], loop 128: O = b0_result.local
//! ```

use super::mma::{EVERYWHERE, Means, Warps, by_tiles, conditions, factor_dtype, multiplied_as};
use super::outline::{self, Sizes};
use super::pack::before;
use crate::analysis::{Decline, has_values_of};
use crate::rules::find::product::Product;
use crate::rules::parts::*;

/// The rule.
pub const MMA_TF32X3: Rule =
    Rule::new(Kind::Cuda, "matmul.mma_tf32x3", include_str!("../schedules/matmul.mma_tf32x3.toml"), mma_tf32x3);

struct Tf32x3 {
    /// The sizes, where all are known.
    sizes: Option<Sizes>,
    p: Product,
    /// Threads of a warp.
    warp: i64,
}

fn mma_tf32x3(ask: &Ask) -> Answer {
    if !ask.target.has.mma {
        return Err(ask.no("tensor_cores", "the target has no complete set of matrix instructions"));
    }
    let float32 = ask.target.peak_of([DType::F32]).unwrap_or(0.0);
    if ask.target.peak_of_products(DType::F32).is_none_or(|tf32| tf32 <= float32) {
        let why = format!("three products of tf32 run no faster than those of float32, at {float32:.0} TFLOP/s");
        return Err(ask.no("tf32_rate", why));
    }
    let p = split(ask)?;
    Ok(Found::new(p.schedule.clone(), Tf32x3 { warp: i64::from(ask.target.warp), sizes: Sizes::of(&p), p }))
}

/// A product of float32 whose factors tensor cores multiply in parts.
pub fn split(ask: &Ask) -> Result<Product, Decline> {
    let p = Product::of(ask)?;
    p.of_matrices(ask)?;
    if p.schedule.func().is_strict() {
        return Err(ask.no("strict", "a strict function multiplies float32 as IEEE 754 says"));
    }
    let [a, b] = [&p.a, &p.b].map(|f| f.source_dtype);
    if ![a, b].iter().all(|d| has_values_of(DType::F32, *d)) {
        return Err(ask.no("operand_dtype", format!("float32 does not hold what {a} times {b} is made of")));
    }
    if factor_dtype(&p, &EVERYWHERE).is_some() {
        return Err(ask.no("operand_dtype", format!("instructions multiply {a} by {b} exactly")));
    }
    multiplied_as(ask, p, DType::F32)
}

impl Accepted for Tf32x3 {
    fn constrain(&self, space: Space, target: &Target) -> Space {
        // all columns of a fragment, and one of its rows, are split at a time
        let warp = self.warp;
        conditions(space, &self.p, target, move |[m, n]| m * n / warp + n + m / 4 + 60)
    }

    fn schedule(&self, s: &mut Schedule, k: &Knobs) -> Done {
        let means = Means { variant: Some("mma_tf32x3"), ..Means::default() };
        by_tiles(s, &self.p, &Warps::of(k, DType::F32), self.warp, k, &means)
    }

    fn outline(&self, k: &Knobs) -> Option<Outline> {
        let block = Warps::of(k, DType::F32).block;
        Some(before(&self.p, k, block, outline::mma_tf32x3(self.sizes.as_ref()?, self.warp, k)))
    }
}

//! `matmul.wgmma_swap_ab`: matrix products of tens to hundreds of rows by whole warpgroups, the factors exchanged.
//!
//! When: what `matmul.wgmma` takes, with 33 to 1024 rows, of float8 from 1 on, a constant number, where tensor maps describe both
//! factors.
//! How: as there, of the product of both factors transposed: columns of the result are the 64 rows of an instruction, rows its
//! columns, of which there may be any multiple of 8. So few rows are cut into tiles without much that no row fills, and tiles of as
//! many elements read less: 288 rows are two tiles of 144, where 64 at a time they would be five, or three of 128. Results
//! pass through shared memory on their way, where eight of them fill no sector (`lower/calls/warp_rows`).
//! Declines: `target_kind`, `warpgroup_products`, the predicates of [`Product::of`], `rows_and_columns`,
//! `operand_dtype`, `accumulator_dtype`, `one_result`, `hundreds_of_rows`, `boxed_factors`.
//!
//! ```text
//! matmul.wgmma_swap_ab on cuda:sm_90a
//! before: float16 A[288, 4096], float16 B[4096, 4096]
//!         float32 C[i, j] += float32(A[i, k]) * float32(B[j, k])
//!         float16 O[i, j] = float16(C[i, j])
//! after:  blockIdx.x 96:
//!           loop 128 [tile=elementwise warps_m=8 warps_n=1], loop 96: b0_result.local = 0
//!           loop 64 [stages=4 roles=1]:
//!             loop 128 [tile=copy_async warps_m=8 warps_n=1], loop 64: b0_right.shared = B
//!             loop 96 [tile=copy_async warps_m=8 warps_n=1], loop 64: b0_left.shared = A
//!             loop 128 [tile=gemm warps_m=8 warps_n=1 tile_variant=wgmma], loop 96, loop 64: b0_result.local += b0_left.shared, b0_right.shared
//!           loop 128 [tile=elementwise warps_m=8 warps_n=1], loop 96: O = b0_result.local
//! ```

use super::exchange::Factors;
use super::mma::multiplied_narrowly;
use super::wgmma::{FEW_ROWS, Wgmma, boxed_factors, hundreds_of_rows, levels};
use crate::rules::parts::*;

/// The rule.
pub const WGMMA_SWAP_AB: Rule = Rule::new(
    Kind::Cuda,
    "matmul.wgmma_swap_ab",
    include_str!("../schedules/matmul.wgmma_swap_ab.toml"),
    wgmma_swap_ab,
);

/// Rows up to which what 64 at a time leave unused may count.
const MOST_ROWS: i64 = 1024;

fn wgmma_swap_ab(ask: &Ask) -> Answer {
    if !ask.target.has.wgmma {
        return Err(ask.no("warpgroup_products", "the target has no matrix instructions of warpgroups"));
    }
    let p = multiplied_narrowly(ask)?;
    // few rows of 16 bits the instructions of warps serve as well; of float8 they have none
    let few = if levels(p.a.dtype) > 1 { 0 } else { FEW_ROWS };
    hundreds_of_rows(ask, &p, [few, MOST_ROWS])?;
    boxed_factors(ask, &p)?;
    Ok(Wgmma::found(ask, p, Factors::Exchanged))
}

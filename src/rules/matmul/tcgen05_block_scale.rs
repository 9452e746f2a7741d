//! `matmul.tcgen05_block_scale`: products of numbers of 4 and 8 bits with a scale for each block of them, in tensor memory
//! (`tcgen05.mma` with `block_scale`).
//!
//! When: the target has tensor memory; what `matmul.block_scale` takes, where the numbers of a factor are a matrix that a
//! tensor map describes, with a tile of rows and columns at least, and a reduced axis of whole words of four scales.
//! How: as `matmul.tcgen05`. Numbers come into shared memory by tensor maps as they are stored. Scales, too few bytes at a
//! place for those, are copied by two more warps, into the order in which the thread that issues products has them
//! copied to columns of tensor memory, each step to columns of its own. Two blocks with neighbouring row tiles may be a pair
//! (`cta_group`), each with half of the columns' numbers, and the scales of all columns.
//! Rounding: as `matmul.block_scale`: products of numbers and scales are exact, sums are float32; `float8_e4m3fn` scales are
//! taken without sign.
//! Declines: `target_kind`, `tensor_memory`, the predicates of [`Product::of`], `rows_and_columns`, `blocked_operands`,
//! `accumulator_dtype`, `one_result`, `whole_words`, `whole_tile`, `boxed_factors`.
//!
//! ```text
//! matmul.tcgen05_block_scale on cuda:sm_100a
//! before: float8_e4m3fn X[4096, 4096], float8_e8m0fnu S[4096, 128], float8_e4m3fn W[4096, 4096], float8_e8m0fnu R[4096, 128]
//!         float32 O[i, j] += float32(bfloat16(X[i, k]) * bfloat16(S[i, k // 32])) * float32(bfloat16(W[j, k]) * bfloat16(R[j, k // 32]))
//! after:  blockIdx.x 512 [persistent=148]:
//!           loop 128 [tile=elementwise warps_m=4 warps_n=2], loop 256: b0_result.local = 0
//!           loop 32 [stages=4 roles=1]:
//!             loop 128 [tile=copy_async warps_m=4 warps_n=2], loop 128: X_shared = X
//!             threadIdx.x 256, vector 4: S_shared = S
//!             loop 128 [tile=elementwise warps_m=4 warps_n=2], loop 128: b0_left.local = X_shared, S_shared
//!             loop 256 [tile=copy_async warps_m=4 warps_n=2], loop 128: W_shared = W
//!             threadIdx.x 256, vector 4: R_shared = R
//!             loop 256 [tile=elementwise warps_m=4 warps_n=2], loop 128: b0_right.local = W_shared, R_shared
//!             loop 128 [tile=gemm warps_m=4 warps_n=2 tile_variant=tcgen05_block_scale], loop 256, loop 128: b0_result.local += b0_left.local, b0_right.local
//!           loop 128 [tile=elementwise warps_m=4 warps_n=2], loop 256: O = b0_result.local
//! ```

use super::block_scale::scaled;
use super::mma::{Means, Warps, by_tiles};
use super::outline::Sizes;
use super::outline_tensor;
use super::tcgen05::{
    even_row_tiles, of_tiles, roles_of_steps, row_tiles_of_a_pair, shares, sums_in_registers, whole_tile,
};
use super::tiling::*;
use crate::analysis::Blocked;
use crate::ir::instr::{TENSOR_COLUMNS, Tcgen05Scaled, WgmmaShape};
use crate::ir::layout::Swizzle;
use crate::ir::{Buffer, Expr, IterVar};
use crate::rules::find::product::Product;
use crate::rules::parts::*;

/// The rule.
pub const TCGEN05_BLOCK_SCALE: Rule = Rule::new(
    Kind::Cuda,
    "matmul.tcgen05_block_scale",
    include_str!("../schedules/matmul.tcgen05_block_scale.toml"),
    tcgen05_block_scale,
);

/// Scales that a copy takes at a time, those of a word of tensor memory.
const WORD: i64 = 4;

struct Scaled {
    /// The sizes, where all are known.
    sizes: Option<Sizes>,
    p: Product,
    /// Where the numbers of both factors are.
    numbers: [Name; 2],
    parts: Parts,
    /// Threads of a warp.
    warp: i64,
    /// Multiprocessors.
    sms: i64,
}

/// What numbers and scales are, the same of both factors.
#[derive(Clone, Copy)]
struct Parts {
    /// Numbers in a byte.
    packed: i64,
    /// Numbers with one scale.
    block: i64,
}

impl Parts {
    /// How warpgroups share a tile: the depth in numbers.
    fn shares(self, k: &Knobs) -> Warps {
        shares(k, k.get("block_k_bytes") * self.packed)
    }

    /// Scales of a line in a step.
    fn scales(self, k: &Knobs) -> i64 {
        k.get("block_k_bytes") * self.packed / self.block
    }

    /// Bytes of numbers and scales of a step: a block of a pair has the numbers of half of the columns.
    fn step_bytes(self, k: &Knobs) -> i64 {
        let [rows, columns] = ["block_m", "block_n"].map(|name| k.get(name));
        (rows + columns / k.get("cta_group").max(1)) * k.get("block_k_bytes") + (rows + columns) * self.scales(k)
    }

    /// Columns that sums take, and the scales of all steps under way.
    fn columns(self, k: &Knobs) -> i64 {
        let [lines, columns] = Tcgen05Scaled::SCALES;
        let step = (k.get("block_m") + k.get("block_n")) / lines * columns * self.scales(k) / WORD;
        k.get("block_n") + step * k.get("stages")
    }
}

fn tcgen05_block_scale(ask: &Ask) -> Answer {
    if !ask.target.has.tcgen05 {
        return Err(ask.no("tensor_memory", "the target has no tensor memory"));
    }
    let p = Product::of(ask)?;
    p.of_matrices(ask)?;
    let blocked = scaled(&p, ask)?;
    let ([_, rows, columns, depth], word) = (p.extents(), WORD * blocked[0].block());
    if depth.is_none_or(|n| n % word != 0) {
        return Err(
            ask.no("whole_words", format!("the reduced axis is no multiple of {word}, whose scales are a word"))
        );
    }
    let [least, _] = Tcgen05Scaled::SCALES;
    if [rows, columns].iter().any(|n| n.is_none_or(|n| n < least)) {
        return Err(ask.no("whole_tile", format!("a tile is of {least} rows and columns at least, of known number")));
    }
    let one = |own: &[IterVar]| own.len() == 1;
    let both = blocked.iter().zip([rows, columns]).all(|(f, lines)| is_boxed(&p, f, lines));
    if !p.batch.is_empty() || !one(&p.rows) || !one(&p.columns) || !both {
        return Err(ask.no("boxed_factors", "the numbers of a factor are no matrix that a tensor map describes"));
    }
    let parts = Parts { packed: blocked[0].packed(), block: blocked[0].block() };
    let (warp, sms, sizes) = (i64::from(ask.target.warp), i64::from(ask.target.sms), Sizes::of(&p));
    let numbers = blocked.map(|f| f.codes.buffer);
    Ok(Found::new(p.schedule.clone(), Scaled { sizes, numbers, parts, warp, sms, p }))
}

/// True where the numbers of so many lines are a whole matrix, and words of scales are aligned.
fn is_boxed(p: &Product, f: &Blocked, lines: Option<i64>) -> bool {
    let sizes = |name: &Name| p.schedule.func().buffer(name).shape.iter().map(Expr::as_int).collect::<Vec<_>>();
    let row = p.extents()[3].map(|n| n / f.packed());
    let words = sizes(&f.scales.buffer).last().copied().flatten().is_some_and(|n| n % WORD == 0);
    words && sizes(&f.codes.buffer) == [lines, row]
}

impl Accepted for Scaled {
    fn constrain(&self, space: Space, target: &Target) -> Space {
        let (p, parts) = (&self.p, self.parts);
        let [_, rows, columns, depth] = p.extents();
        let space = space.require("whole_instructions", move |k| whole_instructions(k, parts));
        let space = row_tiles_of_a_pair(space, rows);
        let space = space.require("whole_steps", move |k| {
            let (step, split) = (parts.shares(k).block[2], k.get("split_k"));
            match depth {
                Some(n) if n % (step * split).max(1) == 0 => Ok(()),
                _ => Err(format!("the reduced axis is no whole number of steps of {step} in each of {split} parts")),
            }
        });
        let space = space.require("tile_of_lines", move |k| match columns {
            Some(n) if k.get("block_n") <= n => Ok(()),
            _ => Err("a tile has more columns than there are".into()),
        });
        let space = roles_of_steps(space, p, target, self.warp, move |k| parts.shares(k).block[2]);
        let space = space.require("columns_of_scales", move |k| {
            at_most(parts.columns(k), TENSOR_COLUMNS, "columns of sums and scales", "tensor memory")
        });
        let warps = |k: &Knobs| k.get("groups_n") * WgmmaShape::WARPS;
        let space = tiles_in_shared(space, target, move |k| parts.step_bytes(k), passed_rows(p, warps));
        let space = whole_groups(sums_in_registers(space), rows);
        of_tiles(even_row_tiles(space, rows), p, target)
    }

    fn schedule(&self, s: &mut Schedule, k: &Knobs) -> Done {
        let lanes = |_: &Buffer| WORD;
        let by = Means {
            variant: Some("tcgen05_block_scale"),
            roles: Some(1),
            persistent: strided(k).then_some(self.sms),
            fetched: fetched(k),
            decoded: &[0, 1],
            lanes: Some(&lanes),
            numbers: &self.numbers,
            ..Means::default()
        };
        by_tiles(s, &self.p, &self.parts.shares(k), self.warp, k, &by)
    }

    fn outline(&self, k: &Knobs) -> Option<Outline> {
        let (sizes, parts) = (self.sizes.as_ref()?, self.parts);
        Some(outline_tensor::tcgen05_block_scale(sizes, (self.warp, self.sms), (parts.packed, parts.step_bytes(k)), k))
    }
}

fn whole_instructions(k: &Knobs, parts: Parts) -> Result<(), String> {
    whole_tile(k)?;
    let (columns, bytes, scales) = (k.get("block_n"), k.get("block_k_bytes"), parts.scales(k));
    let [lines, _] = Tcgen05Scaled::SCALES;
    if columns % lines != 0 || columns > 2 * lines {
        return Err(format!("scales of {columns} columns are no whole copies of {lines}, for one instruction"));
    }
    match Swizzle::ROWS.map(i64::from).contains(&bytes) && scales % WORD == 0 && scales > 0 {
        true => Ok(()),
        false => {
            Err(format!("{bytes} bytes along the reduced axis are no row of an operand, or no whole words of scales"))
        }
    }
}

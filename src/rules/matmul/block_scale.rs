//! `matmul.block_scale`: products of numbers of 4 and 8 bits with a scale for each block of them, on tensor cores that
//! take the scales (`mma.sync` with `block_scale`).
//!
//! When: the target has them; a sum of products of rows and columns that are both numbers times scales, in one of the
//! formats that the instructions have: `float8_e4m3fn` or `float8_e5m2` with a `float8_e8m0fnu` scale for each 32 along
//! the reduced axis (mxfp8), or numbers of `float4_e2m1fn`, two in a uint8, with such scales for each 32 (mxfp4) or
//! `float8_e4m3fn` scales for each 16 (nvfp4). How they are decoded does not matter ([`Blocked`]). One reduced axis of
//! constant length, contiguous in numbers and scales; sums in float32, float16 or bfloat16 (then kept in float32); at
//! most one elementwise block after it.
//! How: as `matmul.mma`, but numbers and scales come into shared memory as they are stored, `stages - 1` steps ahead,
//! and from there, by `ldmatrix` and as words, into the instructions (`tile/gemm/mma_block_scale.rs`).
//! Rounding: products of numbers and scales are exact, sums are float32. `float8_e4m3fn` scales are taken as the format
//! has them, without sign: a negative one gives another result than the function says.
//! Declines: `target_kind`, the predicates of [`Product::of`], `rows_and_columns`, `block_scales`, `blocked_operands`,
//! `accumulator_dtype`, `one_result`, `whole_instructions`.
//!
//! ```text
//! matmul.block_scale on cuda:sm_120a
//! before: float8_e4m3fn X[512, 4096], float8_e8m0fnu S[512, 128], float8_e4m3fn W[4096, 4096], float8_e8m0fnu R[4096, 128]
//!         float32 O[i, j] += float32(bfloat16(X[i, k]) * bfloat16(S[i, k // 32])) * float32(bfloat16(W[j, k]) * bfloat16(R[j, k // 32]))
//! after:  blockIdx.x 128:
//!           loop 128 [tile=elementwise warps_m=2 warps_n=2], loop 128: b0_result.local = 0
//!           loop 64 [stages=3]:
//!             unroll 4, threadIdx.x 128, vector 16: X_shared = X
//!             threadIdx.x 128, vector 2: S_shared = S
//!             loop 128 [tile=elementwise warps_m=2 warps_n=2], loop 64: b0_left.local = X_shared, S_shared
//!             unroll 4, threadIdx.x 128, vector 16: W_shared = W
//!             threadIdx.x 128, vector 2: R_shared = R
//!             loop 128 [tile=elementwise warps_m=2 warps_n=2], loop 64: b0_right.local = W_shared, R_shared
//!             loop 128 [tile=gemm warps_m=2 warps_n=2 tile_variant=mma_block_scale], loop 128, loop 64: b0_result.local += b0_left.local, b0_right.local
//!           loop 128 [tile=elementwise warps_m=2 warps_n=2], loop 128: O = b0_result.local
//! ```

use super::mma::{Means, Warps, by_tiles};
use super::outline::{self, Sizes};
use super::tiling::*;
use crate::analysis::{Access, Blocked, Decline, factors};
use crate::ir::instr::BlockScaleMma;
use crate::ir::{Buffer, Expr, IterVar};
use crate::rules::find::factor::Factor;
use crate::rules::find::product::Product;
use crate::rules::parts::*;
use crate::schedule::Operand;

/// The rule.
pub const BLOCK_SCALE: Rule =
    Rule::new(Kind::Cuda, "matmul.block_scale", include_str!("../schedules/matmul.block_scale.toml"), block_scale);

/// Rows, and columns, of the smallest tile.
const LEAST: i64 = 16;
/// Numbers along the reduced axis of the shortest step: 32 bytes at least, and two scales.
const STEP: i64 = 64;
/// Bytes of the widest copy, and scales in 32 bits.
const COPIES: [i64; 2] = [16, 4];

struct Scaled {
    /// The sizes, where all are known.
    sizes: Option<Sizes>,
    p: Product,
    /// Both factors.
    blocked: [Blocked; 2],
    /// Threads of a warp.
    warp: i64,
}

fn block_scale(ask: &Ask) -> Answer {
    let p = Product::of(ask)?;
    p.of_matrices(ask)?;
    if !ask.target.has.block_scale_mma {
        return Err(ask.no("block_scales", "the target has no matrix instructions that take scales of blocks"));
    }
    let blocked = scaled(&p, ask)?;
    let [_, rows, columns, depth] = p.extents();
    let whole = depth.is_some_and(|n| n % STEP == 0 && n > 0);
    if !whole || [rows, columns].iter().any(|n| n.is_none_or(|n| n < LEAST)) {
        let why =
            format!("a tile is of {LEAST} rows and columns at least and of whole {STEP} numbers, of known number");
        return Err(ask.no("whole_instructions", why));
    }
    let sizes = Sizes::of(&p);
    Ok(Found::new(p.schedule.clone(), Scaled { warp: i64::from(ask.target.warp), sizes, blocked, p }))
}

/// What both factors of a product are made of that instructions with scales add.
///
/// # Errors
/// Where one is made of something else, or does not lie along the reduced axis, or sums or results are others.
pub fn scaled(p: &Product, ask: &Ask) -> Result<[Blocked; 2], Decline> {
    let blocked = operands(p, ask)?;
    if !matches!(p.dtype, DType::F32 | DType::F16 | DType::BF16) {
        return Err(ask.no("accumulator_dtype", format!("no instruction adds scaled products in {}", p.dtype)));
    }
    if p.results() > 1 {
        return Err(ask.no("one_result", "several blocks after the product write results"));
    }
    Ok(blocked)
}

/// What both factors are made of.
fn operands(p: &Product, ask: &Ask) -> Result<[Blocked; 2], Decline> {
    let no = |why: &str| Err(ask.no("blocked_operands", why.to_string()));
    let red = ask.facts.blocks.iter().find(|b| b.name == p.block).and_then(|b| b.reducer.as_ref());
    let terms = red.and_then(|r| factors(&r.term));
    let of = |f: &Factor| {
        let [left, right] = terms.as_ref()?;
        Blocked::of(if f.operand == Operand::Left { left } else { right })
    };
    let (Some(a), Some(b)) = (of(&p.a), of(&p.b)) else {
        return no("a factor is not made of numbers of 4 or 8 bits times a scale of each block");
    };
    if a.scale != b.scale || BlockScaleMma::of([a.element, b.element], a.scale).is_none() {
        return no("no instruction has these types of numbers and scales");
    }
    let [k] = p.depth.as_slice() else { return no("several axes are reduced") };
    for (f, free) in [(&a, &p.rows), (&b, &p.columns)] {
        let lies = |access: &Access, per: i64| lies_along(p, access, (k, per), free);
        if !lies(&f.codes, f.packed()) || !lies(&f.scales, f.block()) {
            return no("numbers or scales do not lie along the reduced axis, in order and from its start on");
        }
    }
    Ok([a, b])
}

/// True for a parameter of which an element is for `per` neighbours along the last axis, the reduced one, and whose
/// other axes are iterators.
fn lies_along(p: &Product, access: &Access, (k, per): (&IterVar, i64), free: &[IterVar]) -> bool {
    let func = p.schedule.func();
    let Some((last, outer)) = access.indices.split_last() else { return false };
    let plain = func
        .find_buffer(&access.buffer)
        .is_some_and(|b| func.is_param(&b.name) && b.strides.is_empty() && b.elem_offset.is_none());
    let own = if per == 1 { k.var_expr() } else { k.var_expr() / per };
    let known = |e: &Expr| e.as_int().is_some() || free.iter().chain(&p.batch).any(|i| e.as_var() == Some(&i.var));
    plain && *last == own && outer.iter().all(known)
}

impl Scaled {
    /// How the warps of a block share a tile: the depth in numbers.
    fn warps(&self, k: &Knobs) -> Warps {
        shares(k, self.blocked[0].packed())
    }
}

fn shares(k: &Knobs, packed: i64) -> Warps {
    let depth = k.get("block_k_bytes") * packed;
    Warps { block: [k.get("block_m"), k.get("block_n"), depth], warps: [k.get("warps_m"), k.get("warps_n")] }
}

impl Accepted for Scaled {
    fn constrain(&self, space: Space, target: &Target) -> Space {
        let (p, warp) = (&self.p, self.warp);
        let (packed, block) = (self.blocked[0].packed(), self.blocked[0].block());
        let [_, rows, columns, depth] = p.extents();
        let warps = move |k: &Knobs| shares(k, packed);
        let space = space.require("whole_fragments", move |k| warps(k).whole_fragments());
        let space = space.require("tile_of_lines", move |k| {
            let fits = |n: Option<i64>, tile: i64| n.is_some_and(|n| tile <= n);
            match fits(rows, k.get("block_m")) && fits(columns, k.get("block_n")) {
                true => Ok(()),
                false => Err("a tile has more rows or columns than there are".into()),
            }
        });
        let whole = |numbers: i64| numbers > 0 && numbers % STEP == 0;
        let space = space.require("whole_steps", move |k| match (k.get("block_k_bytes"), k.get("split_k"), depth) {
            (bytes, parts, Some(n)) if whole(bytes * packed) && n % (bytes * packed * parts) == 0 => Ok(()),
            (bytes, parts, _) => {
                Err(format!("the reduced axis is no whole number of steps of {bytes} bytes in each of {parts} parts"))
            }
        });
        let threads = move |k: &Knobs| warps(k).threads(warp);
        let space = threads_per_block(space, target, threads);
        let bytes = move |k: &Knobs| stage_bytes(k, packed, block);
        let space = tiles_in_shared(space, target, bytes, passed_rows(p, move |k| threads(k) / warp));
        let space = tile_in_registers(space, target, threads, move |k| {
            let [m, n] = warps(k).tile();
            m * n / warp + (m + n) / 2 + 40
        });
        let space = whole_groups(space, rows);
        preferred(space, p, target, warps)
    }

    fn schedule(&self, s: &mut Schedule, k: &Knobs) -> Done {
        let w = self.warps(k);
        let lanes = |b: &Buffer| {
            let codes = self.blocked.iter().any(|f| f.codes.buffer == b.name);
            let scales = w.block[2] / self.blocked[0].block();
            if codes { COPIES[0] } else { 1 << scales.trailing_zeros().min(COPIES[1].trailing_zeros()) }
        };
        let by = Means { variant: Some("mma_block_scale"), decoded: &[0, 1], lanes: Some(&lanes), ..Means::default() };
        by_tiles(s, &self.p, &w, self.warp, k, &by)
    }

    fn outline(&self, k: &Knobs) -> Option<Outline> {
        let (packed, block) = (self.blocked[0].packed(), self.blocked[0].block());
        Some(outline::block_scale(self.sizes.as_ref()?, (self.warp, packed), stage_bytes(k, packed, block), k))
    }
}

/// Bytes of numbers and scales of a step.
fn stage_bytes(k: &Knobs, packed: i64, block: i64) -> i64 {
    let bytes = k.get("block_k_bytes");
    (k.get("block_m") + k.get("block_n")) * (bytes + bytes * packed / block)
}

/// Only what is likely to be fast: as `matmul.mma`.
fn preferred(space: Space, p: &Product, target: &Target, warps: impl At<Warps> + Copy) -> Space {
    let [_, rows, columns, depth] = p.extents();
    let space = space.prefer("tile_within_depth", move |k| match depth {
        Some(n) if warps(k).block[2] * (k.get("stages") - 1) > n.max(warps(k).block[2]) => {
            Err("more tiles are on their way than there are".into())
        }
        _ => Ok(()),
    });
    let space = space.prefer("warp_tile", move |k| {
        let [m, n] = warps(k).tile();
        let few = [rows, columns].into_iter().any(|n| n.is_some_and(|n| n < 64));
        match m <= 2 * n && n <= 2 * m && (few || m * n >= 32 * 32) {
            true => Ok(()),
            false => Err(format!("a warp's tile of {m} by {n} loads more than it multiplies")),
        }
    });
    let (sms, blocks) = (i64::from(target.sms), tiles(p));
    let space = space.prefer("fills_device", move |k| match blocks(k) {
        Some(n) if n * k.get("split_k") < sms / 2 && k.get("block_m") * k.get("block_n") > 64 * 64 => {
            Err(format!("{n} tiles leave multiprocessors of {sms} idle"))
        }
        _ => Ok(()),
    });
    parts_fill_device(space, blocks, target, 4)
}

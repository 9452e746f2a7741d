//! `matmul.tcgen05`: matrix products in tensor memory (`tcgen05.mma`), convolutions among them.
//!
//! When: the target has it; what `matmul.mma` takes, of int8 where the target multiplies it there, and products of
//! `float8_e4m3fn` or `float8_e5m2` by the same type, whose sums are whole float32 here; where tensor maps describe both
//! factors (those of 8 bits along the reduced axis), with more than 64 rows or an unknown number of them, and a constant depth.
//! How: a block computes a tile of 128 rows. One thread starts all copies, into shared memory where matrix
//! descriptors find them, `stages` steps ahead; another one issues all products, into columns of tensor memory, and
//! one or two warpgroups load the sums from there, each its own columns, and store what follows from them. A block
//! may take one tile after the other (`roles`), of as many blocks as there are multiprocessors, or as the hardware gives it
//! those of blocks that have not started: then there are two sets of sums, and products of a tile go on while
//! the results of the one before are stored. Two blocks with neighbouring row tiles may be a pair (`cta_group`): each has half
//! of the columns of B in its shared memory, and one thread issues products of 256 rows.
//! Declines: `target_kind`, `tensor_memory`, the predicates of [`Product::of`], `rows_and_columns`,
//! `operand_dtype`, `accumulator_dtype`, `one_result`, `int8_in_tensor_memory`, `few_rows`, `boxed_factors`.
//!
//! ```text
//! matmul.tcgen05 on cuda:sm_100a
//! before: float16 A[4096, 4096], float16 B[4096, 4096]
//!         float32 C[i, j] += float32(A[i, k]) * float32(B[k, j])
//!         float16 O[i, j] = float16(C[i, j])
//! after:  blockIdx.x 512 [persistent=148]:
//!           loop 128 [tile=elementwise warps_m=4 warps_n=2], loop 256: b0_result.local = 0
//!           loop 64 [stages=4 roles=1]:
//!             loop 128 [tile=copy_async warps_m=4 warps_n=2], loop 64: b0_left.shared = A
//!             loop 64 [tile=copy_async warps_m=4 warps_n=2], loop 256: b0_right.shared = B
//!             loop 128 [tile=gemm warps_m=4 warps_n=2 tile_variant=tcgen05], loop 256, loop 64: b0_result.local += b0_left.shared, b0_right.shared
//!           loop 128 [tile=elementwise warps_m=4 warps_n=2], loop 256: O = b0_result.local
//! ```

use super::mma::{Means, WITH_FLOAT8, Warps, by_tiles, multiplied_of};
use super::outline::Sizes;
use super::outline_tensor;
use super::pack::major;
use super::tiling::*;
use super::wgmma::{FEW_ROWS, boxed_factors};
use crate::ir::instr::{CtaGroup, Dealt, TENSOR_LANES, Tcgen05Shape, WgmmaShape};
use crate::ir::layout::{Fragment, Swizzle};
use crate::rules::find::einsum::Major;
use crate::rules::find::product::Product;
use crate::rules::parts::*;

/// The rule.
pub const TCGEN05: Rule =
    Rule::new(Kind::Cuda, "matmul.tcgen05", include_str!("../schedules/matmul.tcgen05.toml"), tcgen05);

/// Registers of a thread that stores results, besides its sums.
const BESIDE_SUMS: i64 = 50;
/// Registers of such a thread at most, where one warpgroup stores.
const REGISTERS: i64 = 255;

struct Tcgen05 {
    /// The sizes, where all are known.
    sizes: Option<Sizes>,
    p: Product,
    /// Threads of a warp.
    warp: i64,
    /// Multiprocessors.
    sms: i64,
}

fn tcgen05(ask: &Ask) -> Answer {
    let has = &ask.target.has;
    if !has.tcgen05 {
        return Err(ask.no("tensor_memory", "the target has no tensor memory"));
    }
    let p = multiplied_of(ask, &WITH_FLOAT8)?;
    if p.a.dtype == DType::I8 && !has.tcgen05_i8 {
        return Err(ask.no("int8_in_tensor_memory", "the target multiplies no int8 in tensor memory"));
    }
    let p = p.with_boxed_rows(ask, TENSOR_LANES).unwrap_or(p);
    if let Some(rows) = p.extents()[1].filter(|n| *n <= 2 * FEW_ROWS) {
        return Err(ask.no("few_rows", format!("{rows} rows leave half of an instruction's {TENSOR_LANES} unused")));
    }
    boxed_factors(ask, &p)?;
    Ok(Found::new(
        p.schedule.clone(),
        Tcgen05 { warp: i64::from(ask.target.warp), sms: i64::from(ask.target.sms), sizes: Sizes::of(&p), p },
    ))
}

/// How the warpgroups that store share a tile of so many steps along the reduced axis.
pub fn shares(k: &Knobs, depth: i64) -> Warps {
    let block = [k.get("block_m"), k.get("block_n"), depth];
    Warps { block, warps: [WgmmaShape::WARPS, k.get("groups_n")] }
}

fn groups(k: &Knobs, element: DType) -> Warps {
    shares(k, k.get("block_k_bytes") / element.bytes() as i64)
}

/// The blocks that a product is of.
fn group(k: &Knobs) -> Result<CtaGroup, String> {
    let all = [CtaGroup::One, CtaGroup::Pair];
    let found = all.into_iter().find(|g| g.blocks() == k.get("cta_group"));
    found.ok_or_else(|| format!("products are of one block or two, not of {}", k.get("cta_group")))
}

impl Accepted for Tcgen05 {
    fn constrain(&self, space: Space, target: &Target) -> Space {
        let (p, warp, element) = (&self.p, self.warp, self.p.a.dtype);
        let space = space.require("whole_instructions", move |k| whole_instructions(k, element));
        let rows = p.extents()[1];
        let space = row_tiles_of_a_pair(space, rows);
        let beside = matches!(major(&p.b), Major::Depth);
        let space = space.require("halves_of_columns", move |k| if beside { halves(k, element) } else { Ok(()) });
        let space = roles_of_steps(space, p, target, warp, move |k| groups(k, element).block[2]);
        let bytes =
            |k: &Knobs| k.get("block_k_bytes") * (k.get("block_m") + k.get("block_n") / k.get("cta_group").max(1));
        let space = tiles_in_shared(space, target, bytes, passed_rows(p, |k| k.get("groups_n") * WgmmaShape::WARPS));
        let space = whole_groups(sums_in_registers(space), rows);
        preferred(space, p, target)
    }

    fn schedule(&self, s: &mut Schedule, k: &Knobs) -> Done {
        let by = Means {
            variant: Some("tcgen05"),
            roles: Some(1),
            persistent: strided(k).then_some(self.sms),
            fetched: fetched(k),
            ..Means::default()
        };
        by_tiles(s, &self.p, &groups(k, self.p.a.dtype), self.warp, k, &by)
    }

    fn outline(&self, k: &Knobs) -> Option<Outline> {
        Some(outline_tensor::tcgen05(self.sizes.as_ref()?, (self.warp, self.sms), k))
    }
}

/// Of a pair each block has a row tile.
pub fn row_tiles_of_a_pair(space: Space, rows: Option<i64>) -> Space {
    space.require("row_tiles_of_a_pair", move |k| match rows.map(|n| over(n, TENSOR_LANES)) {
        Some(..2) if k.get("cta_group") > 1 => Err("there is a single row tile".into()),
        _ => Ok(()),
    })
}

/// No pair leaves a block without rows.
pub fn even_row_tiles(space: Space, rows: Option<i64>) -> Space {
    space.prefer("even_row_tiles", move |k| match rows.map(|n| over(n, TENSOR_LANES)) {
        Some(n) if k.get("cta_group") > 1 && n % 2 != 0 => Err(format!("{n} row tiles are no pairs")),
        _ => Ok(()),
    })
}

/// Threads that copy and issue have several steps to do, of so many along the reduced axis, and stand beside those that store.
pub fn roles_of_steps(space: Space, p: &Product, target: &Target, warp: i64, step: impl At<i64> + Copy) -> Space {
    let depths = p.extents()[3];
    let space = space.require("steps_of_roles", move |k| {
        match depths.map(|n| over(n, step(k).max(1) * k.get("split_k").max(1))) {
            Some(..2) | None => Err("the reduced axis is a single tile, or of unknown length".into()),
            Some(_) => Ok(()),
        }
    });
    threads_per_block(space, target, move |k| (k.get("groups_n") + 1) * WgmmaShape::WARPS * warp)
}

/// Threads that store have registers for their sums.
pub fn sums_in_registers(space: Space) -> Space {
    space.require("sums_in_registers", |k| {
        let most = Dealt::beside_products(k.get("groups_n")).map_or(REGISTERS, |d| d.taken.into());
        at_most(k.get("block_n") / k.get("groups_n") + BESIDE_SUMS, most, "registers", "a thread")
    })
}

/// A tile has as many rows as tensor memory has lanes, and columns for whole fragments of each warpgroup that stores.
///
/// # Errors
/// Where it has not.
pub fn whole_tile(k: &Knobs) -> Result<(), String> {
    let (rows, columns, each) = (k.get("block_m"), k.get("block_n"), k.get("block_n") / k.get("groups_n"));
    if rows != TENSOR_LANES {
        return Err(format!("a tile has {rows} rows, and tensor memory {TENSOR_LANES} lanes"));
    }
    if each * k.get("groups_n") != columns || each % Fragment::M16N8Acc.shape()[1] != 0 {
        return Err(format!("{columns} columns of a tile are no equal parts of {} groups", k.get("groups_n")));
    }
    Ok(())
}

fn whole_instructions(k: &Knobs, element: DType) -> Result<(), String> {
    whole_tile(k)?;
    Tcgen05Shape { n: k.get("block_n"), input: element, group: group(k)? }.check()?;
    match k.get("block_k_bytes") {
        n if Swizzle::ROWS.map(i64::from).contains(&n) => Ok(()),
        n => Err(format!("{n} bytes along the reduced axis are no row of an operand")),
    }
}

/// Where columns lie side by side, those of a block of a pair are whole parts of the rows that B is cut into.
fn halves(k: &Knobs, element: DType) -> Result<(), String> {
    let bytes = k.get("block_n") * element.bytes() as i64;
    let part = Swizzle::widest_row(bytes).map_or(bytes, i64::from);
    match (group(k)?, bytes / 2 % part) {
        (CtaGroup::One, _) | (_, 0) => Ok(()),
        _ => Err(format!("half of {} columns is no whole part of {part} bytes", k.get("block_n"))),
    }
}

/// Only what is likely to be fast: tiles that the function fills, enough of them for the device, whole lines.
fn preferred(space: Space, p: &Product, target: &Target) -> Space {
    let ([_, rows, _, depth], element) = (p.extents(), p.a.dtype);
    let space = even_row_tiles(space, rows);
    let space = tile_within_result(space, p, [TENSOR_LANES, 64]);
    let space = space.prefer("lines_of_roles", move |k| match (k.get("block_k_bytes"), depth) {
        (n, Some(depth)) if n < LINE && over(depth, LINE / element.bytes() as i64 * k.get("split_k").max(1)) > 1 => {
            Err(format!("a step of {n} bytes waits as long as one of {LINE}"))
        }
        _ => Ok(()),
    });
    let space = space.prefer("groups_that_store", |k| match (k.get("block_n"), k.get("groups_n")) {
        (n, 2) if n <= 64 => Err(format!("{n} columns are too few for two warpgroups")),
        _ => Ok(()),
    });
    of_tiles(space, p, target)
}

/// As many tiles, and as large ones, as the device has multiprocessors for.
pub fn of_tiles(space: Space, p: &Product, target: &Target) -> Space {
    let (sms, blocks) = (i64::from(target.sms), tiles(p));
    let space = space.prefer("fills_device", move |k| match blocks(k) {
        Some(n) if n * k.get("split_k") < sms / 2 && k.get("block_n") > 64 => {
            Err(format!("{n} tiles leave multiprocessors of {sms} idle"))
        }
        _ => Ok(()),
    });
    let space = space.prefer("several_tiles_each", move |k| match blocks(k) {
        Some(n) if (strided(k) || fetched(k)) && n * k.get("split_k") <= sms => {
            Err(format!("{n} tiles are no more than {sms} multiprocessors"))
        }
        _ => Ok(()),
    });
    parts_fill_device(space, blocks, target, 2)
}

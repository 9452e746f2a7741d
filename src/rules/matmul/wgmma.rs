//! `matmul.wgmma`: matrix products on tensor cores by whole warpgroups (`wgmma`), convolutions among them.
//!
//! When: the target has them; what `matmul.mma` takes, with more than 32 rows or an unknown number of them, and products of
//! `float8_e4m3fn` or `float8_e5m2` by the same type whose result is no wider than 16 bits.
//! How: as `matmul.mma`, but the products of a step read both tiles from shared memory, where they lie as matrix
//! descriptors say, and go on while the next step begins. A warpgroup has `block_m / groups_m` rows and
//! `block_n / groups_n` columns of the tile in its registers. Where tensor maps describe both factors, a warpgroup
//! of its own starts all copies (`roles`): the others only multiply, together at a tile or each at one in turn, so that
//! one stores while another multiplies, and a block may take one tile after the other; blocks of neighbouring tiles may
//! be a cluster (`multicast`), each of which copies half of what both need. Elsewhere all threads copy, by `cp.async`.
//! Rounding: the instructions add products of float8 with about 14 bits. A step's sums are therefore added to the others in
//! float32 (`tile/gemm/wgmma_two_level`), and what they leave out is less than what a result of 16 bits is rounded by.
//! Declines: `target_kind`, `warpgroup_products`, the predicates of [`Product::of`], `rows_and_columns`,
//! `operand_dtype`, `accumulator_dtype`, `one_result`, `few_rows`.
//!
//! ```text
//! matmul.wgmma on cuda:sm_90a
//! before: float16 A[4096, 4096], float16 B[4096, 4096]
//!         float32 C[i, j] += float32(A[i, k]) * float32(B[k, j])
//!         float16 O[i, j] = float16(C[i, j])
//! after:  blockIdx.x 1024:
//!           loop 128 [tile=elementwise warps_m=8 warps_n=1], loop 128: b0_result.local = 0
//!           loop 64 [stages=4 roles=1]:
//!             loop 128 [tile=copy_async warps_m=8 warps_n=1], loop 64: b0_left.shared = A
//!             loop 64 [tile=copy_async warps_m=8 warps_n=1], loop 128: b0_right.shared = B
//!             loop 128 [tile=gemm warps_m=8 warps_n=1 tile_variant=wgmma], loop 128, loop 64: b0_result.local += b0_left.shared, b0_right.shared
//!           loop 128 [tile=elementwise warps_m=8 warps_n=1], loop 128: O = b0_result.local
//! ```

use super::exchange::Factors;
use super::mma::{Means, Warps, by_tiles, multiplied_narrowly};
use super::multicast;
use super::outline::{self, Sizes};
use super::pack::{self, before, major};
use super::split_k::{self, cluster_fits, in_cluster};
use super::tiling::*;
use crate::analysis::Decline;
use crate::ir::instr::{Dealt, WgmmaShape};
use crate::ir::layout::Swizzle;
use crate::rules::find::einsum::Major;
use crate::rules::find::factor::Factor;
use crate::rules::find::product::Product;
use crate::rules::parts::*;

/// The rule.
pub const WGMMA: Rule = Rule::new(Kind::Cuda, "matmul.wgmma", include_str!("../schedules/matmul.wgmma.toml"), wgmma);

/// Rows from which on half of an instruction's rows are of use.
pub const FEW_ROWS: i64 = 32;

/// Columns of an instruction that are few.
const FEW_COLUMNS: i64 = 16;
/// Rows of the result that no tile needs, for as many tiles, from which on less would be as many.
const EVEN: i64 = 16;

/// Registers of a thread that the compiler may use, where one warpgroup multiplies beside one that copies.
const REGISTERS: i64 = 240;

/// A product by warpgroups, its factors in order or exchanged.
pub struct Wgmma {
    /// The sizes, where all are known.
    sizes: Option<Sizes>,
    p: Product,
    /// The same product as it is multiplied.
    multiplied: Product,
    factors: Factors,
    /// Threads of a warp.
    warp: i64,
    /// Multiprocessors.
    sms: i64,
}

fn wgmma(ask: &Ask) -> Answer {
    if !ask.target.has.wgmma {
        return Err(ask.no("warpgroup_products", "the target has no matrix instructions of warpgroups"));
    }
    let p = multiplied_narrowly(ask)?;
    let p = p.with_boxed_rows(ask, WgmmaShape::ROWS).unwrap_or(p);
    if let Some(rows) = p.extents()[1].filter(|n| *n <= FEW_ROWS) {
        return Err(ask.no("few_rows", format!("{rows} rows leave most of an instruction's 64 unused")));
    }
    Ok(Wgmma::found(ask, p, Factors::InOrder))
}

/// In how many levels sums of products of such factors are kept.
pub fn levels(factors: DType) -> i64 {
    if matches!(factors, DType::E4M3 | DType::E5M2) { 2 } else { 1 }
}

impl Wgmma {
    pub fn found(ask: &Ask, p: Product, factors: Factors) -> Found {
        let multiplied = match factors {
            Factors::InOrder => p.clone(),
            Factors::Exchanged => p.clone().turned(),
        };
        let (warp, sms, sizes) = (i64::from(ask.target.warp), i64::from(ask.target.sms), Sizes::of(&p));
        Found::new(p.schedule.clone(), Wgmma { sizes, p, multiplied, factors, warp, sms })
    }
}

/// How the warpgroups of a block share a tile, by rows and columns of instructions.
pub fn groups(k: &Knobs, factors: Factors, element: DType) -> Warps {
    let depth = k.get("block_k_bytes") / element.bytes() as i64;
    let ([rows, columns], [down, across]) = (factors.tile(k), factors.groups(k));
    Warps { block: [rows, columns, depth], warps: [WgmmaShape::WARPS * down, across] }
}

impl Accepted for Wgmma {
    fn constrain(&self, space: Space, target: &Target) -> Space {
        let (p, warp, element, factors) = (&self.p, self.warp, self.p.a.dtype, self.factors);
        let space = space.require("whole_instructions", move |k| whole_instructions(k, factors, element));
        let (in_order, beside) = (factors == Factors::InOrder, matches!(major(&p.b), Major::Depth));
        let space = match in_order && beside {
            true => space.require("whole_lines", move |k| whole_lines(k, element)),
            false => space,
        };
        let boxed = [&p.a, &p.b].into_iter().all(is_boxed);
        let space = if boxed { space } else { space.require("fills_by_boxes", filled_by_threads) };
        let depths = p.extents()[3];
        let space = space.require("steps_of_roles", move |k| {
            let steps = depths.map(|n| over(n, groups(k, factors, element).block[2] * k.get("split_k").max(1)));
            match (copying(k), steps) {
                (1, Some(..2) | None) => Err("the reduced axis is a single tile".into()),
                _ => Ok(()),
            }
        });
        let space = space.require("tile_of_a_group", move |k| match sharing(k, factors) {
            n if turns(k) > 1 && n > 1 => Err(format!("{n} warpgroups share a tile and cannot take it in turn")),
            _ => Ok(()),
        });
        let threads = move |k: &Knobs| {
            groups(k, factors, element).threads(warp) * turns(k) + copying(k) * WgmmaShape::WARPS * warp
        };
        let space = threads_per_block(space, target, threads);
        let bytes = |k: &Knobs| k.get("block_k_bytes") * (k.get("block_m") + k.get("block_n"));
        let (warps, sum) = (move |k: &Knobs| sharing(k, factors) * turns(k) * WgmmaShape::WARPS, p.dtype);
        let (rows_pass, columns_pass) = (passed_rows(p, warps), passed_columns(p, warps));
        let passed = move |k: &Knobs| if in_order { rows_pass(k) } else { columns_pass(k) };
        let more = move |k: &Knobs| passed(k) + split_k::sums(k, groups(k, factors, element).block, sum);
        let space = tiles_in_shared(space, target, bytes, more);
        let (regs, levels) = (i64::from(target.regs_per_sm), levels(element));
        let space = space.require("tile_in_registers", move |k| {
            let sums = levels * sums(k, factors, warp);
            let (wanted, most) = match copying(k) {
                1 => {
                    let dealt = Dealt::beside_copies(sharing(k, factors) * turns(k));
                    (sums + 30, dealt.map_or((regs / threads(k)).min(REGISTERS), |d| d.taken.into()))
                }
                _ => (sums + 50, (regs / threads(k)).min(255)),
            };
            at_most(wanted, most, "registers", "a thread")
        });
        let [_, rows, _, depth] = p.extents();
        let space = match factors {
            Factors::InOrder => whole_groups(pack::conditions(space, p), rows),
            Factors::Exchanged => even_tiles(space, rows),
        };
        let space = parts_of_depth(space, depth, move |k| groups(k, factors, element).block[2]);
        let space = cluster_fits(space, p, target);
        let space = space.require("clusters_of_a_tile", |k| match persistent(k) && in_cluster(k) {
            true => Err("a block of a cluster has one tile".into()),
            false => Ok(()),
        });
        let given = target.has.launch_control;
        let space = space.require("launch_control", move |k| match k.get("roles") == 4 && !given {
            true => Err("the target gives running blocks none that have not started".into()),
            false => Ok(()),
        });
        let space = multicast::conditions(space, p, |k| copying(k) == 1);
        let space = if in_order { multicast::of_many(space, target, tiles(p)) } else { space };
        preferred(of_roles(space, p, factors, boxed), p, factors, target)
    }

    fn schedule(&self, s: &mut Schedule, k: &Knobs) -> Done {
        let by = Means {
            variant: Some(if levels(self.p.a.dtype) > 1 { "wgmma_two_level" } else { "wgmma" }),
            roles: (copying(k) == 1).then(|| turns(k)),
            persistent: persistent(k).then_some(self.sms),
            factors: self.factors,
            ..Means::default()
        };
        by_tiles(s, &self.multiplied, &groups(k, self.factors, self.p.a.dtype), self.warp, k, &by)
    }

    fn outline(&self, k: &Knobs) -> Option<Outline> {
        let block = groups(k, self.factors, self.p.a.dtype).block;
        let of = (self.factors, levels(self.p.a.dtype));
        let outline = outline::wgmma(self.sizes.as_ref()?, (self.warp, self.sms), of, k);
        Some(before(&self.multiplied, k, block, outline))
    }
}

/// Declines rows that are few, more than `most`, or of unknown number.
pub fn hundreds_of_rows(ask: &Ask, p: &Product, [few, most]: [i64; 2]) -> Result<(), Decline> {
    match p.extents()[1] {
        Some(n) if n > few && n <= most => Ok(()),
        n => {
            let rows = n.map_or("a number of rows that is not constant".into(), |n| format!("{n} rows"));
            Err(ask.no("hundreds_of_rows", format!("{rows}, and it is for {} to {most}", few + 1)))
        }
    }
}

/// Declines factors that boxes do not bring as they are multiplied.
pub fn boxed_factors(ask: &Ask, p: &Product) -> Result<(), Decline> {
    match [&p.a, &p.b].into_iter().all(is_boxed) {
        true => Ok(()),
        false => Err(ask.no("boxed_factors", "no tensor maps describe the factors as they are multiplied")),
    }
}

/// A factor of which boxes lie in shared memory as they do in global memory.
fn is_boxed(f: &Factor) -> bool {
    f.boxed && f.along_depth == (major(f) == Major::Free)
}

/// Warpgroups of a block that copy and nothing else.
fn copying(k: &Knobs) -> i64 {
    k.get("roles").clamp(0, 1)
}

/// True where a block takes one tile after the other.
fn persistent(k: &Knobs) -> bool {
    k.get("roles") >= 2
}

/// Tiles that warpgroups take in turn.
fn turns(k: &Knobs) -> i64 {
    if k.get("roles") == 3 { 2 } else { 1 }
}

/// Warpgroups that share a tile.
fn sharing(k: &Knobs, factors: Factors) -> i64 {
    factors.groups(k).iter().product()
}

/// Sums of one thread.
fn sums(k: &Knobs, factors: Factors, warp: i64) -> i64 {
    k.get("block_m") * k.get("block_n") / (sharing(k, factors) * WgmmaShape::WARPS * warp)
}

/// Each group has whole instructions.
///
/// # Errors
/// Where it has not.
pub fn whole_instructions(k: &Knobs, factors: Factors, element: DType) -> Result<(), String> {
    let ([rows, columns], [down, across]) = (factors.tile(k), factors.groups(k));
    let [of_rows, of_columns] = factors.order(["rows", "columns"]);
    if rows % (WgmmaShape::ROWS * down) != 0 || rows == 0 {
        return Err(format!("{rows} {of_rows} of a tile are no whole instructions of {down} groups"));
    }
    let each = columns / across;
    if columns % across != 0 {
        return Err(format!("{columns} {of_columns} of a tile are no equal parts of {across} groups"));
    }
    let why = |_| format!("{each} {of_columns} of a group are no columns of an instruction, 8 to 256 by 8");
    WgmmaShape { n: each, input: element }.check().map_err(why)?;
    match k.get("block_k_bytes") {
        n if Swizzle::ROWS.map(i64::from).contains(&n) => Ok(()),
        n => Err(format!("{n} bytes along the reduced axis are no row of an operand")),
    }
}

/// Where columns lie side by side, those of a group are whole parts of the rows that operands are cut into.
fn whole_lines(k: &Knobs, element: DType) -> Result<(), String> {
    let bytes = k.get("block_n") * element.bytes() as i64;
    let part = Swizzle::widest_row(bytes).map_or(bytes, i64::from);
    match bytes / k.get("groups_n") % part {
        0 => Ok(()),
        _ => Err(format!("columns of {} groups are no whole parts of {part} bytes", k.get("groups_n"))),
    }
}

fn filled_by_threads(k: &Knobs) -> Result<(), String> {
    match copying(k) {
        1 => Err("no tensor maps describe the factors as they are multiplied".into()),
        _ => Ok(()),
    }
}

/// What of threads that copy is likely to be fast: they do wherever they can, by whole lines, and two warpgroups
/// share the rows of a tile that has enough.
fn of_roles(space: Space, p: &Product, factors: Factors, boxed: bool) -> Space {
    let (depth, element) = (p.extents()[3], p.a.dtype);
    let several = move |k: &Knobs, bytes: i64| {
        depth.is_some_and(|n| over(n, bytes / element.bytes() as i64 * k.get("split_k").max(1)) > 1)
    };
    let space = space.prefer("copies_apart", move |k| match copying(k) {
        0 if boxed && several(k, k.get("block_k_bytes")) => Err("tensor maps describe both factors".into()),
        _ => Ok(()),
    });
    let space = space.prefer("lines_of_roles", move |k| match k.get("block_k_bytes") {
        n if copying(k) == 1 && n < LINE && several(k, LINE) => {
            Err(format!("a step of {n} bytes waits as long as one of {}", LINE))
        }
        _ => Ok(()),
    });
    space.prefer("groups_of_roles", move |k| {
        let rows = factors.tile(k)[0];
        let halves = rows % (2 * WgmmaShape::ROWS) == 0;
        match factors.groups(k) {
            [2, 1] if halves => Ok(()),
            [1, _] if !halves => Ok(()),
            [m, n] if copying(k) == 1 && turns(k) == 1 => {
                Err(format!("{m} by {n} warpgroups do not share {rows} rows in halves"))
            }
            _ => Ok(()),
        }
    })
}

/// Tiles have no more rows than so many tiles need, and not less than an instruction is as fast with.
fn even_tiles(space: Space, rows: Option<i64>) -> Space {
    space.prefer("even_tiles", move |k| {
        let tile = k.get("block_m");
        match rows.map(|n| over(n, over(n, tile))) {
            Some(n) if tile >= n + EVEN => Err(format!("as many tiles of {n} rows have them all")),
            _ if tile < FEW_ROWS && rows.is_none_or(|n| n > FEW_ROWS) => {
                Err(format!("a tile of {tile} rows takes as long as one of {FEW_ROWS}"))
            }
            _ => Ok(()),
        }
    })
}

/// Only what is likely to be fast: enough tiles for blocks that take several.
fn preferred(space: Space, p: &Product, factors: Factors, target: &Target) -> Space {
    let (sms, blocks) = (i64::from(target.sms), tiles(p));
    let space = space.prefer("several_tiles_each", move |k| match blocks(k) {
        Some(n) if persistent(k) && n * k.get("split_k") <= sms => {
            Err(format!("{n} tiles are no more than {sms} multiprocessors"))
        }
        _ => Ok(()),
    });
    filling(space, p, factors, target)
}

/// Only what is likely to be fast: tiles that the function fills, enough of them for the device.
pub fn filling(space: Space, p: &Product, factors: Factors, target: &Target) -> Space {
    let columns = if factors == Factors::InOrder { WgmmaShape::ROWS } else { FEW_COLUMNS };
    let space = tile_within_result(space, p, factors.order([WgmmaShape::ROWS, columns]));
    let (sms, blocks) = (i64::from(target.sms), tiles(p));
    let space = space.prefer("fills_device", move |k| match blocks(k) {
        Some(n) if n * k.get("split_k") < sms / 2 && k.get("block_m") * k.get("block_n") > 64 * 64 => {
            Err(format!("{n} tiles leave multiprocessors of {sms} idle"))
        }
        _ => Ok(()),
    });
    parts_fill_device(space, blocks, target, 2)
}

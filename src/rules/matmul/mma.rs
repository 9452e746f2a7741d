//! `matmul.mma`: matrix products on tensor cores (`mma.sync`), convolutions among them.
//!
//! When: the target has them; a sum of products with rows and columns whose factors are float16, bfloat16
//! or int8 once conversions that keep the value are left out (dequantised weights too), or of types whose values float16 or
//! bfloat16 has (float8, int8 weights beside floats), in any layout, batched or not; float8 as it is where the target multiplies
//! it and the result is no wider than 16 bits; sums in float16, bfloat16 (then kept in float32), float32, or int32; at most one
//! elementwise block after it.
//! How: a block computes a tile of the result, whose fragments its warps hold in registers. Tiles of both
//! factors come into shared memory `stages - 1` steps ahead (`lower/pipeline.rs`), by `cp.async` where
//! their elements lie side by side, and zeros where the tile leaves the matrix. Weights packed in words become
//! float16 two at a time (`lower/calls/decode_pairs.rs`); rows of words that whole copies take come into shared
//! memory as they are, and values are made of them one step ahead. Fragments are loaded by
//! `ldmatrix` from swizzled rows (`lower/swizzle.rs`). What follows the product is computed from the
//! registers (`lower/fragments.rs`). Several blocks may share the reduced axis of a tile (`split_k`):
//! they are a cluster and add their sums in shared memory, or a second launch does (`add_parts`).
//! Declines: `target_kind`, `tensor_cores`, the predicates of [`Product::of`], `rows_and_columns`,
//! `operand_dtype`, `accumulator_dtype`, `one_result`.
//!
//! ```text
//! matmul.mma on cuda:sm_90a
//! before: float16 A[4096, 4096], float16 B[4096, 4096]
//!         float32 C[i, j] += float32(A[i, k]) * float32(B[k, j])
//!         float16 O[i, j] = float16(C[i, j])
//! after:  blockIdx.x 1024:
//!           loop 128 [tile=elementwise warps_m=2 warps_n=2], loop 128: b0_result.local = 0
//!           loop 128 [stages=4]:
//!             unroll 4, threadIdx.x 128, vector 8: b0_left.shared = A
//!             unroll 4, threadIdx.x 128, vector 8: b0_right.shared = B
//!             loop 128 [tile=gemm warps_m=2 warps_n=2], loop 128, loop 32: b0_result.local += b0_left.shared, b0_right.shared
//!           loop 128 [tile=elementwise warps_m=2 warps_n=2], loop 128: O = b0_result.local
//! ```

use super::decoded;
use super::exchange::Factors;
use super::multicast;
use super::outline::{self, Sizes};
use super::pack::{self, WIDEST, before, major, packed};
use super::split_k::{self, Parts, cluster_fits, cut, in_cluster, sums};
use super::tiling::*;
use super::words::{Words, in_words};
use crate::analysis::{Decline, has_values_of};
use crate::ir::Buffer;
use crate::rules::cluster::SIDE_BY_SIDE;
use crate::rules::find::einsum::{Einsum, Major, Stage};
use crate::rules::find::factor::Factor;
use crate::rules::find::operands::reads_of;
use crate::rules::find::product::Product;
use crate::rules::parts::*;

/// The rule.
pub const MMA: Rule = Rule::new(Kind::Cuda, "matmul.mma", include_str!("../schedules/matmul.mma.toml"), mma);

/// Rows and columns of an accumulator fragment.
const FRAGMENT: [i64; 2] = [16, 8];
/// Bytes along the reduced axis of one instruction.
const DEPTH_BYTES: i64 = 32;
/// Parts that are added without a loop.
const MOST_UNROLLED: i64 = 16;

struct Mma {
    /// The sizes, where all are known.
    sizes: Option<Sizes>,
    p: Product,
    /// Threads of a warp.
    warp: i64,
}

fn mma(ask: &Ask) -> Answer {
    if !ask.target.has.mma {
        return Err(ask.no("tensor_cores", "the target has no complete set of matrix instructions"));
    }
    let p = if ask.target.has.fp8_mma { multiplied_narrowly(ask)? } else { multiplied(ask)? };
    Ok(Found::new(p.schedule.clone(), Mma { warp: i64::from(ask.target.warp), sizes: Sizes::of(&p), p }))
}

/// Types of numbers that tensor cores multiply exactly, and add in float32 or int32, on every GPU that has them.
pub const EVERYWHERE: [DType; 3] = [DType::F16, DType::BF16, DType::I8];

/// The same, and float8.
pub const WITH_FLOAT8: [DType; 5] = [DType::F16, DType::BF16, DType::I8, DType::E4M3, DType::E5M2];

/// A product that tensor cores compute.
pub fn multiplied(ask: &Ask) -> Result<Product, Decline> {
    multiplied_of(ask, &EVERYWHERE)
}

/// A product that tensor cores compute of float8 too, which some of them add with fewer bits than float32 has: as long as the
/// result is no wider than 16 bits, it does not show. A strict function wants none of that.
pub fn multiplied_narrowly(ask: &Ask) -> Result<Product, Decline> {
    let p = Product::of(ask)?;
    let (result, strict) = (p.result_dtype(), p.schedule.func().is_strict());
    let narrow = result.is_float() && result.bytes() <= 2 && !strict;
    of_types(ask, p, if narrow { &WITH_FLOAT8 } else { &EVERYWHERE })
}

/// A product of two factors of one of these types that tensor cores compute. Factors of other types are staged in float16 or
/// bfloat16, where that has the values of both.
pub fn multiplied_of(ask: &Ask, types: &[DType]) -> Result<Product, Decline> {
    of_types(ask, Product::of(ask)?, types)
}

fn of_types(ask: &Ask, p: Product, types: &[DType]) -> Result<Product, Decline> {
    p.of_matrices(ask)?;
    let (a, b) = (p.a.dtype, p.b.dtype);
    match factor_dtype(&p, types) {
        Some(dtype) => multiplied_as(ask, p, dtype),
        None => Err(ask.no("operand_dtype", format!("no instruction multiplies {a} by {b} exactly"))),
    }
}

/// A product whose factors are staged in a type that holds the values of both.
pub fn multiplied_as(ask: &Ask, p: Product, dtype: DType) -> Result<Product, Decline> {
    if !adds(dtype, p.dtype) {
        let (a, sum) = (p.a.dtype, p.dtype);
        return Err(ask.no("accumulator_dtype", format!("no instruction adds products of {a} in {sum}")));
    }
    if p.results() > 1 {
        return Err(ask.no("one_result", "several blocks after the product write results"));
    }
    Ok(Product { a: p.a.clone().staged_as(dtype), b: p.b.clone().staged_as(dtype), ..p })
}

/// The type in which both factors are multiplied: their own, or a wider one of 16 bits.
pub fn factor_dtype(p: &Product, types: &[DType]) -> Option<DType> {
    let (a, b) = (&p.a, &p.b);
    let own = Some(a.dtype).filter(|d| b.dtype == *d && types.contains(d));
    let wide = || {
        let fits = |d: &DType| [a, b].into_iter().all(|f| has_values_of(*d, f.source_dtype));
        [DType::F16, DType::BF16].into_iter().find(fits)
    };
    match own {
        Some(d) if adds(d, p.dtype) => own,
        _ => wide().filter(|d| adds(*d, p.dtype)).or(own),
    }
}

/// True where instructions add products of this type in the other one.
fn adds(factors: DType, sums: DType) -> bool {
    match factors {
        DType::I8 => sums == DType::I32,
        DType::F32 => sums == DType::F32,
        _ => matches!(sums, DType::F32 | DType::F16 | DType::BF16),
    }
}

/// How the warps of a block share a tile.
#[derive(Clone, Copy, Debug)]
pub struct Warps {
    /// Rows and columns of the tile, and steps along the reduced axis.
    pub block: [i64; 3],
    /// Warps along rows and columns.
    pub warps: [i64; 2],
}

impl Warps {
    /// The tile of a point, of factors of such elements.
    pub fn of(k: &Knobs, element: DType) -> Warps {
        let depth = k.get("block_k_bytes") / element.bytes() as i64;
        Warps { block: [k.get("block_m"), k.get("block_n"), depth], warps: [k.get("warps_m"), k.get("warps_n")] }
    }

    /// Threads of a block.
    pub fn threads(&self, warp: i64) -> i64 {
        self.warps[0] * self.warps[1] * warp
    }

    /// Rows and columns of one warp.
    pub fn tile(&self) -> [i64; 2] {
        [self.block[0] / self.warps[0], self.block[1] / self.warps[1]]
    }

    /// Each warp has whole fragments.
    ///
    /// # Errors
    /// Where it has not.
    pub fn whole_fragments(&self) -> Result<(), String> {
        for (side, name) in [(0, "rows"), (1, "columns")] {
            let (n, per) = (self.block[side], self.warps[side] * FRAGMENT[side]);
            if n % per != 0 || n == 0 {
                return Err(format!("{n} {name} of a tile are no whole fragments of {} warps", self.warps[side]));
            }
        }
        Ok(())
    }
}

impl Accepted for Mma {
    fn constrain(&self, space: Space, target: &Target) -> Space {
        let warp = self.warp;
        let registers = move |[m, n]: [i64; 2]| m * n / warp + (m + n) / 4 + 40;
        conditions(space, &self.p, target, registers)
    }

    fn schedule(&self, s: &mut Schedule, k: &Knobs) -> Done {
        by_tiles(s, &self.p, &Warps::of(k, self.p.a.dtype), self.warp, k, &Means::default())
    }

    fn outline(&self, k: &Knobs) -> Option<Outline> {
        let block = Warps::of(k, self.p.a.dtype).block;
        Some(before(&self.p, k, block, outline::mma(self.sizes.as_ref()?, self.warp, k)))
    }
}

/// The conditions of tiles of fragments, for which a thread wants so many registers.
pub fn conditions(
    space: Space,
    p: &Product,
    target: &Target,
    registers: impl Fn([i64; 2]) -> i64 + Send + Sync + 'static,
) -> Space {
    let (warp, element) = (i64::from(target.warp), p.a.dtype);
    let warps = move |k: &Knobs| Warps::of(k, element);
    let space = space.require("whole_fragments", move |k| warps(k).whole_fragments());
    let space = space.require("whole_depth", |k| match k.get("block_k_bytes") {
        n if n > 0 && n % DEPTH_BYTES == 0 => Ok(()),
        n => Err(format!("{n} bytes along the reduced axis are no multiple of {DEPTH_BYTES}")),
    });
    let threads = move |k: &Knobs| warps(k).threads(warp);
    let space = threads_per_block(space, target, threads);
    let bytes = |k: &Knobs| k.get("block_k_bytes") * (k.get("block_m") + k.get("block_n"));
    let (passed, sum) = (passed_rows(p, move |k| threads(k) / warp), p.dtype);
    let space = tiles_in_shared(space, target, bytes, move |k| passed(k) + sums(k, warps(k).block, sum));
    let space = tile_in_registers(space, target, threads, move |k| registers(warps(k).tile()));
    let space = pack::conditions(space, p);
    let [_, rows, _, depth] = p.extents();
    let space = whole_groups(space, rows);
    let space = parts_of_depth(space, depth, move |k| warps(k).block[2]);
    let space = cluster_fits(space, p, target);
    preferred(space, p, target, warps)
}

/// By which means a block computes its tile.
#[derive(Clone, Copy, Default)]
pub struct Means<'a> {
    /// The variant of products, where one is named.
    pub variant: Option<&'a str>,
    /// Where the hardware copies, started by threads of its own: tiles that are computed in turn.
    pub roles: Option<i64>,
    /// So many blocks compute all tiles.
    pub persistent: Option<i64>,
    /// Blocks take over the tiles of those that have not started.
    pub fetched: bool,
    /// Whether the product is the one that the function says, or the one with its factors exchanged.
    pub factors: Factors,
    /// The factors, 0 and 1, that are decoded into registers of the warps that multiply them.
    pub decoded: &'a [usize],
    /// Elements of a buffer that one copy takes of what is decoded.
    pub lanes: Option<&'a dyn Fn(&Buffer) -> i64>,
    /// Buffers that are not decoded at all, but multiplied with scales: where the hardware copies, it copies these.
    pub numbers: &'a [Name],
}

/// A block computes a tile of the result together.
pub fn by_tiles(s: &mut Schedule, p: &Product, t: &Warps, warp: i64, k: &Knobs, by: &Means) -> Done {
    let ([m, n, depth], parts) = (t.block, k.get("split_k"));
    let shape = by.factors.order(multicast::shape(k));
    let mut e = Einsum::of(s, p, [&p.a, &p.b].map(major), multicast::together(shape, [m, n, depth * parts]))?;
    let left = if parts > 1 { Some(cut(s, &mut e, parts)?) } else { None };
    let loops = split_k::around(left.as_ref(), vec![e.loops[0].clone()], k);
    let Grid { grid, block, fill, .. } = grid(s, &e, t.block, (k.find("raster").unwrap_or(1), shape), loops)?;
    let packed = packed(p, k);
    for side in (0..2).filter(|side| !by.decoded.contains(side)) {
        let (stage, factor) = [(&e.a, &p.a), (&e.b, &p.b)][side];
        let (stage, factor) = match packed[side] {
            true => pack::pack(s, &e.block, (stage, factor), side == 1 && packed[0])?,
            false => (stage.clone(), factor.clone()),
        };
        match by.roles {
            Some(_) => fill_by_boxes(s, &stage, &fill, t)?,
            None => {
                s.set_scope(&stage.buffer, Scope::Shared)?;
                s.compute_at(&stage.block, &fill)?;
                if let Some(words) = Words::of(s, &factor, p.extents()[3], depth, k.get("stages")) {
                    words.stage(s, &stage, &fill, t.threads(warp))?;
                }
                fill_tile(s, &stage, &factor, &fill, t.threads(warp))?;
            }
        }
    }
    for side in by.decoded {
        let stage = [&e.a, &e.b][*side];
        match by.roles {
            Some(_) => decoded_by_boxes(s, stage, &fill, t, (t.threads(warp), by))?,
            None => decoded::stage(s, stage, &fill, t.threads(warp), by.lanes.unwrap_or(&decoded::words))?,
        }
        together(s, &stage.block, &fill, LeafOp::Elementwise, t)?;
    }
    s.mark(&fill, Mark::Stages(k.get("stages")))?;
    by.roles.map_or(Ok(()), |turns| s.mark(&fill, Mark::Roles(turns)))?;
    by.persistent.map_or(Ok(()), |blocks| s.mark(&grid, Mark::Persistent(blocks)))?;
    if by.fetched {
        s.mark(&grid, Mark::Fetched(true))?;
    }
    for tail in &e.tails {
        s.reverse_compute_at(tail, &block)?;
        together(s, tail, &block, LeafOp::Elementwise, t)?;
    }
    let init = s.decompose_reduction(&e.block, &fill)?;
    together(s, &init, &block, LeafOp::Elementwise, t)?;
    let first = together(s, &e.block, &fill, LeafOp::Tile(TileOp::Gemm), t)?;
    by.variant.map_or(Ok(()), |name| s.mark(&first, Mark::TileVariant(name.to_string())))?;
    s.set_scope(&e.result, Scope::Local)?;
    match left {
        Some(left) if in_cluster(k) => left.adders_of_cluster(s, &grid, parts, (t.threads(warp), SIDE_BY_SIDE)),
        Some(left) => add_parts(s, &left, parts),
        None => Ok(()),
    }
}

/// A second launch adds the parts, and goes on with what follows.
fn add_parts(s: &mut Schedule, left: &Parts, parts: i64) -> Done {
    let thread = left.adders(s)?;
    s.set_scope(&left.sum, Scope::Local)?;
    s.compute_at(&left.add, &thread)?;
    match loops_below(s, &left.add, &thread).last() {
        Some(last) if parts <= MOST_UNROLLED => unroll_loop(s, last),
        _ => Ok(()),
    }
}

/// Only what is likely to be fast: tiles that the function fills, enough of them for the device, warps with
/// enough to do.
fn preferred(space: Space, p: &Product, target: &Target, warps: impl At<Warps> + Copy) -> Space {
    let [_, rows, _, depth] = p.extents();
    let space = tile_within_result(space, p, [16, 32]);
    let space = space.prefer("tile_within_depth", move |k| match depth {
        Some(n) if warps(k).block[2] * (k.get("stages") - 1) > n.max(warps(k).block[2]) => {
            Err("more tiles are on their way than there are".into())
        }
        _ => Ok(()),
    });
    let (sms, blocks) = (i64::from(target.sms), tiles(p));
    let space = space.prefer("warp_tile", move |k| {
        let [m, n] = warps(k).tile();
        // where tiles are few, none waits long for what warps load
        let small = rows.is_some_and(|r| r < 64) || blocks(k).is_some_and(|tiles| tiles <= sms);
        match m * n >= 32 * 32 && m <= 2 * n && n <= 2 * m || small && n >= 16 {
            true => Ok(()),
            false => Err(format!("a warp's tile of {m} by {n} loads more than it multiplies")),
        }
    });
    let space = space.prefer("whole_lines", move |k| match rows {
        Some(n) if n <= 64 && k.get("block_k_bytes") < 128 && depth.is_none_or(|d| d >= 256) => {
            Err("rows that are read once are read by the line of 128 bytes".into())
        }
        _ => Ok(()),
    });
    let space = space.prefer("long_steps", move |k| match k.get("block_k_bytes") {
        n if n > 128 && rows.is_none_or(|r| r > 64) => {
            Err(format!("steps of {n} bytes are of use where few rows wait for the weights"))
        }
        _ => Ok(()),
    });
    let space = space.prefer("fills_device", move |k| {
        // few rows: what counts is that every multiprocessor reads
        let few = rows.is_some_and(|n| n <= 64);
        let (least, small) = (if few { sms } else { sms / 2 }, k.get("block_m") * k.get("block_n") <= 64 * 64);
        match blocks(k) {
            Some(n) if n * k.get("split_k") < least && (few || !small) => {
                Err(format!("{n} tiles leave multiprocessors of {sms} idle"))
            }
            _ => Ok(()),
        }
    });
    parts_fill_device(space, blocks, target, 4)
}

/// Has all threads of the block fill a tile of shared memory, 16 bytes each at a time, or as many as lie side
/// by side in global memory.
fn fill_tile(s: &mut Schedule, stage: &Stage, f: &Factor, at: &Name, threads: i64) -> Done {
    let most = WIDEST / f.dtype.bytes() as i64;
    let adjacent = f.adjacent(major(f) == Major::Free);
    // single elements meet in registers on their way
    let run = if adjacent > 1 { adjacent.min(most) } else { most };
    let mut loops = loops_below(s, &stage.block, at);
    if let [free, depth] = &loops[..]
        && !f.along_depth
        && major(f) == Major::Free
    {
        // neighbours in memory are rows or columns: neighbouring threads take these
        let [runs, lane] = split(s, depth, [None, Some(run)])?;
        loops = vec![runs, free.clone(), lane];
        s.reorder(&loops)?;
    }
    let all = s.fuse(&loops)?;
    let [step, thread, lane] = split(s, &all, [None, Some(threads), Some(run)])?;
    s.bind(&thread, ThreadTag::ThreadX)?;
    unroll_loop(s, &step)?;
    vectorize_loop(s, &lane)?;
    if in_words(f) && f.dtype == DType::F16 { tile_leaf(s, &lane, LeafOp::UnpackPairs) } else { Ok(()) }
}

/// Has the hardware fill a tile of shared memory, as it lies in global memory.
fn fill_by_boxes(s: &mut Schedule, stage: &Stage, at: &Name, t: &Warps) -> Done {
    s.set_scope(&stage.buffer, Scope::Shared)?;
    s.compute_at(&stage.block, at)?;
    together(s, &stage.block, at, LeafOp::Tile(TileOp::CopyAsync), t).map(drop)
}

/// Has the hardware stage the words, or the numbers, of a tile in shared memory. Of what else values are made, threads copy so
/// many elements at a time, or it stays where it is.
fn decoded_by_boxes(s: &mut Schedule, tile: &Stage, at: &Name, t: &Warps, (threads, by): (i64, &Means)) -> Done {
    s.set_scope(&tile.buffer, Scope::Local)?;
    s.compute_at(&tile.block, at)?;
    let mut known: Vec<Name> = vec![];
    for read in reads_of(s, &tile.block) {
        if known.contains(&read.buffer) {
            continue;
        }
        let own = s.func().buffer(&read.buffer);
        if own.dtype == DType::U32 || by.numbers.contains(&own.name) {
            let block = s.cache_read(&tile.block, &read.buffer, Scope::Shared)?;
            let buffer = output(s, &block);
            fill_by_boxes(s, &Stage { block, buffer }, at, t)?;
        } else if let Some(lanes) = by.lanes.map(|lanes| lanes(own)) {
            decoded::fill(s, tile, &read.buffer, at, [threads, lanes])?;
        }
        known.push(read.buffer);
    }
    Ok(())
}

/// Says that all threads of the block carry out the nest around `block` below `at` together; gives its first
/// loop.
pub fn together(s: &mut Schedule, block: &Name, at: &Name, tile: LeafOp, t: &Warps) -> Result<Name, ScheduleError> {
    let first = loops_below(s, block, at).first().unwrap_or(block).clone();
    tile_leaf(s, &first, tile)?;
    s.mark(&first, Mark::WarpsM(t.warps[0]))?;
    s.mark(&first, Mark::WarpsN(t.warps[1]))?;
    Ok(first)
}

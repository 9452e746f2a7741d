//! `matmul.mma`: matrix products on tensor cores (`mma.sync`), convolutions among them.
//!
//! When: the target has them; a sum of products with rows and columns whose factors are float16, bfloat16
//! or int8 once conversions that keep the value are left out (dequantised weights too), in any layout,
//! batched or not; sums in float16, bfloat16 (then kept in float32), float32, or int32; at most one
//! elementwise block after it.
//! How: a block computes a tile of the result, whose fragments its warps hold in registers. Tiles of both
//! factors come into shared memory `stages - 1` steps ahead (`lower/pipeline.rs`), by `cp.async` where
//! their elements lie side by side, and zeros where the tile leaves the matrix. Fragments are loaded by
//! `ldmatrix` from swizzled rows (`lower/swizzle.rs`). What follows the product is computed from the
//! registers (`lower/fragments.rs`). Several blocks may share the reduced axis of a tile (`split_k`): a
//! second launch adds their sums.
//! Declines: `target_kind`, `tensor_cores`, the predicates of [`Product::of`], `rows_and_columns`,
//! `operand_dtype`, `accumulator_dtype`, `one_result`.

use super::outline_product;
use crate::analysis::Decline;
use crate::ir::device::LeafOp;
use crate::ir::{DType, Mark, Name, Scope, ThreadTag, TileOp};
use crate::rules::find::einsum::{Einsum, Major, Stage};
use crate::rules::find::factor::Factor;
use crate::rules::find::product::Product;
use crate::rules::parts::*;
use crate::rules::{Knobs, Prepared, ScheduleRule, Space, Spaces, accepted, for_kind};
use crate::schedule::{Schedule, ScheduleError};
use crate::target::{Kind, Target};

/// The rule.
pub struct MatmulMma;

const NAME: &str = "matmul.mma";

/// Rows and columns of an accumulator fragment.
const FRAGMENT: [i64; 2] = [16, 8];
/// Bytes along the reduced axis of one instruction.
const DEPTH_BYTES: i64 = 32;
/// Bytes of the widest copy.
const WIDEST: i64 = 16;
/// Threads of a block that adds parts.
const ADDERS: i64 = 256;
/// Parts that are added without a loop.
const MOST_UNROLLED: i64 = 16;

/// How a block's tile is shared out.
#[derive(Clone, Copy, Debug)]
struct Tiling {
    /// Rows and columns of the tile, and steps along the reduced axis.
    block: [i64; 3],
    /// Warps along rows and columns.
    warps: [i64; 2],
    stages: i64,
    /// Blocks that share the reduced axis of a tile.
    parts: i64,
}

impl Tiling {
    fn of(k: &Knobs, element: DType) -> Tiling {
        let depth = k.get("block_k") / element.bytes() as i64;
        Tiling {
            block: [k.get("block_m"), k.get("block_n"), depth],
            warps: [k.get("warps_m"), k.get("warps_n")],
            stages: k.get("stages"),
            parts: k.get("split_k"),
        }
    }

    fn threads(&self, warp: i64) -> i64 {
        self.warps[0] * self.warps[1] * warp
    }

    /// Rows and columns of one warp.
    fn warp_tile(&self) -> [i64; 2] {
        [self.block[0] / self.warps[0], self.block[1] / self.warps[1]]
    }

    fn whole_fragments(&self) -> Result<(), String> {
        for (side, name) in [(0, "rows"), (1, "columns")] {
            let (n, per) = (self.block[side], self.warps[side] * FRAGMENT[side]);
            if n % per != 0 || n == 0 {
                return Err(format!("{n} {name} of a tile are no whole fragments of {} warps", self.warps[side]));
            }
        }
        Ok(())
    }
}

impl ScheduleRule for MatmulMma {
    fn name(&self) -> &'static str {
        NAME
    }

    fn space(&self, input: &Prepared, target: &Target, spaces: &Spaces) -> Result<Space, Decline> {
        let p = accept(input, target)?;
        let element = p.a.narrow.dtype();
        let (warp, max) = (i64::from(target.warp), i64::from(target.max_threads));
        let tiling = move |k: &Knobs| Tiling::of(k, element);
        let space = spaces.space(NAME, target);
        let space = space.require("whole_fragments", move |k| tiling(k).whole_fragments());
        let space = space.require("whole_depth", |k| match k.get("block_k") {
            n if n > 0 && n % DEPTH_BYTES == 0 => Ok(()),
            n => Err(format!("{n} bytes along the reduced axis are no multiple of {DEPTH_BYTES}")),
        });
        let space = space.require("threads_per_block", move |k| match tiling(k).threads(warp) {
            n if n <= max => Ok(()),
            n => Err(format!("{n} threads exceed the {max} of a block")),
        });
        let smem = target.smem_per_block as i64;
        let space = space.require("tiles_in_shared", move |k| {
            let bytes = k.get("stages").max(1) * k.get("block_k") * (k.get("block_m") + k.get("block_n"));
            if bytes <= smem {
                Ok(())
            } else {
                Err(format!("{bytes} bytes of tiles exceed the {smem} of shared memory"))
            }
        });
        let regs = target.regs_per_sm as i64;
        let space = space.require("tile_in_registers", move |k| {
            let t = tiling(k);
            let [m, n] = t.warp_tile();
            let (have, want) = ((regs / t.threads(warp)).min(255), m * n / warp + (m + n) / 4 + 40);
            if want <= have { Ok(()) } else { Err(format!("{want} registers exceed the {have} of a thread")) }
        });
        let tiles = Product::extent(&p.rows);
        let space = space.require("whole_raster", move |k| match (k.get("raster"), tiles) {
            (1, _) => Ok(()),
            (n, Some(rows)) if n > 0 && tiles_of(rows, k.get("block_m")) % n == 0 => Ok(()),
            (n, _) => Err(format!("{n} does not divide the number of row tiles")),
        });
        let depth = Product::extent(&p.depth);
        let space = space.require("parts_of_depth", move |k| match (k.get("split_k"), depth) {
            (1, _) => Ok(()),
            (n, Some(depth)) if n > 1 && tiles_of(depth, tiling(k).block[2]) >= n => Ok(()),
            (n, _) => Err(format!("{n} parts of the reduced axis have less than a tile each")),
        });
        let space = preferred(space, &p, target, tiling);
        Ok(match outline_product::Work::of(&p, target) {
            Some(work) => space.outlined(move |k| outline_product::mma(&work, k)),
            None => space,
        })
    }

    fn schedule(&self, input: &Prepared, target: &Target, knobs: &Knobs) -> Result<Schedule, ScheduleError> {
        let p = accepted(accept(input, target));
        let t = Tiling::of(knobs, p.a.narrow.dtype());
        let [m, n, k] = t.block;
        let e = Einsum::of(&p, [&p.a, &p.b].map(major), [m, n, k * t.parts])?;
        let mut s = e.schedule.clone();
        let whole = if t.parts > 1 { parts_of_depth(&mut s, &e, &t)? } else { Whole::of(&e) };
        let Whole { block, sums, outer, depth, tails } = whole;
        let rows = s.split(&e.loops[1], &[None, Some(m)])?;
        let columns = s.split(&e.loops[2], &[None, Some(n)])?;
        let ks = s.split(&depth, &[None, Some(k)])?;
        let ([ib, ii], [jb, jj], [ko, ki]) = (&rows[..], &columns[..], &ks[..]) else {
            panic!("split gives one loop per factor")
        };
        let mut blocks = [&outer[..], &[ib.clone(), jb.clone()]].concat();
        if knobs.get("raster") > 1 {
            let groups = s.split(ib, &[None, Some(knobs.get("raster"))])?;
            blocks = [&outer[..], &[groups[0].clone(), jb.clone(), groups[1].clone()]].concat();
        }
        s.reorder(&[&blocks[..], &[ko.clone(), ii.clone(), jj.clone(), ki.clone()]].concat())?;
        let grid = s.fuse(&blocks)?;
        s.bind(&grid, ThreadTag::BlockX)?;
        for (stage, factor) in [(&e.a, &p.a), (&e.b, &p.b)] {
            share(&mut s, stage, factor, ko, t.threads(i64::from(target.warp)))?;
        }
        s.mark(ko, Mark::Stages(t.stages))?;
        for tail in &tails {
            s.reverse_compute_at(tail, &grid)?;
            together(&mut s, tail, &grid, LeafOp::Elementwise, &t)?;
        }
        let init = s.decompose_reduction(&block, ko)?;
        together(&mut s, &init, &grid, LeafOp::Elementwise, &t)?;
        together(&mut s, &block, ko, LeafOp::Tile(TileOp::Gemm), &t)?;
        s.set_scope(&sums, Scope::Local)?;
        if t.parts > 1 {
            add_parts(&mut s, &e, t.parts)?;
        }
        Ok(s)
    }
}

/// What the launch that multiplies computes.
struct Whole {
    block: Name,
    /// The buffer that it adds to.
    sums: Name,
    /// Loops around those over rows and columns.
    outer: Vec<Name>,
    /// The loop over the reduced axis.
    depth: Name,
    /// What follows in the same launch.
    tails: Vec<Name>,
}

impl Whole {
    fn of(e: &Einsum) -> Whole {
        Whole {
            block: e.block.clone(),
            sums: e.result.clone(),
            outer: vec![e.loops[0].clone()],
            depth: e.loops[3].clone(),
            tails: e.tails.clone(),
        }
    }
}

/// Divides the reduced axis among blocks, whose sums go to memory.
fn parts_of_depth(s: &mut Schedule, e: &Einsum, t: &Tiling) -> Result<Whole, ScheduleError> {
    let parts = s.split(&e.loops[3], &[Some(t.parts), None])?;
    let block = s.rfactor(&parts[0], 0)?;
    let partial = output(s, &block);
    let store = s.cache_write(&block, &partial, Scope::Local)?;
    let sums = output(s, &block);
    let outer = vec![e.loops[0].clone(), parts[0].clone()];
    Ok(Whole { block, sums, outer, depth: parts[1].clone(), tails: vec![store] })
}

/// A second launch adds the parts, and goes on with what follows.
fn add_parts(s: &mut Schedule, e: &Einsum, parts: i64) -> Result<(), ScheduleError> {
    let Some(tail) = e.tails.last() else { panic!("a product has a block that writes its result") };
    let all = s.fuse(&s.loops(tail))?;
    let loops = s.split(&all, &[None, Some(ADDERS)])?;
    s.bind(&loops[0], ThreadTag::BlockX)?;
    s.bind(&loops[1], ThreadTag::ThreadX)?;
    s.set_scope(&e.result, Scope::Local)?;
    s.compute_at(&e.block, &loops[1])?;
    match loops_below(s, &e.block, &loops[1]).last().cloned() {
        Some(last) if parts <= MOST_UNROLLED => unroll_loop(s, &last),
        _ => Ok(()),
    }
}

/// Only what is likely to be fast: tiles that the function fills, enough of them for the device, warps with
/// enough to do.
fn preferred(
    space: Space,
    p: &Product,
    target: &Target,
    tiling: impl Fn(&Knobs) -> Tiling + Copy + Send + Sync + 'static,
) -> Space {
    let [batch, rows, columns, depth] = [&p.batch, &p.rows, &p.columns, &p.depth].map(|class| Product::extent(class));
    let space = space.prefer("tile_within_result", move |k| {
        let fits = |n: Option<i64>, tile: i64, least: i64| n.is_none_or(|n| tile < 2 * n.max(least / 2 + 1));
        let t = tiling(k);
        match fits(rows, t.block[0], 16) && fits(columns, t.block[1], 32) {
            true => Ok(()),
            false => Err("more than half of a tile lies outside of the result".into()),
        }
    });
    let space = space.prefer("tile_within_depth", move |k| match depth {
        Some(n) if tiling(k).block[2] * (k.get("stages") - 1) > n.max(tiling(k).block[2]) => {
            Err("more tiles are on their way than there are".into())
        }
        _ => Ok(()),
    });
    let space = space.prefer("warp_tile", move |k| {
        let [m, n] = tiling(k).warp_tile();
        let small = rows.is_some_and(|r| r < 64);
        match m * n >= 32 * 32 && m <= 2 * n && n <= 2 * m || small && n >= 16 {
            true => Ok(()),
            false => Err(format!("a warp's tile of {m} by {n} loads more than it multiplies")),
        }
    });
    let space = space.prefer("whole_lines", move |k| match rows {
        Some(n) if n <= 64 && k.get("block_k") < 128 && depth.is_none_or(|d| d >= 256) => {
            Err("rows that are read once are read by the line of 128 bytes".into())
        }
        _ => Ok(()),
    });
    let sms = i64::from(target.sms);
    let blocks = move |k: &Knobs| -> Option<i64> {
        let t = tiling(k);
        Some(batch? * tiles_of(rows?, t.block[0]) * tiles_of(columns?, t.block[1]))
    };
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
    space.prefer("parts_fill_device", move |k| match blocks(k) {
        Some(n) if k.get("split_k") > 1 && n * k.get("split_k") > 4 * sms => {
            Err(format!("{n} tiles need no parts to fill {sms} multiprocessors"))
        }
        _ => Ok(()),
    })
}

/// Tiles of `tile` that cover `n`.
fn tiles_of(n: i64, tile: i64) -> i64 {
    (n + tile - 1) / tile.max(1)
}

/// The order in which a factor lies in shared memory: that of global memory, but for int8, whose
/// fragments lie along the reduced axis.
fn major(f: &Factor) -> Major {
    if f.along_depth || f.narrow.dtype().bytes() == 1 { Major::Free } else { Major::Depth }
}

/// Has all threads of the block fill a tile of shared memory, 16 bytes each at a time, or as many as lie side
/// by side in global memory.
fn share(s: &mut Schedule, stage: &Stage, f: &Factor, at: &Name, threads: i64) -> Result<(), ScheduleError> {
    s.set_scope(&stage.buffer, Scope::Shared)?;
    s.compute_at(&stage.block, at)?;
    let most = WIDEST / f.narrow.dtype().bytes() as i64;
    let adjacent = if f.plain && f.along_depth == (major(f) == Major::Free) { largest_power(f.run) } else { 1 };
    // single elements meet in registers on their way
    let run = if adjacent > 1 { adjacent.min(most) } else { most };
    let mut loops = loops_below(s, &stage.block, at);
    if let [free, depth] = &loops[..]
        && !f.along_depth
        && major(f) == Major::Free
    {
        // neighbours in memory are rows or columns: neighbouring threads take these
        let parts = s.split(depth, &[None, Some(run)])?;
        let order = [&parts[0], free, &parts[1]].map(|l| l.clone());
        s.reorder(&order)?;
        loops = order.to_vec();
    }
    let all = s.fuse(&loops)?;
    let parts = s.split(&all, &[None, Some(threads), Some(run)])?;
    s.bind(&parts[1], ThreadTag::ThreadX)?;
    unroll_loop(s, &parts[0])?;
    vectorize_loop(s, &parts[2])
}

/// The largest power of two that divides a number.
fn largest_power(n: i64) -> i64 {
    1 << n.max(1).trailing_zeros()
}

/// Says that all threads of the block carry out the nest around `block` below `at` together.
fn together(s: &mut Schedule, block: &Name, at: &Name, op: LeafOp, t: &Tiling) -> Result<(), ScheduleError> {
    let Some(first) = loops_below(s, block, at).first().cloned() else { panic!("a tile has loops") };
    s.mark(&first, Mark::Tile(op))?;
    s.mark(&first, Mark::WarpsM(t.warps[0]))?;
    s.mark(&first, Mark::WarpsN(t.warps[1]))
}

fn accept(input: &Prepared, target: &Target) -> Result<Product, Decline> {
    for_kind(NAME, Kind::Cuda, target)?;
    let no = |predicate, reason: String| Decline { by: NAME, predicate, reason };
    if !target.has.mma {
        return Err(no("tensor_cores", "the target has no complete set of matrix instructions".into()));
    }
    let p = Product::of(NAME, input)?;
    if p.rows.is_empty() || p.columns.is_empty() {
        return Err(no("rows_and_columns", "one factor has no axis of its own: it is a product with a vector".into()));
    }
    let (a, b) = (p.a.narrow.dtype(), p.b.narrow.dtype());
    if a != b || !matches!(a, DType::F16 | DType::BF16 | DType::I8) {
        return Err(no("operand_dtype", format!("no instruction multiplies {a} by {b} exactly")));
    }
    let sums = if a == DType::I8 { p.dtype == DType::I32 } else { is_float_sum(p.dtype) };
    if !sums {
        return Err(no("accumulator_dtype", format!("no instruction adds products of {a} in {}", p.dtype)));
    }
    let again = !p.epilogue.is_empty() && p.schedule.func().is_param(&p.output);
    if p.epilogue.len() > 1 || again {
        return Err(no("one_result", "several blocks after the product write results".into()));
    }
    Ok(p)
}

/// True for the types of sums that float32 accumulators hold.
fn is_float_sum(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F16 | DType::BF16)
}

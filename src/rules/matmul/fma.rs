//! `matmul.fma`: matrix products on CUDA cores, convolutions among them (as products of the weights with
//! windows that are never stored).
//!
//! When: a sum of products with rows and columns, in any layout, batched or not, factors computed on the
//! way in, an elementwise chain on the way out. What tensor cores do not take, float32 above all.
//! How: a block computes a tile of the result. It fills shared memory with the tiles of both factors, the
//! reduced axis outermost; each thread reads a few rows and columns in accesses of 16 bytes, a warp's
//! without bank conflicts, and keeps its tile of sums in registers. Everything is padded to whole tiles
//! with zeros, so the main loop has no conditions.
//! Declines: `target_kind`, the predicates of [`Product::of`], `rows_and_columns`, `one_index_type`.

use super::outline::{Shares, Sizes, fma, over};
use super::split_k::{cut, finish_parts};
use crate::analysis::Decline;
use crate::ir::{ExprKind, Mark, Name, Scope, Stmt, ThreadTag};
use crate::rules::find::einsum::{Einsum, Major};
use crate::rules::find::factor::Factor;
use crate::rules::find::product::Product;
use crate::rules::find::shape::find_block;
use crate::rules::parts::*;
use crate::rules::{Knobs, Prepared, ScheduleRule, Space, Spaces, accepted, for_kind};
use crate::schedule::{Schedule, ScheduleError};
use crate::target::{Kind, Target};

/// The rule.
pub struct MatmulFma;

const NAME: &str = "matmul.fma";
/// Bytes of the widest access.
const WIDEST: i64 = 16;
/// Threads of a block that adds parts.
const FINISHERS: i64 = 256;
/// Bytes that the banks of shared memory give at a time.
const BANKS: i64 = 128;

/// How the threads of a block share a tile.
#[derive(Clone, Copy, Debug)]
struct Tiling {
    /// Rows and columns of the tile, and steps along the reduced axis.
    block: [i64; 3],
    /// Rows and columns of a thread, in runs of `run`.
    thread: [i64; 2],
    /// Adjacent rows and columns of a thread.
    run: [i64; 2],
    /// Lanes of a warp along rows and columns.
    lanes: [i64; 2],
}

impl Tiling {
    fn of(k: &Knobs, warp: i64) -> Tiling {
        let block = [k.get("block_m"), k.get("block_n"), k.get("block_k")];
        let thread = [k.get("thread_m"), k.get("thread_n")];
        let across = (block[1] / thread[1]).clamp(1, warp / 4);
        Tiling { block, thread, run: thread.map(|n| n.min(4)), lanes: [warp / across, across] }
    }

    /// Threads along rows and columns.
    fn threads(&self) -> [i64; 2] {
        [self.block[0] / self.thread[0], self.block[1] / self.thread[1]]
    }

    fn check(&self) -> Result<(), String> {
        let [m, n] = self.threads();
        let [lm, ln] = self.lanes;
        if self.block[0] % self.thread[0] != 0 || self.block[1] % self.thread[1] != 0 || m % lm != 0 || n % ln != 0 {
            return Err(format!("{m} by {n} threads are not whole warps of {lm} by {ln} lanes"));
        }
        Ok(())
    }
}

impl ScheduleRule for MatmulFma {
    fn name(&self) -> &'static str {
        NAME
    }

    fn space(&self, input: &Prepared, target: &Target, spaces: &Spaces) -> Result<Space, Decline> {
        let p = accept(input, target)?;
        let warp = i64::from(target.warp);
        let space = spaces.space(NAME, target);
        let space = space.require("whole_warps", move |k| Tiling::of(k, warp).check());
        let (max, regs, resident) =
            (target.max_threads as i64, target.regs_per_sm as i64, target.threads_per_sm as i64);
        let space = space.require("threads_per_block", move |k| {
            let n: i64 = Tiling::of(k, warp).threads().iter().product();
            match n {
                n if n > max => Err(format!("{n} threads exceed the {max} of a block")),
                n if n * k.get("min_blocks") > resident => Err(format!("{n} threads per block are too many")),
                _ => Ok(()),
            }
        });
        let smem = target.smem_per_block as i64;
        let element = [&p.a, &p.b].map(stage_bytes);
        let space = space.require("tiles_in_shared", move |k| {
            let [m, n, depth] = Tiling::of(k, warp).block;
            let padded = depth * (m * element[0] + n * element[1] + 2 * WIDEST);
            match k.get("stages").max(1) * padded {
                bytes if bytes * k.get("min_blocks") > smem => Err(format!("{bytes} bytes exceed shared memory")),
                _ => Ok(()),
            }
        });
        let space = space.require("tile_in_registers", move |k| {
            let t = Tiling::of(k, warp);
            let [m, n] = t.thread;
            let have = (regs / (t.threads().iter().product::<i64>() * k.get("min_blocks"))).min(255);
            match m * n + 2 * (m + n) + 24 {
                want if want > have => Err(format!("{want} registers exceed the {have} of a thread")),
                _ => Ok(()),
            }
        });
        let depth = Product::extent(&p.depth);
        let (tails, wide) = (p.epilogue.len(), p.dtype.bytes() >= 4);
        let space = space.require("parts_of_depth", move |k| match (k.get("split_k"), depth) {
            (1, _) => Ok(()),
            (_, None) => Err("the length of the reduced axis is not constant".into()),
            _ if tails > 1 => Err("several results follow the product".into()),
            _ if !wide => Err("sums of parts would be rounded to 16 bits".into()),
            (parts, Some(n)) if (parts - 1) * k.get("block_k") < n => Ok(()),
            (parts, Some(n)) => Err(format!("{parts} parts of {n} steps are too many")),
        });
        let tiles = Product::extent(&p.rows);
        let space = space.require("whole_swizzle", move |k| match (k.get("swizzle"), tiles) {
            (1, _) => Ok(()),
            (n, Some(rows)) if ((rows + k.get("block_m") - 1) / k.get("block_m")) % n == 0 => Ok(()),
            (n, _) => Err(format!("{n} does not divide the number of row tiles")),
        });
        Ok(preferred(space, &p, target))
    }

    fn schedule(&self, input: &Prepared, target: &Target, knobs: &Knobs) -> Result<Schedule, ScheduleError> {
        let p = accepted(accept(input, target));
        let t = Tiling::of(knobs, i64::from(target.warp));
        let parts = knobs.get("split_k");
        let [m, n, depth] = t.block;
        let mut e = Einsum::of(&p, [Major::Depth; 2], [m, n, depth * parts])?;
        let left = if parts > 1 { Some(cut(&mut e, parts)?) } else { None };
        let (block, mut s) = (e.block.clone(), e.schedule.clone());
        let plain = [&p.batch, &p.rows, &p.columns].iter().all(|class| class.len() < 2);
        let order = Order { swizzle: knobs.get("swizzle"), part: left.as_ref().map(|l| l.at.clone()), plain };
        let Nest { grid, fill, step, tile } = nest(&mut s, &e, &t, &order)?;
        launch_bounds(&mut s, &grid, knobs.get("min_blocks"))?;
        for (stage, factor) in [(&e.a, &p.a), (&e.b, &p.b)] {
            let registers = s.cache_read(&block, &stage.buffer, Scope::Local)?;
            s.compute_at(&registers, &step)?;
            for l in loops_below(&s, &registers, &step) {
                unroll_loop(&mut s, &l)?;
            }
            s.set_scope(&stage.buffer, Scope::Shared)?;
            s.compute_at(&stage.block, &fill)?;
            share(&mut s, &stage.block, &fill, factor, t.threads().iter().product())?;
            if factor.along_depth {
                let word = 16 / stage_bytes(factor);
                s.storage_align(&stage.buffer, 1, BANKS / stage_bytes(factor), word)?;
            }
        }
        s.mark(&fill, Mark::Stages(knobs.get("stages")))?;
        let init = s.decompose_reduction(&block, &fill)?;
        for l in loops_below(&s, &init, &grid) {
            unroll_loop(&mut s, &l)?;
        }
        unroll_loop(&mut s, &step)?;
        for l in &tile {
            unroll_loop(&mut s, l)?;
        }
        product_leaf(&mut s, &tile[0])?;
        s.set_scope(&e.result, Scope::Local)?;
        if let Some(left) = left {
            finish_parts(&mut s, &left, FINISHERS)?;
        }
        Ok(s)
    }
}

/// Only what is likely to be fast: tiles that the function fills, enough of them for the device, threads
/// with enough to do.
fn preferred(space: Space, p: &Product, target: &Target) -> Space {
    let warp = i64::from(target.warp);
    let extents = [&p.rows, &p.columns, &p.depth].map(|class| Product::extent(class));
    let space = space.prefer("tile_within_result", move |k| {
        let wide = |side: usize, least: i64| {
            let n = extents[side].unwrap_or(i64::MAX / 4).max(least);
            Tiling::of(k, warp).block[side] < 2 * n
        };
        match wide(0, 16) && wide(1, 32) && wide(2, 8) {
            true => Ok(()),
            false => Err("more than half of a tile lies outside of the product".into()),
        }
    });
    let space = space.prefer("threads_of_a_block", move |k| match Tiling::of(k, warp).threads().iter().product() {
        64..=512 => Ok(()),
        n => Err(format!("{n} threads where 64 to 512 are best")),
    });
    let Some(sizes) = Sizes::of(p) else { return space };
    let shares = move |k: &Knobs| {
        let t = Tiling::of(k, warp);
        let (stages, min_blocks) = (k.get("stages"), k.get("min_blocks"));
        Shares { block: t.block, thread: t.thread, stages, min_blocks, split: k.get("split_k") }
    };
    let sms = i64::from(target.sms);
    let space = space.prefer("fills_device", move |k| {
        let blocks = sizes.blocks(&shares(k));
        let smallest = over(sizes.extent[0], 32) * over(sizes.extent[1], 32) * sizes.batch;
        match blocks {
            n if n >= sms.min(smallest) => Ok(()),
            n => Err(format!("{n} blocks leave multiprocessors of {sms} idle")),
        }
    });
    let space = space.prefer("whole_device", move |k| match k.get("split_k") {
        1 => Ok(()),
        n if sizes.blocks(&shares(k)) / n < 2 * sms => Ok(()),
        _ => Err("there are blocks enough without parts".into()),
    });
    space.outlined(move |k| fma(&sizes, &shares(k)))
}

/// The loops of a tiled product that later steps need.
struct Nest {
    grid: Name,
    /// Over fills of shared memory.
    fill: Name,
    /// Over the steps along the reduced axis within one fill.
    step: Name,
    /// Over a thread's tile.
    tile: [Name; 4],
}

/// What the nest is to look like besides its tiles.
struct Order {
    /// Row tiles side by side.
    swizzle: i64,
    /// The loop over parts of the reduced axis.
    part: Option<Name>,
    /// The result lies at plain axes, so that registers can hold what is stored.
    plain: bool,
}

fn nest(s: &mut Schedule, e: &Einsum, t: &Tiling, order: &Order) -> Result<Nest, ScheduleError> {
    let [batch, rows, columns, depth] = &e.loops;
    let rows = s.split(rows, &[None, Some(t.block[0])])?;
    let columns = s.split(columns, &[None, Some(t.block[1])])?;
    let k = s.split(depth, &[None, Some(t.block[2])])?;
    let ([ib, ii], [jb, jj], [fill, step]) = (&rows[..], &columns[..], &k[..]) else {
        panic!("split gives one loop per factor")
    };
    let mut blocks = vec![ib.clone(), jb.clone()];
    if order.swizzle > 1 {
        let parts = s.split(ib, &[None, Some(order.swizzle)])?;
        blocks = vec![parts[0].clone(), jb.clone(), parts[1].clone()];
    }
    blocks.splice(0..0, order.part.clone());
    if loop_extent(s, batch) != Some(1) {
        blocks.insert(0, batch.clone());
    }
    s.reorder(&[&blocks[..], &[fill.clone(), ii.clone(), jj.clone(), step.clone()]].concat())?;
    let grid = s.fuse(&blocks)?;
    s.bind(&grid, ThreadTag::BlockX)?;
    let mut tails = e.tails.clone();
    if let (Some(last), true) = (e.tails.last(), order.plain) {
        let (out, block) = (output(s, last), last.clone());
        if !copies(s, &block) {
            tails.push(s.cache_write(&block, &out, Scope::Local)?);
        }
    }
    tails.iter().try_for_each(|tail| s.reverse_compute_at(tail, &grid))?;
    for tail in &tails {
        let loops = loops_below(s, tail, &grid);
        let [rows, columns] = &loops[..] else { panic!("a tile of the result has two axes") };
        let [outer @ .., last] = bind_tile(s, t, [rows, columns], &[])?;
        outer.iter().try_for_each(|l| unroll_loop(s, l))?;
        // a copy out of registers is one vector; what computes is unrolled
        if copies(s, tail) { vectorize_loop(s, &last)? } else { unroll_loop(s, &last)? }
    }
    let tile = bind_tile(s, t, [ii, jj], std::slice::from_ref(step))?;
    Ok(Nest { grid, fill: fill.clone(), step: step.clone(), tile })
}

/// Deals the two loops over a tile to the threads of the block; gives those over what one
/// thread has, which come inside of `between`.
fn bind_tile(s: &mut Schedule, t: &Tiling, loops: [&Name; 2], between: &[Name]) -> Result<[Name; 4], ScheduleError> {
    let mut split = |side: usize| {
        let (thread, run, lanes) = (t.thread[side], t.run[side], t.lanes[side]);
        let warps = t.block[side] / (thread * lanes);
        s.split(loops[side], &[Some(thread / run), Some(warps), Some(lanes), Some(run)])
    };
    let (i, j) = (split(0)?, split(1)?);
    let ([iv, iw, il, ir], [jv, jw, jl, jr]) = (&i[..], &j[..]) else { panic!("split gives one loop per factor") };
    let threads = [iw, jw, il, jl].map(|l| l.clone());
    let tile = [iv, ir, jv, jr].map(|l| l.clone());
    s.reorder(&[&threads[..], between, &tile].concat())?;
    let thread = s.fuse(&threads)?;
    s.bind(&thread, ThreadTag::ThreadX)?;
    Ok(tile)
}

/// Has all threads of the block fill a tile `[K, I]` of shared memory, in the widest accesses that adjacent
/// elements in global memory allow.
fn share(s: &mut Schedule, block: &Name, at: &Name, factor: &Factor, threads: i64) -> Result<(), ScheduleError> {
    let loops = loops_below(s, block, at);
    let [depth, free] = &loops[..] else { panic!("a tile has two axes") };
    let (outer, inner) = if factor.along_depth { (free, depth) } else { (depth, free) };
    let widest = WIDEST / stage_bytes(factor).max(factor.element.bytes() as i64);
    let run = (1 << factor.run.trailing_zeros()).min(widest).max(1);
    let parts = s.split(inner, &[None, Some(run)])?;
    s.reorder(&[outer, &parts[0], &parts[1]].map(|l| l.clone()))?;
    let all = s.fuse(&[outer.clone(), parts[0].clone()])?;
    let steps = s.split(&all, &[None, Some(threads)])?;
    s.bind(&steps[1], ThreadTag::ThreadX)?;
    unroll_loop(s, &steps[0])?;
    vectorize_loop(s, &parts[1])
}

/// True where the block does nothing but copy.
fn copies(s: &Schedule, block: &Name) -> bool {
    let body = find_block(s.func(), block).body;
    matches!(body.as_slice(), [Stmt::Store { value, .. }] if matches!(value.kind(), ExprKind::Load { .. }))
}

/// Bytes of an element of a factor in shared memory.
fn stage_bytes(factor: &Factor) -> i64 {
    factor.narrow.dtype().bytes() as i64
}

fn accept(input: &Prepared, target: &Target) -> Result<Product, Decline> {
    for_kind(NAME, Kind::Cuda, target)?;
    let no = |predicate, reason: String| Decline { by: NAME, predicate, reason };
    let p = Product::of(NAME, input)?;
    if p.rows.is_empty() || p.columns.is_empty() {
        return Err(no("rows_and_columns", "one factor has no axis of its own: it is a product with a vector".into()));
    }
    let all = || [&p.batch, &p.rows, &p.columns, &p.depth].into_iter().flatten();
    if let Some(i) = all().find(|i| all().any(|o| o.dtype != i.dtype)) {
        return Err(no("one_index_type", format!("iterator `{}` is {}, others are not", i.var, i.dtype)));
    }
    Ok(p)
}

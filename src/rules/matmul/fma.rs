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
//!
//! ```text
//! matmul.fma on cuda:sm_90a
//! before: float32 A[4096, 4096], float32 B[4096, 4096]
//!         float32 O[i, j] += A[i, k] * B[k, j]
//! after:  blockIdx.x 1024 [min_blocks=2]:
//!           threadIdx.x 256, unroll 2, unroll 4, unroll 2, unroll 4: b0_result.local = 0
//!           loop 256 [stages=2]:
//!             unroll 2, threadIdx.x 256, vector 4: b0_left.shared = A [buffer_dim_align=0,1,32,4]
//!             unroll 2, threadIdx.x 256, vector 4: b0_right.shared = B
//!             threadIdx.x 256, unroll 16:
//!               unroll 2, unroll 4: b0_left_local = b0_left.shared
//!               unroll 2, unroll 4: b0_right_local = b0_right.shared
//!               unroll 2 [tile=gemm], unroll 4, unroll 2, unroll 4: b0_result.local += b0_left_local, b0_right_local
//!           threadIdx.x 256, unroll 2, unroll 4, unroll 2, vector 4: O = b0_result.local
//! ```

use super::outline::{Shares, Sizes, fma};
use super::split_k::{self, Parts, cut, shared_fits};
use super::tiling::{Grid, grid, tile_in_registers, tiles_in_shared, whole_groups};
use crate::ir::{Buffer, Expr};
use crate::rules::cluster;
use crate::rules::find::einsum::{Einsum, Major};
use crate::rules::find::factor::Factor;
use crate::rules::find::operands::whole_write;
use crate::rules::find::product::Product;
use crate::rules::find::shape::find_block;
use crate::rules::parts::*;

/// The rule.
pub const FMA: Rule = Rule::new(Kind::Cuda, "matmul.fma", include_str!("../schedules/matmul.fma.toml"), cores);

/// Bytes of the widest access.
const WIDEST: i64 = 16;
/// Bytes that the banks of shared memory give at a time.
const BANKS: i64 = 128;

struct Fma {
    p: Product,
    /// Threads of a warp.
    warp: i64,
}

/// How the threads of a block share a tile.
#[derive(Clone, Copy, Debug)]
struct Threads {
    /// Rows and columns of the tile, and steps along the reduced axis.
    block: [i64; 3],
    /// Rows and columns of a thread, in runs of `run`.
    thread: [i64; 2],
    /// Adjacent rows and columns of a thread.
    run: [i64; 2],
    /// Lanes of a warp along rows and columns.
    lanes: [i64; 2],
}

impl Threads {
    fn of(k: &Knobs, warp: i64) -> Threads {
        let block = [k.get("block_m"), k.get("block_n"), k.get("block_k")];
        let thread = [k.get("thread_m"), k.get("thread_n")];
        let across = (block[1] / thread[1]).clamp(1, warp / 4);
        Threads { block, thread, run: thread.map(|n| n.min(4)), lanes: [warp / across, across] }
    }

    /// Threads along rows and columns.
    fn sides(&self) -> [i64; 2] {
        [self.block[0] / self.thread[0], self.block[1] / self.thread[1]]
    }

    /// Threads of a block.
    fn count(&self) -> i64 {
        self.sides().iter().product()
    }

    fn check(&self) -> Result<(), String> {
        let [m, n] = self.sides();
        let [lm, ln] = self.lanes;
        if self.block[0] % self.thread[0] != 0 || self.block[1] % self.thread[1] != 0 || m % lm != 0 || n % ln != 0 {
            return Err(format!("{m} by {n} threads are not whole warps of {lm} by {ln} lanes"));
        }
        Ok(())
    }
}

fn cores(ask: &Ask) -> Answer {
    let p = Product::of(ask)?;
    p.of_matrices(ask)?;
    let all = || [&p.batch, &p.rows, &p.columns, &p.depth].into_iter().flatten();
    if let Some(i) = all().find(|i| all().any(|o| o.dtype != i.dtype)) {
        return Err(ask.no("one_index_type", format!("iterator `{}` is {}, others are not", i.var, i.dtype)));
    }
    Ok(Found::new(p.schedule.clone(), Fma { warp: i64::from(ask.target.warp), p }))
}

impl Accepted for Fma {
    fn constrain(&self, space: Space, target: &Target) -> Space {
        let (p, warp) = (&self.p, self.warp);
        let threads = move |k: &Knobs| Threads::of(k, warp);
        let space = space.require("whole_warps", move |k| threads(k).check());
        let (max, resident) = (target.max_threads as i64, target.threads_per_sm as i64);
        let space = space.require("threads_per_block", move |k| match threads(k).count() {
            n if n > max => Err(format!("{n} threads exceed the {max} of a block")),
            n if n * k.get("min_blocks") > resident => Err(format!("{n} threads per block are too many")),
            _ => Ok(()),
        });
        let (element, sum) = ([&p.a, &p.b].map(stage_bytes), p.dtype);
        let space = tiles_in_shared(
            space,
            target,
            move |k| {
                let [m, n, depth] = threads(k).block;
                k.get("min_blocks") * depth * (m * element[0] + n * element[1] + 2 * WIDEST)
            },
            move |k| k.get("min_blocks") * kept(k, threads(k).block, sum),
        );
        let resident = move |k: &Knobs| threads(k).count() * k.get("min_blocks");
        let space = tile_in_registers(space, target, resident, move |k| {
            let [m, n] = threads(k).thread;
            m * n + 2 * (m + n) + 24
        });
        let [_, rows, _, depth] = p.extents();
        let (results, wide) = (p.results(), p.dtype.bytes() >= 4);
        let space = space.require("parts_of_depth", move |k| match (k.get("split_k"), depth) {
            _ if k.get("block_k") < 2 => Err("a tile of one step has no loop over its depth".into()),
            (1, _) if !cluster::shares(k) => Ok(()),
            (_, None) => Err("the length of the reduced axis is not constant".into()),
            _ if results > 1 => Err("several results follow the product".into()),
            _ if !wide => Err("sums of parts would be rounded to 16 bits".into()),
            (parts, Some(n)) if (parts - 1) * k.get("block_k") < n => Ok(()),
            (parts, Some(n)) => Err(format!("{parts} parts of {n} steps are too many")),
        });
        let possible = target.has.cp_async && have_elements(p);
        let space = space.require("copies_of_elements", move |k| match by_element(k) {
            true if !possible => Err("no wide loads of floats along the reduced axis pass through registers".into()),
            true if k.get("stages") < 2 => Err("with one stage no copies run ahead".into()),
            _ => Ok(()),
        });
        let sizes = Sizes::of(p);
        let space = cluster::run_at_once(space, target, "split_k", move |k| {
            let t = threads(k);
            Some(sizes.as_ref()?.blocks(t.block, k.get("split_k")) * t.count())
        });
        let space = shared_fits(whole_groups(space, rows), p, target, 1);
        preferred(space, p, target)
    }

    fn schedule(&self, s: &mut Schedule, k: &Knobs) -> Done {
        let (p, t, parts) = (&self.p, Threads::of(k, self.warp), k.get("split_k"));
        let [m, n, depth] = t.block;
        let mut e = Einsum::of(s, p, [Major::Depth; 2], [m, n, depth * parts])?;
        let left = if parts > 1 || cluster::shares(k) { Some(cut(s, &mut e, parts)?) } else { None };
        let batch = Some(&e.loops[0]).filter(|l| loop_extent(s, l) != Some(1));
        let loops = split_k::around(left.as_ref(), batch.into_iter().cloned().collect(), k);
        let Grid { grid, block, fill, step, tile } = grid(s, &e, t.block, (k.get("raster"), [1, 1]), loops)?;
        // Where the result lies at plain axes, registers can hold what is stored ([`attach_tails`]).
        let plain = [&p.batch, &p.rows, &p.columns].iter().all(|class| class.len() < 2);
        let tails = attach_tails(s, &e, &block, plain)?;
        if let Some(left) = left.as_ref().filter(|_| cluster::shares(k)) {
            left.adders_of_cluster(s, &grid, parts, (t.count(), side_by_side(s, &left.tail)))?;
        }
        store_tile(s, &tails, &t, &block)?;
        let tile = bind_tile(s, &t, tile.each_ref(), std::slice::from_ref(&step))?;
        launch_bounds(s, &grid, k.get("min_blocks"))?;
        for (stage, factor) in [(&e.a, &p.a), (&e.b, &p.b)] {
            let registers = s.cache_read(&e.block, &stage.buffer, Scope::Local)?;
            s.compute_at(&registers, &step)?;
            for l in loops_below(s, &registers, &step) {
                unroll_loop(s, &l)?;
            }
            s.set_scope(&stage.buffer, Scope::Shared)?;
            s.compute_at(&stage.block, &fill)?;
            fill_tile(s, (&stage.block, &fill), factor, (t.count(), by_element(k)))?;
            if factor.along_depth {
                let word = 16 / stage_bytes(factor);
                s.storage_align(&stage.buffer, 1, BANKS / stage_bytes(factor), word)?;
            }
        }
        s.mark(&fill, Mark::Stages(k.get("stages")))?;
        let init = s.decompose_reduction(&e.block, &fill)?;
        for l in loops_below(s, &init, &block) {
            unroll_loop(s, &l)?;
        }
        unroll_loop(s, &step)?;
        tile.iter().try_for_each(|l| unroll_loop(s, l))?;
        tile_leaf(s, &tile[0], LeafOp::Tile(TileOp::Gemm))?;
        s.set_scope(&e.result, Scope::Local)?;
        left.filter(|_| !cluster::shares(k)).map_or(Ok(()), |left| add_parts(s, &left))
    }

    fn outline(&self, k: &Knobs) -> Option<Outline> {
        Some(fma(&Sizes::of(&self.p)?, &shares(k, self.warp, &self.p)))
    }
}

/// Bytes of shared memory for the sums of a block, where they pass through it.
fn kept(k: &Knobs, [m, n, _]: [i64; 3], sum: DType) -> i64 {
    if cluster::shares(k) { cluster::memory([m, n], sum) } else { 0 }
}

/// Results that a thread has side by side, where its sums have passed through shared memory: as many as one access stores,
/// and one where rows are not aligned, so that a warp's are neighbours.
fn side_by_side(s: &Schedule, tail: &Name) -> i64 {
    if rows_are_aligned(s.func().buffer(&output(s, tail))) { cluster::SIDE_BY_SIDE } else { 1 }
}

/// True where accesses of the widest kind store rows of the result.
fn rows_are_aligned(result: &Buffer) -> bool {
    let row = result.shape.last().and_then(Expr::as_int).unwrap_or(1);
    row * result.dtype.bytes() as i64 % WIDEST == 0
}

/// How a point shares a product out.
fn shares(k: &Knobs, warp: i64, p: &Product) -> Shares {
    let t = Threads::of(k, warp);
    let (stages, min_blocks) = (k.get("stages"), k.get("min_blocks"));
    Shares {
        block: t.block,
        thread: t.thread,
        stages,
        by_element: by_element(k) || !have_elements(p),
        min_blocks,
        split: k.get("split_k"),
        sums: kept(k, t.block, p.dtype),
    }
}

/// Only what is likely to be fast: tiles that the function fills, enough of them for the device, threads
/// with enough to do.
fn preferred(space: Space, p: &Product, target: &Target) -> Space {
    let (warp, [_, extents @ ..]) = (i64::from(target.warp), p.extents());
    let space = space.prefer("tile_within_result", move |k| {
        let wide = |side: usize, least: i64| {
            let n = extents[side].unwrap_or(i64::MAX / 4).max(least);
            Threads::of(k, warp).block[side] < 2 * n
        };
        match wide(0, 16) && wide(1, 32) && wide(2, 8) {
            true => Ok(()),
            false => Err("more than half of a tile lies outside of the product".into()),
        }
    });
    let space = space.prefer("threads_of_a_block", move |k| match Threads::of(k, warp).count() {
        64..=512 => Ok(()),
        n => Err(format!("{n} threads where 64 to 512 are best")),
    });
    let aligned = rows_are_aligned(p.result());
    let space = space.prefer("unaligned_rows", move |k| match cluster::shares(k) && k.get("split_k") == 1 {
        true if aligned => Err("threads store whole vectors without".into()),
        _ => Ok(()),
    });
    let Some(sizes) = Sizes::of(p) else { return space };
    let sms = i64::from(target.sms);
    let space = space.prefer("fills_device", move |k| {
        let blocks = sizes.blocks(Threads::of(k, warp).block, k.get("split_k"));
        let smallest = over(sizes.extent[0], 32) * over(sizes.extent[1], 32) * sizes.batch;
        match blocks {
            n if n >= sms.min(smallest) => Ok(()),
            n => Err(format!("{n} blocks leave multiprocessors of {sms} idle")),
        }
    });
    space.prefer("whole_device", move |k| match k.get("split_k") {
        1 => Ok(()),
        _ if sizes.blocks(Threads::of(k, warp).block, 1) < 2 * sms => Ok(()),
        _ => Err("there are blocks enough without parts".into()),
    })
}

/// A second launch adds the parts, all of them without a loop.
fn add_parts(s: &mut Schedule, left: &Parts) -> Done {
    let thread = left.adders(s)?;
    s.compute_at(&left.add, &thread)?;
    for l in loops_below(s, &left.add, &thread) {
        unroll_loop(s, &l)?;
    }
    s.set_scope(&left.sum, Scope::Local)
}

/// Brings what follows the product under the loop around a block; the statements that do.
fn attach_tails(s: &mut Schedule, e: &Einsum, at: &Name, plain: bool) -> Result<Vec<Name>, ScheduleError> {
    let mut tails = e.tails.clone();
    // Rows of a batch may be rows of one matrix: heads that share a key.
    let whole = |s: &Schedule, last: &Name| whole_write(s, &find_block(s.func(), last)).is_some();
    if let (Some(last), true) = (e.tails.last(), plain)
        && !copies(s, last)
        && whole(s, last)
    {
        tails.push(s.cache_write(last, &output(s, last), Scope::Local)?);
    }
    tails.iter().try_for_each(|tail| s.reverse_compute_at(tail, at))?;
    Ok(tails)
}

/// Has each thread finish its own elements.
fn store_tile(s: &mut Schedule, tails: &[Name], t: &Threads, at: &Name) -> Done {
    for tail in tails {
        let [rows, columns] = known(loops_below(s, tail, at));
        let [outer @ .., last] = bind_tile(s, t, [&rows, &columns], &[])?;
        outer.iter().try_for_each(|l| unroll_loop(s, l))?;
        // a copy out of registers is one vector; what computes is unrolled
        if copies(s, tail) { vectorize_loop(s, &last)? } else { unroll_loop(s, &last)? }
    }
    Ok(())
}

/// Deals the two loops over a tile to the threads of the block; gives those over what one
/// thread has, which come inside of `between`.
fn bind_tile(s: &mut Schedule, t: &Threads, loops: [&Name; 2], between: &[Name]) -> Result<[Name; 4], ScheduleError> {
    let mut split = |side: usize| {
        let (thread, run, lanes) = (t.thread[side], t.run[side], t.lanes[side]);
        let warps = t.block[side] / (thread * lanes);
        split(s, loops[side], [Some(thread / run), Some(warps), Some(lanes), Some(run)])
    };
    let ([iv, iw, il, ir], [jv, jw, jl, jr]) = (split(0)?, split(1)?);
    let (threads, tile) = ([iw, jw, il, jl], [iv, ir, jv, jr]);
    s.reorder(&[&threads[..], between, &tile].concat())?;
    let thread = s.fuse(&threads)?;
    s.bind(&thread, ThreadTag::ThreadX)?;
    Ok(tile)
}

/// Has all threads of the block fill a tile `[K, I]` of shared memory, in the widest accesses that adjacent
/// elements in global memory allow, or, along the reduced axis, `by_element`: shared memory has them apart.
fn fill_tile(
    s: &mut Schedule,
    (block, at): (&Name, &Name),
    factor: &Factor,
    (threads, by_element): (i64, bool),
) -> Done {
    let [depth, free] = known(loops_below(s, block, at));
    let (outer, inner) = if factor.along_depth { (free, depth) } else { (depth, free) };
    let widest = WIDEST / stage_bytes(factor).max(factor.element.bytes() as i64);
    let run = match by_element && has_elements(factor) {
        true => 1,
        false => (1 << factor.run.trailing_zeros()).min(widest).max(1),
    };
    let [runs, lane] = split(s, &inner, [None, Some(run)])?;
    order(s, [&outer, &runs, &lane])?;
    let all = s.fuse(&[outer, runs])?;
    let [step, thread] = split(s, &all, [None, Some(threads)])?;
    s.bind(&thread, ThreadTag::ThreadX)?;
    unroll_loop(s, &step)?;
    vectorize_loop(s, &lane)
}

/// True where a point copies element by element what lies along the reduced axis.
fn by_element(k: &Knobs) -> bool {
    k.get("elements") == 1
}

/// True where a factor can be copied so, and would be loaded in wider pieces otherwise.
fn has_elements(f: &Factor) -> bool {
    f.adjacent(true) > 1 && matches!(stage_bytes(f), 4 | 8)
}

/// True where a factor of the product can.
fn have_elements(p: &Product) -> bool {
    [&p.a, &p.b].into_iter().any(has_elements)
}

/// Bytes of an element of a factor in shared memory.
fn stage_bytes(factor: &Factor) -> i64 {
    factor.dtype.bytes() as i64
}

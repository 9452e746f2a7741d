//! `transpose.cuda`: permutations whose innermost axis changes, through shared memory.
//!
//! When: one spatial block writes a whole tensor, and reads at plain indices a tensor of which another
//! axis is contiguous than of the output (a matrix, NCHW to NHWC, heads behind tokens). Casts, scales
//! and other operands take part as they are.
//! How: a block of threads loads a tile of `down` by `across` elements in the order of the input, in
//! vectors, into shared memory; then each thread gathers `rows` rows of some adjacent elements,
//! transposes them in its registers and stores them as vectors in the order of the output. The tile
//! is permuted (or its rows lengthened) so that neither way meets a bank twice.
//! Declines: `target_kind`, `one_block`, `all_spatial`, `writes_whole`, `transposed_read`.
//!
//! ```text
//! transpose.cuda on cuda:sm_90a
//! before: float32 A[4096, 4096]
//!         float32 O[j, i] = A[i, j]
//! after:  blockIdx.x 4096 [min_blocks=4]:
//!           threadIdx.x 256, unroll 4 [batch_loads=1], vector 4 [cache_hint=plain]: A_shared = A [swizzle=2,3,6]
//!           threadIdx.x 256, unroll 1 [batch_loads=1]:
//!             unroll 4, vector 4: A_shared_local = A_shared
//!             unroll 4, unroll 4: O_local = A_shared_local
//!             unroll 4, vector 4: O = O_local
//! ```

use super::outline;
use crate::analysis::{Access, Decline};
use crate::ir::Block;
use crate::ir::layout::Swizzle;
use crate::rules::find::operands::{ends_in, moves, reads_of, staged, whole_write};
use crate::rules::find::shape::{Axis, find_block, is_plain};
use crate::rules::parts::*;
use crate::rules::space::outlines::Moves;

/// The GPU form.
pub const CUDA: Rule = Rule::new(Kind::Cuda, "transpose.cuda", include_str!("../schedules/transpose.cuda.toml"), cuda);

struct Cuda(Transpose);

fn cuda(ask: &Ask) -> Answer {
    let t = Transpose::of(ask)?;
    Ok(Found::new(in_float32(ask.start, [&t.block]), Cuda(t)))
}

impl Accepted for Cuda {
    fn constrain(&self, space: Space, target: &Target) -> Space {
        let sizes = self.0.sizes;
        let space = block_fits(space, target, &["threads"]);
        let space = space.require("vector_alignment", move |k| {
            let plan = Plan::of(&sizes, k);
            let (load, store) = (plan.load * sizes.widest.bytes() as i64, plan.store * sizes.output.bytes() as i64);
            match k.get("vector") {
                v if v == load.max(store) => Ok(()),
                v => Err(format!("accesses of {v} bytes where alignment and types make them {load} and {store}")),
            }
        });
        let space = space.require("rows_divide", move |k| match (Plan::of(&sizes, k).rows, k.get("rows")) {
            (a, b) if a == b && b * sizes.widest.bytes() as i64 <= 16 => Ok(()),
            (_, b) => Err(format!("{b} rows at once are no aligned access to shared memory")),
        });
        let space = space.require("threads_share_tile", move |k| {
            let plan = Plan::of(&sizes, k);
            let (a, d) = (k.get("across"), k.get("down"));
            let whole = a >= plan.rows.max(plan.load) && d >= plan.store;
            match a * d / (plan.rows * plan.store) {
                n if whole && n >= k.get("threads") && n % k.get("threads") == 0 => Ok(()),
                n => Err(format!("{} threads for {n} pieces of a tile", k.get("threads"))),
            }
        });
        let limit = target.smem_per_block as i64;
        let tile = move |k: &Knobs| k.get("across") * k.get("down") * sizes.element;
        let space = space
            .require("tile_in_shared", move |k| at_most(tile(k) * 5 / 4, limit, "bytes of a tile", "shared memory"));
        let space = tile_within_axes(space, sizes);
        let space = rows_of_sectors(space, sizes, self.0.moves.as_ref(), target);
        let in_thread = move |k: &Knobs| tile(k) / k.get("threads");
        let space =
            space.prefer("bytes_per_thread", move |k| at_most(in_thread(k), 256, "bytes of a tile", "a thread"));
        let space = registers_fit(space, target, &["threads"], 26, move |k| {
            let plan = Plan::of(&sizes, k);
            in_thread(k).max(plan.rows * plan.store * (sizes.element + sizes.output.bytes() as i64))
        });
        let bytes = self.0.moves.map(|m| m.read);
        keeps_busy(space, target, &["threads"], bytes, in_thread)
    }

    fn schedule(&self, s: &mut Schedule, k: &Knobs) -> Done {
        let t = &self.0;
        let plan = Plan::of(&t.sizes, k);
        let [yo, yt, yr] = split(s, &t.across.at, [None, Some(k.get("across") / plan.rows), Some(plan.rows)])?;
        let steps = k.get("down") / plan.store;
        let down = [None, Some(steps / plan.side), Some(plan.side), Some(plan.store)];
        let [xo, xh, xl, xv] = split(s, &t.down.at, down)?;
        let tiles = if k.get("order") == 0 { [yo, xo] } else { [xo, yo] };
        let outer: Vec<Name> = t.batch.iter().map(|a| a.at.clone()).chain(tiles).collect();
        let all: Vec<Name> = outer.iter().chain([&xh, &yt, &xl, &yr, &xv]).cloned().collect();
        s.reorder(&all)?;
        let grid = s.fuse(&outer)?;
        let all = s.fuse(&[xh, yt, xl])?;
        let [turn, thread] = split(s, &all, [None, Some(k.get("threads"))])?;
        order(s, [&thread, &turn])?;
        s.bind(&grid, ThreadTag::BlockX)?;
        s.bind(&thread, ThreadTag::ThreadX)?;
        launch_bounds(s, &grid, k.get("min_blocks"))?;
        for moved in &t.moved {
            stage_tile(s, t, moved, &grid, &turn, k)?;
        }
        for buffer in &t.straight {
            stage_read(s, &t.block, buffer, &turn, plan.store, 0)?;
        }
        let store = s.cache_write(&t.block, &t.output, Scope::Local)?;
        s.reverse_compute_at(&store, &turn)?;
        for l in loops_below(s, &store, &turn).iter().rev().skip(1) {
            unroll_loop(s, l)?;
        }
        if let Some(lane) = loops_below(s, &store, &turn).last().filter(|_| plan.store > 1) {
            s.vectorize(lane)?;
        }
        batch_loads(s, &turn)?;
        unroll_loop(s, &yr)?;
        unroll_loop(s, &xv)
    }

    fn outline(&self, k: &Knobs) -> Option<Outline> {
        Some(outline::transpose(&self.0.moves?, &self.0.sizes, k))
    }
}

/// Rows of a tile are as long in memory as sectors need, and in the output not much longer: four lines only where the output is
/// large and its rows start with a word.
fn rows_of_sectors(space: Space, sizes: Sizes, moves: Option<&Moves>, target: &Target) -> Space {
    let (read, out) = (sizes.widest.bytes() as i64, sizes.output.bytes() as i64);
    let row = sizes.down.map_or(0, |n| n * out);
    let broken = moves.map(|m| m.elements * out).filter(|_| row % SECTOR != 0);
    let whole = broken.map_or(WHOLE, |bytes| whole_lines(bytes, target.l2_bytes as i64).min(WIDE * out));
    let least = |n: Option<i64>, size: i64, bytes: i64| n.map_or(bytes, |n| bytes.min(n * size));
    let (least_read, least_written) = (least(sizes.across, read, WHOLE), least(sizes.down, out, whole));
    let space = space.prefer("whole_sectors", move |k| match (k.get("across") * read, k.get("down") * out) {
        (x, y) if x >= least_read && y >= least_written => Ok(()),
        (x, y) => Err(format!("rows of {x} and {y} bytes in memory")),
    });
    let most = if whole > LINE && row % 4 == 0 { 4 * LINE } else { 2 * LINE };
    space.prefer("short_enough", move |k| at_most(k.get("down") * out, most, "bytes of a row", "what sectors need"))
}

/// Bytes of a tile's row in memory, at least: two sectors.
const WHOLE: i64 = 2 * SECTOR;
/// Elements of a tile's row that are always enough.
const WIDE: i64 = 128;

/// Bytes of a tile's row in an output of so many bytes whose rows do not start with a sector, so that a tile writes parts of two
/// for each of its rows: one line, or more where they may leave the second-level cache before the next tile writes the rest. The
/// best tiles with such rows over the best of all, of 94 drawn functions (H200, 60 MiB): up to 12 MB 0.99 with 128 bytes (0.94 with 64, 0.95
/// with 256), up to 40 MB 0.98 with 256 (0.90 with 128), beyond 1.00 with 512 in float32 (0.89 with 256, 0.68 with 128) and 0.97 with 256 in
/// types of 16 bits (0.90 with 128).
fn whole_lines(bytes: i64, l2: i64) -> i64 {
    match bytes {
        n if 3 * n > 2 * l2 => 4 * LINE,
        n if 5 * n > l2 => 2 * LINE,
        _ => LINE,
    }
}

/// More than half of a tile lies within its axes.
pub fn tile_within_axes(space: Space, sizes: Sizes) -> Space {
    space.prefer("tile_within_axes", move |k| {
        let sides = [(k.get("across"), sizes.across), (k.get("down"), sizes.down)];
        sides.into_iter().try_for_each(|(side, n)| match n {
            Some(n) if side >= 2 * n && side > 8 => {
                Err(format!("a tile of {side} wastes more than half on a length of {n}"))
            }
            _ => Ok(()),
        })
    })
}

/// Puts a tile of one input into shared memory under `grid`, and from there into registers at `turn`.
fn stage_tile(s: &mut Schedule, t: &Transpose, moved: &Moved, grid: &Name, turn: &Name, knobs: &Knobs) -> Done {
    let (plan, sizes) = (Plan::of(&t.sizes, knobs), t.sizes);
    let load = sizes.load(knobs, moved.dtype);
    let copy = s.cache_read(&t.block, &moved.buffer, Scope::Shared)?;
    let tile = output(s, &copy);
    s.compute_at(&copy, grid)?;
    let all = fuse_loops(s, &loops_below(s, &copy, grid))?;
    let [part, thread, lane] = split(s, &all, [None, Some(knobs.get("threads")), Some(load)])?;
    order(s, [&thread, &part])?;
    s.bind(&thread, ThreadTag::ThreadX)?;
    if knobs.get("layout") == 2 {
        stage_read(s, &copy, &moved.buffer, &part, load, knobs.get("hint"))?;
        unroll_loop(s, &lane)?;
        let word = lanes(4, moved.dtype);
        s.storage_align(&tile, moved.down_at, 32 * word, word)?;
    } else if load > 1 {
        s.vectorize(&lane)?;
        cache_hint(s, &lane, knobs.get("hint"))?;
    } else {
        cache_hint(s, &copy, knobs.get("hint"))?;
    }
    batch_loads(s, &part)?;
    if let (1, Some(swizzle)) = (knobs.get("layout"), plan.swizzle(&sizes, knobs, moved.dtype)) {
        s.mark(&copy, Mark::Swizzle(swizzle))?;
    }
    let gather = s.cache_read(&t.block, &tile, Scope::Local)?;
    s.compute_at(&gather, turn)?;
    let loops = loops_below(s, &gather, turn);
    for l in &loops {
        if Some(l) == loops.last() && plan.rows > 1 && knobs.get("layout") != 2 {
            s.vectorize(l)?;
        } else {
            unroll_loop(s, l)?;
        }
    }
    Ok(())
}

/// One block that transposes.
pub struct Transpose {
    /// The block.
    pub block: Name,
    /// The axes that are neither of the two, in the order of the output.
    pub batch: Vec<Axis>,
    /// The axis contiguous in the input.
    pub across: Axis,
    /// The axis contiguous in the output.
    pub down: Axis,
    /// The tensors read along `across`.
    pub moved: Vec<Moved>,
    /// The tensors read along `down`.
    pub straight: Vec<Name>,
    /// What it writes.
    pub output: Name,
    /// The numbers that widths depend on.
    pub sizes: Sizes,
    /// How much it moves, where that is constant.
    pub moves: Option<Moves>,
}

/// A tensor read in another order than the output's.
#[derive(Clone)]
pub struct Moved {
    /// The tensor.
    pub buffer: Name,
    /// Its element type.
    pub dtype: DType,
    /// Which of its dimensions is the one contiguous in the output.
    pub down_at: usize,
}

impl Transpose {
    /// Classifies, or says by name why the function is not one transpose.
    pub fn of(ask: &Ask) -> Result<Transpose, Decline> {
        let schedule = ask.start;
        let [name] = &ask.blocks()[..] else {
            return Err(ask.no("one_block", "several blocks are left after inlining"));
        };
        let block = find_block(schedule.func(), name);
        if let Some(i) = block.iters.iter().find(|i| i.kind != IterKind::Spatial) {
            return Err(ask.no("all_spatial", format!("axis `{}` of block `{name}` is not spatial", i.var)));
        }
        let write = whole_write(schedule, &block)
            .ok_or_else(|| ask.no("writes_whole", "it does not write every element of one tensor"))?;
        let reads = reads_of(schedule, name);
        let Some(down) = last_axis(schedule, &write) else {
            return Err(ask.no("transposed_read", "the output has a single element"));
        };
        let turned = |a: &Access| {
            let last = last_axis(schedule, a)?;
            (last != down && is_plain(a) && a.indices.iter().any(|e| e.as_var() == Some(&down))).then_some(last)
        };
        let candidates = staged(&reads, &block, |a| turned(a).is_some());
        let in_order = reads.iter().filter(|a| candidates.contains(&a.buffer));
        let Some(across) = in_order.clone().find_map(turned) else {
            return Err(ask.no("transposed_read", "no tensor is read whole along another axis than is written"));
        };
        let moved = moved_by(schedule, in_order, &across, &down);
        let straight = staged(&reads, &block, |a| ends_in(a, &down) && candidates.iter().all(|c| *c != a.buffer));
        let axis = |var: &Name| axis_of(schedule, &block, var);
        let batch = write.indices.iter().filter_map(|e| e.as_var()).filter(|v| **v != across && **v != down);
        let (Some(batch), Some(across), Some(down)) =
            (batch.map(axis).collect::<Option<Vec<Axis>>>(), axis(&across), axis(&down))
        else {
            return Err(ask.no("writes_whole", "an axis has no loop of its own"));
        };
        let decl = schedule.func().buffer(&write.buffer);
        let sizes = Sizes {
            across: across.extent,
            down: down.extent,
            widest: moved.iter().map(|m| m.dtype).max_by_key(|d| d.bytes()).unwrap_or(decl.dtype),
            output: decl.dtype,
            element: moved.iter().map(|m| m.dtype.bytes() as i64).sum(),
        };
        let (moves, output) = (moves(schedule, &reads, decl, None), write.buffer.clone());
        Ok(Transpose { block: name.clone(), batch, across, down, moved, straight, output, sizes, moves })
    }
}

/// The tensors among `reads` that are read once, along `across`.
fn moved_by<'a>(s: &Schedule, reads: impl Iterator<Item = &'a Access>, across: &Name, down: &Name) -> Vec<Moved> {
    let mut out: Vec<Moved> = vec![];
    for a in reads {
        let down_at = a.indices.iter().position(|e| e.as_var() == Some(down));
        if let (true, Some(down_at)) = (last_axis(s, a).as_ref() == Some(across), down_at)
            && out.iter().all(|m| m.buffer != a.buffer)
        {
            out.push(Moved { buffer: a.buffer.clone(), dtype: s.func().buffer(&a.buffer).dtype, down_at });
        }
    }
    out
}

/// The iterator along which the elements of an access are adjacent: that of the last dimension that is
/// longer than 1.
fn last_axis(s: &Schedule, access: &Access) -> Option<Name> {
    let shape = &s.func().buffer(&access.buffer).shape;
    let (index, _) = access.indices.iter().zip(shape).rev().find(|(_, extent)| !extent.is_int(1))?;
    index.as_var().cloned()
}

fn axis_of(s: &Schedule, block: &Block, var: &Name) -> Option<Axis> {
    let iter = block.iters.iter().find(|i| i.var == *var)?;
    let at = iter.binding.as_var()?.clone();
    s.loops(&block.name).contains(&at).then(|| Axis { at, extent: iter.extent.as_int() })
}

/// The numbers that widths depend on.
#[derive(Clone, Copy)]
pub struct Sizes {
    /// Length of the axis contiguous in the input, if constant.
    pub across: Option<i64>,
    /// Length of the axis contiguous in the output, if constant.
    pub down: Option<i64>,
    /// Widest element type of the tensors that are moved.
    pub widest: DType,
    /// Element type of the output.
    pub output: DType,
    /// Bytes of one element of all of them.
    pub element: i64,
}

impl Sizes {
    /// Elements per load of a tensor of `dtype`.
    fn load(&self, k: &Knobs, dtype: DType) -> i64 {
        dividing(lanes(k.get("vector"), dtype), self.across)
    }
}

/// The widths of one point, in elements.
#[derive(Clone, Copy)]
pub struct Plan {
    /// Elements per load.
    pub load: i64,
    /// Elements per store.
    pub store: i64,
    /// Rows that a thread stores together.
    pub rows: i64,
    /// Vectors side by side along the output before the next rows.
    pub side: i64,
}

impl Plan {
    /// The widths that alignment leaves of what the knobs ask for.
    pub fn of(sizes: &Sizes, k: &Knobs) -> Plan {
        let load = sizes.load(k, sizes.widest);
        let store = dividing(lanes(k.get("vector"), sizes.output), sizes.down);
        let rows = dividing(k.get("rows"), sizes.across);
        let steps = (k.get("down") / store).max(1);
        let unit = load.max(rows) * sizes.widest.bytes() as i64;
        // Threads that gather less than what the permutation moves together share it.
        let side = if rows >= load { steps } else { steps.min((BANKS / unit.max(4)).max(1)) };
        Plan { load, store, rows, side }
    }

    /// The permutation of a tile of `dtype`: bits of the units that move together, of the units that
    /// change places and of the distance to what says how; `None` where it would change nothing.
    fn swizzle(&self, sizes: &Sizes, k: &Knobs, dtype: DType) -> Option<Swizzle> {
        let size = dtype.bytes() as i64;
        let unit = sizes.load(k, dtype).max(self.rows).max(4 / size);
        let row = sizes.across.map_or(k.get("across"), |n| n.min(k.get("across")));
        let log2 = |n: i64| i64::from(n.max(1).ilog2());
        let distance = log2(row * self.store) - log2(unit);
        let len = log2(BANKS / (unit * size)).min(distance);
        let bits = |n: i64| u32::try_from(n).ok();
        Swizzle::new(bits(log2(unit))?, bits(len).filter(|n| *n > 0)?, bits(distance)?, true).ok()
    }
}

/// Bytes that the banks of shared memory serve at once.
const BANKS: i64 = 128;

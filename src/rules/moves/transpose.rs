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

use super::outline;
use crate::analysis::{Access, Decline};
use crate::ir::layout::Swizzle;
use crate::ir::{Block, DType, IterKind, Mark, Name, Scope, ThreadTag};
use crate::rules::find::operands::{ends_in, moves, reads_of, staged, whole_write};
use crate::rules::find::shape::{Axis, find_block, is_plain};
use crate::rules::parts::*;
use crate::rules::space::limits::{block_fits, dividing, keeps_busy, lanes, registers_fit};
use crate::rules::space::outlines::Moves;
use crate::rules::{Knobs, Prepared, ScheduleRule, Space, Spaces, accepted, for_kind};
use crate::schedule::{Schedule, ScheduleError};
use crate::target::{Kind, Target};

/// The GPU form.
pub struct TransposeCuda;

const CUDA: &str = "transpose.cuda";

impl ScheduleRule for TransposeCuda {
    fn name(&self) -> &'static str {
        CUDA
    }

    fn space(&self, input: &Prepared, target: &Target, spaces: &Spaces) -> Result<Space, Decline> {
        let t = Transpose::of(CUDA, Kind::Cuda, input, target)?;
        Ok(space(spaces.space(CUDA, target), &t, target))
    }

    fn schedule(&self, input: &Prepared, target: &Target, knobs: &Knobs) -> Result<Schedule, ScheduleError> {
        let t = accepted(Transpose::of(CUDA, Kind::Cuda, input, target));
        let sizes = t.sizes();
        let plan = Plan::of(&sizes, knobs);
        let mut s = t.schedule.clone();
        let y = s.split(&t.across.at, &[None, Some(knobs.get("across") / plan.rows), Some(plan.rows)])?;
        let steps = knobs.get("down") / plan.store;
        let x = s.split(&t.down.at, &[None, Some(steps / plan.side), Some(plan.side), Some(plan.store)])?;
        let ([yo, yt, yr], [xo, xh, xl, xv]) = (&y[..], &x[..]) else { panic!("split gives one loop per factor") };
        let tiles = if knobs.get("order") == 0 { [yo, xo] } else { [xo, yo] };
        let outer: Vec<Name> = t.batch.iter().map(|a| a.at.clone()).chain(tiles.map(|l| l.clone())).collect();
        let order: Vec<Name> = outer.iter().chain([xh, yt, xl, yr, xv]).cloned().collect();
        s.reorder(&order)?;
        let grid = s.fuse(&outer)?;
        let all = s.fuse(&[xh, yt, xl].map(|l| l.clone()))?;
        let threads = s.split(&all, &[None, Some(knobs.get("threads"))])?;
        let [turn, thread] = &threads[..] else { panic!("split gives one loop per factor") };
        s.reorder(&[thread, turn].map(|l| l.clone()))?;
        s.bind(&grid, ThreadTag::BlockX)?;
        s.bind(thread, ThreadTag::ThreadX)?;
        launch_bounds(&mut s, &grid, knobs.get("min_blocks"))?;
        for moved in &t.moved {
            share(&mut s, &t, moved, &grid, turn, knobs)?;
        }
        for buffer in &t.straight {
            stage_read(&mut s, &t.block, buffer, turn, plan.store, 0)?;
        }
        let store = s.cache_write(&t.block, &t.output, Scope::Local)?;
        s.reverse_compute_at(&store, turn)?;
        for l in loops_below(&s, &store, turn).iter().rev().skip(1) {
            unroll_loop(&mut s, l)?;
        }
        if let Some(lane) = loops_below(&s, &store, turn).last().filter(|_| plan.store > 1) {
            s.vectorize(&lane.clone())?;
        }
        batch_loads(&mut s, turn)?;
        unroll_loop(&mut s, yr)?;
        unroll_loop(&mut s, xv)?;
        Ok(s)
    }
}

/// Puts a tile of one input into shared memory under `grid`, and from there into registers at `turn`.
fn share(
    s: &mut Schedule,
    t: &Transpose,
    moved: &Moved,
    grid: &Name,
    turn: &Name,
    knobs: &Knobs,
) -> Result<(), ScheduleError> {
    let (plan, sizes) = (Plan::of(&t.sizes(), knobs), t.sizes());
    let load = sizes.load(knobs, moved.dtype);
    let copy = s.cache_read(&t.block, &moved.buffer, Scope::Shared)?;
    let tile = output(s, &copy);
    s.compute_at(&copy, grid)?;
    let loops = loops_below(s, &copy, grid);
    let all = match &loops[..] {
        [one] => one.clone(),
        several => s.fuse(several)?,
    };
    let parts = s.split(&all, &[None, Some(knobs.get("threads")), Some(load)])?;
    let [part, thread, lane] = &parts[..] else { panic!("split gives one loop per factor") };
    s.reorder(&[thread, part].map(|l| l.clone()))?;
    s.bind(thread, ThreadTag::ThreadX)?;
    if knobs.get("layout") == 2 {
        stage_read(s, &copy, &moved.buffer, part, load, knobs.get("hint"))?;
        unroll_loop(s, lane)?;
        let word = lanes(4, moved.dtype);
        s.storage_align(&tile, moved.down_at, 32 * word, word)?;
    } else if load > 1 {
        s.vectorize(lane)?;
        cache_hint(s, lane, knobs.get("hint"))?;
    } else {
        cache_hint(s, &copy, knobs.get("hint"))?;
    }
    batch_loads(s, part)?;
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
    /// The schedule with everything inlined.
    pub schedule: Schedule,
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
    /// Element type of the output.
    pub dtype: DType,
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
    pub fn of(by: &'static str, kind: Kind, input: &Prepared, target: &Target) -> Result<Transpose, Decline> {
        for_kind(by, kind, target)?;
        let no = |predicate, reason: String| Decline { by, predicate, reason };
        let schedule = input.start();
        let [name] = &input.blocks(&schedule)[..] else {
            return Err(no("one_block", "several blocks are left after inlining".into()));
        };
        let block = find_block(schedule.func(), name);
        if let Some(i) = block.iters.iter().find(|i| i.kind != IterKind::Spatial) {
            return Err(no("all_spatial", format!("axis `{}` of block `{name}` is not spatial", i.var)));
        }
        let write = whole_write(&schedule, &block)
            .ok_or_else(|| no("writes_whole", "it does not write every element of one tensor".into()))?;
        let reads = reads_of(&schedule, name);
        let Some(down) = last_axis(&schedule, &write) else {
            return Err(no("transposed_read", "the output has a single element".into()));
        };
        let turned = |a: &Access| {
            let last = last_axis(&schedule, a)?;
            (last != down && is_plain(a) && a.indices.iter().any(|e| e.as_var() == Some(&down))).then_some(last)
        };
        let candidates = staged(&reads, &block, |a| turned(a).is_some());
        let in_order = reads.iter().filter(|a| candidates.contains(&a.buffer));
        let Some(across) = in_order.clone().find_map(turned) else {
            return Err(no("transposed_read", "no tensor is read whole along another axis than is written".into()));
        };
        let moved = moved_by(&schedule, in_order, &across, &down);
        let straight = staged(&reads, &block, |a| ends_in(a, &down) && candidates.iter().all(|c| *c != a.buffer));
        let axis = |var: &Name| axis_of(&schedule, &block, var);
        let batch = write.indices.iter().filter_map(|e| e.as_var()).filter(|v| **v != across && **v != down);
        let (Some(batch), Some(across), Some(down)) =
            (batch.map(axis).collect::<Option<Vec<Axis>>>(), axis(&across), axis(&down))
        else {
            return Err(no("writes_whole", "an axis has no loop of its own".into()));
        };
        let decl = schedule.func().buffer(&write.buffer);
        let (dtype, moves) = (decl.dtype, moves(&schedule, &reads, decl));
        let output = write.buffer.clone();
        Ok(Transpose { block: name.clone(), batch, across, down, moved, straight, output, dtype, moves, schedule })
    }

    /// The numbers that widths depend on.
    pub fn sizes(&self) -> Sizes {
        Sizes {
            across: self.across.extent,
            down: self.down.extent,
            widest: self.moved.iter().map(|m| m.dtype).max_by_key(|d| d.bytes()).unwrap_or(self.dtype),
            output: self.dtype,
            element: self.moved.iter().map(|m| m.dtype.bytes() as i64).sum(),
        }
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

fn space(space: Space, t: &Transpose, target: &Target) -> Space {
    let sizes = t.sizes();
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
    let space = space.require("tile_in_shared", move |k| match tile(k) * 5 / 4 {
        n if n <= limit => Ok(()),
        n => Err(format!("a tile of {n} bytes exceeds the {limit} of shared memory")),
    });
    let space = space.prefer("tile_within_axes", move |k| {
        for (side, n) in [("across", sizes.across), ("down", sizes.down)] {
            match n {
                Some(n) if k.get(side) >= 2 * n && k.get(side) > 8 => {
                    return Err(format!("a tile of {} wastes more than half on a length of {n}", k.get(side)));
                }
                _ => {}
            }
        }
        Ok(())
    });
    let least = move |n: Option<i64>, size: i64| n.map_or(64, |n| 64.min(n * size));
    let space = space.prefer("whole_sectors", move |k| {
        let (a, d) = (sizes.widest.bytes() as i64, sizes.output.bytes() as i64);
        match (k.get("across") * a, k.get("down") * d) {
            (x, y) if x >= least(sizes.across, a) && y >= least(sizes.down, d) => Ok(()),
            (x, y) => Err(format!("rows of {x} and {y} bytes in memory")),
        }
    });
    let in_thread = move |k: &Knobs| tile(k) / k.get("threads");
    let space = space.prefer("bytes_per_thread", move |k| match in_thread(k) {
        n if n <= 256 => Ok(()),
        n => Err(format!("{n} bytes of a tile for each thread")),
    });
    let space = registers_fit(space, target, &["threads"], 26, move |k| {
        let plan = Plan::of(&sizes, k);
        in_thread(k).max(plan.rows * plan.store * (sizes.element + sizes.output.bytes() as i64))
    });
    let bytes = t.moves.map(|m| m.read);
    let space = keeps_busy(space, target, &["threads"], bytes, in_thread);
    match t.moves {
        Some(m) => space.outlined(move |k| outline::transpose(&m, &sizes, k)),
        None => space,
    }
}

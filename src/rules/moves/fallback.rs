//! `fallback.cuda` and `fallback.cpu`: injective functions of any kind.
//!
//! When: every block that is left after inlining is spatial. Several blocks become several launches.
//! How: all axes of the output fused in their order; on a GPU each thread moves one or several
//! vectors, operands whose last axis is the output's staged in registers by vector loads; a block takes
//! one tile, or with `waves` above 0 as many as it takes for so many blocks per multiprocessor; on the
//! CPU chunks run in parallel and their inner loop is one vector, which may be stored past the caches.
//! Declines: `target_kind`, `all_spatial`.

use crate::analysis::Decline;
use crate::ir::device::LeafOp;
use crate::ir::{DType, IterKind, IterVar, Mark, Name, Scope, ThreadTag};
use crate::rules::find::operands::{ends_in, moves, reads_of, staged, whole_write};
use crate::rules::find::shape::find_block;
use crate::rules::parts::*;
use crate::rules::space::limits::{block_fits, dividing, lanes, registers_fit, step_fits, stream_fits};
use crate::rules::space::outlines::{self, Moves};
use crate::rules::{Knobs, Prepared, ScheduleRule, Space, Spaces, accepted, for_kind};
use crate::schedule::{Schedule, ScheduleError};
use crate::target::{Kind, Target};

/// The GPU form.
pub struct FallbackCuda;

/// The CPU form.
pub struct FallbackCpu;

const CUDA: &str = "fallback.cuda";
const CPU: &str = "fallback.cpu";

impl ScheduleRule for FallbackCuda {
    fn name(&self) -> &'static str {
        CUDA
    }

    fn space(&self, input: &Prepared, target: &Target, spaces: &Spaces) -> Result<Space, Decline> {
        let s = accept(CUDA, Kind::Cuda, input, target)?;
        let outputs: Vec<Output> = input.blocks(&s).iter().map(|b| Output::of(&s, b)).collect();
        let widest = outputs.iter().map(|o| o.dtype.bytes() as i64).max().unwrap_or(1);
        let operands = outputs.iter().map(|o| o.staged.len() as i64 + 1).max().unwrap_or(1);
        let size = outputs.iter().filter_map(|o| o.elements).max();
        let space = spaces.space(CUDA, target);
        let space = block_fits(space, target, &["threads"]);
        let space = registers_fit(space, target, &["threads"], 24, move |k| {
            k.get("unroll") * k.get("vector").max(widest) * operands
        });
        let last: Vec<(Option<i64>, DType)> = outputs.iter().map(|o| (o.last, o.dtype)).collect();
        let space = space.require("vector_alignment", move |k| {
            let bytes = |(run, dtype): &(Option<i64>, DType)| width(k, *dtype, *run) * dtype.bytes() as i64;
            match last.iter().map(bytes).max() {
                Some(most) if most != k.get("vector") => {
                    Err(format!("accesses of {} bytes where types and the last axis make them {most}", k.get("vector")))
                }
                _ => Ok(()),
            }
        });
        let tile = move |k: &Knobs| k.get("threads") * k.get("unroll") * (k.get("vector") / widest).max(1);
        let space = step_fits(space, size, tile);
        let sms = target.sms as i64;
        let space = space.require("several_tiles_per_block", move |k| match (k.get("waves"), size) {
            (0, _) | (_, None) => Ok(()),
            (waves, Some(n)) if n > tile(k) * sms * waves => Ok(()),
            (waves, Some(n)) => Err(format!("{} blocks have one tile each of {n} elements", sms * waves)),
        });
        Ok(match outputs.iter().map(|o| o.moves).collect::<Option<Vec<Moves>>>() {
            Some(moves) => space.outlined(move |k| outlines::elementwise(&moves, sms, k)),
            None => space,
        })
    }

    fn schedule(&self, input: &Prepared, target: &Target, knobs: &Knobs) -> Result<Schedule, ScheduleError> {
        let mut s = accepted(accept(CUDA, Kind::Cuda, input, target));
        for block in input.blocks(&s) {
            let out = Output::of(&s, &block);
            let all = fuse_kind(&mut s, &block, IterKind::Spatial)?;
            let width = width(knobs, out.dtype, out.last);
            let rest = [knobs.get("unroll"), knobs.get("threads"), width].map(Some);
            let (loops, strides) = match knobs.get("waves") {
                0 => (s.split(&all, &[&[None], &rest[..]].concat())?, 0),
                waves => (s.split(&all, &[&[None, Some(target.sms as i64 * waves)], &rest[..]].concat())?, 1),
            };
            let (stride, tile) = loops.split_at(strides);
            let [eb, eu, et, ev] = tile else { panic!("split gives one loop per factor") };
            let order: Vec<Name> = [eb, et].into_iter().chain(stride).chain([eu, ev]).cloned().collect();
            s.reorder(&order)?;
            s.bind(eb, ThreadTag::BlockX)?;
            s.bind(et, ThreadTag::ThreadX)?;
            launch_bounds(&mut s, eb, knobs.get("min_blocks"))?;
            if width > 1 {
                for (buffer, once) in &out.staged {
                    let hint = if *once { knobs.get("hint") } else { 0 };
                    stage_read(&mut s, &block, buffer, eu, width, hint)?;
                }
            }
            if width > 1 && out.whole {
                let store = s.cache_write(&block, &out.buffer, Scope::Local)?;
                s.reverse_compute_at(&store, eu)?;
                if let Some(lane) = loops_below(&s, &store, eu).last() {
                    s.vectorize(&lane.clone())?;
                }
            }
            batch_loads(&mut s, eu)?;
            s.unroll(ev)?;
            s.mark(ev, Mark::Tile(LeafOp::Elementwise))?;
        }
        Ok(s)
    }
}

impl ScheduleRule for FallbackCpu {
    fn name(&self) -> &'static str {
        CPU
    }

    fn space(&self, input: &Prepared, target: &Target, spaces: &Spaces) -> Result<Space, Decline> {
        let s = accept(CPU, Kind::Cpu, input, target)?;
        let outputs: Vec<Output> = input.blocks(&s).iter().map(|b| Output::of(&s, b)).collect();
        let size = outputs.iter().filter_map(|o| o.elements).max();
        let widest = outputs.iter().map(|o| o.dtype.bytes() as i64).max().unwrap_or(1);
        let space = spaces.space(CPU, target);
        let space = step_fits(space, size, move |k| k.get("chunk") * (k.get("vector") / widest).max(1));
        let written = outputs.iter().map(|o| o.elements?.checked_mul(o.dtype.bytes() as i64)).sum();
        let space = stream_fits(space, target, written);
        Ok(match outputs.iter().map(|o| o.moves).collect::<Option<Vec<Moves>>>() {
            Some(moves) => space.outlined(move |k| outlines::cpu_elementwise(&moves, k)),
            None => space,
        })
    }

    fn schedule(&self, input: &Prepared, target: &Target, knobs: &Knobs) -> Result<Schedule, ScheduleError> {
        let mut s = accepted(accept(CPU, Kind::Cpu, input, target));
        for block in input.blocks(&s) {
            let out = Output::of(&s, &block);
            let all = fuse_kind(&mut s, &block, IterKind::Spatial)?;
            let width = lanes(knobs.get("vector"), out.dtype);
            let loops = s.split(&all, &[None, Some(knobs.get("chunk")), Some(width)])?;
            s.parallel(&loops[0])?;
            if width > 1 && out.last.is_some_and(|n| n % width == 0) {
                s.vectorize(&loops[2])?;
                if knobs.get("stream") == 1 {
                    past_the_caches(&mut s, &loops[2])?;
                }
            }
        }
        Ok(s)
    }
}

fn accept(by: &'static str, kind: Kind, input: &Prepared, target: &Target) -> Result<Schedule, Decline> {
    for_kind(by, kind, target)?;
    let no = |predicate, reason: String| Decline { by, predicate, reason };
    let s = input.start();
    for name in input.blocks(&s) {
        let block = find_block(s.func(), &name);
        if let Some(i) = block.iters.iter().find(|i| i.kind != IterKind::Spatial) {
            return Err(no("all_spatial", format!("axis `{}` of block `{name}` is not spatial", i.var)));
        }
    }
    Ok(s)
}

/// Elements of one access: as many as the knob says, or what divides the last axis.
fn width(k: &Knobs, dtype: DType, last: Option<i64>) -> i64 {
    dividing(lanes(k.get("vector"), dtype), last)
}

/// What a block writes, and which of its operands move as vectors along with it.
struct Output {
    buffer: Name,
    dtype: DType,
    elements: Option<i64>,
    /// Length of the innermost axis of the loops.
    last: Option<i64>,
    /// Buffers read at plain indices whose last one is the innermost axis, and whether each element is
    /// read once.
    staged: Vec<(Name, bool)>,
    /// True where the block writes every element of the buffer, each by its own iterators.
    whole: bool,
    /// How much it moves, where that is constant.
    moves: Option<Moves>,
}

impl Output {
    fn of(s: &Schedule, name: &Name) -> Output {
        let block = find_block(s.func(), name);
        let buffer = output(s, name);
        let reads = reads_of(s, name);
        let inner = block.iters.last();
        let staged = staged(&reads, &block, |a| inner.is_some_and(|i| ends_in(a, &i.var)));
        let once = |b: &Name| {
            let of = |i: &IterVar| reads.iter().any(|a| a.buffer == *b && a.vars().contains(&i.var));
            block.iters.iter().all(of)
        };
        let staged = staged.into_iter().map(|b| (b.clone(), once(&b))).collect();
        let decl = s.func().buffer(&buffer);
        let whole = whole_write(s, &block).is_some();
        Output {
            whole,
            moves: moves(s, &reads, decl),
            dtype: decl.dtype,
            elements: decl.len(),
            last: inner.and_then(|i| i.extent.as_int()),
            staged,
            buffer,
        }
    }
}

//! `window.cuda` and `window.cpu`: short windows, as of pooling and depthwise convolutions.
//!
//! When: one reduction of a constant length of at most [`WINDOW`] steps, whatever it reads (padding is
//! inlined into the reads), and no form for the rules of plain reductions, which leave windows that do not
//! overlap to this one; elementwise epilogues or none.
//! How: on a GPU each thread reduces the windows of one or several adjacent outputs in registers,
//! neighbouring threads have neighbouring outputs; on the CPU tasks of several rows run in parallel and
//! the outputs of a row are computed as vectors where every read moves along with them, or left to
//! the compiler. Windows are unrolled up to `unroll` steps.
//! Declines: `target_kind`, `one_reduction`, `elementwise_epilogue`, `known_reducer`, `reduction_axis`,
//! `short_window`, `plain_reduction`.

use super::outline::{self as outlines, Window};
use crate::analysis::{Access, Decline, Facts, linear};
use crate::ir::{DType, ExprKind, IterKind, Name, Stmt, ThreadTag};
use crate::rules::find::shape::{Axis, OneReduction, Reduction, WINDOW, find_block};
use crate::rules::parts::*;
use crate::rules::space::limits::{block_fits, lanes, registers_fit, step_fits};
use crate::rules::{Knobs, Prepared, ScheduleRule, Space, Spaces, accepted, for_kind};
use crate::schedule::{Schedule, ScheduleError};
use crate::target::{Kind, Target};

/// The GPU form.
pub struct WindowCuda;

/// The CPU form.
pub struct WindowCpu;

const CUDA: &str = "window.cuda";
const CPU: &str = "window.cpu";

impl ScheduleRule for WindowCuda {
    fn name(&self) -> &'static str {
        CUDA
    }

    fn space(&self, input: &Prepared, target: &Target, spaces: &Spaces) -> Result<Space, Decline> {
        let w = accept(CUDA, Kind::Cuda, input, target)?;
        let (acc, steps, total, last) = (w.dtype, w.steps, w.total(), w.last());
        let space = block_fits(spaces.space(CUDA, target), target, &["threads"]);
        let bytes = acc.bytes() as i64;
        let space = registers_fit(space, target, &["threads"], 24, move |k| {
            k.get("outputs") * (bytes.max(4) + 4 * k.get("unroll").min(steps).min(32))
        });
        let space = step_fits(space, total, |k| k.get("threads") * k.get("outputs"));
        let space = space.require("outputs_adjacent", move |k| match (k.get("outputs"), last) {
            (1, _) => Ok(()),
            (n, Some(last)) if last % n == 0 => Ok(()),
            (n, _) => Err(format!("{n} outputs do not divide the last axis")),
        });
        let space = unrolls_something(space, &w);
        Ok(match Window::of(&w.schedule, &w.block, steps, total) {
            Some(window) => space.outlined(move |k| outlines::cuda(&window, k)),
            None => space,
        })
    }

    fn schedule(&self, input: &Prepared, target: &Target, knobs: &Knobs) -> Result<Schedule, ScheduleError> {
        let w = accepted(accept(CUDA, Kind::Cuda, input, target));
        let mut s = w.schedule;
        order_axes(&mut s, &[&w.spatial, &w.reduce])?;
        let all = fuse_all(&mut s, &w.spatial)?;
        let outputs = knobs.get("outputs");
        let loops = s.split(&all, &[None, Some(knobs.get("threads")), Some(outputs)])?;
        let [grid, thread, output] = &loops[..] else { panic!("split gives one loop per factor") };
        s.bind(grid, ThreadTag::BlockX)?;
        s.bind(thread, ThreadTag::ThreadX)?;
        s.unroll(output)?;
        launch_bounds(&mut s, grid, knobs.get("min_blocks"))?;
        let tails = tails(&mut s, &w.block, &w.epilogues)?;
        // While the window is one block with its init: its outputs need not be a box.
        for tail in &tails {
            s.reverse_compute_at(tail, thread)?;
            // A copy out of registers is one vector; what computes is unrolled.
            match (loops_below(&s, tail, thread).as_slice(), w.epilogues.contains(tail)) {
                ([one], false) => vectorize_loop(&mut s, &one.clone())?,
                (loops, _) => loops.to_vec().iter().try_for_each(|l| unroll_loop(&mut s, l))?,
            }
        }
        unroll_window(&mut s, &w.block, output, knobs.get("unroll"))?;
        start_before_window(&mut s, &w.block, output)?;
        keep_in_registers(&mut s, &w.block)?;
        Ok(s)
    }
}

impl ScheduleRule for WindowCpu {
    fn name(&self) -> &'static str {
        CPU
    }

    fn space(&self, input: &Prepared, target: &Target, spaces: &Spaces) -> Result<Space, Decline> {
        let w = accept(CPU, Kind::Cpu, input, target)?;
        let (acc, last, total, along) = (w.dtype, w.last(), w.total(), w.moves_along());
        let space = spaces.space(CPU, target);
        let narrowest = space.knobs.iter().find(|k| k.name == "vector").and_then(|k| k.values.iter().min().copied());
        let space = space.require("vector_lanes", move |k| match (lanes(k.get("vector"), acc), last) {
            (_, _) if !along && Some(k.get("vector")) == narrowest => Ok(()),
            (_, _) if !along => Err("some read does not move along with the outputs: there are no vectors".into()),
            (_, _) if Some(k.get("vector")) == narrowest => Ok(()),
            (n, Some(last)) if last % n == 0 => Ok(()),
            (n, _) => Err(format!("{n} lanes do not divide the last axis")),
        });
        let rows = total.zip(last).map(|(total, last)| total / last.max(1));
        let space = step_fits(space, rows, |k| 64 * k.get("rows"));
        let space = unrolls_something(space, &w);
        Ok(match Window::of(&w.schedule, &w.block, w.steps, total) {
            Some(window) => space.outlined(move |k| outlines::cpu(&window, last.unwrap_or(1), along, k)),
            None => space,
        })
    }

    fn schedule(&self, input: &Prepared, target: &Target, knobs: &Knobs) -> Result<Schedule, ScheduleError> {
        let w = accepted(accept(CPU, Kind::Cpu, input, target));
        let (last, along) = (w.last(), w.moves_along());
        let mut s = w.schedule;
        order_axes(&mut s, &[&w.spatial, &w.reduce])?;
        let (outer, row) = w.spatial.split_at(w.spatial.len() - 1);
        let rows = match outer {
            [] => s.add_unit_loop(&row[0].at)?,
            _ => fuse_all(&mut s, outer)?,
        };
        let tasks = s.split(&rows, &[None, Some(knobs.get("rows"))])?;
        s.parallel(&tasks[0])?;
        let width = lanes(knobs.get("vector"), w.dtype);
        let vectors = along && width > 1 && last.is_some_and(|n| n % width == 0);
        let tails = tails(&mut s, &w.block, &w.epilogues)?;
        let at = if vectors { vectors_inside(&mut s, &row[0].at, &w.reduce, width)? } else { row[0].at.clone() };
        for tail in &tails {
            s.reverse_compute_at(tail, &at)?;
            if let Some(lane) = loops_below(&s, tail, &at).last() {
                vectorize_loop(&mut s, &lane.clone())?;
            }
        }
        unroll_window(&mut s, &w.block, &at, knobs.get("unroll"))?;
        start_before_window(&mut s, &w.block, &at)?;
        keep_in_registers(&mut s, &w.block)?;
        Ok(s)
    }
}

/// Splits `width` outputs off a row and puts them inside of the window, as one vector; the loop over
/// vectors.
fn vectors_inside(s: &mut Schedule, row: &Name, reduce: &[Axis], width: i64) -> Result<Name, ScheduleError> {
    let parts = s.split(row, &[None, Some(width)])?;
    let window = reduce.iter().map(|a| a.at.clone());
    let order: Vec<Name> =
        std::iter::once(parts[0].clone()).chain(window).chain(std::iter::once(parts[1].clone())).collect();
    s.reorder(&order)?;
    s.vectorize(&parts[1])?;
    Ok(parts[0].clone())
}

/// Unrolls the innermost loops of the window below `at`, `most` steps together at most.
fn unroll_window(s: &mut Schedule, block: &Name, at: &Name, most: i64) -> Result<(), ScheduleError> {
    let mut steps = 1;
    for l in loops_of_kind(s, block, at, IterKind::Reduce).iter().rev() {
        steps *= loop_extent(s, l).unwrap_or(i64::MAX);
        if steps > most {
            break;
        }
        unroll_loop(s, l)?;
    }
    Ok(())
}

/// Starts the accumulators right before the window.
fn start_before_window(s: &mut Schedule, block: &Name, at: &Name) -> Result<(), ScheduleError> {
    match loops_of_kind(s, block, at, IterKind::Reduce).first() {
        Some(first) => s.decompose_reduction(block, &first.clone()).map(|_| ()),
        None => Ok(()),
    }
}

/// Fewer steps are unrolled only where that changes something.
fn unrolls_something(space: Space, accepted: &Accepted) -> Space {
    let extents: Vec<i64> = accepted.reduce.iter().filter_map(|a| a.extent).collect();
    let reached = move |most: i64| {
        let mut steps = 1;
        extents.iter().rev().map(|n| (steps, steps *= n).0 * n).take_while(|steps| *steps <= most).last().unwrap_or(1)
    };
    let values: Vec<i64> = space.knobs.iter().find(|k| k.name == "unroll").map_or(vec![], |k| k.values.clone());
    space.prefer("unroll_differs", move |k| {
        let most = k.get("unroll");
        match values.iter().find(|v| **v < most && reached(**v) == reached(most)) {
            Some(less) => Err(format!("`unroll` = {less} unrolls as much")),
            None => Ok(()),
        }
    })
}

/// A function that one of the forms takes.
struct Accepted {
    schedule: Schedule,
    block: Name,
    epilogues: Vec<Name>,
    /// In the order of the output.
    spatial: Vec<Axis>,
    reduce: Vec<Axis>,
    /// Steps of one window.
    steps: i64,
    dtype: DType,
}

impl Accepted {
    /// Outputs, where that is constant.
    fn total(&self) -> Option<i64> {
        self.spatial.iter().try_fold(1i64, |n, a| n.checked_mul(a.extent?))
    }

    /// Length of a row of outputs.
    fn last(&self) -> Option<i64> {
        self.spatial.last().and_then(|a| a.extent)
    }

    /// Every read stays or moves one element on with the outputs of a row, under no condition.
    fn moves_along(&self) -> bool {
        let block = find_block(self.schedule.func(), &self.block);
        let Some(inner) = block.iters.iter().rfind(|i| i.kind == IterKind::Spatial) else { return false };
        let facts = Facts::of(self.schedule.func());
        let Some(b) = facts.block(&self.block) else { return false };
        let moves = |a: &Access| {
            let Some((last, outer)) = a.indices.split_last() else { return true };
            let step = linear(last, &inner.var, &b.ranges).and_then(|(c, _)| c.as_int());
            matches!(step, Some(0 | 1)) && outer.iter().all(|e| !e.uses_var(&inner.var))
        };
        b.reads.iter().all(moves) && !has_condition(&block.body)
    }
}

/// True where a read happens under a condition only.
fn has_condition(body: &[Stmt]) -> bool {
    let mut found = false;
    for s in body {
        s.visit(&mut |s| {
            s.for_each_expr(|e| e.visit(&mut |e| found |= matches!(e.kind(), ExprKind::IfThenElse { .. })))
        });
    }
    found
}

fn accept(by: &'static str, kind: Kind, input: &Prepared, target: &Target) -> Result<Accepted, Decline> {
    for_kind(by, kind, target)?;
    let no = |predicate, reason: String| Decline { by, predicate, reason };
    let one = OneReduction::of(by, input)?;
    let axes = |kind| axes_of_kind(&one.schedule, &one.block, kind);
    let (spatial, reduce) = (axes(IterKind::Spatial), axes(IterKind::Reduce));
    let steps = reduce.iter().try_fold(1i64, |n, a| n.checked_mul(a.extent?));
    let steps = match steps {
        Some(n) if n <= WINDOW => n,
        Some(n) => return Err(no("short_window", format!("{n} steps are too many for one thread"))),
        None => return Err(no("short_window", "the length of the window is not constant".into())),
    };
    let accepted = Accepted {
        spatial,
        reduce,
        steps,
        dtype: one.reducer.dtype,
        schedule: one.schedule,
        block: one.block,
        epilogues: one.epilogues,
    };
    if Reduction::of(by, input).is_ok_and(|r| !r.tiled) {
        return Err(no("plain_reduction", "every axis indexes a tensor plainly: it is no window".into()));
    }
    Ok(accepted)
}

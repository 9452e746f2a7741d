//! `window.cuda` and `window.cpu`: short windows, as of pooling and depthwise convolutions.
//!
//! When: one reduction of a constant length of at most [`WINDOW`] steps, whatever it reads (padding is
//! inlined into the reads), and no form for the rules of plain reductions, which leave windows that do not
//! overlap to this one; elementwise epilogues or none.
//! How: on a GPU each thread reduces the windows of one or several adjacent outputs in registers,
//! neighbouring threads have neighbouring outputs; on the CPU tasks of several rows run in parallel and
//! the outputs of a row are computed as vectors where every read moves along with them, or left to
//! the compiler. Windows are unrolled up to `unroll` steps.
//! Declines: `target_kind`, the predicates of [`OneReduction::of`], `short_window`, `plain_reduction`;
//! `window.cuda`: `several_outputs`; `window.cpu`: `is_product`.
//!
//! ```text
//! window.cuda on cuda:sm_90a
//! before: float32 A[64, 114, 114]
//!         float32 O[c, i, j] max= A[c, i * 2 + r, j * 2 + s] | i < 56, j < 56, r < 3, s < 3
//! after:  blockIdx.x 784 [min_blocks=4], threadIdx.x 256:
//!           O_local = 0
//!           unroll 3, unroll 3: O_local max= A
//!           O = O_local
//! ```
//!
//! ```text
//! window.cpu on cpu
//! before: float32 A[64, 58, 58]
//!         float32 O[c, i, j] max= A[c, i + r, j + s] | i < 56, j < 56, r < 3, s < 3
//! after:  parallel 896, loop 4, loop 7:
//!           vector 8: O_local = 0
//!           unroll 3, unroll 3, vector 8: O_local max= A
//!           vector 8: O = O_local
//! ```

use super::outline::{self as outlines, Window};
use crate::analysis::{Access, BlockFacts, Decline, linear};
use crate::ir::{ExprKind, Stmt};
use crate::rules::find::product::Product;
use crate::rules::find::shape::{Axis, OneReduction, Reduction, WINDOW, find_block, size};
use crate::rules::parts::*;

/// The GPU form.
pub const CUDA: Rule = Rule::new(Kind::Cuda, "window.cuda", include_str!("../schedules/window.cuda.toml"), cuda);

/// The CPU form.
pub const CPU: Rule = Rule::new(Kind::Cpu, "window.cpu", include_str!("../schedules/window.cpu.toml"), cpu);

/// A reduction over a short window.
struct Short {
    one: OneReduction,
    /// In the order of the output.
    spatial: Vec<Axis>,
    reduce: Vec<Axis>,
    /// Steps of one window.
    steps: i64,
    /// Every read stays or moves one element on with the outputs of a row, under no condition.
    along: bool,
    window: Option<Window>,
}

struct Cuda(Short);

struct Cpu(Short);

impl Short {
    /// Outputs, where that is constant.
    fn total(&self) -> Option<i64> {
        size(&self.spatial)
    }

    /// Length of a row of outputs.
    fn last(&self) -> Option<i64> {
        self.spatial.last().and_then(|a| a.extent)
    }
}

fn short(ask: &Ask) -> Result<Short, Decline> {
    let one = OneReduction::of(ask)?;
    let axes = |kind| axes_of_kind(&one.schedule, &one.chain.block, kind);
    let (spatial, reduce) = (axes(IterKind::Spatial), axes(IterKind::Reduce));
    let steps = match size(&reduce) {
        Some(n) if n <= WINDOW => n,
        Some(n) => return Err(ask.no("short_window", format!("{n} steps are too many for one thread"))),
        None => return Err(ask.no("short_window", "the length of the window is not constant")),
    };
    if Reduction::in_order(ask, one.clone()).is_ok_and(|r| !r.tiled) {
        return Err(ask.no("plain_reduction", "every axis indexes a tensor plainly: it is no window"));
    }
    let mut one = one;
    one.keep_float32();
    let (along, total) = (moves_along(&one.schedule, &one.facts), size(&spatial));
    let window = Window::of(&one.schedule, &one.facts, steps, total);
    Ok(Short { one, spatial, reduce, steps, along, window })
}

fn cuda(ask: &Ask) -> Answer {
    let w = short(ask)?;
    if w.total() == Some(1) && !w.one.chain.epilogues.is_empty() {
        return Err(ask.no("several_outputs", "there is one output, and what follows it would be done by every thread"));
    }
    Ok(Found::new(w.one.schedule.clone(), Cuda(w)))
}

fn cpu(ask: &Ask) -> Answer {
    let long = |n: Option<i64>| n != Some(1);
    if Product::of(ask).is_ok_and(|p| matches!(p.extents(), [_, rows, columns, _] if long(rows) && long(columns))) {
        return Err(ask.no("is_product", "it is a product of two matrices"));
    }
    short(ask).map(|w| Found::new(w.one.schedule.clone(), Cpu(w)))
}

impl Accepted for Cuda {
    fn constrain(&self, space: Space, target: &Target) -> Space {
        let w = &self.0;
        let (bytes, steps, last) = (w.one.reducer.dtype.bytes() as i64, w.steps, w.last());
        let space = block_fits(space, target, &["threads"]);
        let space = registers_fit(space, target, &["threads"], 24, move |k| {
            k.get("outputs") * (bytes.max(4) + 4 * k.get("unroll").min(steps).min(32))
        });
        let space = step_fits(space, w.total(), |k| k.get("threads") * k.get("outputs"));
        let space = space.require("outputs_adjacent", move |k| match (k.get("outputs"), last) {
            (1, _) => Ok(()),
            (n, Some(last)) if last % n == 0 => Ok(()),
            (n, _) => Err(format!("{n} outputs do not divide the last axis")),
        });
        unrolls_something(space, w)
    }

    fn schedule(&self, s: &mut Schedule, k: &Knobs) -> Done {
        let w = &self.0;
        order_axes(s, &[&w.spatial, &w.reduce])?;
        let all = fuse_all(s, &w.spatial)?;
        let [grid, thread, output] = split(s, &all, [None, Some(k.get("threads")), Some(k.get("outputs"))])?;
        s.bind(&grid, ThreadTag::BlockX)?;
        s.bind(&thread, ThreadTag::ThreadX)?;
        s.unroll(&output)?;
        launch_bounds(s, &grid, k.get("min_blocks"))?;
        let tails = tails(s, &w.one.chain)?;
        // While the window is one block with its init: its outputs need not be a box.
        for tail in &tails {
            s.reverse_compute_at(tail, &thread)?;
            // A copy out of registers is one vector; what computes is unrolled.
            match (&loops_below(s, tail, &thread)[..], w.one.chain.epilogues.contains(tail)) {
                ([one], false) => vectorize_loop(s, one)?,
                (loops, _) => loops.iter().try_for_each(|l| unroll_loop(s, l))?,
            }
        }
        reduce_window(s, &w.one.chain.block, &output, k.get("unroll"))
    }

    fn outline(&self, k: &Knobs) -> Option<Outline> {
        Some(outlines::cuda(self.0.window.as_ref()?, k))
    }
}

impl Accepted for Cpu {
    fn constrain(&self, space: Space, _: &Target) -> Space {
        let w = &self.0;
        let (acc, last, along) = (w.one.reducer.dtype, w.last(), w.along);
        let narrowest = space.knob("vector").and_then(|k| k.values.iter().min().copied());
        let space = space.require("vector_lanes", move |k| match (lanes(k.get("vector"), acc), last) {
            (_, _) if !along && Some(k.get("vector")) == narrowest => Ok(()),
            (_, _) if !along => Err("some read does not move along with the outputs: there are no vectors".into()),
            (_, _) if Some(k.get("vector")) == narrowest => Ok(()),
            (n, Some(last)) if last % n == 0 => Ok(()),
            (n, _) => Err(format!("{n} lanes do not divide the last axis")),
        });
        let rows = w.total().zip(last).map(|(total, last)| total / last.max(1));
        let space = step_fits(space, rows, |k| 64 * k.get("rows"));
        unrolls_something(space, w)
    }

    fn schedule(&self, s: &mut Schedule, k: &Knobs) -> Done {
        let w = &self.0;
        order_axes(s, &[&w.spatial, &w.reduce])?;
        let (outer, row) = fuse_but_last(s, &w.spatial)?;
        let rows = outer.map_or_else(|| s.add_unit_loop(&row), Ok)?;
        let [task, _] = split(s, &rows, [None, Some(k.get("rows"))])?;
        s.parallel(&task)?;
        let width = lanes(k.get("vector"), w.one.reducer.dtype);
        let vectors = w.along && width > 1 && w.last().is_some_and(|n| n % width == 0);
        let tails = tails(s, &w.one.chain)?;
        let at = if vectors { vectors_inside(s, &row, &w.reduce, width)? } else { row };
        for tail in &tails {
            s.reverse_compute_at(tail, &at)?;
            if let Some(lane) = loops_below(s, tail, &at).last() {
                vectorize_loop(s, lane)?;
            }
        }
        reduce_window(s, &w.one.chain.block, &at, k.get("unroll"))
    }

    fn outline(&self, k: &Knobs) -> Option<Outline> {
        Some(outlines::cpu(self.0.window.as_ref()?, self.0.last().unwrap_or(1), self.0.along, k))
    }
}

/// Splits `width` outputs off a row and puts them inside of the window, as one vector; the loop over
/// vectors.
fn vectors_inside(s: &mut Schedule, row: &Name, reduce: &[Axis], width: i64) -> Result<Name, ScheduleError> {
    let [vectors, lane] = split(s, row, [None, Some(width)])?;
    let order: Vec<Name> = [&vectors].into_iter().chain(reduce.iter().map(|a| &a.at)).chain([&lane]).cloned().collect();
    s.reorder(&order)?;
    s.vectorize(&lane)?;
    Ok(vectors)
}

/// Unrolls the innermost loops of the window below `at`, `most` steps together at most, and starts the
/// accumulators right before it.
fn reduce_window(s: &mut Schedule, block: &Name, at: &Name, most: i64) -> Done {
    let mut steps = 1;
    for l in loops_of_kind(s, block, at, IterKind::Reduce).iter().rev() {
        steps *= loop_extent(s, l).unwrap_or(i64::MAX);
        if steps > most {
            break;
        }
        unroll_loop(s, l)?;
    }
    if let Some(first) = loops_of_kind(s, block, at, IterKind::Reduce).first() {
        s.decompose_reduction(block, first)?;
    }
    keep_in_registers(s, block)
}

/// Fewer steps are unrolled only where that changes something.
fn unrolls_something(space: Space, w: &Short) -> Space {
    let extents: Vec<i64> = w.reduce.iter().filter_map(|a| a.extent).collect();
    let reached = move |most: i64| {
        let mut steps = 1;
        extents.iter().rev().map(|n| (steps, steps *= n).0 * n).take_while(|steps| *steps <= most).last().unwrap_or(1)
    };
    let values: Vec<i64> = space.knob("unroll").map_or(vec![], |k| k.values.clone());
    space.prefer("unroll_differs", move |k| {
        let most = k.get("unroll");
        match values.iter().find(|v| **v < most && reached(**v) == reached(most)) {
            Some(less) => Err(format!("`unroll` = {less} unrolls as much")),
            None => Ok(()),
        }
    })
}

/// Every read stays or moves one element on with the outputs of a row, under no condition.
fn moves_along(s: &Schedule, b: &BlockFacts) -> bool {
    let block = find_block(s.func(), &b.name);
    let Some(inner) = block.iters.iter().rfind(|i| i.kind == IterKind::Spatial) else { return false };
    let moves = |a: &Access| {
        let Some((last, outer)) = a.indices.split_last() else { return true };
        let step = linear(last, &inner.var, &b.ranges).and_then(|(c, _)| c.as_int());
        matches!(step, Some(0 | 1)) && outer.iter().all(|e| !e.uses_var(&inner.var))
    };
    b.reads.iter().all(moves) && !has_condition(&block.body)
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

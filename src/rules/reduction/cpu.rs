//! `reduction.cpu` and `reduction.outer_cpu`: reductions on the CPU.
//!
//! When: one sum, product, max, min, argmax or argmin; injective producers (inlined) and elementwise
//! epilogues or none. The first form takes functions whose contiguous axis is reduced, the second the others.
//! How: rows (or blocks of columns) in parallel; several vector accumulators in flight. With `split`
//! above 1, parts of a row or column are reduced in parallel and a second pass adds the parts.
//! Declines: `target_kind`, the predicates of [`Reduction::of`], `contiguous_reduction` or
//! `strided_reduction`, `no_window`, `is_gemv`.

use crate::analysis::Decline;
use crate::ir::{DType, IterKind, Name};
use crate::rules::find::shape::Reduction;
use crate::rules::parts::*;
use crate::rules::space::limits::{lanes, parts_fit, step_fits};
use crate::rules::space::outlines;
use crate::rules::{Knobs, Prepared, ScheduleRule, Space, Spaces, accepted, for_kind};
use crate::schedule::{Schedule, ScheduleError};
use crate::target::{Kind, Target};

/// The form with the contiguous axis reduced.
pub struct ReductionCpu;

/// The form with a strided axis reduced.
pub struct ReductionOuterCpu;

const INNER: &str = "reduction.cpu";
const OUTER: &str = "reduction.outer_cpu";

impl ScheduleRule for ReductionCpu {
    fn name(&self) -> &'static str {
        INNER
    }

    fn space(&self, input: &Prepared, target: &Target, spaces: &Spaces) -> Result<Space, Decline> {
        let r = accept(INNER, true, input, target)?;
        let acc = r.reducer.dtype;
        let space = cpu_space(spaces.space(INNER, target), acc, r.run());
        let step = move |k: &Knobs| k.get("unroll") * lanes(k.get("vector"), acc) * k.get("split");
        let space = step_fits(space, r.length(), step);
        let space = parts_fit(space, r.length(), r.outputs());
        let space = split_space(space, target, r.outputs(), r.length());
        let (Some(work), Some(outputs), Some(length)) = (outlines::Work::of(&r, target), r.outputs(), r.length())
        else {
            return Ok(space);
        };
        Ok(space.outlined(move |k| {
            let (unroll, split) = (k.get("unroll"), k.get("split"));
            let steps = length / (unroll * lanes(k.get("vector"), acc) * split);
            outlines::cpu(&work, outputs, steps.max(1), unroll, k.get("vector"), split)
        }))
    }

    fn schedule(&self, input: &Prepared, target: &Target, knobs: &Knobs) -> Result<Schedule, ScheduleError> {
        let r = accepted(accept(INNER, true, input, target));
        let mut s = r.schedule;
        order_axes(&mut s, &[&r.spatial, &r.reduce])?;
        let row = fuse_all(&mut s, &r.spatial)?;
        let k = fuse_all(&mut s, &r.reduce)?;
        let shape = [knobs.get("unroll"), lanes(knobs.get("vector"), r.reducer.dtype)];
        let (split, ahead) = (knobs.get("split"), knobs.get("prefetch"));
        if split == 1 {
            reduce_rows(&mut s, &r.block, &r.epilogues, &row, &k, shape, ahead)?;
            return Ok(s);
        }
        let parts = s.split(&k, &[Some(split), None])?;
        let rank = s.func().buffer(&output(&s, &r.block)).shape.len();
        let first = s.rfactor(&parts[0], rank)?;
        let row = rows_of_parts(&mut s, row, parts[0].clone())?;
        reduce_rows(&mut s, &first, &[], &row, &parts[1], shape, ahead)?;
        reduce_parts(&mut s, &r.block, &r.epilogues)?;
        Ok(s)
    }
}

impl ScheduleRule for ReductionOuterCpu {
    fn name(&self) -> &'static str {
        OUTER
    }

    fn space(&self, input: &Prepared, target: &Target, spaces: &Spaces) -> Result<Space, Decline> {
        let r = accept(OUTER, false, input, target)?;
        let (acc, columns) = (r.reducer.dtype, r.spatial.last().and_then(|a| a.extent));
        let space = cpu_space(spaces.space(OUTER, target), acc, columns);
        let space = step_fits(space, columns, move |k| k.get("columns") * lanes(k.get("vector"), acc));
        let space = step_fits(space, r.length(), |k| k.get("unroll") * k.get("split"));
        let space = parts_fit(space, r.length(), r.outputs());
        let outputs = r.outputs();
        let tasks = move |k: &Knobs| Some(outputs? / (k.get("columns") * lanes(k.get("vector"), acc)));
        let cores = target.cores.max(1) as i64;
        let space = space.prefer("split_needed", move |k| match (k.get("split"), tasks(k)) {
            (1, _) => Ok(()),
            (split, Some(tasks)) if tasks * split <= 64 * cores => Ok(()),
            (split, _) => Err(format!("{split} parts of so many columns keep no core busier")),
        });
        let (Some(work), Some(outputs), Some(length)) = (outlines::Work::of(&r, target), outputs, r.length()) else {
            return Ok(space);
        };
        Ok(space.outlined(move |k| {
            let (columns, unroll, split) = (k.get("columns"), k.get("unroll"), k.get("split"));
            let tasks = outputs / (columns * lanes(k.get("vector"), acc)).max(1);
            let steps = (length / (unroll * split)).max(1);
            outlines::cpu(&work, tasks.max(1), steps, unroll * columns, k.get("vector"), split)
        }))
    }

    fn schedule(&self, input: &Prepared, target: &Target, knobs: &Knobs) -> Result<Schedule, ScheduleError> {
        let r = accepted(accept(OUTER, false, input, target));
        let mut s = r.schedule;
        order_axes(&mut s, &[&r.spatial, &r.reduce])?;
        let (outer, column) = r.spatial.split_at(r.spatial.len() - 1);
        let outer = if outer.is_empty() { None } else { Some(fuse_all(&mut s, outer)?) };
        let k = fuse_all(&mut s, &r.reduce)?;
        let width = lanes(knobs.get("vector"), r.reducer.dtype);
        let shape = [knobs.get("columns"), width, knobs.get("unroll")];
        let split = knobs.get("split");
        if split == 1 {
            reduce_columns(&mut s, &r.block, &r.epilogues, outer, &column[0].at, &k, shape)?;
            return Ok(s);
        }
        let parts = s.split(&k, &[Some(split), None])?;
        let first = s.rfactor(&parts[0], 0)?;
        let mut order = vec![parts[0].clone()];
        order.extend(outer.clone());
        order.extend([column[0].at.clone(), parts[1].clone()]);
        s.reorder(&order)?;
        let outer = match outer {
            Some(o) => s.fuse(&[parts[0].clone(), o])?,
            None => parts[0].clone(),
        };
        reduce_columns(&mut s, &first, &[], Some(outer), &column[0].at, &parts[1], shape)?;
        let spatial = axes_of_kind(&s, &r.block, IterKind::Spatial);
        let k = fuse_kind(&mut s, &r.block, IterKind::Reduce)?;
        let (outer, column) = spatial.split_at(spatial.len() - 1);
        let outer = if outer.is_empty() { None } else { Some(fuse_all(&mut s, outer)?) };
        reduce_columns(&mut s, &r.block, &r.epilogues, outer, &column[0].at, &k, [shape[0], width, 1])?;
        Ok(s)
    }
}

fn accept(by: &'static str, inner: bool, input: &Prepared, target: &Target) -> Result<Reduction, Decline> {
    for_kind(by, Kind::Cpu, target)?;
    let no = |predicate, reason: String| Decline { by, predicate, reason };
    let r = Reduction::of(by, input)?;
    if inner && !r.inner_reduce {
        return Err(no("contiguous_reduction", "the axis contiguous in memory is not reduced".into()));
    }
    if !inner && (r.inner_reduce || r.spatial.is_empty()) {
        return Err(no("strided_reduction", "the axis contiguous in memory is reduced".into()));
    }
    r.no_window(by)?;
    if inner && let Some(a) = r.shared.first() {
        return Err(no("is_gemv", format!("tensor `{}` is shared by rows: a matrix-vector product", a.buffer)));
    }
    Ok(r)
}

/// Vectors hold whole accumulators; where a run of `run` elements allows it, they divide it.
pub fn cpu_space(space: Space, acc: DType, run: Option<i64>) -> Space {
    let (size, least) = (acc.bytes() as i64, lanes(16, acc));
    space.require("vector_lanes", move |k| {
        let n = lanes(k.get("vector"), acc);
        if k.get("vector") < size {
            return Err(format!("{} bytes do not hold one {acc}", k.get("vector")));
        }
        match run {
            Some(run) if run % least == 0 && run % n != 0 => {
                Err(format!("{n} lanes do not divide the contiguous run of {run}"))
            }
            _ => Ok(()),
        }
    })
}

fn split_space(space: Space, target: &Target, outputs: Option<i64>, length: Option<i64>) -> Space {
    let cores = target.cores.max(1) as i64;
    space.prefer("split_needed", move |k| match (k.get("split"), outputs, length) {
        (1, Some(o), Some(l)) if o < cores && l > 1 << 20 => Err(format!("{o} rows leave cores idle")),
        (1, _, _) => Ok(()),
        (split, Some(o), _) if o * split <= 64 * cores => Ok(()),
        (split, _, _) => Err(format!("{split} parts of so many rows keep no core busier")),
    })
}

/// Schedules `block`, a reduction of loop `k` for every `row`, over `unroll` vector accumulators of `width`
/// lanes; what it reads is asked for `ahead` bytes before.
fn reduce_rows(
    s: &mut Schedule,
    block: &Name,
    epilogues: &[Name],
    row: &Name,
    k: &Name,
    [unroll, width]: [i64; 2],
    ahead: i64,
) -> Result<(), ScheduleError> {
    let ks = s.split(k, &[None, Some(unroll * width)])?;
    let rank = s.func().buffer(&output(s, block)).shape.len();
    let rf = s.rfactor(&ks[1], rank)?;
    let vectors = s.split(&ks[1], &[Some(unroll), Some(width)])?;
    s.parallel(row)?;
    unroll_loop(s, &vectors[0])?;
    vectorize_loop(s, &vectors[1])?;
    let init = s.decompose_reduction(&rf, &ks[0])?;
    if let Some(last) = loops_below(s, &init, row).last() {
        vectorize_loop(s, &last.clone())?;
    }
    ask_ahead(s, &ks[0], ahead)?;
    keep_in_registers(s, &rf)?;
    finish_rows(s, block, epilogues, row, [unroll, width])
}

/// Brings the sum over accumulators and what follows it under the parallel loop. There are `unroll`
/// accumulators of `width` lanes for each row; they become one of them first, lanes side by side.
pub fn finish_rows(
    s: &mut Schedule,
    block: &Name,
    epilogues: &[Name],
    row: &Name,
    [unroll, width]: [i64; 2],
) -> Result<(), ScheduleError> {
    let tails = tails(s, block, epilogues)?;
    if unroll > 1 && width > 1 {
        join_accumulators(s, block, row, unroll, width)?;
    }
    s.reverse_compute_at(block, row)?;
    let loops = loops_below(s, block, row);
    let reduce = loops_of_kind(s, block, row, IterKind::Reduce);
    for l in loops.iter().filter(|l| !reduce.contains(l)) {
        unroll_loop(s, l)?;
    }
    for l in &reduce {
        unroll_loop(s, l)?;
    }
    if let Some(first) = loops_of_kind(s, block, row, IterKind::Reduce).first() {
        s.decompose_reduction(block, &first.clone())?;
    }
    tails.iter().try_for_each(|tail| s.reverse_compute_at(tail, row))?;
    keep_in_registers(s, block)
}

/// Combines the accumulators of each row, which `block` reads one by one, into a single vector.
fn join_accumulators(s: &mut Schedule, block: &Name, row: &Name, unroll: i64, width: i64) -> Result<(), ScheduleError> {
    let all = axes_of_kind(s, block, IterKind::Reduce);
    let [all] = all.as_slice() else { return Ok(()) };
    let lanes = s.split(&all.at, &[Some(unroll), Some(width)])?[1].clone();
    let rank = s.func().buffer(&output(s, block)).shape.len();
    let joined = s.rfactor(&lanes, rank)?;
    s.reverse_compute_at(&joined, row)?;
    let spatial = loops_of_kind(s, &joined, row, IterKind::Spatial);
    let reduce = loops_of_kind(s, &joined, row, IterKind::Reduce);
    let (Some((lanes, rows)), Some(first)) = (spatial.split_first(), reduce.first()) else { return Ok(()) };
    let order: Vec<Name> = rows.iter().chain(&reduce).chain([lanes]).cloned().collect();
    s.reorder(&order)?;
    for l in rows.iter().chain(&reduce) {
        unroll_loop(s, l)?;
    }
    vectorize_loop(s, lanes)?;
    s.decompose_reduction(&joined, first)?;
    keep_in_registers(s, &joined)
}

/// The second pass: adds the parts of each row.
fn reduce_parts(s: &mut Schedule, block: &Name, epilogues: &[Name]) -> Result<(), ScheduleError> {
    let row = fuse_kind(s, block, IterKind::Spatial)?;
    let k = fuse_kind(s, block, IterKind::Reduce)?;
    let tails = tails(s, block, epilogues)?;
    s.parallel(&row)?;
    tails.iter().try_for_each(|tail| s.reverse_compute_at(tail, &row))?;
    s.decompose_reduction(block, &k)?;
    keep_in_registers(s, block)
}

/// Schedules `block`, a reduction of loop `k` for every column: `[columns, width, unroll]`.
pub fn reduce_columns(
    s: &mut Schedule,
    block: &Name,
    epilogues: &[Name],
    outer: Option<Name>,
    column: &Name,
    k: &Name,
    [columns, width, unroll]: [i64; 3],
) -> Result<(), ScheduleError> {
    let cols = s.split(column, &[None, Some(columns), Some(width)])?;
    let ks = s.split(k, &[None, Some(unroll)])?;
    let grid = match outer {
        Some(o) => s.fuse(&[o, cols[0].clone()])?,
        None => cols[0].clone(),
    };
    s.reorder(&[&grid, &ks[0], &ks[1], &cols[1], &cols[2]].map(|l| l.clone()))?;
    s.parallel(&grid)?;
    for l in [&ks[1], &cols[1]] {
        unroll_loop(s, l)?;
    }
    vectorize_loop(s, &cols[2])?;
    let tails = tails(s, block, epilogues)?;
    let init = s.decompose_reduction(block, &ks[0])?;
    vectorize_last(s, &init, &grid, width)?;
    for tail in &tails {
        s.reverse_compute_at(tail, &grid)?;
        vectorize_last(s, tail, &grid, width)?;
    }
    keep_in_registers(s, block)
}

/// Splits off `width` lanes of the innermost loop below `at` and vectorizes them.
fn vectorize_last(s: &mut Schedule, block: &Name, at: &Name, width: i64) -> Result<(), ScheduleError> {
    let Some(last) = loops_below(s, block, at).last().cloned() else { return Ok(()) };
    let extent = loop_extent(s, &last);
    if width <= 1 || extent.is_none_or(|n| n % width != 0) {
        return Ok(());
    }
    let lanes = if extent == Some(width) { last } else { s.split(&last, &[None, Some(width)])?[1].clone() };
    vectorize_loop(s, &lanes)
}

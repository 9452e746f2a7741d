//! `reduction.outer`: a reduction over a strided axis, on a GPU.
//!
//! When: one sum, product, max, min, argmax or argmin; the axis contiguous in the largest read is kept;
//! injective producers (inlined) and elementwise epilogues or none. Matrix-vector products whose matrix is
//! stored [K, N] are of this form.
//! How: each thread owns one vector of columns; threadIdx.y shares the rows and meets in shared
//! memory. With `split` above 1, blocks reduce parts of a column into a workspace and a second
//! launch adds the parts.
//! Declines: `target_kind`, the predicates of [`Reduction::of`], `strided_reduction`.

use crate::analysis::Decline;
use crate::ir::{IterKind, Name, ThreadTag};
use crate::rules::find::shape::Reduction;
use crate::rules::parts::*;
use crate::rules::space::limits::{
    block_fits, fills_device, fold_rivals, keeps_busy, lanes, parts_fit, registers_fit, step_fits, vector_fits,
};
use crate::rules::space::outlines;
use crate::rules::{Knobs, Prepared, ScheduleRule, Space, Spaces, accepted, for_kind};
use crate::schedule::{Schedule, ScheduleError};
use crate::target::{Kind, Target};

/// The rule.
pub struct ReductionOuter;

const NAME: &str = "reduction.outer";

impl ScheduleRule for ReductionOuter {
    fn name(&self) -> &'static str {
        NAME
    }

    fn space(&self, input: &Prepared, target: &Target, spaces: &Spaces) -> Result<Space, Decline> {
        let r = accept(input, target)?;
        let (length, element, columns) = (r.length(), r.element, r.spatial.last().and_then(|a| a.extent));
        let outputs = r.outputs();
        let total = length.zip(outputs).and_then(|(a, b)| a.checked_mul(b));
        let space = spaces.space(NAME, target);
        let space = block_fits(space, target, &["threads", "rows"]);
        let space = vector_fits(space, "vector", element, columns);
        let space = registers_fit(space, target, &["threads", "rows"], 32, |k| k.get("unroll") * k.get("vector"));
        let bytes = total.and_then(|n| n.checked_mul(element.bytes() as i64));
        let in_flight = |k: &Knobs| k.get("unroll") * k.get("vector");
        let space = keeps_busy(space, target, &["threads", "rows"], bytes, in_flight);
        let space = step_fits(space, length, |k| k.get("rows") * k.get("unroll") * k.get("split"));
        let space = parts_fit(space, length, outputs);
        let space = step_fits(space, columns, move |k| k.get("threads") * lanes(k.get("vector"), element));
        let space = fold_rivals(fills_blocks(space, target, total, outputs, element), element);
        Ok(match outlines::Work::of(&r, target) {
            Some(work) => space.outlined(move |k| outlines::columns(&work, k)),
            None => space,
        })
    }

    fn schedule(&self, input: &Prepared, target: &Target, knobs: &Knobs) -> Result<Schedule, ScheduleError> {
        let r = accepted(accept(input, target));
        let mut s = r.schedule;
        order_axes(&mut s, &[&r.spatial, &r.reduce])?;
        let (outer, column) = r.spatial.split_at(r.spatial.len() - 1);
        let outer = if outer.is_empty() { None } else { Some(fuse_all(&mut s, outer)?) };
        let k = fuse_all(&mut s, &r.reduce)?;
        let plan = Plan::of(knobs, r.element, r.plain.then_some(r.reducer.combiner));
        let reads = Reads { full: r.full.iter().map(|a| a.buffer.clone()).collect(), vectors: vec![], pack: 1 };
        let nest = Nest { block: &r.block, epilogues: &r.epilogues, outer, column: &column[0].at, k: &k };
        reduce_in_parts(&mut s, nest, &reads, knobs.get("split"), &plan)?;
        Ok(s)
    }
}

/// What a launch reads by columns.
pub struct Reads {
    /// Read by every axis, a vector of columns at a time.
    pub full: Vec<Name>,
    /// Shared by the columns; only where elements are packed.
    pub vectors: Vec<Name>,
    /// Values of the reduction in one element of the largest of them.
    pub pack: i64,
}

/// The nest of a reduction over a strided axis.
pub struct Nest<'a> {
    /// The reduction.
    pub block: &'a Name,
    /// What follows it.
    pub epilogues: &'a [Name],
    /// The loop around the columns.
    pub outer: Option<Name>,
    /// The loop over the columns.
    pub column: &'a Name,
    /// The loop over what is reduced.
    pub k: &'a Name,
}

/// Schedules a nest as one launch, or as one of `split` parts per column and one that adds them.
pub fn reduce_in_parts(
    s: &mut Schedule,
    nest: Nest,
    reads: &Reads,
    split: i64,
    plan: &Plan,
) -> Result<(), ScheduleError> {
    if split == 1 {
        return reduce_columns(s, nest, reads, plan);
    }
    let parts = s.split(nest.k, &[Some(split), None])?;
    let first = s.rfactor(&parts[0], 0)?;
    let mut order: Vec<Name> = vec![parts[0].clone()];
    order.extend(nest.outer.clone());
    order.extend([nest.column.clone(), parts[1].clone()]);
    s.reorder(&order)?;
    let both: Vec<Name> = [Some(parts[0].clone()), nest.outer].into_iter().flatten().collect();
    let outer = if both.len() > 1 { s.fuse(&both)? } else { both[0].clone() };
    let part = Nest { block: &first, epilogues: &[], outer: Some(outer), column: nest.column, k: &parts[1] };
    reduce_columns(s, part, reads, plan)?;
    reduce_parts(s, nest.block, nest.epilogues, split, plan)
}

fn accept(input: &Prepared, target: &Target) -> Result<Reduction, Decline> {
    for_kind(NAME, Kind::Cuda, target)?;
    let no = |predicate, reason: String| Decline { by: NAME, predicate, reason };
    let r = Reduction::of(NAME, input)?;
    if r.inner_reduce || r.spatial.is_empty() {
        return Err(no("strided_reduction", "the axis contiguous in memory is reduced".into()));
    }
    Ok(r)
}

pub fn fills_blocks(
    space: Space,
    target: &Target,
    total: Option<i64>,
    outputs: Option<i64>,
    element: crate::ir::DType,
) -> Space {
    let per_block = move |k: &Knobs| k.get("threads") * lanes(k.get("vector"), element);
    let blocks = move |k: &Knobs| Some((outputs? / per_block(k)).max(1) * k.get("split"));
    let most = 32 * target.sms as i64;
    let space = space.prefer("split_needed", move |k| match (k.get("split"), blocks(k)) {
        (split, Some(n)) if split > 1 && n > most => Err(format!("{n} blocks with {split} parts per column")),
        _ => Ok(()),
    });
    fills_device(space, target, total, blocks)
}

/// Schedules a reduction of loop `k` for every `column` (and `outer`) as one launch.
fn reduce_columns(s: &mut Schedule, nest: Nest, reads: &Reads, plan: &Plan) -> Result<(), ScheduleError> {
    let Nest { block, epilogues, outer, column, k } = nest;
    let cols = s.split(column, &[None, Some(plan.threads), Some(plan.lanes)])?;
    let [jb, jt, jv] = &cols[..] else { panic!("split gives one loop per factor") };
    let mut factors = vec![None, Some(plan.unroll), Some(plan.rows)];
    factors.extend((reads.pack > 1).then_some(Some(reads.pack)));
    let ks = s.split(k, &factors)?;
    let [ko, ku, ky, values @ ..] = &ks[..] else { panic!("split gives one loop per factor") };
    // A column of one thread accumulates in place.
    let rf = if plan.rows > 1 { s.rfactor(ky, 0)? } else { block.clone() };
    let tails = tails(s, block, epilogues)?;
    let grid = match outer {
        Some(o) => s.fuse(&[o, jb.clone()])?,
        None => jb.clone(),
    };
    let mut order = vec![grid.clone(), jt.clone(), ky.clone(), ko.clone(), ku.clone(), jv.clone()];
    order.extend_from_slice(values);
    s.reorder(&order)?;
    s.bind(&grid, ThreadTag::BlockX)?;
    s.bind(jt, ThreadTag::ThreadX)?;
    s.bind(ky, ThreadTag::ThreadY)?;
    launch_bounds(s, &grid, plan.min_blocks)?;
    for buffer in &reads.full {
        stage_read(s, &rf, buffer, ku, plan.lanes, plan.hint)?;
    }
    for buffer in &reads.vectors {
        stage_read(s, &rf, buffer, ku, reads.pack, 0)?;
    }
    batch_loads(s, ku)?;
    s.unroll(jv)?;
    match values {
        [values] => {
            s.unroll(values)?;
            unpack_leaf(s, values)?;
        }
        _ => elementwise_leaf(s, jv, plan)?,
    }
    s.decompose_reduction(&rf, ko)?;
    if rf != *block {
        keep_in_registers(s, &rf)?;
        s.reverse_compute_at(block, &grid)?;
        bind_columns(s, block, &grid, plan)?;
        for l in loops_of_kind(s, block, &grid, IterKind::Reduce) {
            s.bind(&l, ThreadTag::ThreadY)?;
        }
    }
    for tail in &tails {
        s.reverse_compute_at(tail, &grid)?;
        bind_columns(s, tail, &grid, plan)?;
    }
    keep_in_registers(s, block)
}

/// Gives each thread the columns that it owned while reducing.
fn bind_columns(s: &mut Schedule, block: &Name, grid: &Name, plan: &Plan) -> Result<(), ScheduleError> {
    let loops = loops_of_kind(s, block, grid, IterKind::Spatial);
    let column = match &loops[..] {
        [] => return Ok(()),
        [one] => one.clone(),
        _ => s.fuse(&loops)?,
    };
    let parts = s.split(&column, &[Some(plan.threads), Some(plan.lanes)])?;
    s.bind(&parts[0], ThreadTag::ThreadX)?;
    s.unroll(&parts[1])
}

/// The second launch: adds `split` parts per column, which lie a whole output apart.
fn reduce_parts(
    s: &mut Schedule,
    block: &Name,
    epilogues: &[Name],
    split: i64,
    first: &Plan,
) -> Result<(), ScheduleError> {
    let mut spatial = axes_of_kind(s, block, IterKind::Spatial);
    let k = fuse_kind(s, block, IterKind::Reduce)?;
    let column = spatial.pop().unwrap_or_else(|| panic!("a strided reduction has a column"));
    let outer = if spatial.is_empty() { None } else { Some(fuse_all(s, &spatial)?) };
    let rows = (split as u64).next_power_of_two().min(8) as i64;
    let plan = Plan::of_parts(first.threads.max(32), rows, 4.min(split / rows).max(1), first.combiner);
    let nest = Nest { block, epilogues, outer, column: &column.at, k: &k };
    reduce_columns(s, nest, &Reads { full: vec![], vectors: vec![], pack: 1 }, &plan)
}

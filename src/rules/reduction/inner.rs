//! `reduction.inner`: a reduction over the axis that lies contiguous in memory, on a GPU.
//!
//! When: one sum, product, max, min, argmax or argmin; the axis contiguous in the largest read is
//! reduced; injective producers (inlined) and elementwise epilogues or none.
//! How: a group of threads per row strides the row in vectors of 16 bytes, several loads in flight;
//! the group meets by warp shuffles and one word of shared memory per warp. With `split` above 1,
//! blocks reduce parts of a row into a workspace and a second launch adds the parts.
//! Declines: `target_kind`, the predicates of [`Reduction::of`], `contiguous_reduction`, `no_window`,
//! `is_gemv`.

use crate::analysis::{Access, Combiner, Decline};
use crate::ir::{IterKind, Name, ThreadTag};
use crate::rules::find::shape::Reduction;
use crate::rules::parts::*;
use crate::rules::space::limits::{
    block_fits, combine_rivals, fills_device, fold_rivals, keeps_busy, lanes, parts_fit, registers_fit, step_fits,
    vector_fits,
};
use crate::rules::space::outlines;
use crate::rules::{Knobs, Prepared, ScheduleRule, Space, Spaces, accepted, for_kind};
use crate::schedule::{Schedule, ScheduleError};
use crate::target::{Kind, Target};

/// The rule.
pub struct ReductionInner;

const NAME: &str = "reduction.inner";

impl ScheduleRule for ReductionInner {
    fn name(&self) -> &'static str {
        NAME
    }

    fn space(&self, input: &Prepared, target: &Target, spaces: &Spaces) -> Result<Space, Decline> {
        let r = accept(input, target)?;
        let (length, outputs, element) = (r.length(), r.outputs(), r.element);
        let total = length.zip(outputs).and_then(|(a, b)| a.checked_mul(b));
        let step =
            move |k: &Knobs| k.get("threads") * k.get("unroll") * lanes(k.get("vector"), element) * k.get("split");
        let space = spaces.space(NAME, target);
        let space = block_fits(space, target, &["threads", "rows"]);
        let space = vector_fits(space, "vector", element, r.run());
        let space = registers_fit(space, target, &["threads", "rows"], 24, |k| k.get("unroll") * k.get("vector"));
        let bytes = total.and_then(|n| n.checked_mul(element.bytes() as i64));
        let in_flight = |k: &Knobs| k.get("unroll") * k.get("vector");
        let space = keeps_busy(space, target, &["threads", "rows"], bytes, in_flight);
        let space = step_fits(space, length, step);
        let space = parts_fit(space, length, outputs);
        let axes: Vec<Option<i64>> = r.spatial.iter().map(|a| a.extent).filter(|n| *n != Some(1)).collect();
        let space = space.require("rows_fit", move |k| match (k.get("rows"), outputs) {
            (rows, Some(n)) if rows > n => Err(format!("{rows} rows per block of {n} rows in all")),
            // Rows of several axes would be no box of the output that one loop walks over.
            (rows, _) if rows > 1 && axes.len() > 1 && axes[axes.len() - 1].is_none_or(|last| last % rows != 0) => {
                Err(format!("{rows} rows per block do not divide the last of several axes of rows"))
            }
            _ => Ok(()),
        });
        // Rows and parts share one loop: a block of several of its steps has no whole rows to finish.
        let space = space.require("parts_of_one_row", |k| match (k.get("rows"), k.get("split")) {
            (rows, split) if rows > 1 && split > 1 => {
                Err(format!("{rows} rows per block and {split} parts per row: set `rows` or `split` to 1"))
            }
            _ => Ok(()),
        });
        let space = combine_rivals(fold_rivals(space, element), &["threads"], target);
        let sms = target.sms as i64;
        let space = space.prefer("split_needed", move |k| match (outputs, k.get("split")) {
            (_, 1) => Ok(()),
            (Some(n), split) if n < 4 * sms && n * split <= 32 * sms => Ok(()),
            (_, split) => Err(format!("{split} parts of so many rows fill no device better")),
        });
        let space = fills_device(space, target, total, move |k| {
            Some((outputs? + k.get("rows") - 1) / k.get("rows") * k.get("split"))
        });
        Ok(match outlines::Work::of(&r, target) {
            Some(work) => space.outlined(move |k| outlines::rows(&work, k)),
            None => space,
        })
    }

    fn schedule(&self, input: &Prepared, target: &Target, knobs: &Knobs) -> Result<Schedule, ScheduleError> {
        let r = accepted(accept(input, target));
        let mut s = r.schedule;
        order_axes(&mut s, &[&r.spatial, &r.reduce])?;
        let row = fuse_all(&mut s, &r.spatial)?;
        let k = fuse_all(&mut s, &r.reduce)?;
        let plan = Plan::of(knobs, r.element, r.plain.then_some(r.reducer.combiner));
        let split = knobs.get("split");
        if split == 1 {
            reduce_rows(&mut s, &r.block, &r.epilogues, &row, &k, &r.full, &plan)?;
            return Ok(s);
        }
        let parts = s.split(&k, &[Some(split), None])?;
        let rank = s.func().buffer(&output(&s, &r.block)).shape.len();
        let first = s.rfactor(&parts[0], rank)?;
        let row = rows_of_parts(&mut s, row, parts[0].clone())?;
        reduce_rows(&mut s, &first, &[], &row, &parts[1], &r.full, &plan)?;
        reduce_parts(&mut s, &r.block, &r.epilogues, split, plan.combiner)?;
        Ok(s)
    }
}

fn accept(input: &Prepared, target: &Target) -> Result<Reduction, Decline> {
    for_kind(NAME, Kind::Cuda, target)?;
    let no = |predicate, reason: String| Decline { by: NAME, predicate, reason };
    let r = Reduction::of(NAME, input)?;
    if !r.inner_reduce {
        return Err(no("contiguous_reduction", "the axis contiguous in memory is not reduced".into()));
    }
    r.no_window(NAME)?;
    if let Some(a) = r.shared.first() {
        return Err(no("is_gemv", format!("tensor `{}` is shared by rows: a matrix-vector product", a.buffer)));
    }
    Ok(r)
}

/// Schedules `block`, a reduction of loop `k` for every `row`, as one launch.
fn reduce_rows(
    s: &mut Schedule,
    block: &Name,
    epilogues: &[Name],
    row: &Name,
    k: &Name,
    reads: &[Access],
    plan: &Plan,
) -> Result<(), ScheduleError> {
    let rows = s.split(row, &[None, Some(plan.rows)])?;
    let ks = s.split(k, &[None, Some(plan.unroll), Some(plan.threads), Some(plan.lanes)])?;
    let [ko, ku, kt, kv] = &ks[..] else { panic!("split gives one loop per factor") };
    let rf = s.rfactor(kt, 0)?;
    s.reorder(&[rows[0].clone(), rows[1].clone(), kt.clone(), ko.clone(), ku.clone(), kv.clone()])?;
    s.bind(&rows[0], ThreadTag::BlockX)?;
    s.bind(&rows[1], ThreadTag::ThreadY)?;
    s.bind(kt, ThreadTag::ThreadX)?;
    launch_bounds(s, &rows[0], plan.min_blocks)?;
    stage_reads(s, &rf, reads, ku, plan.lanes, plan.hint)?;
    batch_loads(s, ku)?;
    s.unroll(kv)?;
    fold_leaf(s, ku, plan)?;
    combine_by(s, block, plan.combine)?;
    s.decompose_reduction(&rf, ko)?;
    keep_in_registers(s, &rf)?;
    finish(s, block, epilogues, &rows[0], [plan.rows, 1])
}

/// The second launch: adds `split` parts per row, which lie contiguous in the workspace.
fn reduce_parts(
    s: &mut Schedule,
    block: &Name,
    epilogues: &[Name],
    split: i64,
    combiner: Option<Combiner>,
) -> Result<(), ScheduleError> {
    let row = fuse_kind(s, block, IterKind::Spatial)?;
    let k = fuse_kind(s, block, IterKind::Reduce)?;
    let threads = (split as u64).next_power_of_two().clamp(32, 1024) as i64;
    let plan = Plan::of_parts(threads, 1, 1, combiner);
    reduce_rows(s, block, epilogues, &row, &k, &[], &plan)
}

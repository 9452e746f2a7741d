//! `general_reduction.cpu`: softmax, norms and their like, on the CPU.
//!
//! When: as `general_reduction.rows`.
//! How: rows in parallel; for each row one vector loop after the other, of which the first brings the row
//! into the cache and the others find it there. A reduction has several vector accumulators, which meet
//! as vectors first and as lanes last. A function (such as exp) that several passes need may be kept in
//! an array of one row. The last pass over what is read asks for a later row, so that the memory does not
//! rest while a row is worked on, and outputs may be written past the caches.
//! Declines: `target_kind`, the predicates of [`Rows::of`], `one_nest`.

use super::rows::{one_nest, shared_value, under_rows};
use crate::analysis::Decline;
use crate::ir::{DType, IterKind, Mark, Name, Scope};
use crate::rules::find::operands::reads_of;
use crate::rules::find::rows::{Role, Rows};
use crate::rules::parts::*;
use crate::rules::reduction::cpu::cpu_space;
use crate::rules::space::limits::{lanes, step_fits, stream_fits};
use crate::rules::{Knobs, Prepared, ScheduleRule, Space, Spaces, accepted, for_kind};
use crate::schedule::{Schedule, ScheduleError};
use crate::target::{Kind, Target};

/// The rule.
pub struct GeneralReductionCpu;

const NAME: &str = "general_reduction.cpu";
/// Elements of a row that fit on the stack of a thread.
const MAX_KEPT: i64 = 1 << 15;

impl ScheduleRule for GeneralReductionCpu {
    fn name(&self) -> &'static str {
        NAME
    }

    fn space(&self, input: &Prepared, target: &Target, spaces: &Spaces) -> Result<Space, Decline> {
        let r = accept(input, target)?;
        let space = cpu_space(spaces.space(NAME, target), DType::F32, r.columns);
        let space = step_fits(space, r.columns, |k: &Knobs| k.get("unroll") * lanes(k.get("vector"), DType::F32));
        let (common, columns) = (r.has_common(), r.columns);
        let space = stream_fits(space, target, r.written);
        Ok(space.require("value_in_common", move |k| match (k.get("keep"), columns) {
            (0, _) => Ok(()),
            _ if !common => Err("no two blocks compute the same function".into()),
            (_, Some(n)) if n <= MAX_KEPT => Ok(()),
            (_, Some(n)) => Err(format!("a row of {n} elements exceeds the {MAX_KEPT} of a thread's stack")),
            (_, None) => Err("the row's length is not constant".into()),
        }))
    }

    fn schedule(&self, input: &Prepared, target: &Target, knobs: &Knobs) -> Result<Schedule, ScheduleError> {
        let r = accepted(accept(input, target));
        build(&r, knobs)
    }
}

fn accept(input: &Prepared, target: &Target) -> Result<Rows, Decline> {
    for_kind(NAME, Kind::Cpu, target)?;
    let r = Rows::of(NAME, input)?;
    one_nest(&r).map_err(|reason| Decline { by: NAME, predicate: "one_nest", reason })?;
    Ok(r)
}

fn build(r: &Rows, knobs: &Knobs) -> Result<Schedule, ScheduleError> {
    let mut s = r.schedule.clone();
    if knobs.get("keep") == 1 {
        let _ = shared_value(&mut s, r);
    }
    let row = s.loops(&r.anchor().name)[0].clone();
    under_rows(&mut s, &row)?;
    s.parallel(&row)?;
    let width = lanes(knobs.get("vector"), DType::F32);
    let blocks = s.blocks();
    for b in blocks {
        let made = output(&s, &b);
        let Some(column) = loops_below(&s, &b, &row).last().cloned() else {
            local(&mut s, &made)?;
            continue;
        };
        match r.role(&b) {
            Some(Role::Reduce(_)) => reduce(&mut s, &b, &row, &column, [knobs.get("unroll"), width])?,
            Some(Role::Full | Role::Row) | None => {
                let lane = vectors(&mut s, &column, width)?;
                if knobs.get("stream") == 1 && s.func().is_param(&made) {
                    past_the_caches(&mut s, &lane)?;
                }
            }
        }
        local(&mut s, &made)?;
    }
    if knobs.get("prefetch") > 0 {
        prefetch(&mut s, r, &row, knobs.get("prefetch"))?;
    }
    Ok(s)
}

fn local(s: &mut Schedule, buffer: &Name) -> Result<(), ScheduleError> {
    if s.func().is_param(buffer) { Ok(()) } else { s.set_scope(buffer, Scope::Local) }
}

/// A loop in steps of one vector; gives the loop over its lanes.
fn vectors(s: &mut Schedule, column: &Name, width: i64) -> Result<Name, ScheduleError> {
    let parts = s.split(column, &[None, Some(width)])?;
    s.vectorize(&parts[1])?;
    Ok(parts[1].clone())
}

/// The last block that reads a tensor by rows asks for the row that comes so many rows later.
fn prefetch(s: &mut Schedule, r: &Rows, row: &Name, rows: i64) -> Result<(), ScheduleError> {
    let reads = |b: &Name| reads_of(s, b).iter().any(|a| r.inputs.iter().any(|i| i.buffer == a.buffer));
    let last = s.blocks().into_iter().rev().find(reads);
    match last.and_then(|b| loops_below(s, &b, row).first().cloned()) {
        Some(column) => s.mark(&column, Mark::Prefetch(rows)),
        None => Ok(()),
    }
}

/// `unroll` accumulators of `width` lanes, then one, then its lanes.
fn reduce(
    s: &mut Schedule,
    b: &Name,
    row: &Name,
    column: &Name,
    [unroll, width]: [i64; 2],
) -> Result<(), ScheduleError> {
    let parts = s.split(column, &[None, Some(unroll * width)])?;
    let first = s.rfactor(&parts[1], 1)?;
    let vectors = s.split(&parts[1], &[Some(unroll), Some(width)])?;
    s.unroll(&vectors[0])?;
    s.vectorize(&vectors[1])?;
    let init = s.decompose_reduction(&first, &parts[0])?;
    lanes_of(s, &init, row)?;
    local_output(s, &first)?;
    let mut rest = reduction_loop(s, b, row);
    if unroll > 1
        && let Some(all) = rest
    {
        let parts = s.split(&all, &[Some(unroll), Some(width)])?;
        let second = s.rfactor(&parts[1], 1)?;
        s.reorder(&[parts[0].clone(), parts[1].clone()])?;
        s.vectorize(&parts[1])?;
        let init = s.decompose_reduction(&second, &parts[0])?;
        lanes_of(s, &init, row)?;
        s.unroll(&parts[0])?;
        local_output(s, &second)?;
        rest = reduction_loop(s, b, row);
    }
    if let Some(last) = rest {
        unroll_loop(s, &last)?;
        s.decompose_reduction(b, &last)?;
    }
    Ok(())
}

fn local_output(s: &mut Schedule, b: &Name) -> Result<(), ScheduleError> {
    let made = output(s, b);
    s.set_scope(&made, Scope::Local)
}

/// The one loop over what a block still reduces that has more than one step.
fn reduction_loop(s: &Schedule, b: &Name, row: &Name) -> Option<Name> {
    loops_of_kind(s, b, row, IterKind::Reduce).last().cloned()
}

/// The innermost loop of an init as lanes.
fn lanes_of(s: &mut Schedule, init: &Name, row: &Name) -> Result<(), ScheduleError> {
    match loops_below(s, init, row).last().cloned() {
        Some(last) => vectorize_loop(s, &last),
        None => Ok(()),
    }
}

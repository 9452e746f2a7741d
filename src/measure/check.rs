//! Whether outputs are right: each against its reference.

use super::buffers::Buffers;
use super::compare::{Comparison, Reference};
use super::expected::{Expected, Tolerance};
use crate::backend::{Plan, PlanParam};
use crate::runner::device::{Device, Outcome};
use crate::runner::{Errors, RunError, RunFailure};

/// What one output must be.
pub struct Wanted {
    param: usize,
    points: Option<Vec<u64>>,
    tolerance: Tolerance,
    reference: Reference,
}

/// The references of a file, packed for the parameters' dtypes.
pub fn wanted(expected: Expected, params: &[PlanParam]) -> Outcome<Vec<Wanted>> {
    let each = expected.outputs.into_iter().map(|o| {
        let param = params.get(o.param);
        let param = param.ok_or_else(|| RunError::new(RunFailure::BadRequest, format!("no parameter {}", o.param)))?;
        let reference = Reference::new(param.dtype, &o.values).at_least(o.tolerance.scale);
        Ok(Wanted { param: o.param, points: o.points, tolerance: o.tolerance, reference })
    });
    each.collect()
}

/// Compares what a run left in the first set with the reference.
///
/// # Errors
/// [`RunFailure::WrongResult`] naming the worst element.
pub fn check_output(
    device: &mut dyn Device,
    buffers: &mut Buffers,
    plan: &Plan,
    want: &Wanted,
    scratch: &mut Vec<u8>,
) -> Outcome<Errors> {
    let param = plan.params.get(want.param);
    let param = param.ok_or_else(|| RunError::new(RunFailure::BadRequest, format!("no parameter {}", want.param)))?;
    if let Some(errors) = buffers.repeats_a_right_one(device, want.param)? {
        return Ok(errors);
    }
    let points = want.points.as_ref().map(|p| (p.as_slice(), param.dtype.bytes() as usize));
    buffers.download(device, want.param, points, scratch)?;
    if scratch.len() != want.reference.bytes() {
        let text = format!("the reference of `{}` has another size than its buffer", param.name);
        return Err(RunError::new(RunFailure::BadRequest, text));
    }
    let found = want.reference.compare(scratch);
    let (limit, errors) = (want.tolerance, found.errors);
    if errors.l2 <= limit.l2 && errors.max <= limit.max {
        if want.points.is_none() {
            buffers.keep_right(device, want.param, errors)?;
        }
        return Ok(errors);
    }
    Err(RunError::new(RunFailure::WrongResult, describe(param, want, &found)))
}

fn describe(param: &PlanParam, want: &Wanted, found: &Comparison) -> String {
    let Errors { l2, max } = found.errors;
    let sizes =
        format!("l2 {l2:.3e} (limit {:.3e}), max {max:.3e} (limit {:.3e})", want.tolerance.l2, want.tolerance.max);
    let Some((i, is, should)) = found.worst else { return format!("`{}` is wrong: {sizes}", param.name) };
    let at = want.points.as_ref().and_then(|p| p.get(i)).copied().unwrap_or(i as u64);
    format!("`{}` is wrong: {sizes}; element {at} is {is}, expected {should}", param.name)
}

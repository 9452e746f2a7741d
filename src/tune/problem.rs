//! One function at one size as the runner needs it: inputs, expected outputs, bounds.

use super::finite::settle;
use super::reference::{Given, expected, index_ranges};
use crate::analysis::work;
use crate::assemble::Schedulable;
use crate::ir::{DType, Param, PrimFunc};
use crate::measure::Expected;
use crate::runner::Problem;
use crate::target::Target;
use std::collections::BTreeMap;
use std::path::Path;

/// Seed, extents among the parameters, ranges of index tensors and size of the floats of a bound function.
pub fn given(func: &PrimFunc, bind: &BTreeMap<String, i64>, seed: u64) -> Given {
    let scalars = func.params.iter().filter_map(|p| match p {
        Param::Buffer(_) => None,
        Param::Scalar { name, .. } => {
            let value = bind.get(func.display_name(name)).or_else(|| bind.get(name.as_str()))?;
            Some((name.clone(), *value as f64))
        }
    });
    let given = Given { seed, scalars: scalars.collect(), ranges: index_ranges(func), ..Given::default() };
    settle(func, given)
}

/// The problem, with the expected outputs written to a file in `folder`, and the time in
/// microseconds that a good kernel needs.
///
/// # Errors
/// A sentence, when the function cannot be evaluated or the file cannot be written.
pub fn problem(subject: &Schedulable, given: &Given, folder: &Path) -> Result<(Problem, Option<f64>), String> {
    let func = &subject.prepared.func;
    let reference = expected(func, &subject.prepared.facts, given)?;
    let work = work(func);
    let peaks = func.buffers.iter().filter_map(|b| subject.target.peak_of_products(b.dtype));
    let peak_flops = peaks.max_by(f64::total_cmp).map(|t| t * 1e12);
    let stated = stated(func, given, &reference, folder)?;
    let problem = Problem { bytes: work.bytes, flops: work.flops, peak_flops, ..stated };
    let floor = work.bytes.zip(work.flops).and_then(|(b, f)| subject.target.floor_us(b, f, main_dtype(func)));
    Ok((problem, floor))
}

/// What a kernel is given and must give, with the expected outputs written to a file in `folder`.
///
/// # Errors
/// A sentence, when the file cannot be written.
pub fn stated(func: &PrimFunc, given: &Given, reference: &Expected, folder: &Path) -> Result<Problem, String> {
    let path = folder.join("expected");
    reference.write(&path).map_err(|e| format!("cannot write {}: {e}", path.display()))?;
    let names = given.scalars.iter().map(|(n, v)| (func.display_name(n).to_string(), *v));
    Ok(Problem {
        extents: names.clone().map(|(n, v)| (n, v as i64)).collect(),
        scalars: names.collect(),
        seed: given.seed,
        ranges: given.ranges.clone(),
        halvings: given.halvings,
        expected: Some(path),
        ..Problem::default()
    })
}

/// Time in microseconds at which looking further is of no use: within 1 % of what the work takes at the
/// best bandwidth ever seen on the target. `None` where that is not known.
pub fn enough_us(problem: &Problem, target: &Target) -> Option<f64> {
    let best = target.read_gbps.max(target.copy_gbps);
    problem.bytes.filter(|_| best > 0.0 && target.dram_gbps > 0.0).map(|bytes| 1.01 * bytes as f64 / best / 1e3)
}

/// Element type of the largest floating input, whose arithmetic rate counts.
fn main_dtype(func: &PrimFunc) -> DType {
    let floats = func.buffer_params().filter(|b| b.dtype.is_float());
    floats.max_by_key(|b| b.len().unwrap_or(0)).map_or(DType::F32, |b| b.dtype)
}

//! Checks a candidate in the simulator: runs its kernels and compares with the expected outputs.

use super::reference::{Given, Inputs, expected_at, inputs};
use crate::assemble::Subject;
use crate::interp::Tensor;
use crate::ir::kernel::Program;
use crate::ir::{Name, Param};
use crate::measure::Expected;
use crate::measure::compare::Reference;
use crate::measure::expected::ExpectedOutput;
use crate::runner::Errors;
use crate::sim::{self, Origin, SimOptions, SimReport};
use std::collections::BTreeMap;

/// Elements of an output that are compared at most, about, where not all blocks run.
const SAMPLE: usize = 4096;

/// How to simulate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// Blocks of the last launch; all where it is `None`. What the others would write is not compared.
    pub blocks: Option<u64>,
    /// Order of threads and choice of blocks.
    pub seed: u64,
    /// Threads may store the same value to one element, as [`SimOptions::replicas`].
    pub replicas: bool,
}

/// Runs a program on seeded inputs.
///
/// # Errors
/// The fault that the simulator found, or how the numbers differ; of a wrong number the statement that
/// wrote it, and in further lines those that it depends on, nearest first.
pub fn check(
    subject: &Subject,
    program: &Program,
    given: &Given,
    expected: &Expected,
    options: Options,
) -> Result<Errors, String> {
    check_on(program, inputs(&subject.prepared.func, given, false)?, expected, options)
}

/// Runs some blocks of a program on seeded inputs, as many as `options` says, and compares what they
/// write, or a sample of it; returns the number of elements compared too.
///
/// # Errors
/// As [`check`].
pub fn check_part(
    subject: &Subject,
    program: &Program,
    given: &Given,
    options: Options,
) -> Result<(Errors, usize), String> {
    let (func, facts) = (&subject.prepared.func, &subject.prepared.facts);
    let run = Run::new(program, inputs(func, given, false)?, options)?;
    let sample = |(param, p): (usize, &Param)| match p {
        Param::Buffer(name) => Some((param, spread(run.written.get(name)?))),
        Param::Scalar { .. } => None,
    };
    let points: BTreeMap<usize, Vec<u64>> = program.params.iter().enumerate().filter_map(sample).collect();
    let compared = points.values().map(Vec::len).sum();
    let expected = expected_at(func, facts, given, &points)?;
    Ok((run.compare(&expected)?, compared))
}

/// Some of the elements with the first and the last.
fn spread(elements: &[u64]) -> Vec<u64> {
    let step = elements.len().div_ceil(SAMPLE).max(1);
    elements.iter().step_by(step).chain(elements.last().filter(|_| step > 1)).copied().collect()
}

/// Runs a program on given inputs. Where not all blocks run, only what they write is compared.
///
/// # Errors
/// As [`check`].
pub fn check_on(program: &Program, given: Inputs, expected: &Expected, options: Options) -> Result<Errors, String> {
    Run::new(program, given, options)?.compare(expected)
}

/// A program that was run.
struct Run<'a> {
    program: &'a Program,
    given: Inputs,
    options: Options,
    /// What the tensors hold afterwards.
    tensors: Vec<Tensor>,
    /// The elements that were written, where not all blocks ran.
    written: BTreeMap<Name, Vec<u64>>,
}

impl<'a> Run<'a> {
    fn new(program: &'a Program, given: Inputs, options: Options) -> Result<Run<'a>, String> {
        let mut run = Run { program, given, options, tensors: vec![], written: BTreeMap::new() };
        let report;
        (run.tensors, report) = run.simulate(None)?;
        run.written = report.written;
        Ok(run)
    }

    fn simulate(&self, watch: Option<(Name, u64)>) -> Result<(Vec<Tensor>, SimReport), String> {
        let mut tensors = self.given.tensors.clone();
        let Options { blocks: max_blocks, seed, replicas } = self.options;
        let options = SimOptions { seed, max_blocks, inout: self.given.inout.clone(), replicas, watch };
        let report = sim::run(self.program, &mut tensors, &self.given.scalars, &options);
        Ok((tensors, report.map_err(|e| e.to_string())?))
    }

    fn compare(&self, expected: &Expected) -> Result<Errors, String> {
        let mut worst = Errors::default();
        for want in &expected.outputs {
            let before = self.program.params[..want.param].iter();
            let tensor = &self.tensors[before.filter(|p| matches!(p, Param::Buffer(_))).count()];
            let name = tensor_name(self.program, want.param);
            let written = self.options.blocks.map(|_| self.written.get(name).map_or(&[][..], |w| w));
            let (bytes, values, elements) = chosen(tensor, want, written);
            let found = Reference::new(tensor.dtype, &values).at_least(want.tolerance.scale).compare(&bytes);
            if found.errors.l2 > want.tolerance.l2 || found.errors.max > want.tolerance.max {
                let (k, value, reference) = found.worst.unwrap_or_default();
                let element = elements.get(k).copied().unwrap_or(0);
                let head = format!("wrong result: `{name}[{element}]` holds {value} where {reference} was expected");
                let origin = self.simulate(Some((name.clone(), element as u64)))?.1.origin;
                return Err(origin.map_or(head.clone(), |o| format!("{head}: {o}{}", lines(&o))));
            }
            worst.l2 = worst.l2.max(found.errors.l2);
            worst.max = worst.max.max(found.errors.max);
        }
        Ok(worst)
    }
}

/// The elements that are compared: their bytes, their reference values, where they are. Only `written` ones
/// where that is given, in ascending order.
fn chosen(tensor: &Tensor, want: &ExpectedOutput, written: Option<&[u64]>) -> (Vec<u8>, Vec<f64>, Vec<usize>) {
    let width = tensor.dtype.bytes() as usize;
    let (mut bytes, mut values, mut elements) = (vec![], vec![], vec![]);
    for (k, value) in want.values.iter().enumerate() {
        let at = want.points.as_ref().map_or(k, |p| p[k] as usize);
        if written.is_none_or(|w| w.binary_search(&(at as u64)).is_ok()) {
            bytes.extend_from_slice(&tensor.data[at * width..(at + 1) * width]);
            values.push(*value);
            elements.push(at);
        }
    }
    (bytes, values, elements)
}

/// The statements that a value depends on, a line each.
fn lines(origin: &Origin) -> String {
    let of = if origin.writer.is_some() { "out of" } else { "others are written by" };
    let list = origin.from.iter().map(|s| format!("\n    {s}"));
    if origin.from.is_empty() { String::new() } else { format!(", {of}{}", list.collect::<String>()) }
}

fn tensor_name(program: &Program, param: usize) -> &Name {
    match &program.params[param] {
        Param::Buffer(name) | Param::Scalar { name, .. } => name,
    }
}

//! Checks a candidate in the simulator: runs its kernels and compares with the expected outputs.

use super::reference::{Given, Inputs, inputs};
use crate::assemble::Subject;
use crate::backend::Errors;
use crate::ir::kernel::Program;
use crate::ir::{Name, Param};
use crate::measure::Expected;
use crate::measure::compare::compare;
use crate::measure::expected::ExpectedOutput;
use crate::sim::{self, SimOptions};

/// What an element holds that no simulated block has written.
const POISON: u8 = 0xcd;

/// How to simulate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// Blocks of the last launch; all where it is `None`. What the others would write is not compared.
    pub blocks: Option<u64>,
    /// Order of threads and choice of blocks.
    pub seed: u64,
}

/// Runs a program on seeded inputs.
///
/// # Errors
/// The fault that the simulator found, or how the numbers differ.
pub fn check(
    subject: &Subject,
    program: &Program,
    given: &Given,
    expected: &Expected,
    options: Options,
) -> Result<Errors, String> {
    check_on(program, inputs(&subject.prepared.func, given, false)?, expected, options)
}

/// Runs a program on given inputs.
///
/// # Errors
/// As [`check`].
pub fn check_on(program: &Program, given: Inputs, expected: &Expected, options: Options) -> Result<Errors, String> {
    let Inputs { tensors: before, scalars, inout } = given;
    let run = |watch: Option<(Name, u64)>| {
        let mut tensors = before.clone();
        let sim_options = SimOptions { seed: options.seed, max_blocks: options.blocks, inout: inout.clone(), watch };
        let report = sim::run(program, &mut tensors, &scalars, &sim_options).map_err(|e| e.to_string())?;
        Ok::<_, String>((tensors, report))
    };
    let (tensors, _) = run(None)?;
    let mut worst = Errors::default();
    for want in &expected.outputs {
        let before = program.params[..want.param].iter();
        let tensor = &tensors[before.filter(|p| matches!(p, Param::Buffer(_))).count()];
        let width = tensor.dtype.bytes() as usize;
        let (bytes, values, elements) = chosen(&tensor.data, width, want, options.blocks.is_some());
        let found = compare(tensor.dtype, &bytes, &values);
        if found.errors.l2 > want.tolerance.l2 || found.errors.max > want.tolerance.max {
            let (k, value, reference) = found.worst.unwrap_or_default();
            let (element, name) = (elements.get(k).copied().unwrap_or(0), tensor_name(program, want.param));
            let origin = run(Some((name.clone(), element as u64)))?.1.origin;
            let origin = origin.map(|o| format!(", {o}")).unwrap_or_default();
            return Err(format!(
                "wrong result: `{name}[{element}]` holds {value} where {reference} was expected{origin}"
            ));
        }
        worst.l2 = worst.l2.max(found.errors.l2);
        worst.max = worst.max.max(found.errors.max);
    }
    Ok(worst)
}

/// The elements that are compared: their bytes, their reference values, where they are.
fn chosen(data: &[u8], width: usize, want: &ExpectedOutput, partial: bool) -> (Vec<u8>, Vec<f64>, Vec<usize>) {
    let (mut bytes, mut values, mut elements) = (vec![], vec![], vec![]);
    for (k, value) in want.values.iter().enumerate() {
        let at = want.points.as_ref().map_or(k, |p| p[k] as usize);
        let element = &data[at * width..(at + 1) * width];
        if partial && element.iter().all(|b| *b == POISON) {
            continue;
        }
        bytes.extend_from_slice(element);
        values.push(*value);
        elements.push(at);
    }
    (bytes, values, elements)
}

fn tensor_name(program: &Program, param: usize) -> &Name {
    match &program.params[param] {
        Param::Buffer(name) | Param::Scalar { name, .. } => name,
    }
}

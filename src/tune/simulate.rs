//! Checks a candidate in the simulator: runs its kernels and compares with the expected outputs.

use super::reference::{Given, Inputs, inputs};
use crate::assemble::Subject;
use crate::backend::Errors;
use crate::ir::kernel::Program;
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
    let Inputs { mut tensors, scalars, inout } = given;
    let sim_options = SimOptions { seed: options.seed, max_blocks: options.blocks, inout };
    sim::run(program, &mut tensors, &scalars, &sim_options).map_err(|e| e.to_string())?;
    let mut worst = Errors::default();
    for want in &expected.outputs {
        let before = program.params[..want.param].iter();
        let tensor = &tensors[before.filter(|p| matches!(p, crate::ir::Param::Buffer(_))).count()];
        let width = tensor.dtype.bytes() as usize;
        let (bytes, values) = chosen(&tensor.data, width, want, options.blocks.is_some());
        let found = compare(tensor.dtype, &bytes, &values);
        if found.errors.l2 > want.tolerance.l2 || found.errors.max > want.tolerance.max {
            let (_, value, reference) = found.worst.unwrap_or_default();
            let at = want.param;
            return Err(format!("wrong result: parameter {at} holds {value} where {reference} was expected"));
        }
        worst.l2 = worst.l2.max(found.errors.l2);
        worst.max = worst.max.max(found.errors.max);
    }
    Ok(worst)
}

/// The elements that are compared, with their reference values.
fn chosen(data: &[u8], width: usize, want: &ExpectedOutput, partial: bool) -> (Vec<u8>, Vec<f64>) {
    let (mut bytes, mut values) = (vec![], vec![]);
    for (k, value) in want.values.iter().enumerate() {
        let at = want.points.as_ref().map_or(k, |p| p[k] as usize) * width;
        let element = &data[at..at + width];
        if partial && element.iter().all(|b| *b == POISON) {
            continue;
        }
        bytes.extend_from_slice(element);
        values.push(*value);
    }
    (bytes, values)
}

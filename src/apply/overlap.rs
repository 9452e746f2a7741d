//! Kernels that start while what was launched before them ends, where that was asked for and the GPU can. Their text is the
//! measured one but for the instructions that wait.

use super::kernel::Draft;
use super::options::Options;
use crate::assemble::{Failure, Input};
use crate::codegen::{self, Overlap};
use crate::ir::{Name, Param, Role, nearest};
use crate::target::Kind;
use std::collections::BTreeSet;

/// The first architecture whose kernels can overlap.
const FIRST: u32 = 90;

/// Checks that each constant is a parameter of one of the functions.
///
/// # Errors
/// The first that is none.
pub fn check_constants<'a>(functions: impl Iterator<Item = &'a Input>, constants: &[String]) -> Result<(), Failure> {
    let names = |f: &'a Input| f.func.buffer_params().map(|b| f.func.display_name(&b.name));
    let known: BTreeSet<&str> = functions.flat_map(names).collect();
    let Some(name) = constants.iter().find(|c| !known.contains(c.as_str())) else { return Ok(()) };
    let near = nearest(name, known).map(|n| format!("; did you mean `{n}`?")).unwrap_or_default();
    Err(Failure::usage(format!("constant {name}: no function has this parameter{near}")))
}

/// Checks that a function writes none of the constants.
pub(super) fn check(f: &Input, options: &Options<'_>) -> Result<(), Failure> {
    let roles = crate::analysis::roles(&f.original);
    let written = f.func.params.iter().zip(&roles).filter(|(_, role)| matches!(role, Role::Out | Role::Inout));
    for (param, _) in written {
        let Param::Buffer(b) = param else { continue };
        let name = f.func.display_name(b);
        if options.constants.iter().any(|c| c == name) {
            return Err(Failure::usage(format!("constant {name}: {} writes it", f.name)));
        }
    }
    Ok(())
}

/// Lets the kernels of a draft overlap.
pub(super) fn apply(draft: &mut Draft, f: &Input, options: &Options<'_>) {
    let target = &draft.unit.target;
    if !options.overlap || target.kind != Kind::Cuda || target.sm < FIRST {
        return;
    }
    let is_constant = |name: &&Name| options.constants.iter().any(|c| c == f.func.display_name(name));
    let params = f.func.buffer_params().map(|b| &b.name);
    let overlap = Overlap { constants: params.filter(is_constant).cloned().collect() };
    draft.source.text = codegen::cuda_overlapping(&draft.program, &overlap);
    draft.unit.text.clone_from(&draft.source.text);
    draft.unit.plan.launches.iter_mut().for_each(|l| l.pdl = true);
}

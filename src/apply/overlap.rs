//! Kernels that start while what was launched before them ends, where that was asked for and the GPU can. Their text is the
//! measured one but for the instructions that wait, and for loads of constant tensors that come before these.

use super::kernel::Draft;
use super::options::{Constant, Options};
use crate::analysis::roles;
use crate::assemble::{self, Exit, Failure, Input};
use crate::backend::Source;
use crate::ir::{Name, Param, Role};
use crate::target::Kind;
use std::collections::BTreeSet;

/// The first architecture whose kernels can overlap.
const FIRST: u32 = 90;

/// Checks that each constant is a tensor that its function only reads.
pub(super) fn check(functions: &[Input], options: &Options<'_>) -> Result<(), Failure> {
    let fail = |c: &Constant, why: String| {
        Err(Failure::new(Exit::Usage, format!("the constant tensor {}.{}: {why}", c.function, c.tensor)))
    };
    for c in options.constant {
        let Some(f) = functions.iter().find(|f| f.is_called(&c.function)) else {
            return fail(c, format!("there is no function `{}`", c.function));
        };
        let named = |p: &Param| matches!(p, Param::Buffer(b) if f.original.display_name(b) == c.tensor);
        let all = f.original.params.iter().zip(roles(&f.original));
        match all.into_iter().find(|(p, _)| named(p)) {
            Some((_, Role::In)) => {}
            Some(_) => return fail(c, format!("`{}` writes it", c.function)),
            None => return fail(c, format!("`{}` has no tensor `{}`", c.function, c.tensor)),
        }
    }
    Ok(())
}

/// Lets the kernels of a draft of this function overlap.
pub(super) fn apply(draft: &mut Draft, f: &Input, options: &Options<'_>) {
    let target = &draft.unit.target;
    if !options.overlap || target.kind != Kind::Cuda || target.sm < FIRST {
        return;
    }
    draft.source.text = text(draft, &constant(draft, f, options.constant), options);
    draft.unit.text.clone_from(&draft.source.text);
    draft.unit.plan.launches.iter_mut().for_each(|l| l.pdl = true);
}

/// The text that reads constant tensors early, unless what it holds until then takes more registers than there are.
fn text(draft: &Draft, constant: &BTreeSet<Name>, options: &Options<'_>) -> String {
    let of = |constant| assemble::overlapping(&draft.program, &draft.unit.target, constant);
    let (early, late) = (of(constant), of(&BTreeSet::new()));
    let spills = |text: &String| {
        let source = Source { text: text.clone(), ..draft.source.clone() };
        options.cuda.as_ref().and_then(|(compiler, _)| compiler.compile(&source).ok()).map(|a| a.res.spill)
    };
    if early != late && spills(&early) > spills(&late) { late } else { early }
}

/// The buffers of the constant tensors of a function.
fn constant(draft: &Draft, f: &Input, all: &[Constant]) -> BTreeSet<Name> {
    let own = |name: &str| all.iter().any(|c| f.is_called(&c.function) && c.tensor == name);
    let params = draft.program.params.iter().zip(&draft.unit.params);
    let named = params.filter(|(_, p)| own(&p.name)).filter_map(|(buffer, _)| match buffer {
        Param::Buffer(name) => Some(name.clone()),
        Param::Scalar { .. } => None,
    });
    named.collect()
}

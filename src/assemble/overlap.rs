//! Kernels that start while what was launched before them ends, where the GPU can. Their text is the plain one but for the
//! instructions that wait, and for loads of constant tensors that come before these. What is shipped so and what is
//! measured so come through here.

use super::{Exit, Failure, Input};
use crate::analysis::roles;
use crate::backend::{Compiler, Plan, Source};
use crate::ir::kernel::Program;
use crate::ir::{Name, Param, Role};
use crate::target::{Kind, Target};
use crate::{codegen, lower};
use std::collections::BTreeSet;
use std::str::FromStr;

/// The first architecture whose kernels can overlap.
const FIRST: u32 = 90;
/// The flag of a policy under which kernels overlap.
const FLAG: &str = "overlap";

/// A tensor of a function that no kernel writes while kernels of the stream run, such as weights.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Constant {
    /// Name of the function.
    pub function: String,
    /// Name of its parameter.
    pub tensor: String,
}

impl FromStr for Constant {
    type Err = String;

    fn from_str(text: &str) -> Result<Constant, String> {
        match text.split_once('.') {
            Some((f, t)) if !f.is_empty() && !t.is_empty() => {
                Ok(Constant { function: f.to_string(), tensor: t.to_string() })
            }
            _ => Err(format!("`{text}` is no function and tensor, such as project.w")),
        }
    }
}

/// Checks that each constant is a tensor that its function only reads.
///
/// # Errors
/// The first that is not.
pub fn check_constants(functions: &[Input], all: &[Constant]) -> Result<(), Failure> {
    let fail = |c: &Constant, why: String| {
        Err(Failure::new(Exit::Usage, format!("the constant tensor {}.{}: {why}", c.function, c.tensor)))
    };
    for c in all {
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

/// How the kernels of one function are made that overlap.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Overlap {
    /// Names of the constant tensors.
    constant: BTreeSet<String>,
    /// Their positions among the parameters.
    positions: Vec<usize>,
}

impl Overlap {
    /// True for a target whose kernels can.
    pub fn is_of(target: &Target) -> bool {
        target.kind == Kind::Cuda && target.sm >= FIRST
    }

    /// That of a function, of whose tensors some are among the constant ones.
    pub fn new(f: &Input, all: &[Constant]) -> Overlap {
        let constant: BTreeSet<String> =
            all.iter().filter(|c| f.is_called(&c.function)).map(|c| c.tensor.clone()).collect();
        let is_constant = |p: &Param| matches!(p, Param::Buffer(b) if constant.contains(f.original.display_name(b)));
        let params = f.original.params.iter().enumerate();
        let positions = params.filter(|(_, p)| is_constant(p)).map(|(at, _)| at).collect();
        Overlap { constant, positions }
    }

    /// Names of the constant tensors, in order.
    pub fn constant(&self) -> impl Iterator<Item = &str> {
        self.constant.iter().map(String::as_str)
    }

    /// What the policy of their times says of them: by position, as functions that differ in names alone are one.
    pub fn flags(&self) -> Vec<String> {
        let constant = self.positions.iter().map(|at| format!("constant {at}"));
        std::iter::once(FLAG.to_string()).chain(constant).collect()
    }

    /// Lets kernels overlap. Without a compiler nothing is known of registers.
    pub fn apply(
        &self,
        program: &Program,
        target: &Target,
        (source, plan): (&mut Source, &mut Plan),
        compiler: Option<&dyn Compiler>,
    ) {
        source.text = self.text(program, target, (source, plan), compiler);
        plan.launches.iter_mut().for_each(|l| l.pdl = true);
    }

    /// The text that reads constant tensors early, unless what it holds until then takes more registers than there are.
    fn text(
        &self,
        program: &Program,
        target: &Target,
        (source, plan): (&Source, &Plan),
        compiler: Option<&dyn Compiler>,
    ) -> String {
        let of = |constant| codegen::cuda(&lower::overlapping(program, target, constant));
        let (early, late) = (of(&self.buffers(program, plan)), of(&BTreeSet::new()));
        let spills = |text: &String| {
            let source = Source { text: text.clone(), ..source.clone() };
            compiler.and_then(|c| c.compile(&source).ok()).map(|a| a.res.spill)
        };
        if early != late && spills(&early) > spills(&late) { late } else { early }
    }

    /// The buffers of the constant tensors.
    fn buffers(&self, program: &Program, plan: &Plan) -> BTreeSet<Name> {
        let params = program.params.iter().zip(&plan.params);
        let named = params.filter(|(_, p)| self.constant.contains(&p.name)).filter_map(|(buffer, _)| match buffer {
            Param::Buffer(name) => Some(name.clone()),
            Param::Scalar { .. } => None,
        });
        named.collect()
    }
}

//! One execution in the simulator, which says what is wrong with a kernel where a GPU would not.

use super::super::args;
use super::super::output;
use super::files;
use crate::assemble::Assembly;
use crate::backend::{PlanParam, Role};
use crate::interp::{Scalar, Scalars, Tensor};
use crate::ir::{Name, Param};
use crate::job::{Exit, Failure, Input};
use crate::sim::{self, SimOptions};
use crate::tile::stores_replicas;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Reads the inputs, runs all blocks, writes the outputs; gives their paths.
///
/// # Errors
/// Inputs that are missing or do not fit; what the simulator found.
pub(super) fn run(made: &Assembly, input: &Input, a: &args::Run) -> Result<Vec<PathBuf>, Failure> {
    let (plan, program) = (&made.plan, &made.program);
    let params: Vec<(&Param, &PlanParam)> = program.params.iter().zip(&plan.params).collect();
    let tensors = params.iter().filter_map(|(p, plan)| match p {
        Param::Buffer(name) => Some((name, *plan)),
        Param::Scalar { .. } => None,
    });
    let tensors: Vec<(&Name, &PlanParam)> = tensors.collect();
    let mut values = tensors.iter().map(|(_, p)| tensor(p, a)).collect::<Result<Vec<_>, _>>()?;
    let inout = tensors.iter().filter(|(_, p)| p.role == Role::Inout).map(|(name, _)| (*name).clone()).collect();
    let replicas = input.program.as_ref().is_some_and(stores_replicas);
    // With a limit the report tells what was written.
    let options = SimOptions { max_blocks: Some(u64::MAX), inout, replicas, ..SimOptions::default() };
    let report = sim::run(program, &mut values, &scalars(&params, input, a)?, &options);
    let report = report.map_err(|e| Failure::new(Exit::Failed, format!("{}: {e}", input.name)))?;
    let mut outputs = BTreeMap::new();
    for ((name, p), value) in tensors.into_iter().zip(values) {
        let written = report.written.get(name).map_or(0, Vec::len);
        if p.role == Role::Out && written < value.len() {
            let left = value.len() - written;
            output::note(&format!("{}: nothing wrote {left} elements of `{}`", input.name, p.name));
        }
        if matches!(p.role, Role::Out | Role::Inout) {
            outputs.insert(p.index, value.data);
        }
    }
    files::save(plan, outputs, &a.outputs)
}

/// What a tensor parameter holds at the start.
fn tensor(p: &PlanParam, a: &args::Run) -> Result<Tensor, Failure> {
    let shape = files::shape(p)?;
    Ok(match p.role {
        Role::In | Role::Inout => Tensor { dtype: p.dtype, data: files::read(p, &a.inputs, &shape)?.data, shape },
        Role::Out | Role::Scalar | Role::Extent => Tensor::zeros(p.dtype, &shape),
    })
}

/// Values of the scalar parameters, by the program's names.
fn scalars(params: &[(&Param, &PlanParam)], input: &Input, a: &args::Run) -> Result<Scalars, Failure> {
    let mut out = Scalars::new();
    for (param, p) in params {
        let Param::Scalar { name, dtype } = param else { continue };
        let value = match (input.bind.get(&p.name), dtype.is_float()) {
            (Some(n), false) => Scalar::Int(*n),
            (Some(n), true) => Scalar::Float(*n as f64),
            (None, is_float) => {
                let one = Tensor { dtype: p.dtype, shape: vec![], data: files::read(p, &a.inputs, &[])?.data };
                if is_float { Scalar::Float(one.get_f64(0)) } else { Scalar::Int(one.get_i64(0)) }
            }
        };
        out.insert(name.clone(), value);
    }
    Ok(out)
}

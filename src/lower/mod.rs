//! From a scheduled function or a tile program to a `Program`: a list of passes, [`PASSES`], between what makes
//! statements of blocks and what makes a kernel of statements.

// A path begins with a module of `daylight` everywhere, in that module too.
extern crate self as lower;

use daylight_analysis as analysis;
use daylight_ir as ir;
use daylight_target as target;
use daylight_tile as tile;

mod calls;
mod device;
mod error;
mod fact;
mod nest;
mod overlap;
mod pass;
mod verify;

pub use device::{device_decisions, lower_device, lower_device_after};
pub use error::LowerError;
pub use overlap::overlapping;
pub use pass::{PASSES, Pass, Way, passes};
pub use verify::verify_program;

use crate::ir::kernel::{KernelParam, Launch, Program, Workspace};
use crate::ir::{DeviceLaunch, Expr, Name, PrimFunc, Stmt};
use crate::target::Target;
use crate::tile::Decision;
use nest::Nest;
use std::collections::BTreeSet;

/// Lowers a scheduled function for a target. `trace` is kept for the header of generated text.
///
/// # Errors
/// When the schedule has no kernel on this target: loops that are not bound, register arrays
/// without a constant size, more threads or shared memory than a block may have. The candidate is
/// at fault, not the input.
pub fn lower(f: &PrimFunc, target: &Target, trace: &[String]) -> Result<Program, LowerError> {
    lower_decided(f, target, trace).map(|(program, _)| program)
}

/// [`lower()`], and what dispatch decided for each tile call that the schedule left, in the order of
/// [`Program::variants`].
///
/// # Errors
/// As [`lower()`].
pub fn lower_decided(f: &PrimFunc, target: &Target, trace: &[String]) -> Result<(Program, Vec<Decision>), LowerError> {
    let (mut launches, mut decisions): (Vec<Launch>, _) = (vec![], vec![]);
    let mut taken = BTreeSet::new();
    for (mut nest, s) in pass::launches(f, target)? {
        let place = nest.share.as_ref().and_then(|s| s.place.clone());
        if place.is_some() {
            nest.taken.append(&mut taken);
        }
        let (launch, names) = lower_nest(nest, &s, &mut decisions)?;
        taken = names;
        match (launches.pop(), place) {
            (Some(before), Some(place)) => {
                let both = pass::join::join(before, launch, &place, &mut taken)?;
                pass::finish::fits(&both.kernel, target)?;
                launches.push(both);
            }
            (before, _) => launches.extend(before.into_iter().chain([launch])),
        }
    }
    private_buffers(f, &launches)?;
    Ok((program(f, launches, trace, &decisions, target)?, decisions))
}

/// The launches of a function as a program, which is verified.
fn program(
    f: &PrimFunc,
    launches: Vec<Launch>,
    trace: &[String],
    decisions: &[Decision],
    target: &Target,
) -> Result<Program, LowerError> {
    let program = Program {
        name: f.name.clone(),
        params: f.params.clone(),
        extents: extents(f, &launches),
        workspaces: workspaces(f, &launches),
        launches,
        trace: trace.to_vec(),
        variants: calls::tiles::chosen(decisions),
    };
    verify_program(&program, target)?;
    Ok(program)
}

/// A launch, with the names that nothing merged with it may have.
fn lower_nest(mut nest: Nest, s: &Stmt, decisions: &mut Vec<Decision>) -> Result<(Launch, BTreeSet<Name>), LowerError> {
    let body = pass::blocks::run(&mut nest, s)?;
    let body = pass::run(&mut nest, body, None)?;
    decisions.append(&mut nest.decisions);
    let launch = pass::finish::run(&mut nest, &body)?;
    Ok((launch, nest.taken))
}

/// The launches of a scheduled function as they are after a pass.
///
/// # Errors
/// As [`lower()`].
pub fn lower_after(f: &PrimFunc, target: &Target, last: &Pass) -> Result<Vec<DeviceLaunch>, LowerError> {
    let after = |(mut nest, s): (Nest, Stmt)| {
        let body = pass::blocks::run(&mut nest, &s)?;
        let body = pass::run(&mut nest, body, Some(last.name))?;
        Ok(nest.form(body))
    };
    pass::launches(f, target)?.into_iter().map(after).collect()
}

/// Registers and shared memory do not live from one launch to the next.
fn private_buffers(f: &PrimFunc, launches: &[Launch]) -> Result<(), LowerError> {
    for b in &f.buffers {
        let users = launches.iter().filter(|l| l.kernel.array(&b.name).is_some()).count();
        if users > 1 {
            let why = "it is in registers or shared memory, but several launches use it";
            return Err(LowerError::new("launches", &b.name, why));
        }
    }
    Ok(())
}

/// Intermediates in global memory that some launch uses.
fn workspaces(f: &PrimFunc, launches: &[Launch]) -> Vec<Workspace> {
    let mut out: Vec<Workspace> = vec![];
    for p in launches.iter().flat_map(|l| &l.kernel.params) {
        if let KernelParam::Pointer { name, dtype, len, .. } = p
            && !f.is_param(name)
            && out.iter().all(|w| w.name != *name)
        {
            out.push(Workspace { name: name.clone(), dtype: *dtype, len: len.clone() });
        }
    }
    out
}

/// The symbolic extents that grids, kernels and workspaces mention, in the function's order.
fn extents(f: &PrimFunc, launches: &[Launch]) -> Vec<(Name, crate::ir::DType)> {
    let mut used = BTreeSet::new();
    let mut note = |e: &Expr| e.visit(&mut |e| used.extend(e.as_var().cloned()));
    for l in launches {
        l.grid.iter().for_each(&mut note);
        for p in &l.kernel.params {
            match p {
                KernelParam::Pointer { len, .. } => note(len),
                KernelParam::Scalar { name, dtype } => note(&Expr::var(name.clone(), *dtype)),
                KernelParam::TensorMap(_) => {}
            }
        }
    }
    f.extents.iter().filter(|e| used.contains(&e.name)).map(|e| (e.name.clone(), e.dtype)).collect()
}

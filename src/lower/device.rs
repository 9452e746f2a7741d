//! From a tile program to a `Program`: accesses flattened through the layouts of their buffers, tile
//! calls carried out by the dispatch table. Barriers stay where the program has them; none is added.

use super::LowerError;
use super::nest::Nest;
use crate::ir::device::{DStmt, DeviceFunc};
use crate::ir::kernel::Program;
use crate::ir::{DeviceLaunch, Name};
use crate::lower::pass::{self, Pass, Way};
use crate::target::{Kind, Target};
use crate::tile::Decision;
use std::collections::BTreeSet;

const PASS: &str = "tile program";

/// Lowers a tile program for a target; gives also what was decided for each tile call.
///
/// # Errors
/// Where the target is no GPU, no variant carries out a call, or the block has more threads or
/// shared memory than the target allows.
pub fn lower_device(f: &DeviceFunc, target: &Target) -> Result<(Program, Vec<Decision>), LowerError> {
    let mut nest = launch(f, target)?;
    let body = pass::run(&mut nest, f.body.clone(), None)?;
    let decisions = std::mem::take(&mut nest.decisions);
    let launch = pass::finish::run(&mut nest, &body)?;
    Ok((super::program(&f.func, vec![launch], &[], &decisions, target)?, decisions))
}

/// The launch of a tile program as it is after a pass.
///
/// # Errors
/// As [`lower_device`].
pub fn lower_device_after(f: &DeviceFunc, target: &Target, last: &Pass) -> Result<DeviceLaunch, LowerError> {
    let mut nest = launch(f, target)?;
    let body = pass::run(&mut nest, f.body.clone(), Some(last.name))?;
    Ok(nest.form(body))
}

/// What is decided for each tile call, also where nothing carries some of them out; nothing where the
/// target cannot run the program at all.
pub fn device_decisions(f: &DeviceFunc, target: &Target) -> Vec<Decision> {
    let Ok(mut nest) = launch(f, target) else { return vec![] };
    // Why it cannot be lowered is for `lower_device` to say.
    let _ = pass::run(&mut nest, f.body.clone(), None);
    nest.decisions
}

/// The launch of a program that the target can run.
fn launch<'f>(f: &'f DeviceFunc, target: &'f Target) -> Result<Nest<'f>, LowerError> {
    let at = Name::new(&f.func.name);
    if target.kind != Kind::Cuda {
        return Err(LowerError::new(PASS, &at, format!("it is a kernel for a GPU, and {} is none", target.id)));
    }
    let threads: u64 = f.block.iter().map(|n| u64::from(*n)).product();
    if threads > u64::from(target.max_threads) {
        let why = format!("{threads} threads per block, {} allows {}", target.id, target.max_threads);
        return Err(LowerError::new(PASS, &at, why));
    }
    let symbol = pass::launches::symbol(&f.func.name, 0);
    let nest = Nest::new(&f.func, target, symbol, f.grid.clone(), f.block, declared(&f.body));
    Ok(Nest { way: Way::Program, ..nest })
}

/// The names that loops and scalars of the program declare.
fn declared(body: &[DStmt]) -> BTreeSet<Name> {
    let mut names = BTreeSet::new();
    for s in body {
        s.visit(&mut |s| names.extend(s.declared().cloned()));
    }
    names
}

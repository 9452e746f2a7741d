//! From a tile program to a `Program`: accesses flattened through the layouts of their buffers, tile
//! calls carried out by the dispatch table. Barriers stay where the program has them; none is added.

use super::nest::Nest;
use super::{LowerError, verify_program};
use crate::ir::device::{DFor, DKind, DStmt, DeviceFunc};
use crate::ir::kernel::{KernelParam, Program, Workspace};
use crate::ir::{Expr, Name, PrimFunc};
use crate::lower::pass::{finish, flatten, guards, inline_lets, lets, unroll};
use crate::lower::tile::tiles;
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
    let mut decisions = vec![];
    let (mut nest, body) = dispatched(f, target, &mut decisions)?;
    flatten::buffers(&mut nest);
    let body = guards::uniform(&nest, body);
    let body = unroll::run(&nest, body)?;
    let body = unroll::drop_single_steps(&nest, body);
    let body = lets::run(&mut nest, body);
    let launch = finish::run(nest, &body)?;
    let program = Program {
        name: f.func.name.clone(),
        params: f.func.params.clone(),
        extents: vec![],
        workspaces: workspaces(&f.func, &launch.kernel.params),
        launches: vec![launch],
        trace: vec![],
        variants: tiles::chosen(&decisions),
    };
    verify_program(&program, target)?;
    Ok((program, decisions))
}

/// What is decided for each tile call, also where nothing carries some of them out; nothing where the
/// target cannot run the program at all.
pub fn device_decisions(f: &DeviceFunc, target: &Target) -> Vec<Decision> {
    let mut decisions = vec![];
    // Why it cannot be lowered is for `lower_device` to say.
    let _ = dispatched(f, target, &mut decisions);
    decisions
}

/// The program with its accesses flat and its calls carried out; decisions are added for all of them.
fn dispatched<'f>(
    f: &'f DeviceFunc,
    target: &'f Target,
    decisions: &mut Vec<Decision>,
) -> Result<(Nest<'f>, Vec<DStmt>), LowerError> {
    let at = Name::new(&f.func.name);
    if target.kind != Kind::Cuda {
        return Err(LowerError::new(PASS, &at, format!("it is a kernel for a GPU, and {} is none", target.id)));
    }
    let threads: u64 = f.block.iter().map(|n| u64::from(*n)).product();
    if threads > u64::from(target.max_threads) {
        let why = format!("{threads} threads per block, {} allows {}", target.id, target.max_threads);
        return Err(LowerError::new(PASS, &at, why));
    }
    let symbol = crate::lower::pass::launches::symbol(&f.func.name, 0);
    let mut nest = Nest::new(&f.func, target, symbol, f.grid.clone(), f.block, declared(&f.body));
    nest.own_barriers = false;
    let body = inline_lets::run(f.body.clone());
    let body = plain_loops(&mut nest, body);
    let body = flatten::run(&nest, &body)?;
    let body = tiles::run(&mut nest, body, decisions)?;
    Ok((nest, body))
}

/// The names that loops and scalars of the program declare.
fn declared(body: &[DStmt]) -> BTreeSet<Name> {
    let mut names = BTreeSet::new();
    for s in body {
        s.visit(&mut |s| {
            if let DStmt::For(DFor { var, .. }) | DStmt::Let { var, .. } | DStmt::Var { var, .. } = s {
                names.insert(var.clone());
            }
        });
    }
    names
}

/// Notes the ranges of loops. Vector loops are unrolled: the wide accesses of a tile program are
/// those of its tile calls.
fn plain_loops(nest: &mut Nest, body: Vec<DStmt>) -> Vec<DStmt> {
    let one = |mut s: DStmt| {
        if let DStmt::For(l) = &mut s {
            nest.ranges.set_span(l.var.clone(), &Expr::i64(0), &l.extent);
            l.kind = if l.kind == DKind::Serial { DKind::Serial } else { DKind::Unrolled };
        }
        s.map_lists(|inner| plain_loops(nest, inner))
    };
    body.into_iter().map(one).collect()
}

/// Global memory that is no parameter.
fn workspaces(f: &PrimFunc, params: &[KernelParam]) -> Vec<Workspace> {
    let own = params.iter().filter_map(|p| match p {
        KernelParam::Pointer { name, dtype, len, .. } if !f.is_param(name) => {
            Some(Workspace { name: name.clone(), dtype: *dtype, len: len.clone() })
        }
        KernelParam::Pointer { .. } | KernelParam::Scalar { .. } | KernelParam::TensorMap(_) => None,
    });
    own.collect()
}

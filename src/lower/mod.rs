//! From a scheduled function to a `Program`: a short list of passes, one file each.
//!
//! | pass | what it does |
//! |---|---|
//! | `launches` | one kernel per top-level loop nest; grid and block |
//! | `widen` | all index arithmetic in `int64` |
//! | `blocks` | blocks become plain statements, thread-bound loops thread indices |
//! | `promote` | accumulators of 16-bit floats in float32 |
//! | `fragments`, `part_loops` | products and elementwise nests of a block as calls and loops over registers |
//! | `held` | private arrays of the CPU in the type that they are computed in |
//! | `cross_thread`, `cluster` | reductions over threads as tile calls, and over the blocks of a cluster |
//! | `compact`, `placement` | register and shared buffers shrink to what is touched, and get the strides asked for |
//! | `flatten` | one flat index per access |
//! | `guards` | conditions leave the loops they do not depend on |
//! | `vectorize` | vector copies, vector loops of the CPU |
//! | `unroll` | which loops are unrolled |
//! | `gather` | adjacent loads of an unrolled loop in vector accesses |
//! | `batch` | loads of an unrolled loop before their uses |
//! | `leaves`, `unpack`, `unpack_pairs` | marked loops as tile calls, or as straight code on packed values |
//! | `swizzle` | shared memory of matrix fragments without bank conflicts |
//! | `pipeline` | copies of annotated loops run ahead, asynchronous where they can be |
//! | `barriers` | barriers between conflicting accesses to shared memory |
//! | `proxy` | what threads write is fenced for the instructions that read it by the asynchronous proxy |
//! | `pin` | rows of 16-bit values stay packed between passes over them |
//! | `lets` | lets inside expressions become statements |
//! | `own_cluster` | the grid counts blocks, not clusters |
//! | `narrow`, `finish` | `int32` where it fits; arrays, parameters, the kernel |
//! | `prefetch` | what the CPU asks of memory ahead of time |

mod device;
mod error;
mod fact;
mod nest;
mod pass;
mod tile;
mod verify;

pub use device::{device_decisions, lower_device};
pub use error::LowerError;
pub use verify::verify_program;

use crate::ir::kernel::{KernelParam, Launch, Program, Workspace};
use crate::ir::{Expr, Name, PrimFunc, Stmt};
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

/// [`lower`], and what dispatch decided for each tile call that the schedule left, in the order of
/// [`Program::variants`].
///
/// # Errors
/// As [`lower`].
pub fn lower_decided(f: &PrimFunc, target: &Target, trace: &[String]) -> Result<(Program, Vec<Decision>), LowerError> {
    let (mut launches, mut decisions) = (vec![], vec![]);
    for (nest, s) in pass::launches::split(f, target)? {
        launches.push(lower_nest(nest, &s, &mut decisions)?);
    }
    private_buffers(f, &launches)?;
    let program = Program {
        name: f.name.clone(),
        params: f.params.clone(),
        extents: extents(f, &launches),
        workspaces: workspaces(f, &launches),
        launches,
        trace: trace.to_vec(),
        variants: tile::tiles::chosen(&decisions),
    };
    verify_program(&program, target)?;
    Ok((program, decisions))
}

fn lower_nest(mut nest: Nest, s: &Stmt, decisions: &mut Vec<Decision>) -> Result<Launch, LowerError> {
    let body = pass::blocks::run(&mut nest, s)?;
    let body = pass::promote::run(&mut nest, body);
    let body = if nest.cuda() { tile::fragments::run(&mut nest, body)? } else { pass::held::run(&mut nest, body) };
    let body = tile::cross_thread::run(&mut nest, body)?;
    let body = pass::compact::run(&mut nest, body)?;
    let body = pass::flatten::run(&nest, &body)?;
    let body = tile::fragments::carry_out(&mut nest, body)?;
    pass::flatten::buffers(&mut nest);
    let body = pass::guards::uniform(&nest, body);
    let body = pass::vectorize::run(&mut nest, body);
    let body = pass::unroll::run(&nest, body)?;
    let body = if nest.cuda() { pass::gather::run(&mut nest, body) } else { body };
    let body = pass::batch::run(&mut nest, body);
    let body = if nest.cuda() { tile::leaves::run(&mut nest, body)? } else { body };
    let body = pass::unroll::drop_single_steps(&nest, body);
    let body = pass::swizzle::run(&nest, body);
    let body = if nest.cuda() { pass::pipeline::run(&mut nest, body) } else { body };
    let body = if nest.cuda() { pass::barriers::run(&nest, body) } else { body };
    let body = pass::proxy::run(body);
    let body = pass::guards::hoist(body);
    let body = if nest.cuda() { pass::pin::run(&mut nest, body) } else { body };
    let body = pass::lets::run(&mut nest, body);
    decisions.append(&mut nest.decisions);
    pass::finish::run(nest, &body)
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

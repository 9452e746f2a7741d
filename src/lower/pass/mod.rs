//! The passes of lowering, one file each, and the table that is their pipeline.
//!
//! `launches` makes one launch per top-level loop nest and `blocks` its statements, with all index arithmetic in
//! `int64` (`widen`). The passes of [`PASSES`] then take statements and give statements, and `finish` makes the
//! kernel of what is left.

pub mod barriers;
pub mod batch;
pub mod blocks;
pub mod cluster_loads;
pub mod compact;
pub mod finish;
pub mod flatten;
pub mod gather;
pub mod guards;
pub mod held;
pub mod inline_lets;
pub mod invariants;
pub mod join;
pub mod last_step;
pub mod launches;
pub mod lets;
pub mod lift_loads;
mod loop_partition;
pub mod pin;
pub mod pipeline;
pub mod plain_loops;
pub mod promote;
pub mod proxy;
pub mod roles;
pub mod swizzle;
pub mod tensor_memory;
pub mod unroll;
pub mod vectorize;
pub mod whole_tiles;
pub mod widen;

use super::LowerError;
use super::calls::{cross_thread, fragments, leaves, tiles};
use super::nest::Nest;
use crate::ir::device::DStmt;
use crate::ir::{PrimFunc, Stmt};
use crate::target::{Kind, Target};
use Run::{Fallible, Plain};
use Way::{Cpu, Cuda, Program};

/// How a launch comes to be, on which it depends what passes it goes through.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Scheduled for a GPU.
    Cuda,
    /// Scheduled for a CPU.
    Cpu,
    /// Written as a tile program.
    Program,
}

impl Way {
    /// The way of a scheduled function.
    pub fn of(target: &Target) -> Way {
        match target.kind {
            Kind::Cuda => Cuda,
            Kind::Cpu => Cpu,
        }
    }
}

/// A row of the pipeline.
pub struct Pass {
    /// The name, which is that of one row.
    pub name: &'static str,
    /// The launches that go through it.
    ways: &'static [Way],
    run: Run,
    /// What it does, in a line.
    pub what: &'static str,
}

/// The function of a pass.
enum Run {
    /// It takes every launch.
    Plain(fn(&mut Nest, Vec<DStmt>) -> Vec<DStmt>),
    /// It may find that a launch has no kernel.
    Fallible(fn(&mut Nest, Vec<DStmt>) -> Result<Vec<DStmt>, LowerError>),
}

const fn row(name: &'static str, ways: &'static [Way], run: Run, what: &'static str) -> Pass {
    Pass { name, ways, run, what }
}

const ALL: &[Way] = &[Cuda, Cpu, Program];
const SCHEDULED: &[Way] = &[Cuda, Cpu];
const CUDA: &[Way] = &[Cuda];
const CPU: &[Way] = &[Cpu];
const PROGRAM: &[Way] = &[Program];

/// The pipeline: every launch goes through the rows of its way, from the first to the last.
pub const PASSES: &[Pass] = &[
    row("promote", SCHEDULED, Plain(promote::run), "accumulators of 16-bit floats in float32"),
    row("fragments", CUDA, Fallible(fragments::run), "products of a block as calls, and loops over registers"),
    row("held", CPU, Plain(held::run), "private arrays in the type that they are computed in"),
    row("cross_thread", CUDA, Fallible(cross_thread::run), "reductions over threads and clusters as tile calls"),
    row("compact", SCHEDULED, Fallible(compact::run), "registers and shared memory shrink to what is touched"),
    row("inline_lets", PROGRAM, Plain(|_, body| inline_lets::run(body)), "small index variables put in place"),
    row("plain_loops", PROGRAM, Plain(plain_loops::run), "ranges of loops noted, vector loops unrolled"),
    row("flatten", ALL, Fallible(flatten::run), "one flat index per access"),
    row("products", CUDA, Fallible(fragments::carry_out), "the products of a block carried out"),
    row("dispatch", PROGRAM, Fallible(tiles::run), "tile calls carried out by the variants that are chosen"),
    row("flat_buffers", ALL, Plain(flatten::buffers), "one dimension per buffer"),
    row("uniform_guards", ALL, Plain(guards::uniform), "conditions free of loops that do not change them"),
    row("loop_partition", CUDA, Plain(loop_partition::run), "unrolled loops cut where conditions change"),
    row("whole_tiles", CUDA, Plain(whole_tiles::run), "blocks whose tile is inside a tensor without conditions"),
    row("vectorize", SCHEDULED, Plain(vectorize::run), "vector copies, vector loops of the CPU"),
    row("unroll", ALL, Fallible(unroll::run), "which loops are unrolled"),
    row("gather", CUDA, Plain(gather::run), "adjacent loads of an unrolled loop in vector accesses"),
    row("lift_loads", CUDA, Plain(lift_loads::run), "loads out of the expressions of a loop that batches them"),
    row("last_step", CUDA, Plain(last_step::run), "the last step of a loop apart, the others without conditions"),
    row("batch", SCHEDULED, Plain(batch::run), "loads of an unrolled loop before their uses"),
    row("leaves", CUDA, Fallible(leaves::run), "marked loops as tile calls, or as straight code on packed values"),
    row("single_steps", ALL, Plain(unroll::drop_single_steps), "loops of one step gone"),
    row("swizzle", CUDA, Plain(swizzle::run), "shared memory of matrix fragments without bank conflicts"),
    row(
        "cluster_loads",
        CUDA,
        Fallible(cluster_loads::run),
        "parts of the blocks of a cluster, and loads from others'",
    ),
    row(
        "roles",
        CUDA,
        Fallible(roles::run),
        "copies of annotated loops by threads of their own, tiles one after the other",
    ),
    row(
        "tensor_memory",
        &[Cuda, Program],
        Fallible(tensor_memory::run),
        "columns of tensor memory taken at the start and given back at the end",
    ),
    row("pipeline", CUDA, Plain(pipeline::run), "copies of annotated loops run ahead, asynchronous where they can be"),
    row("barriers", CUDA, Plain(barriers::run), "barriers between conflicting accesses to shared memory"),
    row("proxy", CUDA, Plain(proxy::run), "what the asynchronous proxy reads is fenced before barriers"),
    row("hoist_guards", SCHEDULED, Plain(|_, body| guards::hoist(body)), "conditions out of loops, neighbours joined"),
    row("pin", CUDA, Plain(pin::run), "rows of 16-bit values packed between passes over them"),
    row("lets", ALL, Plain(lets::run), "lets inside expressions as statements"),
    row("invariants", SCHEDULED, Plain(invariants::run), "calls that no step of a loop changes before it"),
];

/// The passes of a way, in order.
pub fn passes(way: Way) -> impl Iterator<Item = &'static Pass> {
    PASSES.iter().filter(move |p| p.ways.contains(&way))
}

/// The launches of a function with the statement each is made of; those that are to be one kernel know of each other.
pub(super) fn launches<'a>(f: &'a PrimFunc, target: &'a Target) -> Result<Vec<(Nest<'a>, Stmt)>, LowerError> {
    let mut out = launches::split(f, target)?;
    join::share(f, target, &mut out)?;
    Ok(out)
}

/// Takes the statements of a launch through its passes, as far as `last` where one is named.
pub(super) fn run(nest: &mut Nest, mut body: Vec<DStmt>, last: Option<&str>) -> Result<Vec<DStmt>, LowerError> {
    for pass in passes(nest.way) {
        body = match pass.run {
            Plain(run) => run(nest, body),
            Fallible(run) => run(nest, body)?,
        };
        if last == Some(pass.name) {
            break;
        }
    }
    Ok(body)
}

//! The simulator: runs lowered kernels as a GPU would, and finds what a GPU would not tell.
//!
//! Every thread of a block is a little machine of its own that runs until it meets a barrier or a
//! shuffle; between those points the threads run one after another in a shuffled order that the
//! seed fixes. Found and named, with the statement, block and thread: accesses outside an array,
//! vector accesses at the wrong multiple, reads of registers, shared memory, outputs and workspaces
//! that nothing has written, barriers and shuffles that some participant does not reach, races (two
//! accesses of an element in shared or global memory that nothing orders, one of them a write).
//! Arithmetic is that of the interpreter: every operation rounds to its type; products
//! and sums are not fused.
//!
//! Asynchronous copies have landed, for the simulator, when something waits for them and not before:
//! data of `cp.async` at the wait for its group, bulk copies at later points that the seed chooses, or
//! when nothing else can go on. Until then the destination can be neither read nor written, and the
//! source not written. Barriers in shared memory count arrivals and bytes per phase; threads that wait for a
//! phase that nothing can complete are a deadlock. A bulk store of what ordinary stores wrote needs an
//! asynchronous fence by any thread after the last of them; whether a fence stands before ordinary
//! reads and a later bulk load is not checked.
//!
//! The blocks of a cluster run together; otherwise blocks run one after the other, but for those that a running one asks
//! for and is given (`unstarted`).

// A path begins with a module of `daylight` everywhere, in that module too.
extern crate self as sim;

use daylight_interp as interp;
use daylight_ir as ir;

mod arrivals;
mod block;
mod bulk;
mod clock;
mod cluster;
mod code;
mod compile;
mod cp_async;
mod error;
mod expr;
mod instr;
mod matrix;
mod mbarrier;
mod memory;
mod named;
mod origin;
mod packed;
mod program;
mod serve;
mod shadow;
mod tcgen05;
mod tensor;
mod thread;
mod unstarted;
mod wgmma;

pub use error::{Fault, Party, Race, SimError};
pub use origin::{Origin, Writer};
pub use program::run;

use crate::interp::scalar;
use crate::ir::Name;
use std::collections::BTreeMap;

/// How to run.
#[derive(Clone, Debug, Default)]
pub struct SimOptions {
    /// Fixes the order of threads and the choice of blocks.
    pub seed: u64,
    /// Blocks of the last launch to run, spread over its grid; all where it is `None`. Clusters run as a
    /// whole. Earlier launches always run whole, since later ones read their results.
    pub max_blocks: Option<u64>,
    /// Tensor parameters that the function both reads and writes: what they hold at the start counts
    /// as written. All other parameters that a kernel writes are outputs, and start unwritten.
    pub inout: Vec<Name>,
    /// Threads may store the same value to one element, as all holders of a replicated tile do.
    pub replicas: bool,
    /// An element of a tensor parameter whose origin the report shall tell.
    pub watch: Option<(Name, u64)>,
}

/// What was run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SimReport {
    /// Blocks over all launches.
    pub blocks: u64,
    /// Those of them that started: the others were given to running ones.
    pub started: u64,
    /// Instructions over all threads.
    pub instructions: u64,
    /// Elements that were written, of each tensor parameter that is; empty when all blocks ran.
    pub written: BTreeMap<Name, Vec<u64>>,
    /// Where the value of the watched element comes from.
    pub origin: Option<Origin>,
}

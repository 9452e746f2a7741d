//! Worker processes: compiling and measuring happen in children that may crash or hang without
//! harm. A worker is only ever a program that the caller names.
//!
//! Protocol: one JSON object per line on standard input and output, version [`PROTOCOL`]. The first
//! request sets the worker up; each request has one reply with the same id. Ids are drawn at random, so
//! that what foreign code writes to the pipe does not pass for a reply.

mod compile;
mod fault;
mod process;
mod serve;

pub use fault::WorkerFault;
pub use process::{WorkerCommand, WorkerProcess};
pub use serve::serve;

use serde::{Deserialize, Serialize};

/// Version of the protocol; both sides refuse another one.
pub const PROTOCOL: u32 = 1;

/// A request to a worker.
#[derive(Serialize, Deserialize)]
pub struct Request<T> {
    /// [`PROTOCOL`].
    pub v: u32,
    /// Drawn at random.
    pub id: u64,
    /// What to do.
    pub body: T,
}

/// The reply to the request of the same id.
#[derive(Serialize, Deserialize)]
pub struct Reply<T> {
    /// [`PROTOCOL`].
    pub v: u32,
    /// The request's id.
    pub id: u64,
    /// What came out.
    pub body: T,
}

/// Runs a compile worker until standard input ends: `daylight worker compile`.
///
/// # Errors
/// A sentence, when the pipe breaks or the peer speaks another protocol.
pub fn compile_main() -> Result<(), String> {
    compile::main()
}

pub(in crate::runner) use compile::{CompileRequest, Compiled};

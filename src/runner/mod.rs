//! Devices, and the worker processes that compile for them and run on them: the only code that touches drivers.

pub mod cpu;
pub mod cuda;
pub mod device;
pub mod element;
pub mod fake;
pub mod gemm;
mod limits;
pub mod pool;
mod posix;
pub mod traits;
pub mod worker;

pub use crate::log::DeviceState;
pub use limits::Limits;
pub use pool::CompilePool;
pub use traits::{Candidate, DeviceFacts, Errors, Problem, Range, RunError, RunFailure, Runner, Timing};
pub use worker::WorkerCommand;

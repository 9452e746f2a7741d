//! Compilers and runners: the only code that touches tools and drivers.

mod cache;
pub mod cc;
pub mod cpu;
pub mod cuda;
pub mod device;
pub mod dim;
pub mod element;
pub mod fake;
mod limits;
pub mod local;
pub mod nvrtc;
mod parallel;
pub mod places;
pub mod plan;
mod plan_map;
pub mod pool;
mod posix;
pub mod traits;
pub mod warning;
pub mod worker;

pub use cache::ArtifactCache;
pub use dim::{Dim, eval};
pub use limits::Limits;
pub use local::{LocalCompiler, Tools};
pub use places::Places;
pub use plan::{Arg, Plan, PlanLaunch, PlanParam, PlanWorkspace, Role};
pub use plan_map::{Interleave, OutOfBounds, PlanTensorMap};
pub use pool::CompilePool;
pub use traits::{
    Artifact, Candidate, CompileError, CompileFailure, Compiler, DeviceFacts, DeviceState, Errors, Format, Language,
    Problem, Resources, RunError, RunFailure, Runner, Source, Timing,
};
pub use warning::Warning;
pub use worker::WorkerCommand;

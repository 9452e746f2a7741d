//! Compilers and runners: the only code that touches tools and drivers.

pub mod dim;
pub mod fake;
pub mod plan;
pub mod traits;

pub use dim::{Dim, eval};
pub use plan::{Arg, Plan, PlanLaunch, PlanParam, PlanWorkspace, Role};
pub use traits::{
    Artifact, Candidate, CompileError, CompileFailure, Compiler, DeviceFacts, Errors, Format, Language, Problem,
    Resources, RunError, RunFailure, Runner, Source, Timing,
};

//! Launch plans, and the compilers that turn text into what a launch needs.

mod cache;
pub mod cc;
pub mod compiler;
pub mod dim;
mod dim_text;
pub mod local;
pub mod nvrtc;
pub mod places;
pub mod plan;
mod plan_map;
pub mod warning;

pub use crate::ir::Role;
pub use crate::log::{Resources, Warning};
pub use cache::{ArtifactCache, Stored, stored};
pub use compiler::{Artifact, CompileError, CompileFailure, Compiler, Format, Language, Source};
pub use dim::{Dim, eval};
pub use local::{LocalCompiler, Tools};
pub use places::Places;
pub use plan::{Arg, Plan, PlanLaunch, PlanParam, PlanWorkspace};
pub use plan_map::{Interleave, OutOfBounds, PlanTensorMap};

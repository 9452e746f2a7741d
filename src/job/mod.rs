//! Whole jobs: functions in, tuned kernels in a log and reports out. What the commands do, for Rust
//! programs too.
//!
//! `select` says which rules and points are theirs, `device` opens what
//! measures, `work` makes one function ready, `tuner` tunes many functions, sharing the time (`budget`) by what each may gain,
//! `report` is what comes out, `step` counts what a step of a model calls.

mod budget;
mod device;
mod predict;
mod report;
pub mod select;
mod step;
mod tuner;
mod weights;
mod work;

pub use crate::assemble::{BadFile, Bindings, Exit, Failure, Input, Reading, guarded, load};
pub use device::{Device, language};
pub use predict::{NO_DEVICE, Prediction, Predictor};
pub use report::{Part, Report, SpaceReport, Totals};
pub use step::{Called, Step};
pub use tuner::{Event, Tuner, Watcher, deal};
pub use weights::Weights;

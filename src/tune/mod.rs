//! The tuner: the only loop. Proposes points, builds and compiles them in parallel, checks and
//! times each on the device as soon as it is compiled, logs every outcome, re-measures the
//! finalists turn by turn, and keeps the best. Never worse than the default, which is candidate 0.
//!
//! `space` and `search` say what to try next, `pipeline` builds and compiles, `explore` is the loop
//! around them with its threads, `overlap` what the devices waited for, `ledger` keeps and logs
//! outcomes, `finalists` measures the best again, `session` is one function from start to end.

mod config;
mod draw;
mod explore;
mod finalists;
mod finite;
mod in_order;
mod ledger;
mod occupancy;
mod output;
mod overlap;
mod pipeline;
pub mod predict;
pub mod problem;
pub mod program;
pub mod reference;
pub mod replay;
mod rounding;
mod scale;
pub mod search;
mod session;
pub mod simulate;
mod space;
mod special;
pub mod standing;
mod trust;

pub use config::{Clock, Progress, Summary, TuneConfig, TuneError};
pub use ledger::{Counts, point_of, with_candidate, with_steps};
pub use occupancy::Occupancy;
pub use overlap::Overlap;
pub use pipeline::{Build, Built, RuleBuild};
pub use session::{Session, Task, tune};
pub use space::{Arms, Point};

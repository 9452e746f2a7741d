//! The tuning log: JSON Lines, append-only, one record for each candidate that was tried.
//!
//! `record` is what a line holds, `line` its checksum, `file` reading and appending, `select` which
//! records answer a question, `choose` which of them wins by the `stats` of their samples, `merge` the
//! union of several logs.
//! Depends on nothing else in the crate, so that any tool can read a log.

mod choose;
mod file;
mod line;
mod merge;
mod record;
mod select;
pub mod stats;

pub use choose::{TIE, Timing, best_timings, choose};
pub use file::{LogFile, Skipped, Writer, files, path_for, read};
pub use line::LineError;
pub use merge::merge;
pub use record::{DeviceState, Env, ErrorNorms, Outcome, Policy, Record, Resources, SCHEMA, Variant, Workload};
pub use select::{CandidateId, Query, select};
pub use stats::median;

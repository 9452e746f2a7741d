//! The tuning log: JSON Lines, append-only, one record for each candidate that was tried.
//!
//! `record` is what a line holds, `line` its checksum, `older` what earlier layouts said otherwise; `file` and `scan` read. `select` says which records
//! answer a question, `choose` which of them wins by the `stats` of their samples. `upkeep` writes.
//! Depends on nothing else in the crate, so that any tool can read a log.

mod choose;
mod file;
mod line;
mod older;
mod record;
mod scan;
mod select;
mod setting;
pub mod stats;
#[cfg(feature = "tune")]
mod upkeep;

pub use choose::{TIE, Timing, best_timings, choose};
pub use file::{LogFile, Skipped, files, past, path_for, read};
pub use line::LineError;
pub use record::{
    DeviceState, Env, ErrorNorms, OLDEST, Outcome, Policy, Record, Resources, SCHEMA, Variant, Warning, Workload,
};
pub use select::{CandidateId, Query, Selection, select, selections};
pub use setting::{Setting, pairs};
pub use stats::{Median, drift, median, speedup, spread};
#[cfg(feature = "tune")]
pub use upkeep::{Checked, Writer, compact, csv, merge, replace, t4, verify, write};

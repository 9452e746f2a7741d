//! The tuning log: JSON Lines, append-only, one record for each candidate that was tried.
//!
//! `record` is what there is to say of a candidate, `line` its line with a checksum, `brief` how it shares other lines (`packed`: its
//! samples), `older` what earlier layouts said otherwise; `file` and `scan` read. `select` says which records
//! answer a question, `choose` which of them wins by the `stats` of their samples. `upkeep` writes.
//! Depends on nothing else in the crate, so that any tool can read a log.
//!
//! ```
//! use daylight::log;
//!
//! let log = log::read("examples/consumer/tuning-logs".as_ref())?;
//! log.skipped.iter().for_each(|line| eprintln!("{line}"));
//! // Times are comparable within a selection: one function, size, target, machine and policy.
//! for (selection, records) in log::selections(&log.records) {
//!     let best = log::choose(&records).expect("one of them has a time");
//!     let name = &best.record.workload.name;
//!     println!("{name} on {}: {:.1} us by {}", selection.target, best.median_ns / 1e3, best.record.rule);
//! }
//! # assert!(log.records.len() > 100);
//! # Ok::<(), String>(())
//! ```

mod brief;
mod choose;
mod file;
mod line;
mod older;
mod packed;
mod record;
mod scan;
mod seal;
mod select;
mod setting;
pub mod stats;
#[cfg(feature = "tune")]
mod upkeep;

pub use brief::Encoder;
pub use choose::{TIE, Timing, best_timings, choose};
pub use file::{LogFile, Skipped, files, past, path_for, read};
pub use record::{
    DeviceState, Env, ErrorNorms, OLDEST, Outcome, Policy, Record, Resources, SCHEMA, Variant, Warning, Work, Workload,
};
pub use seal::LineError;
pub use select::{CandidateId, Query, Selection, select, selections};
pub use setting::{Setting, pairs};
pub use stats::{Median, drift, median, speedup, spread};
#[cfg(feature = "tune")]
pub use upkeep::{Checked, Writer, compact, csv, merge, replace, t4, verify, write};

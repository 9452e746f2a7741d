//! The tuning log: JSON Lines, append-only, one record for each candidate that was tried.
//!
//! `record` is what a line holds, `line` its checksum; `file` and `scan` read, `writer` appends,
//! `replace` writes whole files. `select` says which records answer a question, `choose` which of them
//! wins by the `stats` of their samples. `merge` is the union of several logs, `compact` what is left
//! when only what decides anything stays, `verify` what is wrong with a log; `t4` and `table` turn it
//! into other formats.
//! Depends on nothing else in the crate, so that any tool can read a log.

mod choose;
mod compact;
mod file;
mod line;
mod merge;
mod record;
mod replace;
mod scan;
mod select;
pub mod stats;
mod t4;
mod table;
mod verify;
mod writer;

pub use choose::{TIE, Timing, best_timings, choose};
pub use compact::compact;
pub use file::{LogFile, Skipped, files, path_for, read};
pub use line::LineError;
pub use merge::merge;
pub use record::{
    DeviceState, Env, ErrorNorms, OLDEST, Outcome, Policy, Record, Resources, SCHEMA, Variant, Warning, Workload,
};
pub use replace::{replace, write};
pub use select::{CandidateId, Query, Selection, select, selections};
pub use stats::median;
pub use t4::t4;
pub use table::csv;
pub use verify::{Checked, verify};
pub use writer::Writer;

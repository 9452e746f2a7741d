//! What a tuning run is told, and what it tells.

use super::search::Stop;
use super::{Counts, Overlap};
use crate::assemble::Constant;
use crate::log::{Median, Record};
use crate::runner::Limits;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Settings of a tuning run. [`super::tune`] takes one function and a session with device and log opened,
/// and heeds what is said of search and time; `job::Tuner` heeds everything.
#[derive(Clone, PartialEq, Debug)]
pub struct TuneConfig {
    /// `auto`, `cpu`, `cuda`, `cuda:1` or `cuda:all`.
    pub device: String,
    /// Log file, or folder with one file per target.
    pub log: PathBuf,
    /// The `daylight` program whose processes compile and run candidates. Without one nothing is
    /// measured: a library does not start processes by itself.
    pub worker: Option<PathBuf>,
    /// Folder of knob tables that replace the built-in ones.
    pub schedules: Option<PathBuf>,
    /// What a candidate may cost.
    pub limits: Limits,
    /// What to tune for, where the device can run it and it is not the device's own: `cpu:x86-64-v3` on a machine of
    /// level 4.
    pub target: Option<String>,
    /// This run's share `(k, n)` of the functions, `1 <= k <= n`.
    pub shard: (u64, u64),
    /// Calls per step by function or file name, by which a time limit is shared; 1 for others.
    pub weights: BTreeMap<String, f64>,
    /// Candidates that are compiled for one function at most, those of earlier runs included.
    pub trials: usize,
    /// Candidates of all functions of a job together, in place of `trials`: each function has its default, and what is left is shared
    /// as a time limit is.
    pub all_trials: Option<usize>,
    /// Seconds at most: for all functions of a job together, here for one.
    pub time_limit: Option<f64>,
    /// Seed of sampling and inputs.
    pub seed: u64,
    /// Name of the search strategy.
    pub search: String,
    /// Candidates that are built and compiled at the same time.
    pub jobs: usize,
    /// Best candidates that are measured again turn by turn; 0 for none.
    pub finalists: usize,
    /// Measured candidates without progress after which the search ends; `None` for no such end.
    pub patience: Option<usize>,
    /// Try again what failed in earlier runs.
    pub retry: bool,
    /// Measure kernels that start while what was launched before them ends, as programs launch them that run one after the
    /// other, where the target can.
    pub overlap: bool,
    /// Tensors that nothing writes meanwhile, which those may read before.
    pub constant: Vec<Constant>,
    /// Measure only while nothing compiles, for devices that share the compilers' cores.
    pub quiet: bool,
}

impl Default for TuneConfig {
    fn default() -> TuneConfig {
        TuneConfig {
            device: "auto".to_string(),
            target: None,
            log: "tuning-logs".into(),
            worker: None,
            schedules: None,
            limits: Limits::default(),
            shard: (1, 1),
            weights: BTreeMap::new(),
            trials: 64,
            all_trials: None,
            time_limit: None,
            seed: 0,
            search: super::search::NAMES[0].to_string(),
            jobs: 1,
            finalists: 5,
            patience: None,
            retry: false,
            overlap: false,
            constant: vec![],
            quiet: false,
        }
    }
}

/// The caller's clock: the library reads none.
#[derive(Clone, Copy)]
pub struct Clock<'a> {
    /// Seconds since some fixed moment, monotonic.
    pub seconds: &'a (dyn Fn() -> f64 + Sync),
    /// Seconds since 1970.
    pub unix_s: &'a (dyn Fn() -> u64 + Sync),
}

/// How far a function is.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Progress {
    /// The function.
    pub name: String,
    /// Candidates with an outcome.
    pub done: usize,
    /// Candidates to expect at most.
    pub total: usize,
    /// Median of the default in microseconds.
    pub default_us: Option<f64>,
    /// Best median so far in microseconds.
    pub best_us: Option<f64>,
    /// What is being done.
    pub phase: &'static str,
}

/// The result for one function.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Summary {
    /// The winner's record; `None` when no candidate survived.
    pub best: Option<Record>,
    /// Median of the default in microseconds, measured together with the winner.
    pub default_us: Option<f64>,
    /// Median of the winner in microseconds.
    pub best_us: Option<f64>,
    /// How many times as fast as the default the winner is, where the two were timed turn by turn.
    pub speedup: Option<Median>,
    /// Spread of the default's samples in that round, as a share of their median.
    pub spread: Option<f64>,
    /// What became of the candidates of this run.
    pub counts: Counts,
    /// One example of each reason that made candidates fail, by reason.
    pub examples: BTreeMap<String, String>,
    /// Candidates that the log already had.
    pub resumed: usize,
    /// Why the search ended; `None` after an interruption or when the time was over.
    pub stop: Option<Stop>,
    /// What the devices did with their time.
    pub overlap: Overlap,
    /// Seconds taken.
    pub seconds: f64,
    /// True when it ended early by request.
    pub interrupted: bool,
}

/// Why a run ended without a result.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum TuneError {
    /// A device or tool is missing: exit code 4.
    Missing(String),
    /// The log cannot be written, or a setting is wrong: exit code 2.
    Usage(String),
}

impl std::fmt::Display for TuneError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TuneError::Missing(s) | TuneError::Usage(s) => f.write_str(s),
        }
    }
}

impl std::error::Error for TuneError {}

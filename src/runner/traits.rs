//! The door to devices: [`Runner`] checks and times artifacts. It is object safe and has a fake (`runner::fake`).

use crate::backend::{Plan, PlanParam};
use crate::log::{DeviceState, Outcome};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// One compiled candidate and how to launch it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Candidate {
    /// Chosen by the caller, echoed in reports.
    pub id: u64,
    /// The cubin or shared object.
    pub file: PathBuf,
    /// How to launch it.
    pub plan: Plan,
}

/// Which values a tensor has that indexes another.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Range {
    /// The lowest, of floats as an integer.
    pub low: i64,
    /// The highest, of floats as an integer.
    pub high: i64,
    /// Elements of a row, where elements must differ since stores go where they say: all of them differ, or, if there
    /// are more than values, those of each row and of each column.
    #[serde(default)]
    pub distinct: Option<usize>,
    /// Some elements are this value, which a condition passes over.
    #[serde(default)]
    pub passed_over: Option<i64>,
}

impl Range {
    /// Values from `low` to `high`, alike or not.
    pub fn new(low: i64, high: i64) -> Range {
        Range { low, high, distinct: None, passed_over: None }
    }
}

/// One workload at one size: what all its candidates are given and must give.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Problem {
    /// Values of the extents, by the plan's names.
    pub extents: BTreeMap<String, i64>,
    /// Values of the scalar parameters, by the plan's names; those absent are generated.
    pub scalars: BTreeMap<String, f64>,
    /// Seed of the generated inputs.
    pub seed: u64,
    /// Values of inputs by parameter position, where the default of `measure::inputs` does not fit (indices into
    /// another tensor).
    pub ranges: BTreeMap<usize, Range>,
    /// How often generated floats that have no range are halved.
    #[serde(default)]
    pub halvings: u32,
    /// File written by `measure::Expected::write`; without one nothing is verified.
    pub expected: Option<PathBuf>,
    /// Least bytes that a run must move to and from memory; bounds impossible times.
    pub bytes: Option<u64>,
    /// Operations of one run; bounds impossible times together with `peak_flops`.
    pub flops: Option<u64>,
    /// Most operations per second that the device's data sheet allows for this workload.
    pub peak_flops: Option<f64>,
}

/// How far a verified output is from the reference.
#[derive(Clone, Copy, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct Errors {
    /// norm(o - r) / norm(r), the worst output.
    pub l2: f64,
    /// max |o - r| / max(|r|, rms r), the worst output.
    pub max: f64,
}

/// Raw times of one candidate.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct Timing {
    /// Policy id, such as `graph-rotate-v2`.
    pub policy: String,
    /// Samples in nanoseconds per run, in the order taken.
    pub samples_ns: Vec<f64>,
    /// Dropped after a few samples because it was far behind the best.
    pub dropped: bool,
    /// What the device was doing, where it tells; `None` for a candidate that was dropped.
    #[serde(default)]
    pub state: Option<DeviceState>,
}

/// What is known about the device that a runner drives.
#[derive(Clone, PartialEq, Default, Debug, Serialize, Deserialize)]
pub struct DeviceFacts {
    /// Name, such as `NVIDIA H200` or the CPU's model name.
    pub name: String,
    /// `cuda` or `cpu`.
    pub kind: String,
    /// Compute capability, major and minor; zeros on the CPU.
    pub cc: (u32, u32),
    /// Multiprocessors, or logical cores.
    pub sms: u32,
    /// Driver version, such as `13.0`; empty on the CPU.
    pub driver: String,
    /// Bytes of the last-level cache.
    pub l2_bytes: u64,
    /// Peak bandwidth at the DRAM pins in GB/s; 0 where the machine does not say.
    pub dram_gbps: f64,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Most bytes of shared memory that a block may ask for.
    pub smem_per_block: u64,
}

/// Why a candidate has no result.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RunFailure {
    /// It could not be loaded or launched, or the launch reported an error.
    LaunchFailed,
    /// It ran and gave wrong numbers, or wrote outside its buffers.
    WrongResult,
    /// It did not end within the limit.
    TimedOut,
    /// Its process died.
    Crashed,
    /// A time below what the hardware allows: the measurement is broken.
    Impossible,
    /// The device or a tool is missing: exit code 4, and no other candidate will do better.
    DeviceMissing,
    /// The request itself is wrong (unreadable file, missing extent).
    BadRequest,
    /// What it ran in failed: nothing could be started, or somebody else ended it. It is tried again.
    Environment,
}

/// A run that failed, with one sentence.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RunError {
    /// The kind of failure.
    pub failure: RunFailure,
    /// What happened.
    pub message: String,
}

impl RunError {
    /// A failure with its sentence.
    pub fn new(failure: RunFailure, message: impl Into<String>) -> RunError {
        RunError { failure, message: message.into() }
    }

    /// The outcome written to the log.
    pub fn outcome(&self) -> Outcome {
        match self.failure {
            RunFailure::LaunchFailed | RunFailure::DeviceMissing | RunFailure::BadRequest | RunFailure::Environment => {
                Outcome::LaunchFailed
            }
            RunFailure::WrongResult | RunFailure::Impossible => Outcome::WrongResult,
            RunFailure::TimedOut => Outcome::TimedOut,
            RunFailure::Crashed => Outcome::Crashed,
        }
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for RunError {}

/// Checks and times candidates on one device. After a failure the runner is usable again.
pub trait Runner {
    /// What the device is.
    ///
    /// # Errors
    /// [`RunFailure::DeviceMissing`] with what to install.
    fn device(&mut self) -> Result<DeviceFacts, RunError>;

    /// Chooses the workload that the following calls are about; its inputs are generated once, on
    /// the first candidate.
    ///
    /// # Errors
    /// When the device is missing or the expected values can't be read.
    fn prepare(&mut self, problem: &Problem) -> Result<(), RunError>;

    /// Generates the inputs for these parameters, unless they are there; what uses them does so too, so
    /// this is for having them early.
    ///
    /// # Errors
    /// When they don't fit, or the device fails.
    fn make_inputs(&mut self, params: &[PlanParam]) -> Result<(), RunError>;

    /// Runs once on poisoned outputs between guard zones and compares with the expected values.
    ///
    /// # Errors
    /// [`RunError`]: could not launch, wrong, too slow, crashed.
    fn execute(&mut self, candidate: &Candidate) -> Result<Errors, RunError>;

    /// Runs once on the given files (raw little-endian elements, one per tensor parameter that is
    /// read, by position) and writes one file per tensor parameter that is written.
    ///
    /// # Errors
    /// As [`Runner::execute`], and when a file can't be read or has the wrong size.
    fn run_files(
        &mut self,
        candidate: &Candidate,
        inputs: &BTreeMap<usize, PathBuf>,
        outputs: &BTreeMap<usize, PathBuf>,
    ) -> Result<(), RunError>;

    /// Times a candidate that [`Runner::execute`] accepted. `best_ns`: the best median so far, to
    /// drop slow candidates early.
    ///
    /// # Errors
    /// As [`Runner::execute`], and [`RunFailure::Impossible`].
    fn time(&mut self, candidate: &Candidate, best_ns: Option<f64>) -> Result<Timing, RunError>;

    /// Times several candidates turn by turn, `rounds` times each. One result per candidate.
    fn time_interleaved(&mut self, candidates: &[Candidate], rounds: usize) -> Vec<Result<Timing, RunError>>;
}

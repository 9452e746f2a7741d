//! What one line of the log holds. The order of the fields is the order in the line.

use super::Setting;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Number of the layout that this version writes.
pub const SCHEMA: u32 = 3;

/// The oldest layout that this version reads: without `round`, `default`, `floor_us`, `state` and `score`,
/// which are then 0, false and absent. Up to layout 1 choices among the knobs are numbers; up to layout 2 every line
/// is complete in itself, and has no `run`. A record of an older layout is taken for one of [`SCHEMA`] when it is read,
/// and is written as such.
pub const OLDEST: u32 = 0;

/// One candidate and what became of it.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Record {
    /// Layout of the line, [`SCHEMA`] in every record that was read.
    pub schema: u32,
    /// Checksum of the line, eight hexadecimal digits; filled in when the line is written.
    pub crc32c: String,
    /// The function.
    pub workload: Workload,
    /// Values of the extents that were bound, by the user's names.
    pub bind: BTreeMap<String, i64>,
    /// Target id, `cuda:sm_90a`.
    pub target: String,
    /// The machine and its compilers.
    pub env: Env,
    /// How it was measured.
    pub policy: Policy,
    /// The rule that made the candidate.
    pub rule: String,
    /// Version of that rule's knob table.
    pub rule_version: u32,
    /// The point of the knob space.
    pub knobs: BTreeMap<String, Setting>,
    /// Tile variants that dispatch chose; as `trace`, of winners alone.
    pub variants: Vec<Variant>,
    /// The schedule's steps; replayed on the same function they give the same kernel. Candidates that lost have none:
    /// their rule takes the same steps again at the same point.
    pub trace: Vec<String>,
    /// Hash of the generated text, sixteen digits (in older records 32); `None` before there was any.
    pub source_hash: Option<String>,
    /// Hash of the compiled artifact; of finalists alone.
    pub cubin_hash: Option<String>,
    /// What the compiler said the kernel needs (the largest of its launches).
    pub res: Option<Resources>,
    /// Raw samples in nanoseconds; empty unless the outcome is `ok`.
    pub samples_ns: Vec<f64>,
    /// Difference from the reference.
    pub err: Option<ErrorNorms>,
    /// What became of it.
    pub outcome: Outcome,
    /// Why, where the outcome is a failure.
    pub reason: Option<String>,
    /// Seed of inputs and sampling.
    pub seed: u64,
    /// When, in seconds since 1970.
    pub unix_s: u64,
    /// 0: measured on its own; k: re-measured in the k-th batch of finalists, turn by turn, so that
    /// samples of equal number in two records of one round of one run are paired.
    #[serde(default)]
    pub round: u32,
    /// True for the untuned choice: the default of the first rule that takes the function, or of another of which the
    /// prior promises much more.
    #[serde(default)]
    pub default: bool,
    /// Time that a good kernel needs for that work on this target, for reports.
    #[serde(default)]
    pub floor_us: Option<f64>,
    /// What there is to do, whoever does it; records of before it was written down lack it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub work: Option<Work>,
    /// What the device was doing while it was measured, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<DeviceState>,
    /// Launches of the kernel, where there are several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launches: Option<u32>,
    /// Rank of a `predicted` candidate; lower is better, no unit, never a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// What the compiler said although it succeeded.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
    /// The run that measured it, a name that no other run has; empty where that is not known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub run: String,
}

impl Record {
    /// A record with nothing in it but what it is about.
    pub fn new(workload: Workload, bind: BTreeMap<String, i64>, target: &str, outcome: Outcome) -> Record {
        Record {
            schema: SCHEMA,
            crc32c: String::new(),
            workload,
            bind,
            target: target.to_string(),
            env: Env::default(),
            policy: Policy::default(),
            rule: String::new(),
            rule_version: 0,
            knobs: BTreeMap::new(),
            variants: vec![],
            trace: vec![],
            source_hash: None,
            cubin_hash: None,
            res: None,
            samples_ns: vec![],
            err: None,
            outcome,
            reason: None,
            seed: 0,
            unix_s: 0,
            round: 0,
            default: false,
            floor_us: None,
            work: None,
            state: None,
            launches: None,
            score: None,
            warnings: vec![],
            run: String::new(),
        }
    }

    /// True when the two were measured turn by turn, so that their samples are paired: in one round of one run.
    pub fn took_turns_with(&self, other: &Record) -> bool {
        self.round > 0 && (&self.run, self.round) == (&other.run, other.round)
    }

    /// What of two records that say the same is the later one: by time, then the one with steps, then by checksum.
    pub(super) fn age(&self) -> (u64, bool, &str) {
        (self.unix_s, !self.trace.is_empty(), &self.crc32c)
    }

    /// The digits of the text's hash that every layout has, sixteen.
    pub fn source_digits(&self) -> Option<&str> {
        let hash = self.source_hash.as_deref()?;
        Some(hash.get(..16).unwrap_or(hash))
    }
}

/// What a function has to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Work {
    /// Arithmetic operations; a multiply and an add are two.
    pub flops: u64,
    /// Every input read once plus every output written once.
    pub bytes: u64,
}

impl Work {
    /// Of what is known; `None` where one of both is not.
    pub fn of(flops: Option<u64>, bytes: Option<u64>) -> Option<Work> {
        flops.zip(bytes).map(|(flops, bytes)| Work { flops, bytes })
    }
}

/// A message of a compiler that succeeded.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Warning {
    /// The compiler's name for it, such as `C7508`; empty where it has none.
    pub code: String,
    /// The message.
    pub text: String,
    /// The kernel that it speaks of, where it names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// How often it came.
    pub count: u32,
}

impl Warning {
    /// The code, or the message of one that has none.
    pub fn name(&self) -> &str {
        if self.code.is_empty() { &self.text } else { &self.code }
    }

    /// True where the compiler gave up something that the text asked for, at a price in time:
    /// instructions were serialised or ignored.
    pub fn loses_speed(&self) -> bool {
        self.text.starts_with("Potential Performance Loss")
    }
}

impl std::fmt::Display for Warning {
    /// `C7508 in k: Potential Performance Loss: ...`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let code = if self.code.is_empty() { "warning" } else { &self.code };
        let kernel = self.kernel.as_ref().map(|k| format!(" in {k}")).unwrap_or_default();
        let count = if self.count > 1 { format!(" ({} times)", self.count) } else { String::new() };
        write!(f, "{code}{kernel}: {}{count}", self.text)
    }
}

/// What the device was doing while a candidate was measured.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct DeviceState {
    /// Clock of the multiprocessors in MHz.
    pub sm_mhz: u32,
    /// Clock of the memory in MHz; 0 where the device does not say.
    pub mem_mhz: u32,
    /// Temperature of the chip in degrees Celsius; 0 where the device does not say.
    pub temperature_c: u32,
    /// Why clocks were held down: `sw_power_cap`, `hw_slowdown`, `sw_thermal`, `hw_thermal`,
    /// `hw_power_brake`; empty when they were not.
    pub throttle: Vec<String>,
    /// Processes on the device besides this measurement.
    pub processes: u32,
    /// Times that the measurement was repeated because something disturbed it.
    pub repeats: u32,
}

/// A function: what is computed, and what people call it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Workload {
    /// 32 hexadecimal digits, the hash of the canonical function.
    pub key: String,
    /// The function's name or the file it came from; no identity.
    pub name: String,
}

/// The machine and its compilers.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Env {
    /// Name of the GPU or CPU.
    pub gpu: String,
    /// Compute capability `9.0`, or the CPU's architecture level.
    pub cc: String,
    /// Multiprocessors or cores.
    pub sms: u32,
    /// Version of the CUDA driver, empty on the CPU.
    pub driver: String,
    /// Version of NVRTC or of the C compiler.
    pub nvrtc: String,
    /// Version of Daylight.
    pub daylight: String,
}

/// How a time came about; times of different policies are never compared.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
pub struct Policy {
    /// Name of the measuring procedure.
    pub id: String,
    /// Flags that change arithmetic or measuring.
    pub flags: Vec<String>,
}

/// A tile variant that dispatch chose.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Variant {
    /// Number of the tile call, in program order.
    pub call: u32,
    /// The operation.
    pub op: String,
    /// The variant.
    pub variant: String,
}

/// What the kernel needs, largest over its launches.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Resources {
    /// Registers per thread.
    pub regs: u32,
    /// Bytes spilled per thread.
    pub spill: u32,
    /// Bytes of shared memory per block.
    pub smem: u32,
}

/// Difference from the reference; `None` stands for a number that is not finite.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct ErrorNorms {
    /// `norm(o - r) / norm(r)`.
    pub l2: Option<f64>,
    /// Largest absolute difference.
    pub max: Option<f64>,
}

impl ErrorNorms {
    /// Of two numbers that may be none.
    pub fn of(l2: f64, max: f64) -> ErrorNorms {
        let finite = |x: f64| x.is_finite().then_some(x);
        ErrorNorms { l2: finite(l2), max: finite(max) }
    }
}

/// What became of a candidate.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs)] // the names say it
#[non_exhaustive]
pub enum Outcome {
    /// Right, and timed.
    #[default]
    Ok,
    /// A predicate ruled it out before compiling.
    Pruned,
    CompileFailed,
    LaunchFailed,
    WrongResult,
    TimedOut,
    /// The process that compiled or ran it died.
    Crashed,
    /// Ranked without a device; has no time.
    Predicted,
}

impl Outcome {
    /// Every outcome, in the order of reports.
    pub const ALL: [Outcome; 8] = [
        Outcome::Ok,
        Outcome::Pruned,
        Outcome::CompileFailed,
        Outcome::LaunchFailed,
        Outcome::WrongResult,
        Outcome::TimedOut,
        Outcome::Crashed,
        Outcome::Predicted,
    ];

    /// The outcome of that name.
    pub fn named(name: &str) -> Option<Outcome> {
        Outcome::ALL.into_iter().find(|o| o.name() == name)
    }

    /// The name in the log.
    pub fn name(self) -> &'static str {
        match self {
            Outcome::Ok => "ok",
            Outcome::Pruned => "pruned",
            Outcome::CompileFailed => "compile_failed",
            Outcome::LaunchFailed => "launch_failed",
            Outcome::WrongResult => "wrong_result",
            Outcome::TimedOut => "timed_out",
            Outcome::Crashed => "crashed",
            Outcome::Predicted => "predicted",
        }
    }
}

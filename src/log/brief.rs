//! Records as short lines, behind lines for what many of them share.
//!
//! A *task* line holds what all candidates of a function have in common in one run. A *space* line refers to a task and
//! names a rule with its knobs. A record refers to a space and holds the rest, the values of its knobs in the order of
//! their names. What a compiler said has a line too, which records refer to. What is referred to is named by a hash of its content, so that files can be joined line by line.

use super::record::{Env, ErrorNorms, Outcome, Policy, Record, Resources, SCHEMA, Variant, Warning, Work, Workload};
use super::seal::{LineError, not_a_record, sealed};
use super::{Setting, packed};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Times in records count from the last multiple of that many seconds.
const SPAN_S: u64 = 10_000;

/// What the candidates of a function share.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Task {
    workload: Workload,
    bind: BTreeMap<String, i64>,
    target: String,
    env: Env,
    policy: Policy,
    seed: u64,
    floor_us: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    work: Option<Work>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    run: String,
    /// Seconds since 1970 that a record's time is counted from.
    since: u64,
}

/// A rule and the names of its knobs.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Space {
    /// The task.
    pub of: String,
    rule: String,
    rule_version: u32,
    knobs: Vec<String>,
}

/// A message of the compiler.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Message {
    code: String,
    text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    kernel: Option<String>,
}

impl Message {
    /// The message, which came so often.
    pub fn warning(&self, count: u32) -> Warning {
        Warning { code: self.code.clone(), text: self.text.clone(), kernel: self.kernel.clone(), count }
    }
}

/// A line that others refer to.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Shared {
    schema: u32,
    crc32c: String,
    /// Twelve digits of the hash of the content.
    pub id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<Task>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space: Option<Space>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning: Option<Message>,
}

impl Shared {
    fn new(task: Option<Task>, space: Option<Space>, warning: Option<Message>) -> Shared {
        let content = serde_json::to_string(&(&task, &space, &warning)).expect("JSON can say it");
        let id = format!("{:032x}", xxhash_rust::xxh3::xxh3_128(content.as_bytes()))[..12].to_string();
        Shared { schema: SCHEMA, crc32c: String::new(), id, task, space, warning }
    }

    /// True when both say the same.
    pub fn agrees(&self, other: &Shared) -> bool {
        (&self.task, &self.space, &self.warning) == (&other.task, &other.space, &other.warning)
    }

    /// The task and the space of a record, and what the compiler said of it.
    fn of(r: &Record) -> (Shared, Shared, Vec<Shared>) {
        let task = Task {
            workload: r.workload.clone(),
            bind: r.bind.clone(),
            target: r.target.clone(),
            env: r.env.clone(),
            policy: r.policy.clone(),
            seed: r.seed,
            floor_us: r.floor_us,
            work: r.work,
            run: r.run.clone(),
            since: r.unix_s - r.unix_s % SPAN_S,
        };
        let task = Shared::new(Some(task), None, None);
        let space = Space {
            of: task.id.clone(),
            rule: r.rule.clone(),
            rule_version: r.rule_version,
            knobs: r.knobs.keys().cloned().collect(),
        };
        let message = |w: &Warning| Message { code: w.code.clone(), text: w.text.clone(), kernel: w.kernel.clone() };
        let warnings = r.warnings.iter().map(|w| Shared::new(None, None, Some(message(w))));
        (task, Shared::new(None, Some(space), None), warnings.collect())
    }

    /// The line, newline included.
    fn line(&self) -> String {
        sealed(|crc32c| Shared { crc32c, ..self.clone() })
    }
}

/// What a record has for itself.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Brief {
    crc32c: String,
    /// The space.
    pub of: String,
    /// Values of the knobs.
    at: Vec<Setting>,
    /// Seconds after the task's `since`.
    s: u64,
    #[serde(skip_serializing_if = "is_default")]
    outcome: Outcome,
    #[serde(skip_serializing_if = "is_default")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "is_default")]
    src: Option<String>,
    #[serde(skip_serializing_if = "is_default")]
    cubin: Option<String>,
    /// Registers, spilled bytes, shared memory.
    #[serde(skip_serializing_if = "is_default")]
    res: Option<[u32; 3]>,
    /// Samples in nanoseconds, packed.
    #[serde(skip_serializing_if = "is_default")]
    ns: Vec<i64>,
    /// Samples that can't be packed.
    #[serde(skip_serializing_if = "is_default")]
    samples_ns: Vec<f64>,
    /// Relative and absolute error.
    #[serde(skip_serializing_if = "is_default")]
    err: Option<[Option<f64>; 2]>,
    #[serde(skip_serializing_if = "is_default")]
    round: u32,
    #[serde(skip_serializing_if = "is_default")]
    default: bool,
    /// What the device was doing, packed.
    #[serde(skip_serializing_if = "is_default")]
    clocks: Vec<Setting>,
    #[serde(skip_serializing_if = "is_default")]
    launches: Option<u32>,
    #[serde(skip_serializing_if = "is_default")]
    score: Option<f64>,
    #[serde(skip_serializing_if = "is_default")]
    /// What the compiler said, and how often.
    pub warned: Vec<(String, u32)>,
    #[serde(skip_serializing_if = "is_default")]
    variants: Vec<Variant>,
    #[serde(skip_serializing_if = "is_default")]
    trace: Vec<String>,
}

fn is_default<T: Default + PartialEq>(x: &T) -> bool {
    *x == T::default()
}

impl Brief {
    fn new(r: Record, of: String, warned: Vec<(String, u32)>) -> Brief {
        let (ns, samples_ns) = match packed::pack(&r.samples_ns) {
            Some(ns) => (ns, vec![]),
            None => (vec![], r.samples_ns),
        };
        Brief {
            crc32c: String::new(),
            of,
            at: r.knobs.into_values().collect(),
            s: r.unix_s % SPAN_S,
            outcome: r.outcome,
            reason: r.reason,
            src: r.source_hash,
            cubin: r.cubin_hash,
            res: r.res.map(|x| [x.regs, x.spill, x.smem]),
            ns,
            samples_ns,
            err: r.err.map(|e| [e.l2, e.max]),
            round: r.round,
            default: r.default,
            clocks: r.state.map(packed::state).unwrap_or_default(),
            launches: r.launches,
            score: r.score,
            warned,
            variants: r.variants,
            trace: r.trace,
        }
    }

    /// The whole record, with what it refers to.
    ///
    /// # Errors
    /// [`LineError::Damaged`] where the parts do not belong together.
    pub fn record(self, task: &Task, space: &Space, warnings: Vec<Warning>) -> Result<Record, LineError> {
        let samples_ns = match self.ns.is_empty() {
            true => Some(self.samples_ns),
            false => packed::unpack(&self.ns),
        };
        let samples_ns = samples_ns.ok_or_else(|| not_a_record("its samples are no numbers"))?;
        if self.at.len() != space.knobs.len() {
            return Err(not_a_record("it has other knobs than its space"));
        }
        let unix_s = task.since.checked_add(self.s).ok_or_else(|| not_a_record("its time is no time"))?;
        let state = match self.clocks.is_empty() {
            true => None,
            false => Some(packed::device(&self.clocks).ok_or_else(|| not_a_record("its clocks are no clocks"))?),
        };
        let record = Record {
            schema: SCHEMA,
            crc32c: String::new(),
            workload: task.workload.clone(),
            bind: task.bind.clone(),
            target: task.target.clone(),
            env: task.env.clone(),
            policy: task.policy.clone(),
            rule: space.rule.clone(),
            rule_version: space.rule_version,
            knobs: space.knobs.iter().cloned().zip(self.at).collect(),
            variants: self.variants,
            trace: self.trace,
            source_hash: self.src,
            cubin_hash: self.cubin,
            res: self.res.map(|[regs, spill, smem]| Resources { regs, spill, smem }),
            samples_ns,
            err: self.err.map(|[l2, max]| ErrorNorms { l2, max }),
            outcome: self.outcome,
            reason: self.reason,
            seed: task.seed,
            unix_s,
            round: self.round,
            default: self.default,
            floor_us: task.floor_us,
            work: task.work,
            state,
            launches: self.launches,
            score: self.score,
            warnings,
            run: task.run.clone(),
        };
        Ok(record.with_checksum())
    }
}

/// Writes records as short lines, each behind what it refers to as far as that is due.
#[derive(Default, Debug)]
pub struct Encoder {
    /// How many records refer to a line so far.
    referred: BTreeMap<String, usize>,
}

/// What is referred to is there again before so many records more.
const AGAIN: usize = 256;

impl Encoder {
    /// The lines of one record, the record's own last. What it refers to comes before the first and the second record
    /// that do, and again now and then: any one damaged line costs one record at most.
    pub fn lines(&mut self, record: &Record) -> String {
        let record = record.rounded();
        let (task, space, said) = Shared::of(&record);
        let warned = said.iter().zip(&record.warnings).map(|(s, w)| (s.id.clone(), w.count)).collect();
        let brief = Brief::new(record, space.id.clone(), warned);
        let shared = [task, space].into_iter().chain(said);
        let mut out: String = shared.filter(|s| self.is_due(&s.id)).map(|s| s.line()).collect();
        out += &sealed(|crc32c| Brief { crc32c, ..brief.clone() });
        out
    }

    fn is_due(&mut self, id: &str) -> bool {
        let before = self.referred.entry(id.to_string()).or_default();
        *before += 1;
        *before <= 2 || before.is_multiple_of(AGAIN)
    }
}

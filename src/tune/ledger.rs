//! What is known of every point: outcomes of this run and of the log before it, and the records.
//!
//! Stands in a circle with `session`, whose task it keeps the book of, and `config`, which counts in its words.

use super::search::History;
use super::session::Task;
use super::{Arms, Built, Point, Session, TuneConfig, TuneError};
use crate::assemble::Unfit;
use crate::backend::{self, Artifact, CompileError};
use crate::log::{self, DeviceState, ErrorNorms, Outcome, Policy, Query, Record, Resources, SCHEMA};
use crate::rules::Arm;
use crate::runner::{self, Errors, RunError, Timing};
use std::collections::{BTreeMap, BTreeSet};

/// Candidates by what became of them.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Points tried.
    pub candidates: usize,
    /// Ruled out before compiling.
    pub pruned: usize,
    /// Compiled.
    pub compiled: usize,
    /// Right and timed.
    pub measured: usize,
    /// Ruled out, by predicate.
    pub pruned_by: BTreeMap<String, usize>,
    /// Compiling, running or checking failed, by outcome.
    pub failed: BTreeMap<String, usize>,
}

impl Counts {
    /// Candidates with an outcome.
    pub fn done(&self) -> usize {
        self.pruned + self.measured + self.failed.values().sum::<usize>()
    }
}

/// The state of one function's tuning.
pub(super) struct Ledger<'t> {
    task: &'t Task<'t>,
    /// Every point with an outcome.
    pub history: History,
    /// Records of this selection: the log's and this run's.
    pub records: Vec<Record>,
    /// What this run did.
    pub counts: Counts,
    /// One example per reason.
    pub examples: BTreeMap<String, String>,
    /// Points that the log had.
    pub resumed: usize,
}

/// A record's parts that depend on how far the candidate came.
#[derive(Default)]
struct Parts {
    outcome: Option<Outcome>,
    reason: Option<String>,
    artifact: Option<(String, Resources)>,
    samples_ns: Vec<f64>,
    err: Option<Errors>,
    round: u32,
    state: Option<DeviceState>,
    warnings: Vec<log::Warning>,
}

impl<'t> Ledger<'t> {
    /// Starts from what the log knows about this function on this machine.
    pub fn new(task: &'t Task<'t>, session: &Session<'_>) -> Ledger<'t> {
        let query = Query {
            key: &task.workload.key,
            bind: &task.bind,
            target: &task.target,
            env: Some(&session.env),
            policy: Some(&session.policy),
        };
        let records: Vec<Record> = log::select(session.past, &query).into_iter().cloned().collect();
        let mut history = History::new();
        let mut failed = BTreeSet::new();
        for r in &records {
            let Some(point) = point_of(task.arms, r).filter(|_| r.outcome != Outcome::Predicted) else { continue };
            let time = if r.outcome == Outcome::Ok { log::median(&r.samples_ns) } else { None };
            match r.outcome {
                Outcome::Ok | Outcome::Pruned | Outcome::Predicted => failed.remove(&point),
                Outcome::CompileFailed
                | Outcome::LaunchFailed
                | Outcome::WrongResult
                | Outcome::TimedOut
                | Outcome::Crashed => failed.insert(point.clone()),
            };
            history.entry(point).and_modify(|t| *t = time.or(*t)).or_insert(time);
        }
        if session.config.retry {
            history.retain(|point, _| !failed.contains(point));
        }
        let resumed = history.len();
        let (counts, examples) = (Counts::default(), BTreeMap::new());
        Ledger { task, history, records, counts, examples, resumed }
    }

    /// Name of the function.
    pub fn name(&self) -> &str {
        &self.task.workload.name
    }

    /// Candidates to expect at most.
    pub fn expected(&self, config: &TuneConfig) -> usize {
        config.trials.min(usize::try_from(self.task.arms.size()).unwrap_or(usize::MAX)).saturating_sub(self.resumed)
    }

    /// Counts a point that is about to be tried.
    pub fn begin(&mut self, point: &Point) {
        self.counts.candidates += 1;
        self.history.insert(point.clone(), None);
    }

    /// Forgets a point that was not tried after all.
    pub fn skipped(&mut self, point: &Point) {
        self.counts.candidates -= 1;
        self.history.remove(point);
    }

    /// Best median so far in nanoseconds.
    pub fn best_ns(&self) -> Option<f64> {
        self.history.values().flatten().copied().min_by(f64::total_cmp)
    }

    /// Median of the default in nanoseconds.
    pub fn default_ns(&self) -> Option<f64> {
        self.history.get(self.task.default.as_ref()?).copied().flatten()
    }

    /// The points that the log has a text of, by its hash.
    pub fn sources(&self) -> BTreeMap<String, Point> {
        let tried = self.records.iter().filter(|r| r.outcome != Outcome::Pruned);
        tried.filter_map(|r| Some((r.source_hash.clone()?, point_of(self.task.arms, r)?))).collect()
    }

    /// Logs a point that was ruled out.
    pub fn rejected(&mut self, s: &mut Session<'_>, point: &Point, why: &Unfit) -> Result<(), TuneError> {
        self.counts.pruned += 1;
        *self.counts.pruned_by.entry(why.predicate.clone()).or_default() += 1;
        self.examples.entry(why.predicate.clone()).or_insert_with(|| why.reason.clone());
        let reason = Some(format!("{}: {}", why.predicate, why.reason));
        self.add(s, point, None, Parts { outcome: Some(Outcome::Pruned), reason, ..Parts::default() })
    }

    /// Logs a point that did not compile.
    pub fn not_compiled(
        &mut self,
        s: &mut Session<'_>,
        point: &Point,
        built: &Built,
        e: &CompileError,
    ) -> Result<(), TuneError> {
        self.failure(e.outcome(), &e.message);
        let outcome = Some(outcome_named(e.outcome()));
        self.add(s, point, Some(built), Parts { outcome, reason: Some(e.message.clone()), ..Parts::default() })
    }

    /// Logs a point that compiled but did not run or gave wrong numbers.
    pub fn not_run(
        &mut self,
        s: &mut Session<'_>,
        point: &Point,
        made: (&Built, &Artifact),
        e: &RunError,
    ) -> Result<(), TuneError> {
        self.failure(e.outcome(), &e.message);
        let outcome = Some(outcome_named(e.outcome()));
        let artifact = Some(describe(made.1));
        self.add(
            s,
            point,
            Some(made.0),
            Parts {
                outcome,
                reason: Some(e.message.clone()),
                artifact,
                warnings: warnings(made.1),
                ..Parts::default()
            },
        )
    }

    /// Logs a point that is right, with its time.
    pub fn timed(
        &mut self,
        s: &mut Session<'_>,
        point: &Point,
        made: (&Built, &Artifact),
        (err, timing, round): (Option<Errors>, &Timing, u32),
    ) -> Result<(), TuneError> {
        if round == 0 {
            self.counts.measured += 1;
        }
        self.history.insert(point.clone(), log::median(&timing.samples_ns));
        let samples_ns = timing.samples_ns.clone();
        let artifact = Some(describe(made.1));
        let outcome = Some(Outcome::Ok);
        let state = timing.state.clone().map(state_of);
        let reason = None;
        self.add(
            s,
            point,
            Some(made.0),
            Parts { outcome, reason, artifact, samples_ns, err, round, state, warnings: warnings(made.1) },
        )
    }

    fn failure(&mut self, reason: &str, example: &str) {
        *self.counts.failed.entry(reason.to_string()).or_default() += 1;
        self.examples.entry(reason.to_string()).or_insert_with(|| example.to_string());
    }

    fn add(
        &mut self,
        s: &mut Session<'_>,
        point: &Point,
        built: Option<&Built>,
        parts: Parts,
    ) -> Result<(), TuneError> {
        self.history.entry(point.clone()).or_insert(None);
        let record = self.record(s, point, built, parts);
        s.log.append(&record).map_err(TuneError::Usage)?;
        // As it reads back, so that this run chooses what a later one would.
        let record = Record::from_line(&record.to_line()).map_err(|e| TuneError::Usage(e.to_string()))?;
        self.records.push(record);
        Ok(())
    }

    fn record(&self, s: &Session<'_>, point: &Point, built: Option<&Built>, parts: Parts) -> Record {
        let space = &self.task.arms.of(point).space;
        let finite = |x: f64| x.is_finite().then_some(x);
        Record {
            schema: SCHEMA,
            crc32c: String::new(),
            workload: self.task.workload.clone(),
            bind: self.task.bind.clone(),
            target: self.task.target.clone(),
            env: s.env.clone(),
            policy: Policy::clone(&s.policy),
            rule: space.form.to_string(),
            rule_version: space.version,
            knobs: point.knobs.0.clone(),
            variants: built.map(Built::log_variants).unwrap_or_default(),
            trace: built.map(|b| b.trace.clone()).unwrap_or_default(),
            source_hash: built.map(Built::source_hash),
            cubin_hash: parts.artifact.as_ref().map(|a| a.0.clone()),
            res: parts.artifact.as_ref().map(|a| a.1),
            samples_ns: parts.samples_ns,
            err: parts.err.map(|e| ErrorNorms { l2: finite(e.l2), max: finite(e.max) }),
            outcome: parts.outcome.expect("every caller names the outcome"),
            reason: parts.reason,
            seed: s.config.seed,
            unix_s: (s.clock.unix_s)(),
            round: parts.round,
            default: self.task.default.as_ref() == Some(point),
            floor_us: self.task.floor_us,
            state: parts.state,
            score: None,
            warnings: parts.warnings,
        }
    }
}

/// The point that a record speaks of, if this version still has it; a knob that is younger than the
/// record had its default.
pub(super) fn point_of(arms: &Arms, r: &Record) -> Option<Point> {
    let same = |a: &Arm| a.space.form == r.rule && a.space.version == r.rule_version;
    let arm = arms.list.iter().position(same)?;
    Some(Point { arm, knobs: arms.list[arm].space.logged(&r.knobs)? })
}

/// The state as the log has it.
fn state_of(state: runner::DeviceState) -> DeviceState {
    let runner::DeviceState { sm_mhz, mem_mhz, temperature_c, throttle, processes, repeats } = state;
    DeviceState { sm_mhz, mem_mhz, temperature_c, throttle, processes, repeats }
}

fn describe(a: &Artifact) -> (String, Resources) {
    (a.hash(), Resources { regs: a.res.regs, spill: a.res.spill, smem: a.res.smem })
}

/// What the compiler said, as the log has it.
pub fn warnings(a: &Artifact) -> Vec<log::Warning> {
    let logged = |w: &backend::Warning| {
        let backend::Warning { code, text, kernel, count } = w.clone();
        log::Warning { code, text, kernel, count }
    };
    a.warnings.iter().map(logged).collect()
}

/// The outcome that the backend named.
fn outcome_named(name: &str) -> Outcome {
    let found = Outcome::ALL.into_iter().find(|o| o.name() == name);
    found.unwrap_or_else(|| panic!("the backend named an outcome `{name}` that the log does not have"))
}

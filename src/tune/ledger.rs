//! What is known of every point: outcomes of this run and of the log before it, and the records.
//!
//! Stands in a circle with `session`, whose task it keeps the book of, and `config`, which counts in its words.

use super::pipeline::made;
use super::search::History;
use super::session::Task;
use super::{Arms, Built, Point, Session, TuneConfig, TuneError};
use crate::backend::{Artifact, CompileError};
use crate::ir::Reason;
use crate::log::{self, ErrorNorms, Outcome, Policy, Query, Record, Work};
use crate::rules::Arm;
use crate::runner::{Errors, RunError, Timing};
use std::cmp::Reverse;
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
    pub failed: BTreeMap<Outcome, usize>,
}

impl Counts {
    /// Candidates with an outcome.
    pub fn done(&self) -> usize {
        self.pruned + self.measured + self.failed.values().sum::<usize>()
    }
}

/// Candidates that another machine, driver or policy adds to the first ones, as many as went through turns there.
const BEST_ELSEWHERE: usize = 5;
/// Candidates that all of them add together.
const ALL_ELSEWHERE: usize = 10;

/// One of those that were measured turn by turn.
pub(super) struct Finalist<'a> {
    pub point: &'a Point,
    pub built: &'a Built,
    pub artifact: &'a Artifact,
    pub timing: Timing,
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

impl<'t> Ledger<'t> {
    /// Starts from what the log knows about this function on this machine.
    pub fn new(task: &'t Task<'t>, session: &Session<'_>) -> Ledger<'t> {
        let records: Vec<Record> = log::select(session.past, &query(task, session)).into_iter().cloned().collect();
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
        tried.filter_map(|r| Some((r.source_digits()?.to_string(), point_of(self.task.arms, r)?))).collect()
    }

    /// Logs a point that was ruled out.
    pub fn rejected(&mut self, s: &mut Session<'_>, point: &Point, why: &Reason) -> Result<(), TuneError> {
        self.counts.pruned += 1;
        *self.counts.pruned_by.entry(why.predicate.to_string()).or_default() += 1;
        self.examples.entry(why.predicate.to_string()).or_insert_with(|| why.text.clone());
        let base = self.record(s, point, Outcome::Pruned, None, None);
        self.add(s, Record { reason: Some(shortened(&why.to_string())), ..base })
    }

    /// Logs a point that did not compile.
    pub fn not_compiled(
        &mut self,
        s: &mut Session<'_>,
        point: &Point,
        built: &Built,
        e: &CompileError,
    ) -> Result<(), TuneError> {
        let record = self.record(s, point, e.outcome(), Some(built), None);
        self.failed(s, &e.message, record)
    }

    /// Logs a point that compiled but did not run or gave wrong numbers.
    pub fn not_run(
        &mut self,
        s: &mut Session<'_>,
        point: &Point,
        (built, artifact): (&Built, &Artifact),
        e: &RunError,
    ) -> Result<(), TuneError> {
        let record = self.record(s, point, e.outcome(), Some(built), Some(artifact));
        self.failed(s, &e.message, record)
    }

    /// Logs a point that is right, with its first time.
    pub fn timed(
        &mut self,
        s: &mut Session<'_>,
        point: &Point,
        (built, artifact): (&Built, &Artifact),
        (err, timing): (Option<Errors>, &Timing),
    ) -> Result<(), TuneError> {
        self.counts.measured += 1;
        let digits = |x: f64| log::stats::rounded(x, ERROR_DIGITS).filter(|x| x.is_finite());
        let err = err.map(|e| ErrorNorms { l2: digits(e.l2), max: digits(e.max) });
        let samples_ns = log::stats::evenly(&log::stats::steps(&timing.samples_ns), FIRST_SAMPLES);
        self.history.insert(point.clone(), log::median(&samples_ns));
        let base = self.record(s, point, Outcome::Ok, Some(built), Some(artifact));
        self.add(s, Record { samples_ns, err, state: timing.state.clone(), cubin_hash: None, ..base })
    }

    /// Logs the times of finalists that took turns, with the steps of the one that they choose.
    pub fn took_turns(
        &mut self,
        s: &mut Session<'_>,
        finalists: Vec<Finalist<'_>>,
        round: u32,
    ) -> Result<(), TuneError> {
        let record = |f: &Finalist| Record {
            samples_ns: log::stats::steps(&f.timing.samples_ns),
            state: f.timing.state.clone(),
            round,
            ..self.record(s, f.point, Outcome::Ok, Some(f.built), Some(f.artifact))
        };
        let records: Vec<Record> = finalists.iter().map(record).collect();
        let winner = log::choose(&records.iter().collect::<Vec<_>>()).map(|t| t.record.candidate());
        for (f, record) in finalists.iter().zip(records) {
            self.history.insert(f.point.clone(), log::median(&record.samples_ns));
            let won = winner.as_ref() == Some(&record.candidate());
            self.add(s, if won { with_steps(record, f.built) } else { record })?;
        }
        Ok(())
    }

    /// Logs the winner with its steps, where its record has none: when the run ended without finalists.
    pub fn crown(&mut self, s: &mut Session<'_>) -> Result<(), TuneError> {
        let all: Vec<&Record> = self.records.iter().collect();
        let Some(winner) = log::choose(&all).map(|t| t.record).filter(|r| r.trace.is_empty()) else { return Ok(()) };
        let point = point_of(self.task.arms, winner);
        let built = point.and_then(|p| made(self.task.build, &p).ok());
        let same = |b: &Built| Some(b.source_hash().as_str()) == winner.source_digits();
        // A kernel that needs no step has none to be logged.
        match built.filter(|b| same(b) && !b.trace.is_empty()) {
            Some(built) => self.add(s, with_steps(winner.clone(), &built)),
            None => Ok(()),
        }
    }

    /// Counts and logs a failure.
    fn failed(&mut self, s: &mut Session<'_>, message: &str, record: Record) -> Result<(), TuneError> {
        *self.counts.failed.entry(record.outcome).or_default() += 1;
        self.examples.entry(record.outcome.name().into()).or_insert_with(|| message.into());
        self.add(s, Record { reason: Some(shortened(message)), cubin_hash: None, ..record })
    }

    fn add(&mut self, s: &mut Session<'_>, record: Record) -> Result<(), TuneError> {
        s.log.append(&record).map_err(TuneError::Usage)?;
        // As it reads back, so that this run chooses what a later one would.
        let record = Record::from_line(&record.to_line()).map_err(|e| TuneError::Usage(e.to_string()))?;
        self.records.push(record);
        Ok(())
    }

    fn record(
        &self,
        s: &Session<'_>,
        point: &Point,
        outcome: Outcome,
        built: Option<&Built>,
        artifact: Option<&Artifact>,
    ) -> Record {
        let task = self.task;
        let about = Record {
            env: s.env.clone(),
            policy: Policy::clone(&s.policy),
            seed: s.config.seed,
            run: s.run.clone(),
            unix_s: (s.clock.unix_s)(),
            default: task.default.as_ref() == Some(point),
            floor_us: task.floor_us,
            work: Work::of(task.problem.flops, task.problem.bytes),
            ..Record::new(task.workload.clone(), task.bind.clone(), &task.target, outcome)
        };
        with_candidate(about, task.arms, point, built, artifact)
    }
}

/// Digits of an error that the log keeps.
const ERROR_DIGITS: usize = 3;
/// Samples of a first measurement that the log keeps; finalists keep all.
const FIRST_SAMPLES: usize = 9;
/// Bytes of a reason that the log keeps.
const REASON: usize = 200;

fn shortened(reason: &str) -> String {
    if reason.len() <= REASON {
        return reason.to_string();
    }
    let end = (0..=REASON).rev().find(|i| reason.is_char_boundary(*i)).unwrap_or(0);
    format!("{} ...", &reason[..end])
}

/// The record with what makes its kernel again whatever becomes of the rule.
pub fn with_steps(record: Record, built: &Built) -> Record {
    Record { variants: built.log_variants(), trace: built.trace.clone(), ..record }
}

/// A record of a point, as far as it was built and compiled, without its steps.
pub fn with_candidate(
    about: Record,
    arms: &Arms,
    point: &Point,
    built: Option<&Built>,
    artifact: Option<&Artifact>,
) -> Record {
    let space = &arms.of(point).space;
    Record {
        rule: space.form.to_string(),
        rule_version: space.version,
        knobs: space.settings(&point.knobs),
        source_hash: built.map(Built::source_hash),
        cubin_hash: artifact.map(Artifact::hash),
        res: artifact.map(|a| a.res),
        launches: built.map(|b| b.plan.launches.len() as u32).filter(|n| *n > 1),
        warnings: artifact.map(|a| a.warnings.clone()).unwrap_or_default(),
        ..about
    }
}

/// What the records of this function, on this machine and measured this way, have in common.
pub(super) fn query<'q>(task: &'q Task<'_>, session: &'q Session<'_>) -> Query<'q> {
    Query {
        key: &task.workload.key,
        bind: &task.bind,
        target: &task.target,
        env: Some(&session.env),
        policy: Some(&session.policy),
    }
}

/// The best points of the selections that differ from what is asked for in machine or policy alone, the newest first, each once:
/// times there mean nothing here, but what led there is worth a try early.
pub(super) fn found_elsewhere(arms: &Arms, past: &[Record], here: &Query<'_>) -> Vec<Point> {
    let anywhere = Query { env: None, policy: None, ..here.clone() };
    let others = log::select(past, &anywhere).into_iter().filter(|r| !here.matches(r));
    let mut groups: Vec<Vec<&Record>> = log::selections(others).into_values().collect();
    groups.sort_by_key(|g| Reverse(g.iter().map(|r| r.unix_s).max()));
    let mut out: Vec<Point> = vec![];
    for group in groups {
        let best = log::best_timings(&group).into_iter().filter_map(|t| point_of(arms, t.record));
        for point in best.take(BEST_ELSEWHERE) {
            if out.len() < ALL_ELSEWHERE && !out.contains(&point) {
                out.push(point);
            }
        }
    }
    out
}

/// The point that a record speaks of, if this version still has it; a knob that is younger than the
/// record had its default.
pub fn point_of(arms: &Arms, r: &Record) -> Option<Point> {
    let same = |a: &Arm| a.space.form == r.rule && a.space.version == r.rule_version;
    let arm = arms.list.iter().position(same)?;
    Some(Point { arm, knobs: arms.list[arm].space.logged(&r.knobs)? })
}

//! The loop of one function: propose, build and compile in parallel, check, time, log.

use super::config::{Clock, Progress, Summary, TuneConfig, TuneError};
use super::explore::{Explored, explore};
use super::ledger::{Ledger, found_elsewhere, query};
use super::pipeline::{Build, Built, Workshop};
use super::search::{Pace, Proposer, by_name};
use super::{Arms, Point, finalists};
use crate::backend::{Artifact, Compiler, PlanParam};
use crate::log::{self, Env, Policy, Record, Workload, Writer};
use crate::runner::{Candidate, Problem, RunError, RunFailure, Runner};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

/// Tools and settings that a run's functions share.
pub struct Session<'a> {
    /// Compiles candidates, called from several threads.
    pub compiler: &'a dyn Compiler,
    /// Check and time them, one per device; the devices are alike. At least one.
    pub runners: Vec<&'a mut (dyn Runner + Send)>,
    /// Where every outcome goes.
    pub log: &'a mut Writer,
    /// What the log held before.
    pub past: &'a [Record],
    /// The machine.
    pub env: Env,
    /// The way of measuring.
    pub policy: Policy,
    /// Settings.
    pub config: &'a TuneConfig,
    /// Name of this run, which no other has: turns of one run are never compared with those of another.
    pub run: String,
    /// The clock.
    pub clock: Clock<'a>,
    /// Set from outside to end early; everything measured so far stands.
    pub stop: &'a AtomicBool,
    /// Called after every outcome.
    pub progress: &'a mut dyn FnMut(&Progress),
}

/// One function at one size on one target.
pub struct Task<'a> {
    /// The function.
    pub workload: Workload,
    /// Values of its bound extents.
    pub bind: BTreeMap<String, i64>,
    /// Target id.
    pub target: String,
    /// Inputs and expected outputs.
    pub problem: Problem,
    /// The parameters, for making the inputs while the first candidates compile; where there
    /// are none, the first candidate makes them.
    pub params: Vec<PlanParam>,
    /// The spaces of the rules that take it.
    pub arms: &'a Arms,
    /// The untuned choice.
    pub default: Option<Point>,
    /// Time that a good kernel needs.
    pub floor_us: Option<f64>,
    /// Time at which nobody need look further, such as the best bandwidth ever seen allows.
    pub enough_us: Option<f64>,
    /// Makes kernels of points.
    pub build: &'a dyn Build,
}

/// A candidate that is right: what is needed to run it again.
pub(super) type Ready = BTreeMap<Point, (Built, Artifact)>;

/// Tunes one function.
///
/// # Errors
/// When a device or tool is missing, the log cannot be written, or a setting is wrong. A function
/// none of whose candidates survives is no error but a [`Summary`] without `best`.
pub fn tune(task: &Task<'_>, session: &mut Session<'_>) -> Result<Summary, TuneError> {
    let started = (session.clock.seconds)();
    let config = session.config;
    let devices = session.runners.len();
    let mut ledger = Ledger::new(task, session);
    let mut ready = Ready::new();
    for runner in &mut session.runners {
        runner.prepare(&task.problem).map_err(run_error)?;
    }
    let usual = Pace::default();
    // A quiet device waits for a batch to compile, so it takes what usually is under way as one.
    let (batch, ahead) = if config.quiet { (2 * usual.batch, 1) } else { (usual.batch * devices, usual.ahead) };
    let pace = Pace {
        trials: config.trials,
        batch,
        ahead,
        patience: config.patience,
        good_enough_ns: task.enough_us.map(|us| us * 1e3),
    };
    let search = by_name(&config.search, config.seed).map_err(TuneError::Usage)?;
    let mut defaults: Vec<Point> = task.default.iter().cloned().collect();
    defaults.extend(task.arms.defaults());
    defaults.extend(found_elsewhere(task.arms, session.past, &query(task, session)));
    let mut proposer = Proposer::new(task.arms, search, defaults, ledger.history.clone(), pace);
    let shop =
        Workshop::new(task.build, session.compiler, session.clock.seconds, task.default.as_ref(), ledger.sources());
    let explored = explore(session, &task.params, &mut ledger, &mut proposer, &shop, &mut ready, started)?;
    if !session.stop.load(Ordering::Relaxed) {
        finalists::measure(task, session, &mut ledger, &shop, &mut ready, started)?;
    }
    ledger.crown(session)?;
    Ok(summary(session, ledger, explored, started))
}

pub(super) fn candidate(id: usize, built: &Built, artifact: &Artifact) -> Candidate {
    Candidate { id: id as u64, file: artifact.path.clone(), plan: built.plan.clone() }
}

/// True when more than that share of the time limit is gone.
pub(super) fn out_of_time(session: &Session<'_>, started: f64, share: f64) -> bool {
    let limit = session.config.time_limit;
    limit.is_some_and(|limit| (session.clock.seconds)() - started > share * limit)
}

pub(super) fn run_error(e: RunError) -> TuneError {
    match e.failure {
        RunFailure::DeviceMissing => TuneError::Missing(e.message),
        RunFailure::LaunchFailed
        | RunFailure::WrongResult
        | RunFailure::TimedOut
        | RunFailure::Crashed
        | RunFailure::Impossible
        | RunFailure::BadRequest
        | RunFailure::Environment => TuneError::Usage(e.message),
    }
}

pub(super) fn report(session: &mut Session<'_>, ledger: &Ledger<'_>, phase: &'static str) {
    (session.progress)(&Progress {
        name: ledger.name().to_string(),
        done: ledger.counts.done(),
        total: ledger.expected(session.config),
        default_us: ledger.default_ns().map(|ns| ns / 1e3),
        best_us: ledger.best_ns().map(|ns| ns / 1e3),
        phase,
    });
}

fn summary(session: &Session<'_>, ledger: Ledger<'_>, explored: Explored, started: f64) -> Summary {
    let records: Vec<&Record> = ledger.records.iter().collect();
    let best = log::choose(&records);
    let default = log::best_timings(&records)
        .into_iter()
        .find(|t| t.record.default && best.as_ref().is_some_and(|b| b.record.round == t.record.round));
    let turns = default.as_ref().zip(best.as_ref()).filter(|(d, b)| d.record.took_turns_with(b.record));
    Summary {
        speedup: turns.as_ref().and_then(|(d, b)| log::speedup(&d.record.samples_ns, &b.record.samples_ns)),
        spread: turns.as_ref().and_then(|(d, _)| log::spread(&d.record.samples_ns)),
        default_us: default.map(|t| t.median_ns / 1e3),
        best_us: best.as_ref().map(|b| b.median_ns / 1e3),
        best: best.map(|b| b.record.clone()),
        counts: ledger.counts,
        examples: ledger.examples,
        resumed: ledger.resumed,
        stop: explored.stop,
        overlap: explored.overlap,
        seconds: (session.clock.seconds)() - started,
        interrupted: session.stop.load(Ordering::Relaxed),
    }
}

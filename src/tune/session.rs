//! The loop of one function: propose, build and compile in parallel, check, time, log.

use super::config::{Clock, Progress, Summary, TuneConfig, TuneError};
use super::finalists;
use super::ledger::Ledger;
use super::pipeline::{Build, Built, Finished, Stage, Workshop};
use super::search::{Search, by_name};
use super::{Arms, Point};
use crate::backend::{Artifact, Candidate, CompileFailure, Compiler, Problem, RunError, RunFailure, Runner};
use crate::log::{self, Env, Policy, Record, Workload, Writer};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;

/// Tools and settings that a run's functions share.
pub struct Session<'a> {
    /// Compiles candidates, called from several threads.
    pub compiler: &'a dyn Compiler,
    /// Checks and times them.
    pub runner: &'a mut dyn Runner,
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
    /// The spaces of the rules that take it.
    pub arms: &'a Arms,
    /// The untuned choice.
    pub default: Option<Point>,
    /// Time that a good kernel needs.
    pub floor_us: Option<f64>,
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
    let mut search = by_name(&config.search, config.trials, config.seed).map_err(TuneError::Usage)?;
    let mut ledger = Ledger::new(task, session);
    let mut ready = Ready::new();
    session.runner.prepare(&task.problem).map_err(run_error)?;
    let shop = Workshop::new(task.build, session.compiler, task.default.as_ref(), ledger.sources());
    explore(task, session, &mut ledger, &mut *search, &shop, &mut ready, started)?;
    if !session.stop.load(Ordering::Relaxed) {
        finalists::measure(task, session, &mut ledger, &shop, &mut ready, started)?;
    }
    Ok(summary(session, ledger, started))
}

/// Tries points until the trials, the time or the space is used up.
fn explore(
    task: &Task<'_>,
    session: &mut Session<'_>,
    ledger: &mut Ledger<'_>,
    search: &mut dyn Search,
    shop: &Workshop<'_>,
    ready: &mut Ready,
    started: f64,
) -> Result<(), TuneError> {
    let jobs = session.config.jobs.max(1);
    let (to_workers, todo) = channel();
    let (to_us, done) = channel();
    let todo = &Mutex::new(todo);
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            let to_us = to_us.clone();
            scope.spawn(move || shop.work(todo, &to_us));
        }
        let mut feed = Feed::new(task, ledger, session.config);
        let mut in_flight = 0;
        let ended = loop {
            let over = session.stop.load(Ordering::Relaxed) || out_of_time(session, started, 0.8);
            shop.halt.store(over, Ordering::Relaxed);
            while !over && in_flight < 2 * jobs {
                let Some(point) = feed.next(task.arms, search, ledger) else { break };
                ledger.counts.candidates += 1;
                to_workers.send(point).expect("the workers live as long as the scope");
                in_flight += 1;
            }
            if in_flight == 0 {
                break Ok(());
            }
            let batch = if session.config.quiet { in_flight } else { 1 };
            let next = || done.recv().expect("a worker answers every point");
            let finished: Vec<Finished> = (0..batch).map(|_| next()).collect();
            in_flight -= batch;
            let settled = finished.into_iter().try_for_each(|f| {
                settle(session, ledger, f, ready)?;
                report(task, session, ledger, feed.total, "measuring");
                Ok(())
            });
            if let Err(e) = settled {
                shop.halt.store(true, Ordering::Relaxed);
                break Err(e);
            }
        };
        drop(to_workers);
        ended
    })
}

/// Where points come from: the defaults, then the search, within trials and shard.
struct Feed {
    waiting: VecDeque<Point>,
    /// Points that have been handed out, with those of the log.
    given: usize,
    /// Points to expect at most.
    total: usize,
    shard: (u64, u64),
}

impl Feed {
    fn new(task: &Task<'_>, ledger: &Ledger<'_>, config: &TuneConfig) -> Feed {
        let mut waiting: VecDeque<Point> = task.default.iter().cloned().collect();
        waiting.extend(task.arms.defaults().into_iter().filter(|p| Some(p) != task.default.as_ref()));
        waiting.retain(|p| !ledger.history.contains_key(p));
        let space = usize::try_from(task.arms.size()).unwrap_or(usize::MAX);
        Feed { waiting, given: ledger.resumed, total: config.trials.min(space), shard: config.shard }
    }

    /// The next point, marked as seen.
    fn next(&mut self, arms: &Arms, search: &mut dyn Search, ledger: &mut Ledger<'_>) -> Option<Point> {
        while self.given < self.total {
            let point = match self.waiting.pop_front() {
                Some(default) => default,
                None => {
                    let found = search.propose(arms, &ledger.history, 1).pop()?;
                    if !self.is_ours(arms, &found) {
                        // Another shard's; seen, so that the search moves on.
                        ledger.history.insert(found, None);
                        continue;
                    }
                    found
                }
            };
            ledger.history.insert(point.clone(), None);
            self.given += 1;
            return Some(point);
        }
        None
    }

    fn is_ours(&self, arms: &Arms, point: &Point) -> bool {
        let text = format!("{} {}", arms.spaces[point.arm].form, point.knobs);
        xxhash_rust::xxh3::xxh3_64(text.as_bytes()) % self.shard.1.max(1) == self.shard.0.saturating_sub(1)
    }
}

/// Decides what became of one point and logs it.
fn settle(
    session: &mut Session<'_>,
    ledger: &mut Ledger<'_>,
    finished: Finished,
    ready: &mut Ready,
) -> Result<(), TuneError> {
    let point = finished.point;
    match finished.result {
        Stage::Skipped => {
            ledger.history.remove(&point);
            ledger.counts.candidates -= 1;
            Ok(())
        }
        Stage::Rejected(why) => ledger.rejected(session, &point, &why),
        Stage::Failed(_, e) if e.failure == CompileFailure::ToolMissing => Err(TuneError::Missing(e.message)),
        Stage::Failed(_, e) if e.failure == CompileFailure::Disk => Err(TuneError::Usage(e.message)),
        Stage::Failed(built, e) => ledger.not_compiled(session, &point, &built, &e),
        Stage::Compiled(built, artifact) => {
            ledger.counts.compiled += 1;
            try_out(session, ledger, &point, built, artifact, ready)
        }
    }
}

/// Checks and times one compiled point.
fn try_out(
    session: &mut Session<'_>,
    ledger: &mut Ledger<'_>,
    point: &Point,
    built: Built,
    artifact: Artifact,
    ready: &mut Ready,
) -> Result<(), TuneError> {
    let candidate = candidate(ledger.records.len(), &built, &artifact);
    let tried = session.runner.execute(&candidate);
    let timed = tried.and_then(|err| Ok((err, session.runner.time(&candidate, ledger.best_ns())?)));
    match timed {
        Ok((err, timing)) => {
            ledger.timed(session, point, (&built, &artifact), (Some(err), &timing, 0))?;
            ready.insert(point.clone(), (built, artifact));
            Ok(())
        }
        Err(e) if e.failure == RunFailure::DeviceMissing => Err(TuneError::Missing(e.message)),
        Err(e) => ledger.not_run(session, point, (&built, &artifact), &e),
    }
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
        | RunFailure::BadRequest => TuneError::Usage(e.message),
    }
}

pub(super) fn report(
    task: &Task<'_>,
    session: &mut Session<'_>,
    ledger: &Ledger<'_>,
    total: usize,
    phase: &'static str,
) {
    (session.progress)(&Progress {
        name: task.workload.name.clone(),
        done: ledger.counts.done(),
        total,
        default_us: ledger.default_ns().map(|ns| ns / 1e3),
        best_us: ledger.best_ns().map(|ns| ns / 1e3),
        phase,
    });
}

fn summary(session: &Session<'_>, ledger: Ledger<'_>, started: f64) -> Summary {
    let records: Vec<&Record> = ledger.records.iter().collect();
    let best = log::choose(&records);
    let default = log::best_timings(&records)
        .into_iter()
        .find(|t| t.record.default && best.as_ref().is_some_and(|b| b.record.round == t.record.round));
    Summary {
        default_us: default.map(|t| t.median_ns / 1e3),
        best_us: best.as_ref().map(|b| b.median_ns / 1e3),
        best: best.map(|b| b.record.clone()),
        counts: ledger.counts,
        examples: ledger.examples,
        resumed: ledger.resumed,
        seconds: (session.clock.seconds)() - started,
        interrupted: session.stop.load(Ordering::Relaxed),
    }
}

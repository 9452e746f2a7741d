//! Tries points until the trials, the time or the space is used up. Compile threads build and compile,
//! one thread per device checks and times, and the calling thread proposes, logs and reports.
//!
//! Stands in a circle with `session`, which it is a part of and which runs it.

use super::Point;
use super::config::TuneError;
use super::ledger::Ledger;
use super::occupancy;
use super::overlap::{Cause, Overlap, Waits};
use super::pipeline::{Built, Finished, Stage, Workshop};
use super::search::{Next, Proposer, Stop};
use super::session::{Ready, Session, candidate, out_of_time, report};
use crate::backend::{Artifact, CompileFailure, PlanParam};
use crate::ir::Reason;
use crate::runner::{Errors, RunError, RunFailure, Runner, Timing};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

/// How exploring ended.
pub(super) struct Explored {
    /// Why no more points were proposed; `None` after an interruption or when the time was over.
    pub stop: Option<Stop>,
    /// What the devices waited for.
    pub overlap: Overlap,
}

/// A compiled point on its way to a device and back.
struct Made {
    point: Point,
    built: Built,
    artifact: Artifact,
}

/// What the threads report.
enum Event {
    /// A point was ruled out, failed to compile, or is ready to run.
    Built(Finished),
    /// A point came back from a device; `None` when it was not run because the run is to end.
    Tried(Made, Option<Result<(Errors, Timing), RunError>>),
}

/// What all threads see.
struct Shared<'a> {
    shop: &'a Workshop<'a>,
    seconds: &'a (dyn Fn() -> f64 + Sync),
    /// Bits of the best time so far, in nanoseconds; infinite at first.
    best: AtomicU64,
    waits: Waits,
}

/// Explores with all of the session's devices.
pub(super) fn explore(
    session: &mut Session<'_>,
    params: &[PlanParam],
    ledger: &mut Ledger<'_>,
    proposer: &mut Proposer<'_>,
    shop: &Workshop<'_>,
    ready: &mut Ready,
    started: f64,
) -> Result<Explored, TuneError> {
    let mut runners = std::mem::take(&mut session.runners);
    let devices = runners.len();
    let best = AtomicU64::new(ledger.best_ns().unwrap_or(f64::INFINITY).to_bits());
    let shared = Shared { shop, seconds: session.clock.seconds, best, waits: Waits::default() };
    let (to_workers, todo) = channel();
    let (to_devices, made) = channel();
    let (to_us, events) = channel();
    let (todo, made) = (&Mutex::new(todo), &Mutex::new(made));
    let stop = std::thread::scope(|scope| {
        for _ in 0..session.config.jobs.max(1) {
            let to_us = to_us.clone();
            scope.spawn(move || shop.work(todo, &|f| to_us.send(Event::Built(f)).is_ok()));
        }
        for runner in &mut runners {
            let (to_us, shared) = (to_us.clone(), &shared);
            scope.spawn(move || {
                if !params.is_empty() {
                    // A failure comes again, with the first candidate.
                    let _ = runner.make_inputs(params);
                }
                measure(&mut **runner, made, &to_us, shared);
            });
        }
        drop(to_us);
        let waiting = Waiting::default();
        let mut turns = Loop { session, ledger, proposer, shared: &shared, ready, started, devices, waiting };
        turns.run(to_workers, to_devices, &events)
    });
    session.runners = runners;
    Ok(Explored { stop: stop?, overlap: shared.waits.overlap() })
}

/// One device: takes what is compiled until the channel closes.
fn measure(runner: &mut dyn Runner, made: &Mutex<Receiver<Made>>, events: &Sender<Event>, shared: &Shared<'_>) {
    let mut free = None;
    loop {
        let next = made.lock().expect("no thread panics while it holds the queue").recv();
        let Ok(made) = next else { return };
        let begin = (shared.seconds)();
        let ready = shared.waits.spent(begin);
        let result = if shared.shop.halt.load(Ordering::Relaxed) {
            None
        } else {
            let best = f64::from_bits(shared.best.load(Ordering::Relaxed));
            Some(try_out(runner, &made, best.is_finite().then_some(best)))
        };
        let end = (shared.seconds)();
        shared.waits.add(free.unwrap_or(ready), ready, end - begin);
        free = Some(shared.waits.spent(end));
        if let Some(Ok((_, timing))) = &result {
            shared.lower(timing);
        }
        if events.send(Event::Tried(made, result)).is_err() {
            return;
        }
    }
}

/// Checks and times one compiled point.
fn try_out(runner: &mut dyn Runner, made: &Made, best_ns: Option<f64>) -> Result<(Errors, Timing), RunError> {
    let candidate = candidate(0, &made.built, &made.artifact);
    let errors = runner.execute(&candidate)?;
    Ok((errors, runner.time(&candidate, best_ns)?))
}

impl Shared<'_> {
    /// Lets every device know of a better time.
    fn lower(&self, timing: &Timing) {
        if let Some(ns) = crate::log::median(&timing.samples_ns) {
            let lower = |bits| (ns < f64::from_bits(bits)).then(|| ns.to_bits());
            // An error means that the best is better already.
            let _ = self.best.fetch_update(Ordering::Relaxed, Ordering::Relaxed, lower);
        }
    }
}

/// Candidates that may be ended from outside before tuning gives up.
const MOST_DISTURBED: usize = 8;

/// Points that are under way.
#[derive(Default)]
struct Waiting {
    /// Candidates that something else than they ended.
    disturbed: usize,
    /// With the compile threads.
    building: usize,
    /// With the devices.
    measuring: usize,
    /// Compiled, and held back until nothing compiles any more.
    held: Vec<Made>,
    /// Points with the same text as another, which will have its time.
    twins: BTreeMap<Point, Vec<Point>>,
}

impl Waiting {
    fn all(&self) -> usize {
        self.building + self.measuring + self.held.len()
    }
}

/// The calling thread's side.
struct Loop<'l, 's, 't, 'p, 'w> {
    session: &'l mut Session<'s>,
    ledger: &'l mut Ledger<'t>,
    proposer: &'l mut Proposer<'p>,
    shared: &'l Shared<'w>,
    ready: &'l mut Ready,
    started: f64,
    devices: usize,
    waiting: Waiting,
}

impl Loop<'_, '_, '_, '_, '_> {
    /// Takes the senders, whose end is the threads' end.
    fn run(
        &mut self,
        to_workers: Sender<Point>,
        to_devices: Sender<Made>,
        events: &Receiver<Event>,
    ) -> Result<Option<Stop>, TuneError> {
        let mut stop = None;
        loop {
            let late = out_of_time(self.session, self.started, 0.8);
            let over = self.session.stop.load(Ordering::Relaxed) || (late && self.has_default());
            if over {
                self.shared.shop.halt.store(true, Ordering::Relaxed);
            } else if !late || self.waiting.all() == 0 {
                stop = self.feed(&to_workers).or(stop);
            }
            if self.waiting.all() == 0 {
                return Ok(if over { None } else { stop });
            }
            let event = events.recv().expect("a thread answers for every point");
            self.take(event, &to_devices).inspect_err(|_| self.shared.shop.halt.store(true, Ordering::Relaxed))?;
        }
    }

    /// True once the untuned choice has an outcome: however short the time, it is tried.
    fn has_default(&self) -> bool {
        self.shared.shop.default.is_none_or(|p| self.proposer.history().contains_key(p))
    }

    /// Hands out new batches as far as the search gives them and the threads need them.
    fn feed(&mut self, to_workers: &Sender<Point>) -> Option<Stop> {
        let config = self.session.config;
        let enough = if config.quiet { 1 } else { 2 * config.jobs + 4 * self.devices };
        while self.waiting.all() < enough {
            match self.proposer.next_batch() {
                Next::Batch(points) => {
                    for point in points {
                        self.ledger.begin(&point);
                        self.waiting.building += 1;
                        to_workers.send(point).expect("the workers live as long as the scope");
                    }
                }
                Next::Wait => break,
                Next::Done(stop) => {
                    self.note();
                    return Some(stop);
                }
            }
        }
        self.note();
        None
    }

    /// Tells the devices' accounts what they would wait for now.
    fn note(&self) {
        let compiling = self.waiting.building > 0;
        self.shared.waits.set(if compiling { Cause::Compile } else { Cause::Search }, self.shared.seconds);
    }

    fn take(&mut self, event: Event, to_devices: &Sender<Made>) -> Result<(), TuneError> {
        match event {
            Event::Built(finished) => {
                self.waiting.building -= 1;
                self.shared.waits.add_compile(finished.seconds);
                self.built(finished)?;
            }
            Event::Tried(made, result) => {
                self.waiting.measuring -= 1;
                self.tried(made, result)?;
            }
        }
        self.note();
        if !self.session.config.quiet || self.waiting.building == 0 {
            for made in std::mem::take(&mut self.waiting.held) {
                self.waiting.measuring += 1;
                to_devices.send(made).expect("the devices live as long as the scope");
            }
        }
        report(self.session, self.ledger, "measuring");
        Ok(())
    }

    /// Decides what becomes of a point that comes from the compile threads.
    fn built(&mut self, finished: Finished) -> Result<(), TuneError> {
        let point = finished.point;
        match finished.result {
            Stage::Skipped => self.skip(&point),
            Stage::Rejected(why) => {
                self.proposer.costs_nothing();
                self.rule_out(&point, &why)?;
            }
            Stage::Twin(first, hash) => {
                self.proposer.costs_nothing();
                let why = Reason::new("same_kernel", format!("another point gave the text {hash} before"));
                self.ledger.rejected(self.session, &point, &why)?;
                self.twin(first, point);
            }
            Stage::Failed(_, e) if e.failure == CompileFailure::ToolMissing => {
                return Err(TuneError::Missing(e.message));
            }
            Stage::Failed(_, e) if e.failure == CompileFailure::Disk => return Err(TuneError::Usage(e.message)),
            Stage::Failed(_, e) if e.failure == CompileFailure::Environment => self.disturbed(&point, e.message)?,
            Stage::Failed(built, e) => {
                self.ledger.not_compiled(self.session, &point, &built, &e)?;
                self.settle(&point, None);
            }
            Stage::Compiled(built, artifact) => {
                self.ledger.counts.compiled += 1;
                match self.spills(&point, &artifact) {
                    Some(why) => self.rule_out(&point, &why)?,
                    None => self.waiting.held.push(Made { point, built, artifact }),
                }
            }
        }
        Ok(())
    }

    /// A kernel that keeps registers in memory is not worth measuring, unless everything is to be.
    fn spills(&self, point: &Point, artifact: &Artifact) -> Option<Reason> {
        let must = self.session.config.search == "exhaustive" || self.shared.shop.default == Some(point);
        if must { None } else { occupancy::spills(artifact.res) }
    }

    /// Decides what becomes of a point that comes from a device.
    fn tried(&mut self, made: Made, result: Option<Result<(Errors, Timing), RunError>>) -> Result<(), TuneError> {
        let Made { point, built, artifact } = made;
        match result {
            None => self.skip(&point),
            Some(Ok((err, timing))) => {
                self.ledger.timed(self.session, &point, (&built, &artifact), (Some(err), &timing))?;
                self.settle(&point, self.ledger.history.get(&point).copied().flatten());
                self.ready.insert(point, (built, artifact));
            }
            Some(Err(e)) if e.failure == RunFailure::DeviceMissing => return Err(TuneError::Missing(e.message)),
            Some(Err(e)) if e.failure == RunFailure::Environment => self.disturbed(&point, e.message)?,
            Some(Err(e)) => {
                self.ledger.not_run(self.session, &point, (&built, &artifact), &e)?;
                self.settle(&point, None);
            }
        }
        Ok(())
    }

    fn rule_out(&mut self, point: &Point, why: &Reason) -> Result<(), TuneError> {
        self.ledger.rejected(self.session, point, why)?;
        self.settle(point, None);
        Ok(())
    }

    /// What was none of the candidate's doing is not logged as its failure; the search may come back to it. Where
    /// that happens again and again, the machine is to be put right first.
    fn disturbed(&mut self, point: &Point, why: String) -> Result<(), TuneError> {
        self.waiting.disturbed += 1;
        if self.waiting.disturbed > MOST_DISTURBED {
            return Err(TuneError::Usage(format!("{why}; that happened {MOST_DISTURBED} times, so tuning ends here")));
        }
        self.skip(point);
        Ok(())
    }

    fn skip(&mut self, point: &Point) {
        self.ledger.skipped(point);
        self.proposer.take_back(point);
        for twin in self.waiting.twins.remove(point).unwrap_or_default() {
            self.proposer.settle(&twin, None);
        }
    }

    /// Tells the search of a result, for the point's twins too: whichever of them came first, the search
    /// sees the same.
    fn settle(&mut self, point: &Point, ns: Option<f64>) {
        self.proposer.settle(point, ns);
        for twin in self.waiting.twins.remove(point).unwrap_or_default() {
            self.proposer.settle(&twin, ns);
        }
    }

    fn twin(&mut self, first: Point, point: Point) {
        match self.proposer.history().get(&first).copied() {
            Some(ns) => self.proposer.settle(&point, ns),
            None => self.waiting.twins.entry(first).or_default().push(point),
        }
    }
}

//! The best few, and the default, measured again turn by turn, so that drift and luck cancel: the best
//! of many noisy readings is partly the luckiest.
//!
//! Stands in a circle with `session`, which it is a part of and which runs it.

use super::ledger::{Finalist, Ledger, point_of};
use super::pipeline::{Stage, Workshop};
use super::session::{Ready, Session, Task, candidate, report};
use super::{Point, TuneError};
use crate::log::{self, Outcome, Record};
use crate::measure::{turn_ns, turns_within};
use crate::runner::{Candidate, RunFailure};
use std::collections::BTreeMap;

/// Seconds that the turns of all finalists may take together. Six short kernels get forty turns in it:
/// samples that scatter by a percent then tell a difference to a third of one.
const SECONDS: f64 = 0.6;

/// Measures the finalists, unless they went through this together.
pub(super) fn measure(
    task: &Task<'_>,
    session: &mut Session<'_>,
    ledger: &mut Ledger<'_>,
    shop: &Workshop<'_>,
    ready: &mut Ready,
    started: f64,
) -> Result<(), TuneError> {
    let (mut points, turn_ns) = pick(task, ledger, session.config.finalists);
    let last = ledger.records.iter().map(|r| r.round).max().unwrap_or(0);
    if points.len() < 2 || took_turns(task, ledger, &points, last) {
        return Ok(());
    }
    for point in &points {
        if !ready.contains_key(point)
            && let Stage::Compiled(built, artifact) = shop.process(point)
        {
            ready.insert(point.clone(), (built, artifact));
        }
    }
    points.retain(|p| ready.contains_key(p));
    let with_id = |(i, p)| {
        let (built, artifact) = &ready[p];
        candidate(i, built, artifact)
    };
    let candidates: Vec<Candidate> = points.iter().enumerate().map(with_id).collect();
    report(session, ledger, "finalists");
    let turns = turns(session, started, turn_ns);
    let timings = session.runners[0].time_interleaved(&candidates, turns);
    let mut timed = vec![];
    for (point, timing) in points.iter().zip(timings) {
        let (built, artifact) = &ready[point];
        match timing {
            Ok(timing) => timed.push(Finalist { point, built, artifact, timing }),
            // Its earlier times stand.
            Err(e) if e.failure == RunFailure::Environment => {}
            Err(e) => ledger.not_run(session, point, (built, artifact), &e)?,
        }
    }
    ledger.took_turns(session, timed, last + 1)
}

/// The points with the fastest first readings, the default and the winner so far, with the nanoseconds
/// of one turn of all of them. The first readings decide, so that a resumed run picks the same. A point
/// that failed after it was timed is no finalist.
fn pick(task: &Task<'_>, ledger: &Ledger<'_>, n: usize) -> (Vec<Point>, f64) {
    let all: Vec<&Record> = ledger.records.iter().collect();
    let winner = log::choose(&all).filter(|t| t.record.round > 0).map(|t| t.record.candidate());
    let counts = |r: &&Record| r.round == 0 || r.outcome == Outcome::WrongResult;
    let first: Vec<&Record> = all.into_iter().filter(counts).collect();
    let mut points = vec![];
    let mut medians = vec![];
    for timing in log::best_timings(&first) {
        let Some(point) = point_of(task.arms, timing.record) else { continue };
        let is_set = task.default.as_ref() == Some(&point) || winner.as_ref() == Some(&timing.record.candidate());
        if n > 0 && (points.len() < n || is_set) && !has_failed_since(ledger, timing.record) {
            points.push(point);
            medians.push(timing.median_ns);
        }
    }
    (points, turn_ns(medians))
}

/// True when the candidate failed after it was last right; the log's order says what came first.
fn has_failed_since(ledger: &Ledger<'_>, timed: &Record) -> bool {
    let id = timed.candidate();
    let last = ledger
        .records
        .iter()
        .rev()
        .filter(|r| r.candidate() == id)
        .find(|r| matches!(r.outcome, Outcome::Ok | Outcome::LaunchFailed | Outcome::TimedOut | Outcome::Crashed));
    last.is_some_and(|r| r.outcome != Outcome::Ok)
}

/// True when one run measured all the points turn by turn in that round.
fn took_turns(task: &Task<'_>, ledger: &Ledger<'_>, points: &[Point], round: u32) -> bool {
    let mut runs: BTreeMap<&str, Vec<Point>> = BTreeMap::new();
    for r in ledger.records.iter().filter(|r| round > 0 && r.round == round && r.outcome == Outcome::Ok) {
        runs.entry(&r.run).or_default().extend(point_of(task.arms, r));
    }
    runs.values().any(|run| points.iter().all(|p| run.contains(p)))
}

/// Turns that fit the time.
fn turns(session: &Session<'_>, started: f64, turn_ns: f64) -> usize {
    let left = session.config.time_limit.map(|l| l - ((session.clock.seconds)() - started));
    let seconds = left.map_or(SECONDS, |l| l.clamp(0.0, SECONDS));
    turns_within(seconds, turn_ns)
}

//! The best few, and the default, measured again turn by turn, so that drift and luck cancel.

use super::ledger::{Ledger, point_of};
use super::pipeline::{Stage, Workshop};
use super::session::{Ready, Session, Task, candidate, report};
use super::{Point, TuneError};
use crate::backend::Candidate;
use crate::log::{self, Outcome, Record};

/// Seconds that the finalists may take together.
const SECONDS: f64 = 2.0;

/// Measures the finalists, unless each of them has been through this.
pub(super) fn measure(
    task: &Task<'_>,
    session: &mut Session<'_>,
    ledger: &mut Ledger<'_>,
    shop: &Workshop<'_>,
    ready: &mut Ready,
    started: f64,
) -> Result<(), TuneError> {
    let (points, pass_ns) = pick(task, ledger, session.config.finalists);
    if points.len() < 2 || points.iter().all(|p| is_final(task, ledger, p)) {
        return Ok(());
    }
    for point in &points {
        if !ready.contains_key(point)
            && let Stage::Compiled(built, artifact) = shop.process(point)
        {
            ready.insert(point.clone(), (built, artifact));
        }
    }
    let points: Vec<&Point> = points.iter().filter(|p| ready.contains_key(p)).collect();
    let candidates: Vec<Candidate> =
        points.iter().enumerate().map(|(i, p)| candidate(i, &ready[*p].0, &ready[*p].1)).collect();
    report(task, session, ledger, candidates.len(), "finalists");
    let rounds = rounds(session, started, pass_ns);
    let timings = session.runner.time_interleaved(&candidates, rounds);
    for (point, timing) in points.into_iter().zip(timings) {
        let (built, artifact) = &ready[point];
        match timing {
            Ok(timing) => ledger.timed(session, point, (built, artifact), (None, &timing, 1))?,
            Err(e) => ledger.not_run(session, point, (built, artifact), &e)?,
        }
    }
    Ok(())
}

/// The fastest points and the default, with the time of one run of each in nanoseconds.
fn pick(task: &Task<'_>, ledger: &Ledger<'_>, n: usize) -> (Vec<Point>, f64) {
    let records: Vec<&Record> = ledger.records.iter().collect();
    let mut points = vec![];
    let mut sum = 0.0;
    for timing in log::best_timings(&records) {
        let Some(point) = point_of(task.arms, timing.record) else { continue };
        let is_default = task.default.as_ref() == Some(&point);
        if n > 0 && (points.len() < n || is_default) {
            points.push(point);
            sum += timing.median_ns;
        }
    }
    (points, sum)
}

fn is_final(task: &Task<'_>, ledger: &Ledger<'_>, point: &Point) -> bool {
    ledger
        .records
        .iter()
        .any(|r| r.round > 0 && r.outcome == Outcome::Ok && point_of(task.arms, r).as_ref() == Some(point))
}

/// Rounds that fit the time, between 5 and 40.
fn rounds(session: &Session<'_>, started: f64, pass_ns: f64) -> usize {
    let left = session.config.time_limit.map(|l| l - ((session.clock.seconds)() - started));
    let seconds = left.map_or(SECONDS, |l| l.clamp(0.0, SECONDS));
    ((seconds * 1e9 / pass_ns.max(1.0)) as usize).clamp(5, 40)
}

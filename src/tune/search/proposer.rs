//! Deals a search's points out in batches, so that a run on many threads is the run on one.
//!
//! The first batch starts with the defaults. Batch k is proposed when all batches up to k - `ahead`
//! are settled, and the search then sees the results of exactly those (and of the log); of later ones
//! it knows only that they are taken. So neither the order of settling within a batch nor how far the
//! next batch is already done changes what is proposed.
//!
//! A point that is ruled out before it is compiled, most often because another has the same text, costs no trial: at
//! the end, when all is settled, as many more are dealt out.

use super::super::{Arms, Point};
use super::{History, Search};
use std::collections::BTreeMap;
use std::fmt;

/// A time that much shorter counts as progress.
const PROGRESS: f64 = 0.005;

/// How many points, how many at once, and when to stop before that.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Pace {
    /// Points in all, those that the log knows included.
    pub trials: usize,
    /// Points per batch.
    pub batch: usize,
    /// Batches that may be under way: 1 waits for every result before it goes on.
    pub ahead: usize,
    /// Measured points without progress (0.5 %) after which to stop.
    pub patience: Option<usize>,
    /// Time in nanoseconds at which no more is asked for.
    pub good_enough_ns: Option<f64>,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace { trials: 64, batch: 4, ahead: 6, patience: None, good_enough_ns: None }
    }
}

/// What to do next.
#[derive(Clone, PartialEq, Debug)]
pub enum Next {
    /// Try these.
    Batch(Vec<Point>),
    /// Settle more of what is under way first.
    Wait,
    /// Nothing more; points may still be under way.
    Done(Stop),
}

/// Why no more points are proposed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// As many as were asked for.
    Trials,
    /// Every legal point was proposed.
    SpaceUsedUp,
    /// The best has not improved for long.
    NoProgress,
    /// The best is as good as asked for.
    GoodEnough,
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stop::Trials => "all trials used",
            Stop::SpaceUsedUp => "every point tried",
            Stop::NoProgress => "no more progress",
            Stop::GoodEnough => "as fast as the hardware allows",
        })
    }
}

/// Proposes batches and takes results.
pub struct Proposer<'a> {
    arms: &'a Arms,
    search: Box<dyn Search + 'a>,
    pace: Pace,
    /// Defaults that wait for the first batches.
    defaults: Vec<Point>,
    /// What the search may know: results of batches that are visible; others without their time.
    seen: History,
    /// Everything that is settled.
    history: History,
    /// The batches that the search has not seen, oldest first: each point with its result.
    hidden: Vec<BTreeMap<Point, Option<Option<f64>>>>,
    /// Points of the log and points proposed.
    given: usize,
    /// Points that cost no trial, since `given` last left them out; and all there may ever be.
    free: usize,
    most_free: usize,
    best_seen: Option<f64>,
    /// Measured points since the best improved.
    idle: usize,
    done: Option<Stop>,
}

impl<'a> Proposer<'a> {
    /// Starts a run. `defaults` come first, candidate 0 before all, as far as `known` (the log's
    /// points) lacks them.
    pub fn new(
        arms: &'a Arms,
        search: Box<dyn Search + 'a>,
        defaults: Vec<Point>,
        known: History,
        pace: Pace,
    ) -> Proposer<'a> {
        let pace = Pace { batch: pace.batch.max(1), ahead: pace.ahead.max(1), ..pace };
        let mut waiting: Vec<Point> = vec![];
        for p in defaults {
            if !known.contains_key(&p) && !waiting.contains(&p) {
                waiting.push(p);
            }
        }
        let best_seen = best(&known);
        let history = known.clone();
        // The search is not to propose what comes anyway.
        let mut seen = known;
        seen.extend(waiting.iter().map(|p| (p.clone(), None)));
        Proposer {
            arms,
            search,
            pace,
            defaults: waiting,
            given: history.len(),
            free: 0,
            most_free: pace.trials,
            history,
            seen,
            hidden: vec![],
            best_seen,
            idle: 0,
            done: None,
        }
    }

    /// The next batch, if it may be proposed already.
    pub fn next_batch(&mut self) -> Next {
        if let Some(stop) = self.done {
            return Next::Done(stop);
        }
        self.reveal();
        if self.hidden.len() >= self.pace.ahead && self.needs_results() {
            return Next::Wait;
        }
        if self.given >= self.pace.trials {
            // Which points are free depends on nothing but what was proposed, once all of that is settled.
            if self.hidden.iter().flat_map(BTreeMap::values).any(Option::is_none) {
                return Next::Wait;
            }
            let more = self.free.min(self.most_free);
            self.given -= more;
            (self.free, self.most_free) = (0, self.most_free - more);
        }
        match self.propose() {
            Ok(points) => {
                self.given += points.len();
                self.seen.extend(points.iter().map(|p| (p.clone(), None)));
                self.hidden.push(points.iter().map(|p| (p.clone(), None)).collect());
                Next::Batch(points)
            }
            Err(stop) => {
                self.done = Some(stop);
                Next::Done(stop)
            }
        }
    }

    /// Takes the outcome of a point: its time in nanoseconds, or `None` where it has none because it
    /// was ruled out or failed.
    pub fn settle(&mut self, point: &Point, ns: Option<f64>) {
        self.history.insert(point.clone(), ns);
        for batch in &mut self.hidden {
            if let Some(result) = batch.get_mut(point) {
                *result = Some(ns);
            }
        }
    }

    /// A point that was proposed was not compiled: it costs no trial.
    pub fn costs_nothing(&mut self) {
        self.free += 1;
    }

    /// Forgets a point that was proposed and never ran.
    pub fn take_back(&mut self, point: &Point) {
        let before: usize = self.hidden.iter().map(BTreeMap::len).sum();
        for batch in &mut self.hidden {
            batch.remove(point);
        }
        self.given -= before - self.hidden.iter().map(BTreeMap::len).sum::<usize>();
        self.seen.remove(point);
        self.history.remove(point);
    }

    /// Everything that is settled, with the log's points.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Shows the search the oldest batches as far as they are settled, all but the `ahead - 1` newest.
    fn reveal(&mut self) {
        let keep = if self.needs_results() { self.pace.ahead - 1 } else { 0 };
        while self.hidden.len() > keep && self.hidden[0].values().all(Option::is_some) {
            let batch = self.hidden.remove(0);
            let times: Vec<f64> = batch.values().flatten().flatten().copied().collect();
            self.progress(&times);
            self.seen.extend(batch.into_iter().map(|(p, t)| (p, t.flatten())));
        }
    }

    fn progress(&mut self, times: &[f64]) {
        let Some(best) = times.iter().copied().min_by(f64::total_cmp) else { return };
        let improved = self.best_seen.is_none_or(|b| best < b * (1.0 - PROGRESS));
        self.idle = if improved { 0 } else { self.idle + times.len() };
        self.best_seen = Some(self.best_seen.map_or(best, |b| b.min(best)));
    }

    /// True where what comes next depends on results.
    fn needs_results(&self) -> bool {
        self.search.learns() || self.pace.patience.is_some() || self.pace.good_enough_ns.is_some()
    }

    fn propose(&mut self) -> Result<Vec<Point>, Stop> {
        if self.given >= self.pace.trials {
            return Err(Stop::Trials);
        }
        if self.pace.good_enough_ns.zip(self.best_seen).is_some_and(|(enough, best)| best <= enough) {
            return Err(Stop::GoodEnough);
        }
        if self.pace.patience.is_some_and(|p| self.idle >= p) {
            return Err(Stop::NoProgress);
        }
        let n = self.pace.batch.min(self.pace.trials - self.given);
        let mut points: Vec<Point> = self.defaults.drain(..self.defaults.len().min(n)).collect();
        if points.len() < n {
            points.extend(self.search.propose(self.arms, &self.seen, n - points.len()));
        }
        if points.is_empty() { Err(Stop::SpaceUsedUp) } else { Ok(points) }
    }
}

fn best(history: &History) -> Option<f64> {
    history.values().flatten().copied().min_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::super::super::space::tests::arms;
    use super::super::by_name;
    use super::*;
    use crate::rules::Knobs;

    fn time(p: &Point) -> f64 {
        if p.arm == 1 { 99.0 } else { 10.0 + (p.knobs.get("x") - 6).abs() as f64 }
    }

    fn proposer<'a>(arms: &'a Arms, name: &str, pace: Pace) -> Proposer<'a> {
        Proposer::new(arms, by_name(name, 1).unwrap(), arms.defaults(), History::new(), pace)
    }

    /// Runs to the end; `last_first` settles each batch backwards and as late as may be.
    fn drive(arms: &Arms, name: &str, pace: Pace, last_first: bool) -> (Vec<Point>, Stop) {
        let mut p = proposer(arms, name, pace);
        let (mut order, mut open) = (vec![], vec![]);
        loop {
            match p.next_batch() {
                Next::Batch(points) => {
                    order.extend(points.clone());
                    open.extend(points.clone());
                    if !last_first {
                        open.drain(..).for_each(|q| p.settle(&q, Some(time(&q))));
                    }
                }
                Next::Wait => {
                    let q = open.pop().expect("waits for something");
                    p.settle(&q, Some(time(&q)));
                }
                Next::Done(stop) => return (order, stop),
            }
        }
    }

    #[test]
    fn defaults_come_first_and_trials_are_kept() {
        let arms = arms();
        let pace = Pace { trials: 5, batch: 3, ..Pace::default() };
        for name in super::super::NAMES {
            let (order, stop) = drive(&arms, name, pace, false);
            assert_eq!((order.len(), stop), (5, Stop::Trials), "{name}");
            assert_eq!(order[..2], arms.defaults()[..]);
        }
    }

    #[test]
    fn the_order_of_settling_changes_nothing() {
        let arms = arms();
        for name in super::super::NAMES {
            for (batch, ahead) in [(1, 1), (2, 2), (3, 2), (2, 3)] {
                let pace = Pace { trials: 9, batch, ahead, patience: Some(4), ..Pace::default() };
                assert_eq!(drive(&arms, name, pace, false), drive(&arms, name, pace, true), "{name} {batch} {ahead}");
            }
        }
    }

    #[test]
    fn what_is_not_compiled_costs_no_trial() {
        let arms = arms();
        for name in super::super::NAMES {
            let mut p = proposer(&arms, name, Pace { trials: 4, batch: 2, ..Pace::default() });
            let (mut dealt, mut waited) = (vec![], false);
            loop {
                match p.next_batch() {
                    Next::Batch(points) => dealt.extend(points),
                    // Nothing tells what is free before all is settled.
                    Next::Wait if !waited => {
                        assert_eq!(dealt.len(), 4, "{name}");
                        waited = true;
                        dealt.iter().for_each(|q| p.settle(q, Some(time(q))));
                        (0..2).for_each(|_| p.costs_nothing());
                    }
                    Next::Wait => dealt[4..].iter().for_each(|q| p.settle(q, Some(time(q)))),
                    Next::Done(stop) => break assert_eq!((dealt.len(), stop), (6, Stop::Trials), "{name}"),
                }
            }
        }
    }

    #[test]
    fn a_search_without_feedback_never_waits() {
        let arms = arms();
        let mut p = proposer(&arms, "exhaustive", Pace { batch: 4, ..Pace::default() });
        let mut n = 0;
        let stop = loop {
            match p.next_batch() {
                Next::Batch(points) => n += points.len(),
                Next::Wait => panic!("waited"),
                Next::Done(stop) => break stop,
            }
        };
        assert_eq!((n, stop), (10, Stop::SpaceUsedUp));
    }

    #[test]
    fn it_stops_without_progress_and_when_good_enough() {
        let arms = arms();
        let pace = Pace { trials: 100, batch: 1, ahead: 1, ..Pace::default() };
        let (order, stop) = drive(&arms, "exhaustive", Pace { good_enough_ns: Some(10.5), ..pace }, false);
        assert_eq!((time(order.last().unwrap()), stop), (10.0, Stop::GoodEnough));
        let (order, stop) = drive(&arms, "exhaustive", Pace { patience: Some(3), ..pace }, false);
        assert_eq!(stop, Stop::NoProgress, "{order:?}");
        assert!(order.len() < 10);
    }

    #[test]
    fn known_points_count_and_are_not_proposed() {
        let arms = arms();
        let known: History = arms.points().iter().take(3).map(|p| (p.clone(), Some(20.0))).collect();
        let search = by_name("exhaustive", 0).unwrap();
        let mut p = Proposer::new(&arms, search, arms.defaults(), known.clone(), Pace { trials: 5, ..Pace::default() });
        let Next::Batch(points) = p.next_batch() else { panic!("a batch") };
        assert_eq!(points.len(), 2);
        assert!(points.iter().all(|p| !known.contains_key(p)));
        assert_eq!(p.next_batch(), Next::Wait);
        points.iter().for_each(|q| p.settle(q, Some(30.0)));
        assert_eq!((p.next_batch(), best(p.history())), (Next::Done(Stop::Trials), Some(20.0)));
    }

    #[test]
    fn a_point_taken_back_may_come_again() {
        let arms = arms();
        let mut p = proposer(&arms, "guided", Pace { trials: 100, batch: 4, ahead: 1, ..Pace::default() });
        let Next::Batch(points) = p.next_batch() else { panic!("a batch") };
        let back = Point { arm: 0, knobs: Knobs::from([("x", 5)]) };
        assert_eq!(points[0], back);
        p.take_back(&back);
        points[1..].iter().for_each(|q| p.settle(q, Some(time(q))));
        assert!(matches!(p.next_batch(), Next::Batch(_)));
        assert_eq!(p.history().len(), 3);
    }
}

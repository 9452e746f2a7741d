//! Searches replayed against the log of an exhaustive run: what they would have found, with no GPU.

use super::ledger::point_of;
use super::occupancy::SPILLS;
use super::search::{History, Next, Pace, Proposer, by_name};
use super::{Arms, Point};
use crate::assemble::compiled;
use crate::log::{self, Outcome, Record, Resources};
use crate::rules::{Arm, Knobs, Space};
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// A search has found what it should when its best is within that of the exhaustive best.
pub const CLOSE: f64 = 0.02;

/// What stands before the hash of a text that another point has too, in the reason of a point that was not built; in older
/// logs, before that point.
const SAME_HASH: &str = "another point gave the text ";
const SAME_POINT: &str = "the same text as ";

/// What an exhaustive run found.
#[derive(Clone, PartialEq, Debug)]
pub struct Replay {
    /// Median of the first measurement in nanoseconds; `None` where a point was ruled out or failed.
    times: BTreeMap<Point, Option<f64>>,
    /// Points that were ruled out because their kernels spill registers.
    spilled: BTreeSet<Point>,
    /// Hashes of the texts that were measured or found to spill registers.
    texts: BTreeMap<Point, String>,
    /// What the kernels of measured points take.
    resources: BTreeMap<Point, Resources>,
    /// The shortest time.
    best_ns: f64,
}

/// The spaces as a log knew them: a knob that no record of a form mentions, because it is younger than
/// the log, keeps its default.
pub fn as_logged(arms: Vec<Arm>, records: &[&Record]) -> Vec<Arm> {
    arms.into_iter().map(|arm| arm.narrow(|space| keep_named(space, records))).collect()
}

fn keep_named(space: &mut Space, records: &[&Record]) {
    let own = |r: &&&Record| r.rule == space.form && r.rule_version == space.version;
    let named: BTreeSet<&String> = records.iter().filter(own).flat_map(|r| r.knobs.keys()).collect();
    for k in space.knobs.iter_mut().filter(|k| !named.contains(&k.name)) {
        k.values = vec![k.default];
    }
}

impl Replay {
    /// What the records say of the points of `arms`, by their first measurement. `None` where they hold
    /// no time.
    pub fn new(arms: &Arms, records: &[&Record]) -> Option<Replay> {
        let (mut times, mut spilled) = (BTreeMap::new(), BTreeSet::new());
        let (mut texts, mut resources) = (BTreeMap::new(), BTreeMap::new());
        for r in records.iter().filter(|r| r.round == 0) {
            let Some(point) = point_of(arms, r) else { continue };
            if spills(r) {
                spilled.insert(point.clone());
            }
            let time = if r.outcome == Outcome::Ok { log::median(&r.samples_ns) } else { None };
            if let Some(hash) = &r.source_hash {
                texts.entry(point.clone()).or_insert_with(|| hash.clone());
            }
            resources.extend(r.res.map(|res| (point.clone(), res)));
            times.entry(point).or_insert(time);
        }
        for (point, twin) in twins(arms, records) {
            if let Some(time) = times.get(&twin).copied().flatten() {
                texts.extend(texts.get(&twin).cloned().map(|hash| (point.clone(), hash)));
                resources.extend(resources.get(&twin).copied().map(|res| (point.clone(), res)));
                times.insert(point, Some(time));
            }
        }
        let best_ns = times.values().flatten().copied().min_by(f64::total_cmp)?;
        Some(Replay { times, spilled, texts, resources, best_ns })
    }

    /// The shortest time of a point in nanoseconds.
    pub fn best_ns(&self) -> f64 {
        self.best_ns
    }

    /// The points that have a time, each with it.
    pub fn timed(&self) -> impl Iterator<Item = (&Point, f64)> {
        self.times.iter().filter_map(|(p, ns)| Some((p, (*ns)?)))
    }

    /// The points whose kernels spill registers, which a search does not measure.
    pub fn spilled(&self) -> impl Iterator<Item = &Point> {
        self.spilled.iter()
    }

    /// The time of a point in nanoseconds, if it has one.
    pub fn ns(&self, point: &Point) -> Option<f64> {
        self.times.get(point).copied().flatten()
    }

    /// Hash of the text that a point had ([`crate::backend::Source::hash`]), where the log has one.
    pub fn text(&self, point: &Point) -> Option<&str> {
        self.texts.get(point).map(String::as_str)
    }

    /// What the kernels of a point take, where the log says it.
    pub fn resources(&self, point: &Point) -> Option<Resources> {
        self.resources.get(point).copied()
    }

    /// Lets the untuned choice be the one that it is where kernels are compiled, as far as the log knows what they take.
    pub fn settle(&self, arms: &Arms) {
        let Some(first) = arms.list.first() else { return };
        let taken = |knobs: &Knobs| self.resources(&Point { arm: 0, knobs: knobs.clone() }).and_then(compiled);
        first.settle(|some| some.iter().map(taken).collect());
    }

    /// Points that have a time.
    pub fn measured(&self) -> usize {
        self.times.values().flatten().count()
    }

    /// Legal points of `arms` that the log says nothing of; an exhaustive log has none.
    pub fn missing(&self, arms: &Arms) -> usize {
        arms.points().iter().filter(|p| !self.times.contains_key(p)).count()
    }

    /// Lets a search run until it has `trials` measurements, and returns the best after each, over the
    /// exhaustive best, minus 1.
    ///
    /// # Errors
    /// An unknown search.
    pub fn simulate(&self, arms: &Arms, search: &str, seed: u64, trials: usize) -> Result<Vec<f64>, String> {
        let pace = Pace { trials: usize::MAX, ..Pace::default() };
        let search = by_name(search, seed)?;
        let mut proposer = Proposer::new(arms, search, arms.defaults(), History::new(), pace);
        let (mut regret, mut best) = (vec![], f64::INFINITY);
        while regret.len() < trials
            && let Next::Batch(points) = proposer.next_batch()
        {
            for p in points {
                let time = self.ns(&p);
                proposer.settle(&p, time);
                if let Some(ns) = time {
                    best = best.min(ns);
                    regret.push(best / self.best_ns - 1.0);
                }
            }
        }
        regret.truncate(trials);
        Ok(regret)
    }

    /// The same for `seeds` seeds, from 0.
    ///
    /// # Errors
    /// An unknown search.
    pub fn simulate_all(&self, arms: &Arms, search: &str, seeds: u64, trials: usize) -> Result<Regret, String> {
        let runs: Result<Vec<_>, String> =
            (0..seeds).into_par_iter().map(|seed| self.simulate(arms, search, seed, trials)).collect();
        Ok(Regret { runs: runs? })
    }
}

fn spills(r: &Record) -> bool {
    r.outcome == Outcome::Pruned && r.reason.as_deref().is_some_and(|why| why.starts_with(SPILLS))
}

/// Points that were ruled out because another has the same text, each with that one, whose time is theirs.
fn twins(arms: &Arms, records: &[&Record]) -> Vec<(Point, Point)> {
    let hashes = records.iter().filter_map(|r| Some((r.source_hash.as_deref()?, point_of(arms, r)?)));
    let by_text: BTreeMap<&str, Point> = hashes.collect();
    let twin = |r: &&Record| {
        let (point, reason) = (point_of(arms, r)?, r.reason.as_deref()?);
        let hash = reason.split_once(SAME_HASH).and_then(|(_, rest)| by_text.get(rest.split(' ').next()?).cloned());
        let named = || {
            let pair = |p: &str| p.split_once('=').and_then(|(k, v)| Some((k.to_string(), v.parse().ok()?)));
            let knobs: Option<_> = reason.split_once(SAME_POINT)?.1.split(' ').map(pair).collect();
            Some(Point { knobs: Knobs(knobs?), ..point.clone() })
        };
        let first = hash.or_else(named)?;
        Some((point, first))
    };
    records.iter().filter_map(twin).collect()
}

/// What runs with many seeds lost against the exhaustive best, after each measurement.
#[derive(Clone, PartialEq, Debug)]
pub struct Regret {
    runs: Vec<Vec<f64>>,
}

impl Regret {
    /// Median and 95th percentile of the regret after `n` measurements; a run that ended before keeps
    /// what it had.
    pub fn after(&self, n: usize) -> (f64, f64) {
        let at = |run: &Vec<f64>| run.get(n.min(run.len()).wrapping_sub(1)).copied().unwrap_or(f64::INFINITY);
        quantiles(self.runs.iter().map(at).collect())
    }

    /// Share of runs that are within 2 % of the best after `n` measurements.
    pub fn close_after(&self, n: usize) -> f64 {
        let close = self.needed().iter().filter(|k| **k <= n as f64).count();
        close as f64 / self.runs.len().max(1) as f64
    }

    /// Measurements until the best is within 2 %: median and 95th percentile, infinite where a run never
    /// got there.
    pub fn needed_for_close(&self) -> (f64, f64) {
        quantiles(self.needed())
    }

    fn needed(&self) -> Vec<f64> {
        let first = |run: &Vec<f64>| run.iter().position(|r| *r <= CLOSE);
        self.runs.iter().map(|run| first(run).map_or(f64::INFINITY, |i| (i + 1) as f64)).collect()
    }
}

/// Median and 95th percentile, each a value of the list (the greater where it falls between two).
fn quantiles(values: Vec<f64>) -> (f64, f64) {
    let at = |share| log::stats::quantile(&values, share).unwrap_or(f64::INFINITY);
    (at(0.5), at(0.95))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_of_the_list() {
        assert_eq!(quantiles((1..=100).map(f64::from).collect()), (50.0, 95.0));
        assert_eq!(quantiles(vec![3.0]), (3.0, 3.0));
        assert_eq!(quantiles(vec![]), (f64::INFINITY, f64::INFINITY));
    }

    #[test]
    fn regret_counts_from_the_first_measurement() {
        let r = Regret { runs: vec![vec![0.5, 0.01, 0.01], vec![0.5, 0.5, 0.5], vec![0.0]] };
        assert_eq!(r.after(1), (0.5, 0.5));
        assert_eq!((r.after(2).0, r.after(9).1), (0.01, 0.5));
        assert!((r.close_after(2) - 2.0 / 3.0).abs() < 1e-12);
        assert_eq!(r.needed_for_close(), (2.0, f64::INFINITY));
    }
}

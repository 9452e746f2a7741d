//! The prior, corrected by what has been measured.
//!
//! A Gaussian process over the knobs says how far the logarithm of a point's time is from the prior's,
//! and how sure that is. Points are taken by expected improvement, one after the other: each is then
//! believed to take what is expected of it, so that the points of a batch differ. Before anything is
//! measured this tries good points of the prior that are unlike each other; later it stays near the
//! best unless something unlike it promises more.

use super::super::{Arms, Point};
use super::landscape::Landscape;
use super::{History, Search};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::f64::consts::PI;

/// Measured points that are learned from, the fastest first.
const MEMORY: usize = 192;
/// How far points of one function differ from the prior (standard deviation of the logarithm).
const SPREAD: f64 = 0.1;
/// The same where there is no prior.
const BLIND: f64 = 0.4;
/// How far all points of one function differ from the prior together.
const OFFSET: f64 = 0.5;
/// Distance at which two points have little to do with each other, in doublings of a knob.
const REACH: f64 = 4.0;
/// What measuring again changes.
const NOISE: f64 = 0.005;
/// What the seed changes.
const JITTER: f64 = 0.01;

/// Prior, Gaussian process, expected improvement.
pub struct Guided {
    rng: StdRng,
}

impl Guided {
    /// A search that `seed` and the times fix.
    pub fn new(seed: u64) -> Guided {
        Guided { rng: StdRng::seed_from_u64(seed) }
    }
}

impl Search for Guided {
    fn propose(&mut self, arms: &Arms, seen: &History, n: usize) -> Vec<Point> {
        let mut field = Field::of(arms.landscape(), seen);
        let jitter: Vec<f64> = field.nodes.iter().map(|_| JITTER * (self.rng.random::<f64>() * 2.0 - 1.0)).collect();
        let mut out = vec![];
        while out.len() < n
            && let Some(next) = field.most_promising(&jitter)
        {
            field.believe(next);
            out.push(arms.points()[field.nodes[next]].clone());
        }
        out
    }
}

/// What is expected of every point of the pool, and of those measured.
struct Field<'a> {
    land: &'a Landscape,
    /// Their places in the landscape.
    nodes: Vec<usize>,
    /// Logarithm of the time.
    mean: Vec<f64>,
    variance: Vec<f64>,
    /// One vector for each point taken in: columns of the Cholesky factor.
    factor: Vec<Vec<f64>>,
    /// Points that may not be proposed.
    taken: Vec<bool>,
    /// The shortest time measured or believed.
    best: Option<f64>,
}

impl<'a> Field<'a> {
    fn of(land: &'a Landscape, seen: &History) -> Field<'a> {
        // What the log knows of points that are not legal any more says little.
        let known: Vec<(usize, Option<f64>)> = seen.iter().filter_map(|(p, t)| Some((land.place(p)?, *t))).collect();
        let mut nodes = land.pool.clone();
        nodes.extend(known.iter().map(|k| k.0).filter(|k| land.pool.binary_search(k).is_err()));
        nodes.sort_unstable();
        let node = |place: usize| nodes.binary_search(&place).ok();
        let known: Vec<(usize, Option<f64>)> = known.iter().filter_map(|(p, t)| Some((node(*p)?, *t))).collect();
        let mut timed: Vec<(usize, f64)> = known.iter().filter_map(|(i, t)| Some((*i, (*t)?.ln()))).collect();
        timed.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
        let mut field = Field {
            land,
            mean: nodes.iter().map(|n| land.prior[*n]).collect(),
            variance: nodes.iter().map(|n| variance(land, *n) + OFFSET * OFFSET).collect(),
            factor: vec![],
            taken: vec![false; nodes.len()],
            best: timed.first().map(|t| t.1),
            nodes,
        };
        for (node, time) in timed.iter().take(MEMORY) {
            field.learn(*node, *time);
        }
        for (node, time) in &known {
            field.taken[*node] = true;
            // What is under way is believed to take what is expected; what failed teaches nothing else.
            if time.is_none() && field.factor.len() < MEMORY {
                field.believe(*node);
            }
        }
        field
    }

    /// Takes in a measured time.
    fn learn(&mut self, place: usize, log_ns: f64) {
        let (column, pivot) = self.column(place);
        let surprise = (log_ns - self.mean[place]) / pivot;
        self.mean.iter_mut().zip(&column).for_each(|(m, c)| *m += c * surprise);
        self.narrow(column);
        self.taken[place] = true;
    }

    /// Takes a point for done, at the time expected of it.
    fn believe(&mut self, place: usize) {
        let (column, _) = self.column(place);
        self.narrow(column);
        self.taken[place] = true;
        self.best = Some(self.best.map_or(self.mean[place], |b| b.min(self.mean[place])));
    }

    /// How much two points have in common.
    fn covariance(&self, a: usize, b: usize) -> f64 {
        let (a, b) = (self.nodes[a], self.nodes[b]);
        if self.land.arm[a] != self.land.arm[b] {
            return OFFSET * OFFSET;
        }
        variance(self.land, a) * (-self.land.distance(a, b) / REACH).exp() + OFFSET * OFFSET
    }

    /// Covariance of every point with this one, given all that is taken in, over its root.
    fn column(&self, place: usize) -> (Vec<f64>, f64) {
        let mut column: Vec<f64> = (0..self.mean.len()).map(|i| self.covariance(i, place)).collect();
        for earlier in &self.factor {
            let at = earlier[place];
            column.iter_mut().zip(earlier).for_each(|(c, e)| *c -= e * at);
        }
        let pivot = (column[place].max(0.0) + NOISE * NOISE).sqrt();
        column.iter_mut().for_each(|c| *c /= pivot);
        (column, pivot)
    }

    fn narrow(&mut self, column: Vec<f64>) {
        self.variance.iter_mut().zip(&column).for_each(|(v, c)| *v = (*v - c * c).max(1e-12));
        self.factor.push(column);
    }

    /// The free point with the greatest expected improvement.
    fn most_promising(&self, jitter: &[f64]) -> Option<usize> {
        let free = || (0..self.mean.len()).filter(|i| !self.taken[*i]);
        let mean = |i: usize| self.mean[i] + jitter[i];
        let best = self.best.or_else(|| free().map(mean).min_by(f64::total_cmp))?;
        let gain = |i: usize| improvement(best - mean(i), self.variance[i].sqrt());
        let by_gain = free().map(|i| (i, gain(i))).max_by(|a, b| a.1.total_cmp(&b.1).then(b.0.cmp(&a.0)))?;
        if by_gain.1 > 1e-12 {
            return Some(by_gain.0);
        }
        let hope = |i: usize| mean(i) - 2.0 * self.variance[i].sqrt();
        free().min_by(|a, b| hope(*a).total_cmp(&hope(*b)))
    }
}

/// How far the points of an arm differ from its prior.
fn variance(land: &Landscape, place: usize) -> f64 {
    if land.is_blind(place) { BLIND * BLIND } else { SPREAD * SPREAD }
}

/// Expected improvement of a normal variable whose mean lies `lead` below the best.
fn improvement(lead: f64, deviation: f64) -> f64 {
    let z = lead / deviation;
    // The usual approximation of the normal distribution function, within 0.0002.
    let below = 0.5 * (1.0 + (0.797_884_560_8 * (z + 0.044_715 * z * z * z)).tanh());
    (deviation * (z * below + (-z * z / 2.0).exp() / (2.0 * PI).sqrt())).max(0.0)
}

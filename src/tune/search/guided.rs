//! The prior, corrected by what has been measured.
//!
//! A Gaussian process over the knobs says how far the logarithm of a point's time is from the prior's,
//! and how sure that is. Points are taken by expected improvement, one after the other: each is then
//! believed to take what is expected of it, so that the points of a batch differ. Before anything is
//! measured this tries good points of the prior that are unlike each other; later it stays near the
//! best unless something unlike it promises more.

use super::super::{Arms, Point, prior};
use super::{History, Search};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::f64::consts::PI;

/// Points that are considered, best prior first: more would only take longer.
const POOL: usize = 4096;
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
    pool: Option<Pool>,
}

/// The points that are considered.
struct Pool {
    nodes: Vec<Node>,
    places: BTreeMap<Point, usize>,
    spread: f64,
}

/// A point with its place in the space and the logarithm of its prior.
struct Node {
    point: Point,
    at: Vec<f64>,
    prior: f64,
}

impl Guided {
    /// A search that `seed` and the times fix.
    pub fn new(seed: u64) -> Guided {
        Guided { rng: StdRng::seed_from_u64(seed), pool: None }
    }
}

impl Search for Guided {
    fn propose(&mut self, arms: &Arms, seen: &History, n: usize) -> Vec<Point> {
        let mut pool = self.pool.take().unwrap_or_else(|| Pool::new(arms));
        let mut field = Field::of(&mut pool, arms, seen);
        let jitter: Vec<f64> = pool.nodes.iter().map(|_| JITTER * (self.rng.random::<f64>() * 2.0 - 1.0)).collect();
        let mut out = vec![];
        while out.len() < n
            && let Some(next) = field.most_promising(&jitter)
        {
            field.believe(&pool, next);
            out.push(pool.nodes[next].point.clone());
        }
        self.pool = Some(pool);
        out
    }
}

impl Pool {
    fn new(arms: &Arms) -> Pool {
        let mut nodes: Vec<Node> = arms.points().iter().map(|p| Node::new(arms, p)).collect();
        if nodes.iter().any(|n| !n.prior.is_finite()) {
            nodes.iter_mut().for_each(|n| n.prior = 0.0);
        }
        let blind = nodes.iter().all(|n| n.prior == 0.0);
        if nodes.len() > POOL && !blind {
            nodes.sort_by(|a, b| a.prior.total_cmp(&b.prior));
            nodes.truncate(POOL);
        }
        let places = nodes.iter().enumerate().map(|(i, n)| (n.point.clone(), i)).collect();
        Pool { nodes, places, spread: if blind { BLIND } else { SPREAD } }
    }

    /// The place of a point, which joins the pool where it is not in it: a log may know any.
    fn place(&mut self, arms: &Arms, point: &Point) -> usize {
        if let Some(place) = self.places.get(point) {
            return *place;
        }
        let mut node = Node::new(arms, point);
        if self.spread == BLIND || !node.prior.is_finite() {
            node.prior = self.nodes.first().map_or(0.0, |n| n.prior);
        }
        self.nodes.push(node);
        self.places.insert(point.clone(), self.nodes.len() - 1);
        self.nodes.len() - 1
    }

    /// How much two points have in common.
    fn covariance(&self, a: usize, b: usize) -> f64 {
        let (a, b) = (&self.nodes[a], &self.nodes[b]);
        if a.point.arm != b.point.arm {
            return OFFSET * OFFSET;
        }
        let squares: f64 = a.at.iter().zip(&b.at).map(|(x, y)| (x - y) * (x - y)).sum();
        self.spread * self.spread * (-squares.sqrt() / REACH).exp() + OFFSET * OFFSET
    }
}

impl Node {
    fn new(arms: &Arms, point: &Point) -> Node {
        let at = point.knobs.0.iter().map(|(name, value)| coordinate(name, *value)).collect();
        let outline = arms.spaces[point.arm].outline(&point.knobs);
        let prior = outline.map_or(f64::NAN, |o| prior::ns(&o, &arms.target).ln());
        Node { point: point.clone(), at, prior }
    }
}

/// Knobs count in doublings, those that change little by less. A knob whose values are names counts
/// in steps.
fn coordinate(name: &str, value: i64) -> f64 {
    match name {
        "hint" => 0.3 * value as f64,
        "stage" => 0.7 * value as f64,
        "min_blocks" => 0.5 * (value.max(1) as f64).log2(),
        _ => (value.max(1) as f64).log2(),
    }
}

/// What is expected of every point of the pool.
struct Field {
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

impl Field {
    fn of(pool: &mut Pool, arms: &Arms, seen: &History) -> Field {
        let places: Vec<(usize, Option<f64>)> = seen.iter().map(|(p, t)| (pool.place(arms, p), *t)).collect();
        let mut timed: Vec<(usize, f64)> = places.iter().filter_map(|(i, t)| Some((*i, (*t)?.ln()))).collect();
        timed.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
        let start = pool.spread * pool.spread + OFFSET * OFFSET;
        let n = pool.nodes.len();
        let mut field = Field {
            mean: pool.nodes.iter().map(|n| n.prior).collect(),
            variance: vec![start; n],
            factor: vec![],
            taken: vec![false; n],
            best: timed.first().map(|t| t.1),
        };
        for (place, time) in timed.iter().take(MEMORY) {
            field.learn(pool, *place, *time);
        }
        for (place, time) in &places {
            field.taken[*place] = true;
            // What is under way is believed to take what is expected; what failed teaches nothing else.
            if time.is_none() && field.factor.len() < MEMORY {
                field.believe(pool, *place);
            }
        }
        field
    }

    /// Takes in a measured time.
    fn learn(&mut self, pool: &Pool, place: usize, log_ns: f64) {
        let (column, pivot) = self.column(pool, place);
        let surprise = (log_ns - self.mean[place]) / pivot;
        self.mean.iter_mut().zip(&column).for_each(|(m, c)| *m += c * surprise);
        self.narrow(column);
        self.taken[place] = true;
    }

    /// Takes a point for done, at the time expected of it.
    fn believe(&mut self, pool: &Pool, place: usize) {
        let (column, _) = self.column(pool, place);
        self.narrow(column);
        self.taken[place] = true;
        self.best = Some(self.best.map_or(self.mean[place], |b| b.min(self.mean[place])));
    }

    /// Covariance of every point with this one, given all that is taken in, over its root.
    fn column(&self, pool: &Pool, place: usize) -> (Vec<f64>, f64) {
        let mut column: Vec<f64> = (0..self.mean.len()).map(|i| pool.covariance(i, place)).collect();
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

/// Expected improvement of a normal variable whose mean lies `lead` below the best.
fn improvement(lead: f64, deviation: f64) -> f64 {
    let z = lead / deviation;
    // The usual approximation of the normal distribution function, within 0.0002.
    let below = 0.5 * (1.0 + (0.797_884_560_8 * (z + 0.044_715 * z * z * z)).tanh());
    (deviation * (z * below + (-z * z / 2.0).exp() / (2.0 * PI).sqrt())).max(0.0)
}

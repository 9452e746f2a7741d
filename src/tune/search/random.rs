//! A seeded sample without replacement, the same share for every arm.

use super::super::{Arms, Point};
use super::exhaustive::Exhaustive;
use super::{History, Search};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeSet;

/// Draws per wanted point before the rest is found by walking the space instead.
const DRAWS: usize = 2000;

/// A random sample of the legal points.
pub struct Random {
    rng: StdRng,
    proposed: BTreeSet<Point>,
    rest: Exhaustive,
}

impl Random {
    /// A sample that `seed` fixes.
    pub fn new(seed: u64) -> Random {
        Random { rng: StdRng::seed_from_u64(seed), proposed: BTreeSet::new(), rest: Exhaustive::default() }
    }

    /// A legal point that is neither seen nor proposed, by rejection.
    fn draw(&mut self, arms: &Arms, seen: &History) -> Option<Point> {
        (0..DRAWS).find_map(|_| {
            let arm = self.rng.random_range(0..arms.0.len());
            let number = self.rng.random_range(0..arms.0[arm].size().max(1));
            let point = Point { arm, knobs: arms.0[arm].point(number) };
            let fresh = !seen.contains_key(&point) && !self.proposed.contains(&point);
            (fresh && arms.is_legal(&point)).then_some(point)
        })
    }

    /// The next fresh point of a walk, for spaces that are nearly used up.
    fn walk(&mut self, arms: &Arms, seen: &History) -> Option<Point> {
        loop {
            let point = self.rest.propose(arms, seen, 1).pop()?;
            if !self.proposed.contains(&point) {
                return Some(point);
            }
        }
    }
}

impl Search for Random {
    fn propose(&mut self, arms: &Arms, seen: &History, n: usize) -> Vec<Point> {
        let mut out = vec![];
        while out.len() < n && !arms.0.is_empty() {
            let Some(point) = self.draw(arms, seen).or_else(|| self.walk(arms, seen)) else { break };
            self.proposed.insert(point.clone());
            out.push(point);
        }
        out
    }
}

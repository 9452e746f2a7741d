//! A random sample for half of the trials, then the neighbours of the best points so far.

use super::super::{Arms, Point};
use super::random::Random;
use super::{History, Search};

/// Best points whose neighbours are tried in turn.
const PEAKS: usize = 3;

/// Random sample, then hill climbing.
pub struct Climb {
    sample: usize,
    random: Random,
}

impl Climb {
    /// Half of `trials` at random, fixed by `seed`.
    pub fn new(trials: usize, seed: u64) -> Climb {
        Climb { sample: trials / 2, random: Random::new(seed) }
    }
}

/// Untried neighbours of the best point, or of the next best where that has none left.
fn around_the_best(arms: &Arms, seen: &History, n: usize) -> Vec<Point> {
    let mut timed: Vec<(f64, &Point)> = seen.iter().filter_map(|(p, t)| Some(((*t)?, p))).collect();
    timed.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (_, peak) in timed.into_iter().take(PEAKS) {
        let mut near = arms.neighbours(peak);
        near.retain(|p| !seen.contains_key(p));
        near.truncate(n);
        if !near.is_empty() {
            return near;
        }
    }
    vec![]
}

impl Search for Climb {
    fn propose(&mut self, arms: &Arms, seen: &History, n: usize) -> Vec<Point> {
        if seen.len() >= self.sample {
            let near = around_the_best(arms, seen, n);
            if !near.is_empty() {
                return near;
            }
        }
        self.random.propose(arms, seen, n)
    }
}

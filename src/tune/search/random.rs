//! A seeded sample without replacement, the same share for every arm.

use super::super::{Arms, Point};
use super::{History, Search};
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

/// A random sample of the legal points.
pub struct Random {
    rng: StdRng,
    /// Shuffled places of points that are left, one list for each arm that has any; made on the first call.
    left: Option<Vec<Vec<usize>>>,
}

impl Random {
    /// A sample that `seed` fixes.
    pub fn new(seed: u64) -> Random {
        Random { rng: StdRng::seed_from_u64(seed), left: None }
    }

    fn shuffled(&mut self, arms: &Arms) -> Vec<Vec<usize>> {
        let points = arms.points();
        let of_arm = |arm| (0..points.len()).filter(|i| points[*i].arm == arm).collect::<Vec<usize>>();
        let mut lists: Vec<Vec<usize>> = (0..arms.list.len()).map(of_arm).collect();
        lists.iter_mut().for_each(|points| points.shuffle(&mut self.rng));
        lists
    }
}

impl Search for Random {
    fn propose(&mut self, arms: &Arms, seen: &History, n: usize) -> Vec<Point> {
        let mut left = self.left.take().unwrap_or_else(|| self.shuffled(arms));
        let mut out = vec![];
        while out.len() < n {
            left.retain(|points| !points.is_empty());
            if left.is_empty() {
                break;
            }
            let arm = self.rng.random_range(0..left.len());
            let next = left[arm].pop().map(|i| &arms.points()[i]);
            out.extend(next.filter(|p| !seen.contains_key(p)).cloned());
        }
        self.left = Some(left);
        out
    }

    fn learns(&self) -> bool {
        false
    }
}

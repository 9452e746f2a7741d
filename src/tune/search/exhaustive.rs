//! Every point, in the order of the tables.

use super::super::{Arms, Point};
use super::{History, Search};

/// Every legal point.
#[derive(Default)]
pub struct Exhaustive {
    /// Place of the next point in the list of legal ones.
    next: usize,
}

impl Search for Exhaustive {
    fn propose(&mut self, arms: &Arms, seen: &History, n: usize) -> Vec<Point> {
        let mut out = vec![];
        while out.len() < n
            && let Some(point) = arms.points().get(self.next)
        {
            self.next += 1;
            if !seen.contains_key(point) {
                out.push(point.clone());
            }
        }
        out
    }

    fn learns(&self) -> bool {
        false
    }
}

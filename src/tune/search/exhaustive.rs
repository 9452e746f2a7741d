//! Every point, in the order of the tables.

use super::super::{Arms, Point};
use super::{History, Search};

/// Every legal point.
#[derive(Default)]
pub struct Exhaustive {
    /// Number of the next point over all arms.
    next: u64,
}

impl Search for Exhaustive {
    fn propose(&mut self, arms: &Arms, seen: &History, n: usize) -> Vec<Point> {
        let mut out = vec![];
        while out.len() < n {
            let Some(point) = arms.point(self.next) else { break };
            self.next += 1;
            if arms.is_legal(&point) && !seen.contains_key(&point) {
                out.push(point);
            }
        }
        out
    }
}

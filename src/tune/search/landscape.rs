//! What searches know of the legal points before anything is measured: where each lies among the
//! others, and its prior. Made once for a function, however many searches look at it.

use super::super::{Point, prior};
use crate::rules::Space;
use crate::target::Target;
use std::collections::BTreeMap;

/// Points that are considered, best prior first: more would only take longer.
const POOL: usize = 4096;

/// The legal points, by their place in the list of them.
pub struct Landscape {
    /// Coordinates.
    pub at: Vec<Vec<f64>>,
    /// The arm of each.
    pub arm: Vec<usize>,
    /// Logarithm of the prior; 0 for all where there is none.
    pub prior: Vec<f64>,
    /// True where there is no prior.
    pub blind: bool,
    /// The places that are worth a look.
    pub pool: Vec<usize>,
    places: BTreeMap<Point, usize>,
}

impl Landscape {
    /// Looks at every point.
    pub fn of(spaces: &[Space], target: &Target, points: &[Point]) -> Landscape {
        let guess = |p: &Point| spaces[p.arm].outline(&p.knobs).map(|o| prior::ns(&o, target).ln());
        let guesses: Option<Vec<f64>> = points.iter().map(guess).collect();
        let guesses = guesses.filter(|g| g.iter().all(|x| x.is_finite()));
        let blind = guesses.is_none();
        let prior = guesses.unwrap_or_else(|| vec![0.0; points.len()]);
        let mut pool: Vec<usize> = (0..points.len()).collect();
        if !blind {
            pool.sort_by(|a, b| prior[*a].total_cmp(&prior[*b]));
            pool.truncate(POOL);
            pool.sort_unstable();
        }
        Landscape {
            at: points.iter().map(coordinates).collect(),
            arm: points.iter().map(|p| p.arm).collect(),
            prior,
            blind,
            pool,
            places: points.iter().enumerate().map(|(i, p)| (p.clone(), i)).collect(),
        }
    }

    /// The place of a point, if it is legal.
    pub fn place(&self, point: &Point) -> Option<usize> {
        self.places.get(point).copied()
    }

    /// The distance of two points of one arm, in doublings.
    pub fn distance(&self, a: usize, b: usize) -> f64 {
        let squares: f64 = self.at[a].iter().zip(&self.at[b]).map(|(x, y)| (x - y) * (x - y)).sum();
        squares.sqrt()
    }
}

fn coordinates(point: &Point) -> Vec<f64> {
    point.knobs.0.iter().map(|(name, value)| coordinate(name, *value)).collect()
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

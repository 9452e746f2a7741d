//! What searches know of the legal points before anything is measured: where each lies among the
//! others, and its prior. Made once for a function, however many searches look at it.

use super::super::{Arms, Point};
use crate::log::stats::median;
use crate::rules::prior;
use crate::rules::prior::learned::BY_HAND;
use rayon::prelude::*;
use std::collections::BTreeMap;

/// Points that are considered, best prior first: more would only take longer.
const POOL: usize = 4096;

/// The legal points, by their place in the list of them.
pub struct Landscape {
    /// Coordinates.
    pub at: Vec<Vec<f64>>,
    /// The arm of each.
    pub arm: Vec<usize>,
    /// Logarithm of the prior; of points in the pool put right by what measured candidates say, where there are such. A point of
    /// an arm without one is taken for a usual one of the others; 0 where no arm has any.
    pub prior: Vec<f64>,
    /// True for each arm without a prior.
    blind: Vec<bool>,
    /// The places that are worth a look.
    pub pool: Vec<usize>,
    places: BTreeMap<Point, usize>,
}

impl Landscape {
    /// Looks at every point.
    pub fn of(arms: &Arms) -> Landscape {
        let points = arms.points();
        let (mut prior, blind) = priors(arms);
        let (mut best, mut pool): (Vec<usize>, Vec<usize>) = (0..points.len()).partition(|i| !blind[points[*i].arm]);
        best.sort_by(|a, b| prior[*a].total_cmp(&prior[*b]));
        best.truncate(POOL);
        // In the unit of a function; what the prior says of the best makes nanoseconds of it.
        let unit = best.first().map_or(0.0, |i| (1.0 - BY_HAND) * prior[*i]);
        let said = |i: &usize| Some((*i, unit + arms.of(&points[*i]).log_time_in_order(&points[*i].knobs)?));
        let said: Vec<(usize, f64)> = best.par_iter().filter_map(said).collect();
        said.into_iter().for_each(|(i, ns)| prior[i] = ns);
        pool.extend(best);
        pool.sort_unstable();
        Landscape {
            at: points.iter().map(coordinates).collect(),
            arm: points.iter().map(|p| p.arm).collect(),
            prior,
            blind,
            pool,
            places: points.iter().enumerate().map(|(i, p)| (p.clone(), i)).collect(),
        }
    }

    /// True where nothing tells a point from the others of its arm.
    pub fn is_blind(&self, place: usize) -> bool {
        self.blind[self.arm[place]]
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

/// The prior of each point, and which arms have none.
fn priors(arms: &Arms) -> (Vec<f64>, Vec<bool>) {
    let guess = |p: &Point| arms.of(p).outline(&p.knobs).map(|o| prior::ns(&o, &arms.target).ln());
    let guesses: Vec<Option<f64>> = arms.points().iter().map(|p| guess(p).filter(|x| x.is_finite())).collect();
    let mut blind = vec![false; arms.list.len()];
    let all = || arms.points().iter().zip(&guesses);
    all().for_each(|(p, guess)| blind[p.arm] |= guess.is_none());
    let sighted: Vec<f64> = all().filter(|(p, _)| !blind[p.arm]).filter_map(|(_, guess)| *guess).collect();
    let usual = median(&sighted).unwrap_or(0.0);
    let prior = all().map(|(p, guess)| guess.filter(|_| !blind[p.arm]).unwrap_or(usual)).collect();
    (prior, blind)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::made_up::{made_up, outlined};
    use crate::rules::{Knob, LaunchOutline, Outline, Space};
    use crate::target::{HostCpu, Target};

    #[test]
    fn a_rule_without_outlines_is_a_usual_one_and_blinds_no_other() {
        let arms = two_rules("cuda:sm_80");
        let land = Landscape::of(&arms);
        let (sighted, blind): (Vec<usize>, Vec<usize>) = (0..12).partition(|i| !land.is_blind(*i));
        assert_eq!((sighted.len(), blind.len(), land.pool.len()), (9, 3, 12));
        assert!(sighted.windows(2).all(|w| land.prior[w[0]] > land.prior[w[1]]), "{:?}", land.prior);
        assert!(blind.iter().all(|i| land.prior[*i] == land.prior[sighted[4]]), "{:?}", land.prior);
    }

    #[test]
    fn measured_candidates_put_the_prior_right_where_there_are_such() {
        let arms = two_rules("cuda:sm_90a");
        let land = Landscape::of(&arms);
        let points = arms.points();
        let best = points[..9].iter().filter_map(|p| arms.guess_ns(p)).fold(f64::INFINITY, f64::min).ln();
        for i in (0..12).filter(|i| !land.is_blind(*i)) {
            let said = arms.of(&points[i]).log_time(&points[i].knobs).expect("there are trees");
            assert!((land.prior[i] - said - (1.0 - BY_HAND) * best).abs() < 1e-9);
        }
    }

    /// One with outlines, and one without.
    fn two_rules(target: &str) -> Arms {
        let space = |form, n: i64| {
            Space::new(form, 1, vec![Knob { name: "x".into(), values: (0..n).collect(), ..Knob::default() }])
        };
        let target = Target::parse(target, &HostCpu::default()).unwrap();
        let reads = |k: &crate::rules::Knobs| {
            let (read, blocks) = ((9 - k.get("x")) << 28, 1 << 12);
            Some(Outline::one(LaunchOutline {
                read,
                blocks,
                threads: 256,
                in_flight: 16,
                load_bytes: 16,
                steps: 8,
                ..LaunchOutline::default()
            }))
        };
        let list = vec![outlined(space("fallback.cuda", 9), &target, reads), made_up(space("blind", 3), &target)];
        Arms::new(list, target)
    }
}

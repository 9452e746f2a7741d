//! Search strategies: which points to try next. To add one: a file, a line in [`by_name`].

mod exhaustive;
mod guided;
mod landscape;
mod proposer;
mod random;

pub use landscape::Landscape;
pub use proposer::{Next, Pace, Proposer, Stop};

use super::{Arms, Point};
use crate::target::nearest;
use std::collections::BTreeMap;

/// Times so far in nanoseconds, by point; `None` for points that failed or are not timed yet.
pub type History = BTreeMap<Point, Option<f64>>;

/// A strategy. A [`Proposer`] asks it again and again while earlier points are still being measured.
pub trait Search: Send {
    /// Up to `n` legal points that are not in `seen`; none when there is nothing left to try.
    fn propose(&mut self, arms: &Arms, seen: &History, n: usize) -> Vec<Point>;

    /// False where what it proposes does not depend on times.
    fn learns(&self) -> bool {
        true
    }
}

/// Names of the strategies, the usual one first.
pub const NAMES: [&str; 3] = ["guided", "random", "exhaustive"];

/// The strategy of that name, fixed by `seed`.
///
/// # Errors
/// A sentence with the nearest name.
pub fn by_name(name: &str, seed: u64) -> Result<Box<dyn Search>, String> {
    match name {
        "guided" => Ok(Box::new(guided::Guided::new(seed))),
        "random" => Ok(Box::new(random::Random::new(seed))),
        "exhaustive" => Ok(Box::new(exhaustive::Exhaustive::default())),
        _ => Err(match nearest(name, NAMES) {
            Some(near) => format!("unknown search \"{name}\"; did you mean \"{near}\"?"),
            None => format!("unknown search \"{name}\"; the searches are {}", NAMES.join(", ")),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::space::tests::arms;
    use super::*;

    /// Lets a strategy try up to `trials` points whose time is `time(point)`; returns them in order.
    fn drive(name: &str, seed: u64, trials: usize, time: impl Fn(&Point) -> f64) -> Vec<Point> {
        let arms = arms();
        let mut search = by_name(name, seed).unwrap();
        let mut order = arms.defaults();
        let mut seen: History = order.iter().map(|p| (p.clone(), Some(time(p)))).collect();
        while order.len() < trials {
            let batch = search.propose(&arms, &seen, 2.min(trials - order.len()));
            if batch.is_empty() {
                break;
            }
            for p in batch {
                assert!(arms.of(&p).space.check(&p.knobs).is_ok(), "{p}");
                assert!(seen.insert(p.clone(), Some(time(&p))).is_none(), "{p} twice");
                order.push(p);
            }
        }
        order
    }

    #[test]
    fn each_strategy_tries_every_point_once_when_it_may() {
        for name in NAMES {
            assert_eq!(drive(name, 7, 1000, |p| p.arm as f64).len(), 10, "{name}");
        }
    }

    #[test]
    fn a_seed_fixes_the_order() {
        for name in ["guided", "random"] {
            let run = |seed| drive(name, seed, 6, |p| p.arm as f64);
            assert_eq!(run(3), run(3));
            assert!(name != "random" || (0..5).any(|s| run(s) != run(3)), "{name}");
        }
    }

    #[test]
    fn guided_search_finds_the_optimum() {
        let time = |p: &Point| if p.arm == 1 { 99.0 } else { (p.knobs.get("x") - 6).abs() as f64 };
        let found = (0..20).filter(|s| drive("guided", *s, 8, time).iter().any(|p| time(p) == 0.0)).count();
        assert!(found >= 18, "{found} of 20");
    }

    #[test]
    fn an_unknown_name_suggests_the_nearest() {
        assert_eq!(by_name("randm", 0).err().unwrap(), "unknown search \"randm\"; did you mean \"random\"?");
    }
}

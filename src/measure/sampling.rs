//! How many samples to take: warm-up, early stop, early drop.

use crate::backend::RunError;
use crate::log::stats::Median;
use serde::{Deserialize, Serialize};

/// Rules for taking samples.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Sampling {
    /// Samples thrown away first.
    pub warmup: usize,
    /// Fewest samples of a candidate that is not dropped.
    pub min: usize,
    /// Most samples.
    pub max: usize,
    /// Nanoseconds after which `min` samples are enough, however noisy.
    pub budget_ns: f64,
    /// The samples end when half the median's 95 % interval falls below this share of the median.
    pub settled: f64,
    /// After this many samples a candidate may be dropped ...
    pub drop_after: usize,
    /// ... when even its fastest is this many times the best.
    pub drop_ratio: f64,
}

impl Sampling {
    /// For graphs of many runs.
    pub fn graph() -> Sampling {
        let (budget_ns, settled) = (150e6, 0.002);
        Sampling { warmup: 1, min: 7, max: 25, budget_ns, settled, drop_after: 3, drop_ratio: 1.5 }
    }

    /// For single runs between events: the forty samples that peers get.
    pub fn events() -> Sampling {
        let (budget_ns, settled) = (500e6, 0.0);
        Sampling { warmup: 3, min: 40, max: 40, budget_ns, settled, drop_after: 3, drop_ratio: 1.5 }
    }

    /// For the CPU, where the system interferes.
    pub fn cpu() -> Sampling {
        let (budget_ns, settled) = (300e6, 0.005);
        Sampling { warmup: 2, min: 11, max: 101, budget_ns, settled, drop_after: 3, drop_ratio: 1.5 }
    }
}

/// Samples, and whether the candidate was dropped.
pub struct Taken {
    /// In the order taken.
    pub samples: Vec<f64>,
    /// Far behind the best.
    pub dropped: bool,
}

/// Takes samples. `now`: a monotonic clock in nanoseconds; `best`: the best median so far.
///
/// # Errors
/// The first error of `sample`.
pub fn take(
    rules: &Sampling,
    best: Option<f64>,
    now: &mut dyn FnMut() -> f64,
    sample: &mut dyn FnMut() -> Result<f64, RunError>,
) -> Result<Taken, RunError> {
    let begin = now();
    for _ in 0..rules.warmup {
        sample()?;
        // A run that long is warm.
        if now() - begin > rules.budget_ns {
            break;
        }
    }
    let start = now();
    let mut samples = vec![];
    loop {
        samples.push(sample()?);
        let fastest = samples.iter().copied().fold(f64::INFINITY, f64::min);
        if samples.len() == rules.drop_after && best.is_some_and(|b| fastest > rules.drop_ratio * b) {
            return Ok(Taken { samples, dropped: true });
        }
        if is_enough(rules, &samples, now() - start) {
            return Ok(Taken { samples, dropped: false });
        }
    }
}

fn is_enough(rules: &Sampling, samples: &[f64], elapsed: f64) -> bool {
    let n = samples.len();
    let settled = || Median::of(samples).is_some_and(|m| m.uncertainty() < rules.settled);
    // A run of seconds is not repeated for the sake of the statistics.
    let long = n >= 3 && elapsed > 8.0 * rules.budget_ns;
    n >= rules.max || long || (n >= rules.min && (elapsed > rules.budget_ns || settled()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::RunFailure;

    /// Takes samples from a list (the last one repeats) on a clock that they advance.
    fn with(rules: &Sampling, best: Option<f64>, list: &[f64]) -> Taken {
        let clock = std::cell::Cell::new(0.0);
        let mut at = 0;
        let mut sample = || {
            let ns = list[at.min(list.len() - 1)];
            at += 1;
            clock.set(clock.get() + ns);
            Ok(ns)
        };
        take(rules, best, &mut || clock.get(), &mut sample).unwrap()
    }

    const RULES: Sampling =
        Sampling { warmup: 1, min: 5, max: 9, budget_ns: 1e6, settled: 0.01, drop_after: 3, drop_ratio: 1.5 };

    #[test]
    fn steady_samples_end_at_the_minimum_and_the_warm_up_does_not_count() {
        let taken = with(&RULES, None, &[900.0, 10.0]);
        assert_eq!((taken.samples, taken.dropped), (vec![10.0; 5], false));
    }

    #[test]
    fn noisy_samples_go_on_to_the_maximum_or_the_budget() {
        let noise: Vec<f64> = (0..20).map(|i| 100.0 + f64::from(i * 37 % 20)).collect();
        assert_eq!(with(&RULES, None, &noise).samples.len(), 9);
        let slow: Vec<f64> = noise.iter().map(|n| n * 2000.0).collect();
        assert_eq!(with(&RULES, None, &slow).samples.len(), 5);
    }

    #[test]
    fn a_slow_candidate_is_dropped_after_three() {
        let taken = with(&RULES, Some(10.0), &[16.0]);
        assert_eq!((taken.samples.len(), taken.dropped), (3, true));
        assert!(!with(&RULES, Some(10.0), &[9.0, 30.0, 30.0, 14.0]).dropped, "one fast sample saves it");
        assert!(!with(&RULES, Some(10.0), &[15.0]).dropped);
    }

    #[test]
    fn very_long_runs_stop_at_three_and_errors_pass() {
        assert_eq!(with(&RULES, None, &[1e9]).samples.len(), 3);
        let fail = || Err(RunError::new(RunFailure::LaunchFailed, "no"));
        assert!(take(&RULES, None, &mut || 0.0, &mut || fail()).is_err());
    }
}

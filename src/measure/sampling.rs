//! How many samples to take: warm-up until they agree, early stop, early drop.

use crate::log::stats::Median;
use crate::runner::RunError;
use serde::{Deserialize, Serialize};

/// Rules for taking samples.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Sampling {
    /// A candidate whose very first sample is this many times the best is dropped.
    pub hopeless: f64,
    /// The warm-up ends when two samples in a row differ by no more than this share ...
    pub agree: f64,
    /// ... or after this many samples ...
    pub warmup: usize,
    /// ... or this many nanoseconds. Its last sample counts, the others don't.
    pub warmup_ns: f64,
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
    /// For graphs of many runs, each of which is a mean already: a quiet candidate takes four graphs,
    /// a slow one the two of its warm-up or one.
    pub fn graph() -> Sampling {
        let (warmup, warmup_ns, budget_ns) = (6, 30e6, 40e6);
        let (min, max, settled, drop_after, drop_ratio) = (3, 25, 0.005, 1, 1.4);
        Sampling { hopeless: 2.0, agree: 0.02, warmup, warmup_ns, min, max, budget_ns, settled, drop_after, drop_ratio }
    }

    /// For single runs between events: the forty samples that peers get.
    pub fn events() -> Sampling {
        let (warmup, warmup_ns, budget_ns) = (10, 100e6, 500e6);
        let (min, max, settled, drop_after, drop_ratio) = (40, 40, 0.0, 3, 1.5);
        Sampling { hopeless: 3.0, agree: 0.02, warmup, warmup_ns, min, max, budget_ns, settled, drop_after, drop_ratio }
    }

    /// For the CPU, where the system interferes.
    pub fn cpu() -> Sampling {
        let (warmup, warmup_ns, budget_ns) = (6, 100e6, 300e6);
        let (min, max, settled, drop_after, drop_ratio) = (11, 101, 0.005, 3, 1.5);
        Sampling { hopeless: 4.0, agree: 0.02, warmup, warmup_ns, min, max, budget_ns, settled, drop_after, drop_ratio }
    }
}

/// What the warm-up found.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Warm {
    /// The device is warm; the sample counts.
    Ready(f64),
    /// The first sample is far behind the best already.
    Hopeless(f64),
}

/// Takes samples until two in a row agree. `now`: a monotonic clock in nanoseconds; `best`: the best
/// median so far.
///
/// # Errors
/// The first error of `sample`.
pub fn warm_up(
    rules: &Sampling,
    best: Option<f64>,
    now: &mut dyn FnMut() -> f64,
    sample: &mut dyn FnMut() -> Result<f64, RunError>,
) -> Result<Warm, RunError> {
    let begin = now();
    let mut last = sample()?;
    if best.is_some_and(|best| last > rules.hopeless * best) {
        return Ok(Warm::Hopeless(last));
    }
    for _ in 1..rules.warmup {
        if now() - begin > rules.warmup_ns {
            break;
        }
        let next = sample()?;
        let agree = (next - last).abs() <= rules.agree * last.min(next);
        last = next;
        if agree {
            break;
        }
    }
    Ok(Warm::Ready(last))
}

/// Samples, and whether the candidate was dropped.
pub struct Taken {
    /// In the order taken.
    pub samples: Vec<f64>,
    /// Far behind the best.
    pub dropped: bool,
}

/// Takes samples of something warm, after `first` if there is one. `now` and `best` as for
/// [`warm_up`].
///
/// # Errors
/// The first error of `sample`.
pub fn take(
    rules: &Sampling,
    best: Option<f64>,
    first: Option<f64>,
    now: &mut dyn FnMut() -> f64,
    sample: &mut dyn FnMut() -> Result<f64, RunError>,
) -> Result<Taken, RunError> {
    let start = now();
    let mut samples: Vec<f64> = first.into_iter().collect();
    loop {
        let fastest = samples.iter().copied().fold(f64::INFINITY, f64::min);
        if samples.len() == rules.drop_after && best.is_some_and(|b| fastest > rules.drop_ratio * b) {
            return Ok(Taken { samples, dropped: true });
        }
        if is_enough(rules, &samples, now() - start) {
            return Ok(Taken { samples, dropped: false });
        }
        samples.push(sample()?);
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
    use crate::runner::RunFailure;

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
        let mut now = || clock.get();
        match warm_up(rules, best, &mut now, &mut sample).unwrap() {
            Warm::Hopeless(ns) => Taken { samples: vec![ns], dropped: true },
            Warm::Ready(first) => take(rules, best, Some(first), &mut now, &mut sample).unwrap(),
        }
    }

    const RULES: Sampling = Sampling {
        hopeless: 2.0,
        agree: 0.02,
        warmup: 4,
        warmup_ns: 1e6,
        min: 5,
        max: 9,
        budget_ns: 1e6,
        settled: 0.01,
        drop_after: 3,
        drop_ratio: 1.5,
    };

    #[test]
    fn the_warm_up_ends_when_two_agree_and_only_its_last_sample_counts() {
        let taken = with(&RULES, None, &[900.0, 10.0]);
        assert_eq!((taken.samples, taken.dropped), (vec![10.0; 5], false));
        let taken = with(&RULES, None, &[10.0, 10.1, 10.0]);
        assert_eq!(taken.samples, [10.1, 10.0, 10.0, 10.0, 10.0]);
        // What never agrees is warm after four samples; what takes long, after one.
        let restless = [10.0, 20.0, 10.0, 21.0, 10.0, 10.0];
        assert_eq!(with(&RULES, None, &restless).samples[..2], [21.0, 10.0]);
        assert_eq!(with(&RULES, None, &[2e6, 2.5e6, 2.5e6]).samples[0], 2e6);
    }

    #[test]
    fn noisy_samples_go_on_to_the_maximum_or_the_budget() {
        let noise: Vec<f64> = (0..20).map(|i| 100.0 + f64::from(i * 37 % 20)).collect();
        assert_eq!(with(&RULES, None, &noise).samples.len(), 9);
        let slow: Vec<f64> = noise.iter().map(|n| n * 2500.0).collect();
        assert_eq!(with(&RULES, None, &slow).samples.len(), 5);
    }

    #[test]
    fn a_slow_candidate_is_dropped_after_three_and_a_hopeless_one_at_once() {
        let taken = with(&RULES, Some(10.0), &[16.0]);
        assert_eq!((taken.samples.len(), taken.dropped), (3, true));
        let taken = with(&RULES, Some(10.0), &[20.1, 1.0]);
        assert_eq!((taken.samples, taken.dropped), (vec![20.1], true));
        assert!(!with(&RULES, Some(10.0), &[19.0, 18.9, 16.0, 14.0]).dropped, "one fast sample saves it");
        assert!(!with(&RULES, Some(10.0), &[15.0]).dropped);
    }

    #[test]
    fn very_long_runs_stop_at_three_and_errors_pass() {
        assert_eq!(with(&RULES, None, &[1e9]).samples.len(), 3);
        let fail = || Err(RunError::new(RunFailure::LaunchFailed, "no"));
        assert!(warm_up(&RULES, None, &mut || 0.0, &mut || fail()).is_err());
        assert!(take(&RULES, None, None, &mut || 0.0, &mut || fail()).is_err());
    }
}

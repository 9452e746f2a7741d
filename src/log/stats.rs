//! Statistics of samples: medians, how sure they are, and differences of samples taken by turns.

/// A median with its 95 % interval, in the unit of the samples.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Median {
    /// The median.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Median {
    /// The median of samples and its interval by order statistics, which asks nothing of their
    /// distribution; `None` without samples. Up to five samples the interval is their whole range.
    pub fn of(samples: &[f64]) -> Option<Median> {
        let sorted = sorted(samples);
        let n = sorted.len();
        let value = middle(&sorted)?;
        // How many of n samples lie below the median is binomial; this many or fewer do in 2.5 %.
        let below = (n as f64 / 2.0 - 0.5 - 0.98 * (n as f64).sqrt()).floor().max(0.0) as usize;
        Some(Median { value, low: sorted[below], high: sorted[n - 1 - below] })
    }

    /// Half the interval over the median.
    pub fn uncertainty(&self) -> f64 {
        (self.high - self.low) / 2.0 / self.value
    }
}

/// How much slower one series is than another, as a share of the other: 0.01 is one percent.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Paired {
    /// Median of the differences turn by turn.
    pub difference: f64,
    /// Lower end of its 95 % interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Paired {
    /// True when the first series can't be told to be slower: by no more than `band`, or by no more
    /// than chance.
    pub fn ties(&self, band: f64) -> bool {
        self.difference <= band || self.low <= 0.0
    }
}

/// Compares two series whose samples were taken turn by turn: what disturbs a turn disturbs both and
/// cancels. `None` unless they are equally long and not empty.
pub fn paired(a: &[f64], b: &[f64]) -> Option<Paired> {
    if a.len() != b.len() {
        return None;
    }
    let differences: Vec<f64> = a.iter().zip(b).map(|(a, b)| a / b - 1.0).collect();
    let Median { value, low, high } = Median::of(&differences)?;
    Some(Paired { difference: value, low, high })
}

/// How many times as fast as `a` series `b` is, whose samples were taken turn by turn. `None` as for [`paired`].
pub fn speedup(a: &[f64], b: &[f64]) -> Option<Median> {
    if a.len() != b.len() {
        return None;
    }
    Median::of(&a.iter().zip(b).map(|(a, b)| a / b).collect::<Vec<_>>())
}

/// The median; `None` without samples.
pub fn median(samples: &[f64]) -> Option<f64> {
    middle(&sorted(samples))
}

/// Spread of samples: 1.4826 times the median distance from the median, over the median. For normal
/// noise this is the standard deviation, but outliers don't count.
pub fn spread(samples: &[f64]) -> Option<f64> {
    let m = median(samples)?;
    let distances: Vec<f64> = samples.iter().map(|s| (s - m).abs()).collect();
    Some(1.4826 * median(&distances)? / m)
}

/// Parts of a series whose medians show drift.
const PARTS: usize = 5;

/// How much a series wanders: the standard deviation of the medians of five parts, taken one after the other, over the
/// median. Clocks that follow power and temperature move neighbouring samples alike, so that the interval of the median,
/// which takes them for independent, is too narrow for another run. 0 for fewer than ten samples.
pub fn drift(samples: &[f64]) -> f64 {
    let n = samples.len();
    let Some(all) = median(samples).filter(|_| n >= 2 * PARTS) else { return 0.0 };
    let of = |i: usize| median(&samples[i * n / PARTS..(i + 1) * n / PARTS]).map_or(0.0, |m| m / all - 1.0);
    let parts: Vec<f64> = (0..PARTS).map(of).collect();
    let mean = parts.iter().sum::<f64>() / PARTS as f64;
    (parts.iter().map(|p| (p - mean).powi(2)).sum::<f64>() / (PARTS - 1) as f64).sqrt()
}

/// The sample that a share of them (0 to 1) does not exceed; `None` without samples.
pub fn quantile(samples: &[f64], share: f64) -> Option<f64> {
    let sorted = sorted(samples);
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.clamp(1, sorted.len().max(1)) - 1).copied()
}

/// Digits of a median that steps of samples are of.
const DIGITS: usize = 5;

/// Samples in steps of what the fifth digit of their median counts, less than a ten-thousandth of it: far below any
/// noise, and short as text.
pub fn steps(samples: &[f64]) -> Vec<f64> {
    let Some(middle) = median(samples).filter(|m| m.is_finite() && *m > 0.0) else { return samples.to_vec() };
    let places = DIGITS as i32 - 1 - middle.log10().floor() as i32;
    // A power of ten with a negative exponent is not exact; dividing by one with a positive exponent is.
    let step = |s: &f64| match places {
        0.. => (s * 10f64.powi(places)).round() / 10f64.powi(places),
        _ => (s / 10f64.powi(-places)).round() * 10f64.powi(-places),
    };
    samples.iter().map(step).collect()
}

/// At most so many of the samples, of evenly spread ranks with the median among them, in the order taken: their median
/// and spread are those of all, and they claim to be no surer than so many are.
pub fn evenly(samples: &[f64], most: usize) -> Vec<f64> {
    let n = samples.len();
    if n <= most {
        return samples.to_vec();
    }
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|a, b| samples[*a].total_cmp(&samples[*b]));
    let mut kept: Vec<usize> = (0..most).map(|i| order[(2 * i + 1) * n / (2 * most)]).collect();
    kept.sort_unstable();
    kept.into_iter().map(|i| samples[i]).collect()
}

/// The number with so many digits; `None` for what is not finite.
pub fn rounded(x: f64, digits: usize) -> Option<f64> {
    x.is_finite().then(|| format!("{x:.0$e}", digits.saturating_sub(1)).parse().expect("a printed float parses"))
}

fn sorted(samples: &[f64]) -> Vec<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

fn middle(sorted: &[f64]) -> Option<f64> {
    let n = sorted.len();
    match n {
        0 => None,
        n if n % 2 == 1 => Some(sorted[n / 2]),
        n => Some((sorted[n / 2 - 1] + sorted[n / 2]) / 2.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upto(n: i32) -> Vec<f64> {
        (0..n).map(f64::from).collect()
    }

    #[test]
    fn medians_spread_and_quantiles() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(spread(&[10.0, 10.0, 10.0, 99.0, 10.0]), Some(0.0));
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!((quantile(&upto(100), 0.99), quantile(&upto(100), 1.0)), (Some(98.0), Some(99.0)));
        assert_eq!((quantile(&[7.0], 0.0), quantile(&upto(3), 0.5)), (Some(7.0), Some(1.0)));
    }

    /// The ranks of published tables of the sign test.
    #[test]
    fn intervals_have_the_ranks_of_the_binomial_distribution() {
        let ranks = |n| Median::of(&upto(n)).map(|m| (m.low, m.high));
        for (n, low) in [(1, 0.0), (5, 0.0), (6, 0.0), (9, 1.0), (12, 2.0), (25, 7.0), (40, 13.0), (100, 39.0)] {
            assert_eq!(ranks(n), Some((low, f64::from(n) - 1.0 - low)), "{n} samples");
        }
        assert_eq!(Median::of(&upto(100)).map(|m| m.value), Some(49.5));
    }

    #[test]
    fn a_series_that_wanders_drifts() {
        let noise = |i: i32| 100.0 + f64::from(i * 7 % 5) / 10.0;
        let steady: Vec<f64> = (0..45).map(noise).collect();
        let wandering: Vec<f64> = (0..45).map(|i| noise(i) * (1.0 + 0.05 * (f64::from(i) / 10.0).sin())).collect();
        assert!(drift(&steady) < 0.001 && (0.02..0.08).contains(&drift(&wandering)), "{}", drift(&wandering));
        assert_eq!(drift(&wandering[..9]), 0.0);
    }

    #[test]
    fn drift_that_both_share_cancels() {
        let drift: Vec<f64> = (0..20).map(|i| 100.0 + 3.0 * f64::from(i)).collect();
        let slower: Vec<f64> = drift.iter().map(|ns| ns * 1.03).collect();
        let found = paired(&slower, &drift).unwrap();
        assert!((found.difference - 0.03).abs() < 1e-9 && found.high - found.low < 1e-9, "{found:?}");
        assert!(!found.ties(0.02) && found.ties(0.04));
        let back = paired(&drift, &slower).unwrap();
        assert!(back.difference < -0.029 && back.ties(0.02));
        assert_eq!((paired(&drift, &drift[1..]), paired(&[], &[])), (None, None));
        let times = speedup(&slower, &drift).unwrap();
        assert!((times.value - 1.03).abs() < 1e-9 && times.high - times.low < 1e-9, "{times:?}");
        assert_eq!((speedup(&drift, &drift[1..]), speedup(&[], &[])), (None, None));
    }

    #[test]
    fn what_may_be_chance_is_a_tie() {
        let base = [100.0; 9];
        let noisy = [130.0, 90.0, 128.0, 91.0, 104.0, 95.0, 131.0, 99.0, 129.0];
        let found = paired(&noisy, &base).unwrap();
        assert!(found.difference > 0.03 && found.low < 0.0 && found.ties(0.02), "{found:?}");
    }
}

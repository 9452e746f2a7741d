//! Statistics of samples: medians and how sure they are.

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
    /// The median of samples and its interval by order statistics; `None` without samples. Up to
    /// five samples the interval is their whole range.
    pub fn of(samples: &[f64]) -> Option<Median> {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        let value = middle(&sorted)?;
        // The ranks n/2 -+ 0.98 sqrt(n) hold the median with 95 %.
        let reach = 0.98 * (n as f64).sqrt();
        let low = (n as f64 / 2.0 - reach).floor().max(0.0) as usize;
        let high = ((n as f64 / 2.0 + reach).ceil() as usize).min(n - 1);
        Some(Median { value, low: sorted[low], high: sorted[high] })
    }

    /// Half the interval over the median.
    pub fn uncertainty(&self) -> f64 {
        (self.high - self.low) / 2.0 / self.value
    }

    /// True when the two can't be told apart: within 2 % of each other or within the joint interval.
    pub fn ties(&self, other: &Median) -> bool {
        let apart = (self.value - other.value).abs();
        let half = |m: &Median| (m.high - m.low) / 2.0;
        let joint = (half(self).powi(2) + half(other).powi(2)).sqrt();
        apart <= (0.02 * self.value.min(other.value)).max(joint)
    }
}

/// The median; `None` without samples.
pub fn median(samples: &[f64]) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    middle(&sorted)
}

fn middle(sorted: &[f64]) -> Option<f64> {
    let n = sorted.len();
    match n {
        0 => None,
        n if n % 2 == 1 => Some(sorted[n / 2]),
        n => Some((sorted[n / 2 - 1] + sorted[n / 2]) / 2.0),
    }
}

/// Spread of samples: 1.4826 times the median distance from the median, over the median. For normal
/// noise this is the standard deviation, but outliers don't count.
pub fn spread(samples: &[f64]) -> Option<f64> {
    let m = median(samples)?;
    let distances: Vec<f64> = samples.iter().map(|s| (s - m).abs()).collect();
    Some(1.4826 * median(&distances)? / m)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_spread() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(spread(&[10.0, 10.0, 10.0, 99.0, 10.0]), Some(0.0));
        let m = Median::of(&(0..100).map(f64::from).collect::<Vec<_>>()).unwrap();
        assert_eq!((m.value, m.low, m.high), (49.5, 40.0, 60.0));
    }

    #[test]
    fn ties_are_two_percent_or_the_noise() {
        let sharp = |value: f64| Median { value, low: value, high: value };
        assert!(sharp(100.0).ties(&sharp(101.9)));
        assert!(!sharp(100.0).ties(&sharp(102.1)));
        let noisy = |value: f64| Median { value, low: value - 5.0, high: value + 5.0 };
        assert!(noisy(100.0).ties(&noisy(107.0)));
        assert!(!noisy(100.0).ties(&noisy(108.0)));
    }
}

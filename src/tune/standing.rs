//! How the default of a function stands against the best that a log knows: what the prior is judged by. Needs no device.

use super::replay::Replay;
use super::{Arms, Point};

/// The default of one function against a log.
#[derive(Clone, PartialEq, Debug)]
pub struct Standing {
    /// Candidate 0.
    pub default: Point,
    /// The best point of the log.
    pub best: Point,
    /// Time of the default over that of the best; `None` where the log knows no time of it.
    pub ratio: Option<f64>,
    /// The same of the measured point of which the prior promises most, which every log knows; `None` where
    /// no measured point has an outline.
    pub among: Option<f64>,
    /// Points that have a time.
    pub measured: usize,
}

impl Standing {
    /// Of the function whose arms these are; `None` where the log holds no time.
    pub fn of(arms: &Arms, replay: &Replay) -> Option<Standing> {
        let default = arms.defaults().into_iter().next()?;
        let (best, best_ns) = replay.timed().min_by(|a, b| a.1.total_cmp(&b.1))?;
        let promised = replay.timed().filter_map(|(p, ns)| Some((arms.guess_ns(p)?, ns)));
        let among = promised.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, ns)| ns / best_ns);
        Some(Standing {
            ratio: replay.ns(&default).map(|ns| ns / best_ns),
            best: best.clone(),
            among,
            measured: replay.measured(),
            default,
        })
    }
}

/// Shares of functions, and the mean of their speeds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Shares {
    /// Functions.
    pub functions: usize,
    /// Geometric mean of the speed over that of the best.
    pub speed: f64,
    /// The worst of them.
    pub worst: f64,
    /// Share that takes at most 2, 10, 15 and 25 % longer than the best.
    pub within: [f64; 4],
}

/// What [`Shares::within`] counts.
pub const WITHIN: [f64; 4] = [0.02, 0.10, 0.15, 0.25];

impl Shares {
    /// Of times over those of the best; `None` where there are none.
    pub fn of(ratios: &[f64]) -> Option<Shares> {
        let n = ratios.len();
        let worst = ratios.iter().copied().max_by(f64::total_cmp)?;
        let speed = (-ratios.iter().map(|r| r.ln()).sum::<f64>() / n as f64).exp();
        let within = WITHIN.map(|w| ratios.iter().filter(|r| **r <= 1.0 + w).count() as f64 / n as f64);
        Some(Shares { functions: n, speed, worst: 1.0 / worst, within })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_count_what_is_near_the_best() {
        assert_eq!(Shares::of(&[]), None);
        let s = Shares::of(&[1.0, 1.05, 1.12, 2.0]).unwrap();
        assert_eq!((s.functions, s.worst, s.within), (4, 0.5, [0.25, 0.5, 0.75, 0.75]));
        assert!((s.speed.powi(4) - 1.0 / (1.05 * 1.12 * 2.0)).abs() < 1e-12);
    }
}

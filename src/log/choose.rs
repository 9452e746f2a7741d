//! Which candidate wins. Same records, same choice, whatever their order.
//!
//! The fastest median sets a tie band: 2 %, or the 95 % interval of the difference where that is
//! wider. Finalists of one round of one run were measured turn by turn, so that their differences are taken turn
//! by turn too, and what disturbed both cancels. Inside the band fewer launches win, each of which costs more outside of a graph
//! than in one; then the default, then fewer registers, then less shared memory, then the hash.

use super::stats::{Paired, median, paired};
use super::{CandidateId, Outcome, Record};
use std::collections::{BTreeMap, BTreeSet};

/// Candidates within this share of the fastest are as good as it: fixed order decides.
pub const TIE: f64 = 0.02;

/// The time of one candidate.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Timing<'a> {
    /// The record that the time is from.
    pub record: &'a Record,
    /// Median of its samples.
    pub median_ns: f64,
    /// Standard error of that median, from the spread of the samples.
    pub error_ns: f64,
}

impl<'a> Timing<'a> {
    fn of(record: &'a Record) -> Option<Timing<'a>> {
        // No run takes no time: such samples are broken, or somebody wrote them.
        let is_time = |ns: &f64| ns.is_finite() && *ns > 0.0;
        let median_ns = median(&record.samples_ns).filter(|_| record.samples_ns.iter().all(is_time))?;
        let deviations: Vec<f64> = record.samples_ns.iter().map(|s| (s - median_ns).abs()).collect();
        // 1.4826 turns the median deviation into a standard deviation, 1.2533 that of a mean into
        // that of a median.
        let sigma = 1.4826 * median(&deviations)?;
        Some(Timing { record, median_ns, error_ns: 1.2533 * sigma / (deviations.len() as f64).sqrt() })
    }

    /// True when the difference to a faster one is within the tie band.
    pub fn ties_with(&self, best: &Timing<'_>) -> bool {
        if let Some(turns) = self.turns_with(best) {
            return turns.ties(TIE);
        }
        let interval = 1.96 * self.error_ns.hypot(best.error_ns);
        self.median_ns - best.median_ns <= interval.max(TIE * best.median_ns)
    }

    /// The difference turn by turn, where the two were measured so.
    fn turns_with(&self, best: &Timing<'_>) -> Option<Paired> {
        let (a, b) = (self.record, best.record);
        if a.took_turns_with(b) { paired(&a.samples_ns, &b.samples_ns) } else { None }
    }

    fn order(&self) -> (u32, bool, u32, u32, &str, CandidateId) {
        let res = self.record.res.unwrap_or_default();
        let hash = self.record.cubin_hash.as_deref().or(self.record.source_hash.as_deref()).unwrap_or("");
        let launches = self.record.launches.unwrap_or(1);
        (launches, !self.record.default, res.regs, res.smem, hash, self.record.candidate())
    }
}

/// One timing per candidate that was ever right, fastest first. Re-measured finalists count by
/// their last measurement; a candidate that was once wrong is out.
pub fn best_timings<'a>(records: &[&'a Record]) -> Vec<Timing<'a>> {
    let wrong: BTreeSet<CandidateId> =
        records.iter().filter(|r| r.outcome == Outcome::WrongResult).map(|r| r.candidate()).collect();
    let mut latest: BTreeMap<CandidateId, &Record> = BTreeMap::new();
    for &r in records.iter().filter(|r| r.outcome == Outcome::Ok) {
        let slot = latest.entry(r.candidate()).or_insert(r);
        if (r.round, r.age()) > (slot.round, slot.age()) {
            *slot = r;
        }
    }
    let mut timings: Vec<Timing> =
        latest.into_iter().filter(|(id, _)| !wrong.contains(id)).filter_map(|(_, r)| Timing::of(r)).collect();
    timings.sort_by(|a, b| a.median_ns.total_cmp(&b.median_ns).then_with(|| a.order().cmp(&b.order())));
    timings
}

/// The winner among the records of one selection ([`super::select`]). Where finalists were
/// re-measured, only they take part: a lucky first reading does not beat a careful second one.
pub fn choose<'a>(records: &[&'a Record]) -> Option<Timing<'a>> {
    let timings = best_timings(records);
    let round = timings.iter().map(|t| t.record.round).max()?;
    let finalists = || timings.iter().filter(|t| t.record.round == round);
    let best = finalists().next()?;
    finalists().filter(|t| t.ties_with(best)).min_by(|a, b| a.order().cmp(&b.order())).copied()
}

#[cfg(test)]
mod tests {
    use super::super::Resources;
    use super::super::line::tests::record;
    use super::*;

    fn winner(records: &[Record]) -> i64 {
        let forward: Vec<&Record> = records.iter().collect();
        let backward: Vec<&Record> = records.iter().rev().collect();
        let a = choose(&forward).unwrap().record;
        assert_eq!(a, choose(&backward).unwrap().record);
        a.knobs["threads"].number().unwrap()
    }

    #[test]
    fn the_faster_wins_outside_the_band() {
        assert_eq!(winner(&[record(1, &[100.0]), record(2, &[97.0])]), 2);
    }

    #[test]
    fn inside_the_band_order_decides() {
        let lean = Record { res: Some(Resources { regs: 16, spill: 0, smem: 0 }), ..record(3, &[101.9]) };
        assert_eq!(winner(&[record(1, &[100.0]), record(2, &[101.0]), lean.clone()]), 3);
        assert_eq!(winner(&[record(1, &[101.0]), record(2, &[100.0])]), 1); // by hash
        let default = Record { default: true, ..record(9, &[101.0]) };
        assert_eq!(winner(&[record(1, &[100.0]), lean.clone(), default.clone()]), 9);
        let two = |r: Record| Record { launches: Some(2), ..r };
        assert_eq!(winner(&[two(record(1, &[100.0])), lean, two(default)]), 3);
    }

    #[test]
    fn noise_widens_the_band() {
        let noisy = [80.0, 90.0, 100.0, 110.0, 120.0];
        let slower = noisy.map(|s| s + 5.0);
        let default = Record { default: true, ..record(2, &slower) };
        assert_eq!(winner(&[record(1, &noisy), default]), 2);
    }

    #[test]
    fn finalists_beat_first_readings() {
        let first = [record(1, &[50.0]), record(2, &[60.0]), record(3, &[61.0])];
        let again = |x, s| Record { round: 1, ..record(x, &[s]) };
        assert_eq!(winner(&[&first[..], &[again(1, 70.0), again(2, 65.0)]].concat()), 2);
    }

    #[test]
    fn a_wrong_result_never_wins() {
        let broken = [0.0, -1.0, f64::NAN].map(|ns| record(1, &[ns, 5.0, 5.0]));
        assert!(broken.iter().all(|r| Timing::of(r).is_none()), "no time at all");
        let wrong = Record { outcome: Outcome::WrongResult, samples_ns: vec![], ..record(1, &[]) };
        assert_eq!(winner(&[record(1, &[1.0]), wrong.clone(), record(2, &[9.0])]), 2);
        assert!(choose(&[&wrong]).is_none());
    }

    #[test]
    fn only_the_last_round_counts() {
        let at = |round, x, ns| Record { round, ..record(x, &[ns]) };
        let rounds = [at(1, 1, 50.0), at(1, 2, 60.0), at(2, 2, 70.0), at(2, 3, 66.0), at(0, 4, 10.0)];
        assert_eq!(winner(&rounds), 3);
    }

    #[test]
    fn drift_between_turns_does_not_hide_a_difference() {
        let turns = |x, share: f64| {
            let samples: Vec<f64> = (0..15).map(|i| share * (100.0 + 8.0 * f64::from(i % 5))).collect();
            Record { round: 1, ..record(x, &samples) }
        };
        let default = Record { default: true, ..turns(2, 1.03) };
        assert_eq!(winner(&[turns(1, 1.0), default.clone()]), 1);
        // The same samples that were not taken by turns don't show it.
        let alone = |r: &Record| Record { round: 0, ..r.clone() };
        assert_eq!(winner(&[alone(&turns(1, 1.0)), alone(&default)]), 2);
        // Nor do the turns of two runs, which a merge brings together: neither waited for the other.
        let of = |run: &str, r: &Record| Record { run: run.into(), ..r.clone() };
        assert_eq!(winner(&[of("a", &turns(1, 1.0)), of("a", &default)]), 1);
        assert_eq!(winner(&[of("a", &turns(1, 1.0)), of("b", &default)]), 2);
        // Nor do turns that differ by luck.
        let (fast, slow) = ([100.0, 100.0, 100.0, 100.0, 100.0], [99.0, 104.0, 105.0, 98.0, 106.0]);
        let luck = Record { round: 1, default: true, ..record(2, &slow) };
        assert_eq!(winner(&[Record { round: 1, ..record(1, &fast) }, luck]), 2);
    }
}

//! A smaller log that decides the same.
//!
//! For each candidate of a selection what counts is: that it once gave wrong numbers; else its first
//! measurement and that of the last round of finalists that it was in, and a failure after these; else
//! how it failed last; else how it was ranked. The newest record of a selection stays in any case, since
//! among machines that are as good the one measured last is taken.

use crate::log::{CandidateId, Outcome, Record, choose, selections};
use std::collections::{BTreeMap, BTreeSet};

/// The records that decide anything, in the order given. With `drop_traces`, steps and variants of
/// candidates that lost go too: the winner, the default and ranked candidates keep theirs.
pub fn compact(records: &[Record], drop_traces: bool) -> Vec<Record> {
    let mut kept: BTreeSet<*const Record> = BTreeSet::new();
    let mut bare: BTreeSet<*const Record> = BTreeSet::new();
    for group in selections(records).values() {
        let best = choose(group).map(|t| t.record.candidate());
        for (id, of_one) in by_candidate(group) {
            let deciding = deciding(&of_one);
            kept.extend(deciding.iter().map(|r| std::ptr::from_ref(*r)));
            let lost = best.as_ref() != Some(&id) && !of_one.iter().any(|r| r.default);
            let losers = deciding.into_iter().filter(|r| lost && r.outcome != Outcome::Predicted);
            bare.extend(losers.map(std::ptr::from_ref));
        }
        kept.extend(group.iter().copied().max_by_key(|r| r.age()).map(std::ptr::from_ref));
    }
    let chosen = records.iter().filter(|r| kept.contains(&std::ptr::from_ref(*r)));
    let without_trace = |r: &Record| Record { trace: vec![], variants: vec![], ..r.clone() };
    let stripped = |r: &Record| drop_traces && bare.contains(&std::ptr::from_ref(r));
    chosen.map(|r| if stripped(r) { without_trace(r) } else { r.clone() }).collect()
}

fn by_candidate<'a>(group: &[&'a Record]) -> BTreeMap<CandidateId, Vec<&'a Record>> {
    let mut out: BTreeMap<_, Vec<&Record>> = BTreeMap::new();
    for r in group {
        out.entry(r.candidate()).or_default().push(r);
    }
    out
}

/// The records of one candidate that decide what is thought of it.
fn deciding<'a>(records: &[&'a Record]) -> Vec<&'a Record> {
    let last = |wanted: &dyn Fn(&Record) -> bool| records.iter().copied().filter(|r| wanted(r)).max_by_key(|r| r.age());
    if let Some(wrong) = last(&|r| r.outcome == Outcome::WrongResult) {
        return vec![wrong];
    }
    let failed = last(&|r| !matches!(r.outcome, Outcome::Ok | Outcome::Predicted));
    let timed = |round: u32| last(&move |r| r.outcome == Outcome::Ok && r.round == round);
    let rounds: BTreeSet<u32> = records.iter().filter(|r| r.outcome == Outcome::Ok).map(|r| r.round).collect();
    let Some(&final_round) = rounds.last() else {
        let ranked = last(&|r| r.outcome == Outcome::Predicted);
        return failed.into_iter().chain(ranked).collect();
    };
    let mut out: Vec<&Record> = BTreeSet::from([0, final_round]).into_iter().filter_map(timed).collect();
    let newest = out.iter().map(|r| r.unix_s).max();
    out.extend(failed.filter(|f| Some(f.unix_s) >= newest));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::line::tests::record;

    fn at(unix_s: u64, r: Record) -> Record {
        Record { unix_s, ..r }
    }

    fn failed(x: i64, outcome: Outcome) -> Record {
        Record { outcome, reason: Some("why".into()), ..record(x, &[]) }
    }

    /// Which of the records stay, by position, when another candidate has been measured since.
    fn stay(records: &[Record]) -> Vec<usize> {
        let since = Record { unix_s: u64::MAX, ..record(99, &[5.0]) };
        let kept = compact(&[records, &[since]].concat(), false);
        let found = |r: &Record| kept.iter().any(|k| k == r);
        records.iter().enumerate().filter(|(_, r)| found(r)).map(|(i, _)| i).collect()
    }

    #[test]
    fn duplicates_and_older_measurements_go() {
        let r = record(1, &[5.0]);
        assert_eq!(compact(&[r.clone(), r.clone(), r.clone()], false).len(), 1);
        assert_eq!(stay(&[at(1, record(1, &[5.0])), at(3, record(1, &[6.0])), at(2, record(1, &[7.0]))]), [1]);
    }

    #[test]
    fn the_first_measurement_and_the_last_round_stay() {
        let round = |k, s| Record { round: k, ..at(u64::from(k), record(1, &[s])) };
        assert_eq!(stay(&[round(0, 5.0), round(1, 6.0), round(2, 7.0), round(3, 8.0)]), [0, 3]);
    }

    #[test]
    fn a_failure_stays_until_a_measurement_follows_it() {
        let (old, new) = (at(1, failed(1, Outcome::Crashed)), at(5, failed(1, Outcome::TimedOut)));
        let good = at(3, record(1, &[5.0]));
        assert_eq!(stay(&[old.clone(), good.clone()]), [1]);
        assert_eq!(stay(&[good.clone(), new.clone()]), [0, 1]);
        assert_eq!(stay(&[old.clone(), new.clone()]), [1]);
        let wrong = at(2, failed(1, Outcome::WrongResult));
        assert_eq!(stay(&[old, wrong, good, new]), [1]);
    }

    #[test]
    fn the_newest_record_stays() {
        let (wrong, good) = (at(1, failed(1, Outcome::WrongResult)), at(2, record(1, &[5.0])));
        assert_eq!(compact(&[wrong.clone(), good.clone()], false), [wrong, good]);
    }

    #[test]
    fn ranks_give_way_to_times() {
        let ranked = Record { outcome: Outcome::Predicted, score: Some(0.5), ..record(1, &[]) };
        assert_eq!(stay(&[at(1, ranked.clone()), at(2, ranked.clone())]), [1]);
        assert_eq!(stay(&[at(2, ranked.clone()), at(1, record(1, &[5.0]))]), [1]);
        assert_eq!(stay(&[at(1, ranked), at(2, failed(1, Outcome::CompileFailed))]), [0, 1]);
    }

    #[test]
    fn losers_lose_their_steps_on_request() {
        let default = Record { default: true, ..record(3, &[30.0]) };
        let records = [record(1, &[10.0]), record(2, &[20.0]), default, failed(4, Outcome::Crashed)];
        let traces = |drop| compact(&records, drop).iter().map(|r| r.trace.len()).collect::<Vec<_>>();
        assert_eq!(traces(false), [1, 1, 1, 1]);
        assert_eq!(traces(true), [1, 0, 1, 0]);
    }
}

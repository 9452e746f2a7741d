//! Joining and shrinking random logs, whole and damaged: what must hold for all of them.

use crate::common::record::{failure, predicted, record};
use daylight::log::{self, LogFile, Outcome, Record, Resources, best_timings, choose, compact, merge};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// A record out of few enough that two logs often share some.
fn any_record() -> impl Strategy<Value = Record> {
    let outcome = prop_oneof![
        6 => Just(Outcome::Ok),
        1 => Just(Outcome::WrongResult),
        1 => Just(Outcome::Crashed),
        1 => Just(Outcome::Pruned),
        1 => Just(Outcome::Predicted),
    ];
    let samples = proptest::collection::vec(90_u32..110, 1..4);
    (0..4_i64, outcome, samples, 0..4_u64, 0..3_u32, 0..2_i64, 0..2_u32).prop_map(
        |(x, outcome, samples, time, round, size, regs)| {
            let samples: Vec<f64> = samples.into_iter().map(f64::from).collect();
            let base = match outcome {
                Outcome::Ok => record(x, &samples),
                Outcome::Predicted => predicted(x, 0.5),
                failed => failure(x, failed, "why"),
            };
            Record {
                unix_s: 1_700_000_000 + time,
                round: if outcome == Outcome::Ok { round } else { 0 },
                bind: [("n".to_string(), size)].into(),
                res: Some(Resources { regs: 32 + regs, spill: 0, smem: 0 }),
                default: x == 0,
                ..base
            }
        },
    )
}

/// What is done to a line of the file.
#[derive(Clone, Debug)]
enum Damage {
    None,
    Twice,
    Cut(usize),
    Flip(usize),
}

fn any_damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        6 => Just(Damage::None),
        1 => Just(Damage::Twice),
        1 => (0..600_usize).prop_map(Damage::Cut),
        1 => (0..600_usize).prop_map(Damage::Flip),
    ]
}

/// A log as it is read from a file with intact and damaged lines; the intact ones are all there.
fn any_log() -> impl Strategy<Value = LogFile> {
    proptest::collection::vec((any_record(), any_damage()), 0..8).prop_map(|written| {
        let mut text = vec![];
        for (record, damage) in &written {
            let line = record.to_line();
            let mut bytes = line.clone().into_bytes();
            match damage {
                Damage::None => {}
                Damage::Twice => bytes.extend_from_slice(line.as_bytes()),
                // Without its newline: the next record goes on behind it.
                Damage::Cut(at) => bytes.truncate(*at),
                Damage::Flip(at) => bytes[*at] ^= 4,
            }
            text.extend(bytes);
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("log.jsonl");
        std::fs::write(&path, text).expect("write the log");
        let log = log::read(&path).expect("the log reads");
        let found: BTreeSet<String> = lines(&log.records).into_iter().collect();
        let intact = written.iter().filter(|(_, damage)| matches!(damage, Damage::None | Damage::Twice));
        assert!(intact.into_iter().all(|(r, _)| found.contains(&r.to_line())), "an intact line is not read");
        log
    })
}

/// A log of intact records as they are read back.
fn whole_log() -> impl Strategy<Value = Vec<Record>> {
    let read_back = |r: Record| Record::from_line(&r.to_line()).expect("a written line reads");
    proptest::collection::vec(any_record().prop_map(read_back), 0..24)
}

fn log(records: Vec<Record>) -> LogFile {
    LogFile { records, skipped: vec![] }
}

fn lines<'a>(records: impl IntoIterator<Item = &'a Record>) -> Vec<String> {
    records.into_iter().map(Record::to_line).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn merging_is_commutative_associative_and_idempotent(a in any_log(), b in any_log(), c in any_log()) {
        let m = |logs: &[&LogFile]| log(merge(&logs.iter().map(|l| (*l).clone()).collect::<Vec<_>>()));
        let (ab, bc) = (m(&[&a, &b]), m(&[&b, &c]));
        prop_assert_eq!(lines(&ab.records), lines(&m(&[&b, &a]).records));
        let all = lines(&m(&[&a, &b, &c]).records);
        prop_assert_eq!(&lines(&m(&[&ab, &c]).records), &all);
        prop_assert_eq!(&lines(&m(&[&a, &bc]).records), &all);
        prop_assert_eq!(lines(&m(&[&ab, &ab]).records), lines(&ab.records));
        prop_assert_eq!(lines(&m(&[&ab]).records), lines(&ab.records));
        prop_assert_eq!(lines(&m(&[&ab, &a]).records), lines(&ab.records));
    }

    #[test]
    fn merging_loses_and_invents_nothing(a in any_log(), b in any_log()) {
        let merged = lines(&merge(&[a.clone(), b.clone()]));
        let distinct: BTreeSet<String> = lines(a.records.iter().chain(&b.records)).into_iter().collect();
        prop_assert_eq!(merged.len(), distinct.len(), "every record once");
        prop_assert_eq!(merged.into_iter().collect::<BTreeSet<_>>(), distinct);
    }

    #[test]
    fn a_merged_log_reads_back_from_a_file(a in any_log(), packed in any::<bool>()) {
        let merged = merge(&[a]);
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join(if packed { "log.jsonl.gz" } else { "log.jsonl" });
        log::write(&path, &merged).expect("the log is written");
        let back = log::read(&path).expect("the log reads");
        prop_assert_eq!((lines(&back.records), back.skipped.len()), (lines(&merged), 0));
    }

    #[test]
    fn a_compact_log_gives_the_same_choices(records in whole_log(), drop_traces in any::<bool>()) {
        let small = compact(&records, drop_traces);
        let (before, after) = (log::selections(&records), log::selections(&small));
        prop_assert_eq!(before.keys().collect::<Vec<_>>(), after.keys().collect::<Vec<_>>());
        for (selection, group) in &before {
            let bare = |r: &Record| Record { trace: vec![], variants: vec![], ..r.clone() }.to_line();
            let winner = |g: &[&Record]| choose(g).map(|t| t.record.to_line());
            let order = |g: &[&Record]| best_timings(g).iter().map(|t| bare(t.record)).collect::<Vec<_>>();
            let kept = &after[selection];
            prop_assert_eq!(winner(group), winner(kept), "the winner, with its steps");
            prop_assert_eq!(order(group), order(kept), "every time");
            let known = |g: &[&Record]| g.iter().map(|r| r.candidate()).collect::<BTreeSet<_>>();
            prop_assert_eq!(known(group), known(kept), "what need not be tried again");
            let newest = |g: &[&Record]| g.iter().map(|r| r.unix_s).max();
            prop_assert_eq!(newest(group), newest(kept), "when the machine was last used");
        }
    }

    #[test]
    fn compacting_again_changes_nothing(records in whole_log(), drop_traces in any::<bool>()) {
        let once = compact(&records, drop_traces);
        let all: BTreeSet<String> = lines(&records).into_iter().collect();
        prop_assert!(drop_traces || lines(&once).iter().all(|l| all.contains(l)), "nothing is invented");
        prop_assert_eq!(lines(&compact(&once, drop_traces)), lines(&once));
    }
}

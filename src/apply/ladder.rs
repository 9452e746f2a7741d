//! Which record a kernel is made from: this size on the chosen machine, else on another one of the target, else another
//! size, else none.

use super::unit::Rung;
use crate::assemble::{Assembly, Schedulable};
use crate::log::{self, Env, Outcome, Record, Timing};
use crate::rules::Spaces;
use crate::schedule::Schedule;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// What is looked for.
pub struct Wanted<'a> {
    /// Workload key.
    pub key: &'a str,
    /// Values of the bound extents.
    pub bind: &'a BTreeMap<String, i64>,
    /// Target id.
    pub target: &'a str,
    /// What the policy says of times that count before others, such as that kernels overlapped.
    pub flags: &'a [String],
}

/// A record whose kernel could still be made.
pub struct Found<'a> {
    /// Where on the ladder: the same size, another, or a prediction.
    pub rung: Rung,
    /// The record.
    pub record: &'a Record,
    /// True unless another machine than the one asked for measured it.
    pub on_machine: bool,
    /// Its median, where it was measured.
    pub measured_us: Option<f64>,
    /// Its schedule.
    pub schedule: Schedule,
    /// The kernel.
    pub assembly: Assembly,
}

/// Goes down the ladder until a rung holds: this size on that machine, on another one, the nearest other size, then the
/// best that was only predicted for this size.
pub fn find<'a>(
    records: &'a [Record],
    wanted: &Wanted<'_>,
    gpu: Option<&str>,
    with: (&Schedulable, &Spaces),
) -> Option<Found<'a>> {
    let one = |steps| other_size(records, wanted, gpu?, steps).and_then(|t| timed(Rung::Neighbour, t, with));
    let other = || one(Steps::Any).or_else(|| one(Steps::Logged));
    same(records, wanted, gpu, with).or_else(other).or_else(|| guess(records, wanted, with))
}

/// The same, of this size alone.
pub fn of_size<'a>(
    records: &'a [Record],
    wanted: &Wanted<'_>,
    gpu: Option<&str>,
    with: (&Schedulable, &Spaces),
) -> Option<Found<'a>> {
    same(records, wanted, gpu, with).or_else(|| guess(records, wanted, with))
}

fn same<'a>(
    records: &'a [Record],
    wanted: &Wanted<'_>,
    gpu: Option<&str>,
    with: (&Schedulable, &Spaces),
) -> Option<Found<'a>> {
    let gpu = gpu?;
    let one = |at, steps| same_size(records, wanted, at, steps).and_then(|t| timed(Rung::SameArch, t, with));
    let of = |at| one(at, Steps::Any).or_else(|| one(at, Steps::Logged));
    of(Machine::Is(gpu)).or_else(|| Some(Found { on_machine: false, ..of(Machine::IsNot(gpu))? }))
}

/// Whose records count.
#[derive(Clone, Copy)]
enum Machine<'a> {
    Is(&'a str),
    IsNot(&'a str),
}

impl Machine<'_> {
    fn measured(self, r: &Record) -> bool {
        match self {
            Machine::Is(gpu) => r.env.gpu == gpu,
            Machine::IsNot(gpu) => r.env.gpu != gpu,
        }
    }
}

/// Among which candidates the fastest is looked for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Steps {
    /// All.
    Any,
    /// Those whose steps the log has, where the rule of the fastest is no longer the one that made it.
    Logged,
}

impl Steps {
    /// True unless the record is the time of a candidate that is not looked at.
    fn take(self, r: &Record) -> bool {
        self == Steps::Any || r.outcome != Outcome::Ok || !r.trace.is_empty()
    }
}

fn guess<'a>(records: &'a [Record], wanted: &Wanted<'_>, with: (&Schedulable, &Spaces)) -> Option<Found<'a>> {
    predicted(records, wanted).and_then(|r| made(Rung::Predicted, r, None, with))
}

fn timed<'a>(rung: Rung, t: Timing<'a>, with: (&Schedulable, &Spaces)) -> Option<Found<'a>> {
    made(rung, t.record, Some(t.median_ns / 1e3), with)
}

/// The kernel of a record, if it can still be made.
fn made<'a>(
    rung: Rung,
    record: &'a Record,
    measured_us: Option<f64>,
    (subject, spaces): (&Schedulable, &Spaces),
) -> Option<Found<'a>> {
    let rule = (record.rule.as_str(), record.rule_version);
    let schedule = subject.logged(&record.trace, rule, &record.knobs, spaces)?;
    let assembly = subject.assemble(&schedule).ok()?;
    Some(Found { rung, record, on_machine: true, measured_us, schedule, assembly })
}

/// The machine whose measurements count for a target. What was only predicted belongs to none.
///
/// # Errors
/// A sentence that lists the machines: the log has several and none was named, or not the one named.
pub fn machine<'a>(records: &'a [Record], target: &str, gpu: Option<&str>) -> Result<Option<&'a str>, String> {
    let known: BTreeSet<&str> = records
        .iter()
        .filter(|r| r.target == target && r.outcome != Outcome::Predicted)
        .map(|r| r.env.gpu.as_str())
        .collect();
    let list = || known.iter().copied().collect::<Vec<_>>().join(", ");
    match (gpu, known.len()) {
        (Some(name), _) => match known.get(name) {
            Some(found) => Ok(Some(found)),
            None if known.is_empty() => Ok(None),
            None => Err(format!("the log has no records of \"{name}\" for {target}; it has {}", list())),
        },
        (None, 0 | 1) => Ok(known.first().copied()),
        (None, _) => Err(format!("the log has several machines for {target}; choose one with --gpu: {}", list())),
    }
}

/// The winner for exactly this size on that machine. Of several drivers, compilers or ways of
/// measuring, the one with the flags counts, and then the one measured last.
fn same_size<'a>(records: &'a [Record], wanted: &Wanted<'_>, machine: Machine<'_>, steps: Steps) -> Option<Timing<'a>> {
    let of_size = |r: &&Record| {
        r.workload.key == wanted.key && r.bind == *wanted.bind && r.target == wanted.target && machine.measured(r)
    };
    newest(records.iter().filter(of_size).filter(|r| steps.take(r)), wanted.flags)
}

/// The winner for the nearest other size of the same function.
fn other_size<'a>(records: &'a [Record], wanted: &Wanted<'_>, gpu: &str, steps: Steps) -> Option<Timing<'a>> {
    let mut sizes: BTreeMap<&BTreeMap<String, i64>, Vec<&Record>> = BTreeMap::new();
    for r in records {
        let same = r.workload.key == wanted.key && r.target == wanted.target && r.env.gpu == gpu;
        if same && steps.take(r) && r.bind != *wanted.bind && r.bind.keys().eq(wanted.bind.keys()) {
            sizes.entry(&r.bind).or_default().push(r);
        }
    }
    let distance = |bind: &BTreeMap<String, i64>| -> f64 {
        bind.iter().map(|(k, v)| (*v as f64 / wanted.bind[k] as f64).ln().abs()).sum()
    };
    let mut sorted: Vec<_> = sizes.into_iter().collect();
    sorted.sort_by(|(a, _), (b, _)| distance(a).total_cmp(&distance(b)).then_with(|| a.cmp(b)));
    sorted.into_iter().find_map(|(_, records)| newest(records.into_iter(), wanted.flags))
}

/// The record with the lowest score among those predicted for exactly this size. The newest
/// environment counts: scores of different versions are not compared.
fn predicted<'a>(records: &'a [Record], wanted: &Wanted<'_>) -> Option<&'a Record> {
    let of_size = |r: &&Record| {
        r.outcome == Outcome::Predicted
            && r.workload.key == wanted.key
            && r.bind == *wanted.bind
            && r.target == wanted.target
    };
    let newest = records.iter().filter(of_size).max_by_key(|r| (r.unix_s, &r.env, &r.policy))?;
    let same = |r: &&Record| (&r.env, &r.policy) == (&newest.env, &newest.policy);
    let scored = records.iter().filter(of_size).filter(same).filter_map(|r| Some((r.score?, r)));
    let order = |r: &Record| (!r.default, r.source_hash.clone(), r.knobs.clone());
    scored.min_by(|a, b| a.0.total_cmp(&b.0).then_with(|| order(a.1).cmp(&order(b.1)))).map(|(_, r)| r)
}

/// The winner of the environment and policy that has most of the flags and no others, and was measured last.
fn newest<'a>(records: impl Iterator<Item = &'a Record>, flags: &[String]) -> Option<Timing<'a>> {
    let mut groups: BTreeMap<(&Env, &log::Policy), Vec<&Record>> = BTreeMap::new();
    for r in records {
        groups.entry((&r.env, &r.policy)).or_default().push(r);
    }
    let differ = |p: &log::Policy| {
        let only = |a: &[String], b: &[String]| a.iter().filter(|f| !b.contains(f)).count();
        only(&p.flags, flags) + only(flags, &p.flags)
    };
    let timed = groups.into_iter().filter_map(|(id, g)| {
        let last = g.iter().map(|r| r.unix_s).max()?;
        Some(((Reverse(differ(id.1)), last, id), log::choose(&g)?))
    });
    timed.max_by(|(a, _), (b, _)| a.cmp(b)).map(|(_, t)| t)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Workload;

    fn record(n: i64, gpu: &str, us: f64, unix_s: u64) -> Record {
        let workload = Workload { key: "k".into(), name: "f".into() };
        Record {
            env: Env { gpu: gpu.into(), driver: unix_s.to_string(), ..Env::default() },
            rule: "r".into(),
            rule_version: 1,
            knobs: [("x".to_string(), (us as i64).into())].into(),
            samples_ns: vec![us * 1e3],
            unix_s,
            ..Record::new(workload, [("n".to_string(), n)].into(), "cuda:sm_90a", Outcome::Ok)
        }
    }

    #[test]
    fn the_last_environment_counts_and_sizes_do_not_mix() {
        let records = [record(512, "H200", 5.0, 1), record(512, "H200", 7.0, 2), record(64, "H200", 1.0, 3)];
        let bind = [("n".to_string(), 512)].into();
        let wanted = Wanted { key: "k", bind: &bind, target: "cuda:sm_90a", flags: &[] };
        assert_eq!(same_size(&records, &wanted, Machine::Is("H200"), Steps::Any).unwrap().median_ns, 7e3);
        assert!(
            same_size(&records, &Wanted { target: "cuda:sm_80", ..wanted }, Machine::Is("H200"), Steps::Any).is_none()
        );
    }

    #[test]
    fn a_candidate_that_was_wrong_is_out_whether_or_not_it_has_steps() {
        let timed = |us: f64, steps: usize| Record { trace: vec!["s".into(); steps], ..record(512, "H200", us, 1) };
        let wrong = Record { outcome: Outcome::WrongResult, samples_ns: vec![], ..timed(3.0, 0) };
        let records = [timed(2.0, 0), timed(3.0, 1), timed(4.0, 1), wrong];
        let bind = [("n".to_string(), 512)].into();
        let wanted = Wanted { key: "k", bind: &bind, target: "cuda:sm_90a", flags: &[] };
        let fastest = |steps| same_size(&records, &wanted, Machine::Is("H200"), steps).map(|t| t.median_ns);
        assert_eq!((fastest(Steps::Any), fastest(Steps::Logged)), (Some(2e3), Some(4e3)));
    }

    #[test]
    fn the_nearest_size_is_the_neighbour() {
        let records = [record(8, "H200", 1.0, 1), record(1024, "H200", 3.0, 1), record(4096, "H200", 9.0, 1)];
        let bind = [("n".to_string(), 512)].into();
        let wanted = Wanted { key: "k", bind: &bind, target: "cuda:sm_90a", flags: &[] };
        assert!(same_size(&records, &wanted, Machine::Is("H200"), Steps::Any).is_none());
        assert_eq!(other_size(&records, &wanted, "H200", Steps::Any).unwrap().median_ns, 3e3);
        let other = [("m".to_string(), 512)].into();
        assert!(other_size(&records, &Wanted { bind: &other, ..wanted }, "H200", Steps::Any).is_none());
    }

    #[test]
    fn times_of_kernels_made_as_these_count_before_newer_ones() {
        let flagged = |x: f64, unix_s: u64, flags: &[&str]| {
            let flags = flags.iter().map(|f| f.to_string()).collect();
            let policy = log::Policy { flags, ..log::Policy::default() };
            Record { policy, ..record(512, "H200", x, unix_s) }
        };
        let records =
            [flagged(1.0, 4, &[]), flagged(2.0, 1, &["overlap", "constant 1"]), flagged(3.0, 3, &["overlap"])];
        let bind = [("n".to_string(), 512)].into();
        let found = |records: &[Record], flags: &[&str]| {
            let flags: Vec<String> = flags.iter().map(|f| f.to_string()).collect();
            let wanted = Wanted { key: "k", bind: &bind, target: "cuda:sm_90a", flags: &flags };
            same_size(records, &wanted, Machine::Is("H200"), Steps::Any).unwrap().median_ns
        };
        assert_eq!(found(&records, &[]), 1e3);
        assert_eq!(found(&records, &["overlap"]), 3e3);
        assert_eq!(found(&records, &["overlap", "constant 1"]), 2e3);
        assert_eq!(found(&records[..1], &["overlap", "constant 1"]), 1e3, "others are better than none");
        assert_eq!(found(&records[1..], &[]), 3e3, "the fewer differ the better");
    }

    #[test]
    fn the_lowest_score_is_predicted_and_measured_records_are_not_mixed_in() {
        let scored = |x: f64, score: f64| Record {
            outcome: Outcome::Predicted,
            samples_ns: vec![],
            score: Some(score),
            ..record(512, "", x, 1)
        };
        let records = [scored(1.0, 7.0), scored(2.0, 5.0), record(512, "H200", 9.0, 1), scored(3.0, 6.0)];
        let bind = [("n".to_string(), 512)].into();
        let wanted = Wanted { key: "k", bind: &bind, target: "cuda:sm_90a", flags: &[] };
        assert_eq!(predicted(&records, &wanted).unwrap().score, Some(5.0));
        assert_eq!(machine(&records, "cuda:sm_90a", None), Ok(Some("H200")));
        assert_eq!(same_size(&records, &wanted, Machine::Is("H200"), Steps::Any).unwrap().median_ns, 9e3);
        assert!(same_size(&records, &wanted, Machine::Is(""), Steps::Any).is_none());
        assert_eq!(machine(&records[..2], "cuda:sm_90a", None), Ok(None));
        assert!(predicted(&records[2..3], &wanted).is_none());
    }

    #[test]
    fn several_machines_must_be_chosen_from() {
        let records = [record(8, "H200", 1.0, 1), record(8, "H100", 1.0, 1)];
        let e = machine(&records, "cuda:sm_90a", None).unwrap_err();
        assert_eq!(e, "the log has several machines for cuda:sm_90a; choose one with --gpu: H100, H200");
        assert_eq!(machine(&records, "cuda:sm_90a", Some("H100")), Ok(Some("H100")));
        assert!(machine(&records, "cuda:sm_90a", Some("B200")).unwrap_err().ends_with("it has H100, H200"));
        assert_eq!(machine(&records, "cuda:sm_80", None), Ok(None));
        assert_eq!(machine(&records[..1], "cuda:sm_90a", None), Ok(Some("H200")));
    }
}

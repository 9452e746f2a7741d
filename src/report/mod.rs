//! Reports of a log: what was gained, and what became of the candidates.
//!
//! One row for each workload on each target, machine and way of measuring. The text depends on the
//! records alone, so the same log gives the same bytes.
//!
//! ```
//! use daylight::{log, report};
//!
//! let log = log::read("examples/consumer/tuning-logs".as_ref())?;
//! let rows = report::rows(&log.records);
//! let gained = rows.iter().filter(|row| row.best_us < row.default_us).count();
//! println!("{gained} of {} functions gained\n{}", rows.len(), report::markdown(&rows));
//! # assert!(!rows.is_empty());
//! # Ok::<(), String>(())
//! ```

mod bench;
mod diff;
mod diff_markdown;
mod html;
mod labels;
mod markdown;
mod roofline;

pub use bench::{Bench, Contender, Peer, join, read_bench};
pub use diff::{Change, Diff, Verdict, diff};
pub use diff_markdown::diff_markdown;
pub use html::html;
pub use markdown::markdown;
pub use roofline::roofline;

use crate::log::{self, Outcome, Record, Warning, Work, pairs};
use std::collections::{BTreeMap, BTreeSet};

/// One workload on one target, machine and way of measuring.
#[derive(Clone, PartialEq, Debug)]
pub struct Row<'a> {
    /// A record of the group, for what all of them share.
    pub any: &'a Record,
    /// All records.
    pub group: Vec<&'a Record>,
    /// The winner.
    pub best: Option<&'a Record>,
    /// Median of the winner in microseconds.
    pub best_us: Option<f64>,
    /// The untuned choice, as measured with the winner.
    pub default: Option<&'a Record>,
    /// Median of the untuned choice in microseconds.
    pub default_us: Option<f64>,
    /// Candidates by outcome.
    pub outcomes: BTreeMap<Outcome, usize>,
    /// What there is to do, where that is known.
    pub work: Option<Work>,
    /// Its bench, after [`join`].
    pub bench: Option<&'a Bench>,
}

/// The rows of a log, by name, then target.
pub fn rows(records: &[Record]) -> Vec<Row<'_>> {
    let mut rows: Vec<Row> = log::selections(records).values().map(|g| row(g)).collect();
    rows.sort_by(|a, b| {
        let by = |r: &Row<'_>| (r.any.workload.name.clone(), r.any.target.clone(), r.any.bind.clone());
        by(a).cmp(&by(b))
    });
    rows
}

fn row<'a>(group: &[&'a Record]) -> Row<'a> {
    let best = log::choose(group);
    let round = best.as_ref().map(|b| b.record.round);
    let default = log::best_timings(group).into_iter().find(|t| t.record.default && Some(t.record.round) == round);
    let mut outcomes = BTreeMap::new();
    let distinct: BTreeSet<_> = group.iter().map(|r| (r.outcome, r.candidate())).collect();
    for (outcome, _) in distinct {
        *outcomes.entry(outcome).or_default() += 1;
    }
    // The name may differ between records of one key; the smallest does not depend on their order.
    let any = group.iter().min_by_key(|r| &r.workload.name).expect("a group has a record");
    Row {
        any,
        group: group.to_vec(),
        best: best.as_ref().map(|b| b.record),
        best_us: best.as_ref().map(|b| b.median_ns / 1e3),
        default: default.as_ref().map(|d| d.record),
        default_us: default.as_ref().map(|d| d.median_ns / 1e3),
        outcomes,
        work: group.iter().find_map(|r| r.work),
        bench: None,
    }
}

/// Candidates that have no time, each once, by what became of them and why.
fn losers(group: &[&Record]) -> BTreeMap<(&'static str, String), usize> {
    let lost = group.iter().filter(|r| r.outcome != Outcome::Ok);
    let distinct: BTreeSet<_> = lost.map(|r| (r.outcome, cause(r), r.candidate())).collect();
    let mut counts = BTreeMap::new();
    for (outcome, reason, _) in distinct {
        *counts.entry((outcome.name(), reason)).or_default() += 1;
    }
    counts
}

/// Why a candidate has no time. What pruned it has a name, then its values, which differ from one to the next.
fn cause(r: &Record) -> String {
    let mut reason = r.reason.clone().unwrap_or_default();
    if r.outcome == Outcome::Pruned {
        reason.truncate(reason.find(": ").unwrap_or(reason.len()));
    }
    reason
}

/// Target, device, driver, compiler, version of Daylight and policy of all records.
fn places<'a>(rows: &[Row<'a>]) -> BTreeSet<[&'a str; 6]> {
    let place = |r: &&'a Record| {
        [&r.target, &r.env.gpu, &r.env.driver, &r.env.nvrtc, &r.env.daylight, &r.policy.id].map(String::as_str)
    };
    // A row is of one target, environment and policy.
    rows.iter().map(|row| place(&row.any)).collect()
}

/// The columns before those of the outcomes.
const COLUMNS: [&str; 18] = [
    "workload",
    "key",
    "bind",
    "target",
    "gpu",
    "policy",
    "default_us",
    "best_us",
    "speedup",
    "floor_us",
    "floor_share",
    "rule",
    "knobs",
    "regs",
    "spill",
    "smem",
    "max_error",
    "warnings",
];

/// The report as CSV, with a header line; two columns for each contender of the benches that were joined.
///
/// # Errors
/// A sentence, when the writer fails.
pub fn csv(rows: &[Row<'_>]) -> Result<String, String> {
    let cannot = |e: csv::Error| format!("cannot write the report: {e}");
    let mut out = csv::Writer::from_writer(vec![]);
    let peers = bench::names(rows);
    let mut head: Vec<String> = COLUMNS.into_iter().chain(Outcome::ALL.map(Outcome::name)).map(String::from).collect();
    head.extend(peers.iter().flat_map(|p| [format!("bench.{p}_us"), format!("bench.{p}_over_tuned")]));
    out.write_record(head).map_err(cannot)?;
    for row in rows {
        let found = row.peers();
        let own = peers.iter().map(|name| found.iter().find(|p| p.name == *name));
        let own = own.flat_map(|p| [number(p.map(|p| p.us)), number(p.and_then(|p| p.over_tuned))]);
        out.write_record(fields(row).into_iter().chain(own)).map_err(cannot)?;
    }
    let bytes = out.into_inner().map_err(|e| format!("cannot write the report: {e}"))?;
    String::from_utf8(bytes).map_err(|e| format!("cannot write the report: {e}"))
}

fn fields(row: &Row<'_>) -> Vec<String> {
    let r = row.any;
    let floor = row.best.and_then(|b| b.floor_us);
    let ratio = |a: Option<f64>, b: Option<f64>| Some(a? / b?);
    let best = |f: &dyn Fn(&Record) -> Option<String>| row.best.and_then(f).unwrap_or_default();
    let mut out = vec![
        r.workload.name.clone(),
        r.workload.key.clone(),
        pairs(&r.bind),
        r.target.clone(),
        r.env.gpu.clone(),
        r.policy.id.clone(),
        number(row.default_us),
        number(row.best_us),
        number(ratio(row.default_us, row.best_us)),
        number(floor),
        number(ratio(floor, row.best_us)),
        best(&|b| Some(b.rule.clone())),
        best(&|b| Some(pairs(&b.knobs))),
        best(&|b| Some(b.res?.regs.to_string())),
        best(&|b| Some(b.res?.spill.to_string())),
        best(&|b| Some(b.res?.smem.to_string())),
        row.best.and_then(|b| b.err?.max).map(|e| format!("{e:.2e}")).unwrap_or_default(),
        best(&|b| Some(b.warnings.iter().map(Warning::name).collect::<Vec<_>>().join("; "))),
    ];
    out.extend(Outcome::ALL.map(|o| row.outcomes.get(&o).copied().unwrap_or(0).to_string()));
    out
}

fn number(x: Option<f64>) -> String {
    x.map(|x| format!("{x:.3}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::{Env, ErrorNorms, Policy, Resources, Workload};

    fn record(x: i64, us: f64, outcome: Outcome) -> Record {
        let workload = Workload { key: "k".repeat(32), name: "mean, rows".into() };
        Record {
            env: Env { gpu: "NVIDIA H200".into(), ..Env::default() },
            policy: Policy { id: "p".into(), flags: vec![] },
            rule: "reduction.inner".into(),
            rule_version: 1,
            knobs: [("threads".to_string(), x.into()), ("rows".to_string(), 1.into())].into(),
            res: Some(Resources { regs: 32, spill: 0, smem: 128 }),
            samples_ns: if outcome == Outcome::Ok { vec![us * 1e3] } else { vec![] },
            err: Some(ErrorNorms { l2: Some(1e-7), max: Some(2.5e-6) }),
            unix_s: 1,
            default: x == 1,
            floor_us: Some(15.0),
            warnings: vec![Warning { code: "C7508".into(), count: 1, ..Warning::default() }],
            ..Record::new(workload, BTreeMap::new(), "cuda:sm_90a", outcome)
        }
    }

    #[test]
    fn a_row_says_what_was_gained() {
        let records =
            [record(1, 40.0, Outcome::Ok), record(2, 20.0, Outcome::Ok), record(3, 0.0, Outcome::WrongResult)];
        let text = csv(&rows(&records)).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(lines[0].starts_with("workload,key,bind,target,") && lines[0].ends_with(",crashed,predicted"));
        let want = "NVIDIA H200,p,40.000,20.000,2.000,15.000,0.750,reduction.inner,rows=1 threads=2,32,0,128,2.50e-6,C7508,2,0,0,0,1,0,0,0";
        assert!(lines[1].starts_with("\"mean, rows\",") && lines[1].ends_with(want), "{}", lines[1]);
    }

    #[test]
    fn the_order_of_records_does_not_matter() {
        let mut records = vec![record(1, 40.0, Outcome::Ok), record(2, 20.0, Outcome::Ok)];
        records.push(Record {
            workload: Workload { key: "j".into(), name: "gemv".into() },
            ..record(5, 9.0, Outcome::Ok)
        });
        let forward = csv(&rows(&records)).unwrap();
        records.reverse();
        assert_eq!(csv(&rows(&records)).unwrap(), forward);
        assert!(forward.find("gemv") < forward.find("mean"));
    }

    #[test]
    fn a_workload_without_survivors_has_a_row() {
        let text = csv(&rows(&[record(1, 0.0, Outcome::CompileFailed)])).unwrap();
        assert!(text.lines().nth(1).unwrap().ends_with(",p,,,,,,,,,,,,,0,0,1,0,0,0,0,0"), "{text}");
    }
}

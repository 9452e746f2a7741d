//! What `daylight bench` found of a function: the line that it writes, and its part in a report.

use super::Row;
use crate::log::{self, Env, ErrorNorms, Policy, Setting, Work};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The name of the log's best kernel among the contenders.
const TUNED: &str = "tuned";

/// One function's contenders, timed turn by turn; the order of the fields is the order in the JSON.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Bench {
    /// Layout of this object.
    pub schema: u32,
    /// The file, as it was named.
    pub file: String,
    /// The function's name.
    pub name: String,
    /// Key of the workload.
    pub workload: String,
    /// Values of the bound extents.
    pub bind: BTreeMap<String, i64>,
    /// Target id.
    pub target: String,
    /// The machine and its compilers.
    pub env: Env,
    /// How it was measured.
    pub policy: Policy,
    /// Seed of the inputs.
    pub seed: u64,
    /// When, in seconds since 1970.
    pub unix_s: u64,
    /// Time that a good kernel needs in microseconds.
    pub floor_us: Option<f64>,
    /// What there is to do.
    pub work: Option<Work>,
    /// Who took part, in the order given.
    pub contenders: Vec<Contender>,
}

/// One contender and what became of it.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Contender {
    /// `tuned`, `default`, `picked`, or the baseline as it was named.
    pub contender: String,
    /// `ok`; a log's word for a failure, such as `wrong_result`; `missing` where a tool or library is, `declined` where it is
    /// none of this function's, `absent` where a log has nothing of it.
    pub status: String,
    /// Why it has no time.
    pub reason: Option<String>,
    /// The kernel's rule, of our own.
    pub rule: Option<String>,
    /// Its knobs.
    pub knobs: BTreeMap<String, Setting>,
    /// What else there is to say of it, such as which algorithm a library took.
    pub detail: Option<String>,
    /// Median time in microseconds.
    pub median_us: Option<f64>,
    /// Ends of its 95 % interval.
    pub interval_us: Option<[f64; 2]>,
    /// Its time over that of the fastest, turn by turn.
    pub ratio: Option<f64>,
    /// Ends of the 95 % interval of that.
    pub ratio_interval: Option<[f64; 2]>,
    /// Share of the floor that it reaches.
    pub floor_share: Option<f64>,
    /// Difference from the reference.
    pub err: Option<ErrorNorms>,
    /// Raw samples in nanoseconds; the n-th of each contender are of the n-th turn.
    pub samples_ns: Vec<f64>,
}

impl Bench {
    /// Gives each contender that has samples its median, its ratio to the fastest and its share of the floor.
    pub fn compare(&mut self) {
        let fastest = |a: &&Contender, b: &&Contender| {
            a.median_us.unwrap_or(f64::MAX).total_cmp(&b.median_us.unwrap_or(f64::MAX))
        };
        for c in &mut self.contenders {
            let median = log::Median::of(&c.samples_ns);
            c.median_us = median.map(|m| m.value / 1e3);
            c.interval_us = median.map(|m| [m.low / 1e3, m.high / 1e3]);
            c.floor_share = self.floor_us.zip(c.median_us).map(|(floor, us)| floor / us);
        }
        let best = self.contenders.iter().filter(|c| c.median_us.is_some()).min_by(fastest);
        let Some(best) = best.map(|c| c.samples_ns.clone()) else { return };
        for c in &mut self.contenders {
            let ratio = log::speedup(&c.samples_ns, &best);
            c.ratio = ratio.map(|m| m.value);
            c.ratio_interval = ratio.map(|m| [m.low, m.high]);
        }
    }
}

/// A contender beside the tuned kernel of the same bench.
#[derive(Clone, PartialEq, Debug)]
pub struct Peer<'a> {
    /// Its name; the tuned kernel is among them.
    pub name: &'a str,
    /// Its median in microseconds.
    pub us: f64,
    /// Its time over that of the tuned kernel, turn by turn.
    pub over_tuned: Option<f64>,
}

impl Row<'_> {
    /// Who has a time in the bench of the row.
    pub fn peers(&self) -> Vec<Peer<'_>> {
        let Some(bench) = self.bench else { return vec![] };
        let tuned = bench.contenders.iter().find(|c| c.contender == TUNED);
        let peer = |c: &'_ Contender| {
            let over = tuned.and_then(|t| log::speedup(&c.samples_ns, &t.samples_ns));
            (c.median_us, over.map(|m| m.value))
        };
        let each = bench.contenders.iter().map(|c| (c.contender.as_str(), peer(c)));
        each.filter_map(|(name, (us, over_tuned))| Some(Peer { name, us: us?, over_tuned })).collect()
    }
}

/// Names of all peers of some rows.
pub(super) fn names<'r>(rows: &'r [Row<'_>]) -> BTreeSet<&'r str> {
    rows.iter().flat_map(|row| row.peers().into_iter().map(|p| p.name)).collect()
}

/// Gives each row the last bench of its function on the same target, device and policy: times of others are not comparable.
pub fn join<'a>(rows: &mut [Row<'a>], benches: &'a [Bench]) {
    for row in rows {
        let r = row.any;
        let same = |b: &&Bench| {
            (&b.workload, &b.bind, &b.target) == (&r.workload.key, &r.bind, &r.target)
                && (&b.env.gpu, &b.policy) == (&r.env.gpu, &r.policy)
        };
        row.bench = benches.iter().filter(same).max_by_key(|b| b.unix_s);
    }
}

/// Reads the lines that `daylight bench --out` wrote.
///
/// # Errors
/// A sentence with file and line, for what is no such line.
pub fn read_bench(path: &Path) -> Result<Vec<Bench>, String> {
    let shown = path.display();
    let text = std::fs::read_to_string(path).map_err(|e| format!("cannot read the bench {shown}: {e}"))?;
    let lines = (1..).zip(text.lines()).filter(|(_, l)| !l.trim().is_empty());
    let one = |(n, line): (usize, &str)| {
        let bench: Result<Bench, _> = serde_json::from_str(line);
        bench.map_err(|e| format!("{shown}:{n}: no line of `daylight bench --out`: {e}"))
    };
    lines.map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::{Outcome, Record, Workload};
    use crate::report::{csv, markdown, rows};

    fn contender(name: &str, ns: &[f64]) -> Contender {
        Contender { contender: name.into(), status: "ok".into(), samples_ns: ns.into(), ..Contender::default() }
    }

    fn bench(unix_s: u64) -> Bench {
        let mut bench = Bench {
            schema: 1,
            file: "f.py".into(),
            name: "f".into(),
            workload: "k".repeat(32),
            bind: BTreeMap::new(),
            target: "cuda:sm_90a".into(),
            env: Env::default(),
            policy: Policy::default(),
            seed: 0,
            unix_s,
            floor_us: Some(15.0),
            work: None,
            contenders: vec![
                contender("tuned", &[20e3, 22e3, 20e3]),
                contender("cublas", &[30e3, 33e3, 30e3]),
                Contender { status: "wrong_result".into(), ..contender("x.cu:f", &[]) },
            ],
        };
        bench.compare();
        bench
    }

    fn record() -> Record {
        let workload = Workload { key: "k".repeat(32), name: "f".into() };
        Record { samples_ns: vec![21e3], ..Record::new(workload, BTreeMap::new(), "cuda:sm_90a", Outcome::Ok) }
    }

    #[test]
    fn ratios_are_taken_turn_by_turn_and_the_wrong_have_none() {
        let b = bench(1);
        let shown: Vec<_> = b.contenders.iter().map(|c| (c.median_us, c.ratio, c.floor_share)).collect();
        assert_eq!(
            shown,
            [(Some(20.0), Some(1.0), Some(0.75)), (Some(30.0), Some(1.5), Some(0.5)), (None, None, None)]
        );
        assert_eq!(b.contenders[1].ratio_interval, Some([1.5, 1.5]));
    }

    #[test]
    fn the_last_bench_joins_its_row_alone() {
        let (old, new) = (Bench { contenders: vec![], ..bench(1) }, bench(2));
        let elsewhere = Bench { policy: Policy { id: "other".into(), flags: vec![] }, ..bench(3) };
        let (log, benches) = ([record()], [old, new, elsewhere]);
        let mut rows = rows(&log);
        assert!(!csv(&rows).expect("csv").contains("bench."), "without a bench there are no columns");
        join(&mut rows, &benches);
        let table = csv(&rows).expect("csv");
        assert!(table.lines().next().is_some_and(|l| {
            l.ends_with("bench.cublas_us,bench.cublas_over_tuned,bench.tuned_us,bench.tuned_over_tuned")
        }));
        assert!(table.lines().nth(1).is_some_and(|l| l.ends_with("30.000,1.500,20.000,1.000")), "{table}");
        assert!(markdown(&rows).contains("| f |  | cuda:sm\\_90a | cublas | 30.000 | 1.500 |"));
    }
}

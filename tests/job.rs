//! The library's way to tune: many functions, shards, a shared time limit, on the CPU with worker processes.

use crate::common;
use daylight::job::{Event, Input, Report, Totals, Tuner, load};
use daylight::log::{self, Record};
use daylight::machine::Machine;
use daylight::tune::TuneConfig;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::AtomicBool;

fn sum(name: &str, rows: i64, cols: i64) -> String {
    format!(
        r#"
from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def {name}(A: T.Buffer(({rows}, {cols}), "float32"), B: T.Buffer(({rows},), "float32")):
    for i, k in T.grid({rows}, {cols}):
        with T.sblock("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
"#
    )
}

struct Place(tempfile::TempDir);

impl Place {
    /// Three computations in four functions: `twin` is `small` by another name.
    fn new() -> Place {
        let place = Place(tempfile::tempdir().expect("a temporary folder"));
        let all = [("small", 64, 256), ("large", 256, 512), ("twin", 64, 256), ("odd", 7, 131)];
        for (name, rows, cols) in all {
            std::fs::write(place.0.path().join(format!("{name}.py")), sum(name, rows, cols)).expect("write");
        }
        place
    }

    fn inputs(&self) -> Vec<Input> {
        let paths = ["small", "large", "twin", "odd"].map(|n| self.0.path().join(format!("{n}.py")));
        load(&BTreeMap::new(), &paths).expect("readable").into_iter().flatten().collect()
    }

    fn config(&self, log: &str) -> TuneConfig {
        TuneConfig {
            device: "cpu".into(),
            log: self.0.path().join(log),
            worker: Some(env!("CARGO_BIN_EXE_daylight").into()),
            trials: 3,
            search: "random".into(),
            jobs: 2,
            ..TuneConfig::default()
        }
    }

    fn tune(&self, config: TuneConfig) -> (Vec<Report>, Vec<String>) {
        let machine = Machine::here(Some(self.0.path().join("cache")));
        let stop = AtomicBool::new(false);
        let mut told = vec![];
        let mut watcher = |event: Event<'_>| match event {
            Event::Note(text) => told.push(text.to_string()),
            Event::Failed(f) => told.push(f.message.clone()),
            _ => {}
        };
        let mut tuner = Tuner::open(&machine, config, &stop, &mut watcher).expect("the CPU is there");
        let reports = tuner.tune(&self.inputs(), &mut watcher);
        (reports, told)
    }
}

/// What was tried, without when and how long.
fn keys(log: &Path) -> BTreeSet<String> {
    let records: Vec<Record> = log::read(log).expect("a log").records;
    records.iter().map(|r| format!("{} {:?} {:?}", r.workload.key, r.bind, r.candidate())).collect()
}

#[test]
fn one_computation_is_tuned_once_and_reported_for_each_function() {
    let place = Place::new();
    let (reports, told) = place.tune(place.config("log"));
    let names: Vec<&str> = reports.iter().map(|r| r.name.as_str()).collect();
    assert_eq!(names, ["small", "large", "twin", "odd"]);
    assert_eq!(reports[0].best_us, reports[2].best_us);
    assert!(reports.iter().all(|r| r.best_us <= r.default_us), "never worse than untuned");
    assert!(told.iter().any(|t| t == "twin: the same computation as small, tuned once"), "{told:?}");
    assert_eq!(keys(&place.0.path().join("log")).len(), 9);
    let (default, best) = Totals::of(&reports).sums();
    assert!(best > 0.0 && best <= default);
}

#[test]
fn shards_are_parts_of_the_whole() {
    let place = Place::new();
    place.tune(place.config("whole"));
    let mut names = BTreeSet::new();
    for k in 1..=2 {
        let (reports, _) = place.tune(TuneConfig { shard: (k, 2), ..place.config(&format!("part{k}.jsonl")) });
        names.extend(reports.into_iter().map(|r| r.name));
    }
    assert_eq!(names.len(), 4);
    let part = |k| keys(&place.0.path().join(format!("part{k}.jsonl")));
    assert!(part(1).is_disjoint(&part(2)));
    let both: BTreeSet<String> = part(1).into_iter().chain(part(2)).collect();
    assert_eq!(both, keys(&place.0.path().join("whole")));
}

#[test]
fn a_time_limit_covers_all_functions_and_every_default_is_measured_first() {
    let place = Place::new();
    let weights = BTreeMap::from([("large".to_string(), 100.0)]);
    let config = TuneConfig { time_limit: Some(15.0), trials: 100_000, weights, ..place.config("log") };
    let start = std::time::Instant::now();
    let (reports, _) = place.tune(config);
    let seconds = start.elapsed().as_secs_f64();
    assert!(seconds < 30.0, "{seconds} s; what is under way when the limit ends may take longer");
    assert_eq!(reports.len(), 4);
    let records = log::read(&place.0.path().join("log")).expect("a log").records;
    assert!(records[..3].iter().all(|r| r.default), "defaults come first");
    let by_name = |n: &str| reports.iter().find(|r| r.name == n).expect("a report").clone();
    assert_eq!(by_name("large").calls, 100.0);
    let (large, odd) = (by_name("large"), by_name("odd"));
    let all = large.stop.as_deref() == Some("every point tried");
    assert!(all || large.seconds > odd.seconds, "the time goes to what is called often: {large:?} {odd:?}");
}

#[test]
fn what_is_wrong_is_a_sentence() {
    let place = Place::new();
    let (reports, told) =
        place.tune(TuneConfig { weights: BTreeMap::from([("smal".to_string(), 1.0)]), ..place.config("log") });
    assert!(reports.is_empty());
    let wrong = "the weights name `smal`, which is no function and no file of this run; did you mean `small`?";
    assert!(told.iter().any(|t| t == wrong), "{told:?}");
    let machine = Machine::here(None);
    let stop = AtomicBool::new(false);
    let open = |config| Tuner::open(&machine, config, &stop, &mut |_| {}).err().expect("refused").message;
    let overlap = open(TuneConfig { overlap: true, ..place.config("log") });
    assert!(overlap.ends_with("cannot overlap; GPUs can from sm_90 on"), "{overlap}");
    let no_worker = open(TuneConfig { worker: None, ..place.config("log") });
    assert!(no_worker.contains("set TuneConfig.worker to the path of the daylight program"), "{no_worker}");
    assert!(open(TuneConfig { search: "gided".into(), ..place.config("log") }).contains("unknown search"));
}

/// What runs on nearly every machine is tuned on those that could do more.
#[test]
fn an_older_level_of_the_processor_is_tuned_for() {
    let place = Place::new();
    let mut machine = Machine::here(Some(place.0.path().join("cache")));
    if !machine.host.arch.starts_with("x86-64-v") {
        return common::skip("this processor has no older level");
    }
    machine.host.arch = "x86-64-v4".into();
    let stop = AtomicBool::new(false);
    let open = |target: &str| {
        let config = TuneConfig { target: Some(target.into()), trials: 1, ..place.config("log") };
        Tuner::open(&machine, config, &stop, &mut |_| {})
    };
    let mut tuner = open("cpu:x86-64-v3").expect("level 4 runs level 3");
    assert_eq!(tuner.tune(&place.inputs()[..1], &mut |_| {})[0].target, "cpu:x86-64-v3");
    let log = log::read(&place.0.path().join("log/cpu-x86-64-v3.jsonl")).expect("a log of that target");
    assert!(log.records.iter().all(|r| r.target == "cpu:x86-64-v3" && r.env.cc == "x86-64-v4"));
    let refused = open("cpu:aarch64").err().expect("another processor");
    assert!(refused.message.ends_with("which cannot run cpu:aarch64"), "{}", refused.message);
    assert_eq!(refused.exit, daylight::job::Exit::Missing);
}

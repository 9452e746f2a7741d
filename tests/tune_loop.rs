//! The tuning loop against a fake compiler and runner: what is tried, logged, resumed and kept.

use crate::common::arm::made_up;
use daylight::backend::{Language, Plan, Source};
use daylight::ir::Reason;
use daylight::log::{self, Env, Outcome, Policy, Record, Workload, Writer};
use daylight::rules::{Knob, Space};
use daylight::runner::fake::{FakeCompiler, FakeRunner};
use daylight::runner::{Problem, RunError, RunFailure};
use daylight::target::{HostCpu, Target};
use daylight::tune::{Arms, Build, Built, Clock, Point, Session, Summary, Task, TuneConfig, TuneError, tune};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The text of a point is its arm and knobs; points of one text are given by `text`.
struct Texts(fn(&Point) -> Result<String, Reason>);

impl Build for Texts {
    fn build(&self, point: &Point) -> Result<Built, Reason> {
        let source = Source {
            text: (self.0)(point)?,
            language: Language::C,
            target: "cpu:test".into(),
            symbols: vec!["f".into()],
        };
        Ok(Built {
            source,
            plan: Plan::default(),
            trace: vec![format!("arm {} {}", point.arm, point.knobs)],
            variants: vec![],
        })
    }
}

fn plain(point: &Point) -> Result<String, Reason> {
    Ok(format!("{} {}", point.arm, point.knobs.0.values().next().expect("one knob")))
}

/// One arm with `x` in 0..8, default 3, and one with `y` in 0..4, default 0.
fn arms() -> Arms {
    let space = |form, name: &str, default, n: i64| {
        let (name, values) = (name.to_string(), (0..n).collect());
        Space::new(form, 1, vec![Knob { name, default, values, ..Knob::default() }])
    };
    let target = Target::parse("cpu:x86-64-v3", &HostCpu::default()).expect("a CPU target");
    let list = [space("first", "x", 3, 8), space("second", "y", 0, 4)].map(|s| made_up(s, &target));
    Arms::new(list.into(), target)
}

/// Text to time: microseconds are 10 plus the distance of `x` from 6; the second arm takes 50.
fn hill(text: &str) -> Result<f64, RunError> {
    let (arm, x) = text.split_once(' ').expect("arm and value");
    let x: i64 = x.parse().expect("a number");
    Ok(if arm == "0" { 1e4 + 1e3 * (x - 6).abs() as f64 } else { 5e4 })
}

struct Bench {
    folder: tempfile::TempDir,
    config: TuneConfig,
    text: fn(&Point) -> Result<String, Reason>,
    runs: Arc<AtomicUsize>,
    stop: AtomicBool,
    devices: usize,
}

impl Bench {
    fn new() -> Bench {
        Bench {
            folder: tempfile::tempdir().expect("a temporary folder"),
            config: TuneConfig { jobs: 2, ..TuneConfig::default() },
            text: plain,
            runs: Arc::default(),
            stop: AtomicBool::new(false),
            devices: 1,
        }
    }

    fn log(&self) -> std::path::PathBuf {
        self.folder.path().join("log.jsonl")
    }

    fn records(&self) -> Vec<Record> {
        log::read(&self.log()).map(|l| l.records).unwrap_or_default()
    }

    fn run(&self, time: fn(&str) -> Result<f64, RunError>) -> Result<Summary, TuneError> {
        self.run_into(&self.log(), time)
    }

    fn run_into(&self, path: &Path, time: fn(&str) -> Result<f64, RunError>) -> Result<Summary, TuneError> {
        let past = self.records();
        let compiler = FakeCompiler::new(self.folder.path().join("cache"));
        let runner = |_| {
            let runs = self.runs.clone();
            FakeRunner::new(move |text| {
                runs.fetch_add(1, Ordering::Relaxed);
                time(text)
            })
        };
        let mut runners: Vec<FakeRunner> = (0..self.devices).map(runner).collect();
        let arms = arms();
        let ticks = AtomicUsize::new(0);
        let mut session = Session {
            compiler: &compiler,
            runners: runners.iter_mut().map(|r| r as _).collect(),
            log: &mut Writer::open(path).expect("the log opens"),
            past: &past,
            env: Env::default(),
            policy: Policy { id: "fake-v1".into(), flags: vec![] },
            config: &self.config,
            run: "test".into(),
            clock: Clock { seconds: &|| ticks.fetch_add(1, Ordering::Relaxed) as f64, unix_s: &|| 1_700_000_000 },
            stop: &self.stop,
            progress: &mut |_| {},
        };
        let task = Task {
            workload: Workload { key: "k".into(), name: "f".into() },
            bind: BTreeMap::new(),
            target: "cpu:test".into(),
            problem: Problem::default(),
            params: vec![],
            arms: &arms,
            default: arms.defaults().into_iter().next(),
            floor_us: Some(1.0),
            enough_us: None,
            build: &Texts(self.text),
        };
        tune(&task, &mut session)
    }
}

fn count(records: &[Record], outcome: Outcome) -> usize {
    records.iter().filter(|r| r.outcome == outcome).count()
}

#[test]
fn everything_is_tried_logged_and_the_best_kept() {
    let bench = Bench::new();
    let summary = bench.run(hill).expect("the run ends");
    let best = summary.best.expect("a winner");
    assert_eq!((best.rule.as_str(), &best.knobs["x"], best.round), ("first", &6.into(), 1));
    assert_eq!((summary.default_us, summary.best_us), (Some(13.0), Some(10.0)));
    assert_eq!((summary.counts.candidates, summary.counts.compiled, summary.counts.measured), (12, 12, 12));
    let records = bench.records();
    assert_eq!(records.iter().filter(|r| r.round == 0).count(), 12);
    assert_eq!(records.iter().filter(|r| r.round == 1).count(), 5);
    // It is handed out first; which of the first ones is compiled first is up to the threads.
    let default: Vec<&Record> = records.iter().filter(|r| r.default && r.round == 0).collect();
    assert_eq!((default.len(), &default[0].knobs["x"]), (1, &3.into()));
    // The winner alone has steps: those of others follow from rule and knobs.
    let with_steps: Vec<&Record> = records.iter().filter(|r| !r.trace.is_empty()).collect();
    assert_eq!((with_steps.len(), &with_steps[0].trace), (1, &vec!["arm 0 x=6".to_string()]));
    assert_eq!(Some(with_steps[0]), best_of(&records).as_ref());
}

/// What the log chooses.
fn best_of(records: &[Record]) -> Option<Record> {
    log::choose(&records.iter().collect::<Vec<_>>()).map(|t| t.record.clone())
}

#[test]
fn a_winner_without_finalists_has_steps_too() {
    let mut bench = Bench::new();
    bench.config.finalists = 0;
    let best = bench.run(hill).expect("the run ends").best.expect("a winner");
    assert_eq!((best.round, &best.trace), (0, &vec!["arm 0 x=6".to_string()]));
    assert_eq!(best_of(&bench.records()), Some(best), "a later reader finds the same");
    let lines = bench.records().len();
    bench.run(hill).expect("the run ends");
    assert_eq!(bench.records().len(), lines, "once is enough");
}

#[test]
fn what_another_machine_found_is_tried_early() {
    let mut bench = Bench::new();
    bench.run(hill).expect("the run ends");
    for change in
        [|r: &mut Record| r.env.gpu = "another".into(), |r: &mut Record| r.policy.flags = vec!["overlap".into()]]
    {
        let mut records = bench.records();
        records.iter_mut().for_each(change);
        log::write(&bench.log(), &records).expect("the log is written");
        // The defaults of both rules, and the best found elsewhere; nothing that was measured there counts here.
        bench.config.trials = 3;
        let summary = bench.run(hill).expect("the run ends");
        let best = summary.best.expect("a winner");
        assert_eq!((summary.resumed, summary.counts.measured, &best.knobs["x"]), (0, 3, &6.into()));
    }
}

#[test]
fn finalists_of_two_runs_take_turns_again() {
    let bench = Bench::new();
    bench.run(hill).expect("the run ends");
    let rounds = || bench.records().iter().map(|r| r.round).max();
    let mut records = bench.records();
    let one = records.iter_mut().find(|r| r.round == 1).expect("a finalist");
    one.run = "another".into();
    log::write(&bench.log(), &records).expect("the log is written");
    bench.run(hill).expect("the run ends");
    assert_eq!(rounds(), Some(2));
    bench.run(hill).expect("the run ends");
    assert_eq!(rounds(), Some(2), "these went through it together");
}

#[test]
fn a_second_run_measures_nothing() {
    let bench = Bench::new();
    let first = bench.run(hill).expect("the run ends");
    let runs = bench.runs.load(Ordering::Relaxed);
    let again = bench.run(hill).expect("the run ends");
    assert_eq!(bench.runs.load(Ordering::Relaxed), runs);
    assert_eq!((again.resumed, again.counts.candidates), (12, 0));
    assert_eq!(
        (again.best, again.best_us),
        (bench.records().into_iter().find(|r| r.round == 1 && r.knobs["x"] == 6.into()), first.best_us)
    );
}

#[test]
fn trials_count_what_earlier_runs_did() {
    let mut bench = Bench::new();
    bench.config.trials = 4;
    bench.run(hill).expect("the run ends");
    bench.config.trials = 7;
    let more = bench.run(hill).expect("the run ends");
    assert_eq!((more.resumed, more.counts.candidates), (4, 3));
}

#[test]
fn the_default_wins_ties() {
    let bench = Bench::new();
    let summary = bench.run(|text| Ok(if text == "0 3" { 1010.0 } else { 1000.0 })).expect("the run ends");
    assert!(summary.best.expect("a winner").default);
    assert_eq!(summary.best_us, summary.default_us);
}

#[test]
fn failures_are_logged_by_kind_and_never_win() {
    let mut bench = Bench::new();
    bench.text = |p| match (p.arm, p.knobs.0.values().next().copied()) {
        (0, Some(0)) => Err(Reason::new("shared_memory", "too much")),
        (0, Some(1)) => Ok("#error broken".into()),
        (0, Some(7)) => panic!("a bug in a rule"),
        _ => plain(p),
    };
    let summary = bench
        .run(|text| match text {
            "0 2" => Err(RunError::new(RunFailure::WrongResult, "off by one")),
            "0 4" => Err(RunError::new(RunFailure::TimedOut, "too slow")),
            "0 5" => Err(RunError::new(RunFailure::Crashed, "gone")),
            "0 6" => Err(RunError::new(RunFailure::LaunchFailed, "no")),
            _ => hill(text),
        })
        .expect("the run ends");
    let records = bench.records();
    for (outcome, n) in [
        (Outcome::Pruned, 2),
        (Outcome::CompileFailed, 1),
        (Outcome::WrongResult, 1),
        (Outcome::TimedOut, 1),
        (Outcome::Crashed, 1),
        (Outcome::LaunchFailed, 1),
    ] {
        assert_eq!(count(&records, outcome), n, "{}", outcome.name());
    }
    assert_eq!(summary.best.expect("a winner").knobs["x"], 3.into());
    assert_eq!(summary.counts.pruned_by["bug"], 1);
    assert!(summary.examples["bug"].starts_with("a bug in a rule at tests/tune_loop.rs:"));
    assert_eq!(summary.counts.failed[&Outcome::WrongResult], 1);
    assert!(records.iter().all(|r| r.samples_ns.is_empty() == (r.outcome != Outcome::Ok)));
}

#[test]
fn nothing_survives() {
    let bench = Bench::new();
    let summary = bench.run(|_| Err(RunError::new(RunFailure::WrongResult, "wrong"))).expect("the run ends");
    assert_eq!((summary.best, summary.best_us, summary.default_us), (None, None, None));
    assert_eq!(summary.counts.failed[&Outcome::WrongResult], 12);
}

#[test]
fn points_with_one_text_are_measured_once() {
    let mut bench = Bench::new();
    bench.text = |p| Ok(format!("{} {}", p.arm, p.knobs.0.values().sum::<i64>() / 2));
    let summary = bench.run(hill).expect("the run ends");
    assert_eq!((summary.counts.measured, summary.counts.pruned_by["same_kernel"]), (6, 6));
}

#[test]
fn a_missing_device_ends_the_run() {
    let bench = Bench::new();
    let e = bench.run(|_| Err(RunError::new(RunFailure::DeviceMissing, "no libcuda"))).unwrap_err();
    assert_eq!(e, TuneError::Missing("no libcuda".into()));
    assert!(bench.records().is_empty());
}

#[test]
fn a_full_disk_ends_the_run_with_a_sentence() {
    let bench = Bench::new();
    match bench.run_into(Path::new("/dev/full"), hill) {
        Err(TuneError::Usage(e)) => assert!(e.starts_with("cannot append to the log /dev/full"), "{e}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn asked_to_stop_it_keeps_what_it_has() {
    let bench = Bench::new();
    bench.run(hill).expect("the run ends");
    bench.stop.store(true, Ordering::Relaxed);
    let summary = bench.run(hill).expect("the run ends");
    assert!(summary.interrupted);
    assert_eq!((summary.best_us, summary.counts.candidates), (Some(10.0), 0));
}

#[test]
fn the_time_limit_ends_the_search_early() {
    let mut bench = Bench::new();
    bench.config.time_limit = Some(6.0); // the fake clock ticks a second at each look
    let summary = bench.run(hill).expect("the run ends");
    assert!(summary.counts.candidates < 12, "{}", summary.counts.candidates);
    assert!(summary.best.is_some());
}

#[test]
fn several_devices_share_the_candidates() {
    let mut bench = Bench::new();
    bench.devices = 3;
    let summary = bench.run(hill).expect("the run ends");
    assert_eq!(summary.best.expect("a winner").knobs["x"], 6.into());
    let first: Vec<Record> = bench.records().into_iter().filter(|r| r.round == 0).collect();
    let tried: std::collections::BTreeSet<_> = first.iter().map(Record::candidate).collect();
    assert_eq!((first.len(), tried.len()), (12, 12), "each candidate once");
}

#[test]
fn failures_are_remembered_and_retried_on_request() {
    let mut bench = Bench::new();
    let broken = |text: &str| match text {
        "0 6" => Err(RunError::new(RunFailure::Crashed, "it crashed")),
        _ => hill(text),
    };
    let first = bench.run(broken).expect("the run ends");
    assert_ne!(first.best.expect("a winner").knobs["x"], 6.into());
    let again = bench.run(hill).expect("the run ends");
    assert_eq!((again.resumed, again.counts.candidates), (12, 0), "the failure is remembered");
    bench.config.retry = true;
    let retried = bench.run(hill).expect("the run ends");
    assert_eq!((retried.resumed, retried.counts.candidates), (11, 1));
    assert_eq!(retried.best.expect("a winner").knobs["x"], 6.into());
    let quiet = bench.run(hill).expect("the run ends");
    assert_eq!((quiet.resumed, quiet.counts.candidates), (12, 0), "what succeeded is not tried again");
}

#[test]
fn a_run_says_why_it_ended_and_what_the_device_waited_for() {
    let bench = Bench::new();
    let summary = bench.run(hill).expect("the run ends");
    assert_eq!(summary.stop.map(|s| s.to_string()).as_deref(), Some("every point tried"));
    let busy = summary.overlap.busy_share().expect("a share");
    assert!(busy > 0.0 && busy <= 1.0, "{busy}");
    let mut bench = Bench::new();
    bench.config.trials = 3;
    let summary = bench.run(hill).expect("the run ends");
    assert_eq!(summary.stop.map(|s| s.to_string()).as_deref(), Some("all trials used"));
}

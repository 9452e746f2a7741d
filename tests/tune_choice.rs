//! The choice under noise: two tunes of one function agree, and the default is not beaten by luck. The
//! runner is fake; its samples scatter by one percent.

use crate::common::arm::made_up;
use daylight::backend::{Language, Plan, Source};
use daylight::ir::Reason;
use daylight::log::{Env, Policy, Record, Workload, Writer, read};
use daylight::rules::{Knob, Space};
use daylight::runner::fake::{FakeCompiler, FakeRunner};
use daylight::runner::{Problem, RunError};
use daylight::target::{HostCpu, Target};
use daylight::tune::{Arms, Build, Built, Clock, Point, Session, Summary, Task, TuneConfig, tune};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

const NOISE: f64 = 0.01;
const POINTS: i64 = 64;
const DEFAULT: i64 = 20;

/// True time in nanoseconds of each value of the knob.
type Truth = fn(i64) -> f64;

/// A flat optimum: a third of the points lies within 3 % of the best, the default 10 % above it.
fn flat(x: i64) -> f64 {
    let rank = (x * 37 + 11) % POINTS;
    match (x, rank) {
        (DEFAULT, _) => 110e3,
        (_, 0..24) => 100e3 * (1.0 + 0.03 * rank as f64 / 24.0),
        (_, _) => 100e3 * (1.03 + 0.02 * rank as f64),
    }
}

fn equal(_: i64) -> f64 {
    100e3
}

struct Texts;

impl Build for Texts {
    fn build(&self, point: &Point) -> Result<Built, Reason> {
        let text = point.knobs.0["x"].to_string();
        let source = Source { text, language: Language::C, target: "cpu:test".into(), symbols: vec![] };
        Ok(Built { source, plan: Plan::default(), trace: vec![], variants: vec![] })
    }
}

/// Tunes with its own log, or goes on with the one there.
struct Tuner {
    folder: tempfile::TempDir,
    config: TuneConfig,
    truth: Truth,
}

impl Tuner {
    fn new(truth: Truth) -> Tuner {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let config = TuneConfig { search: "exhaustive".into(), trials: POINTS as usize, ..TuneConfig::default() };
        Tuner { folder, config, truth }
    }

    fn log(&self, name: u64) -> PathBuf {
        self.folder.path().join(format!("{name}.jsonl"))
    }

    fn records(&self, name: u64) -> Vec<Record> {
        read(&self.log(name)).map(|l| l.records).unwrap_or_default()
    }

    fn run(&self, noise_seed: u64) -> Summary {
        let space = Space::new(
            "only",
            1,
            vec![Knob { name: "x".into(), default: DEFAULT, values: (0..POINTS).collect(), ..Knob::default() }],
        );
        let target = Target::parse("cpu:x86-64-v3", &HostCpu::default()).expect("a CPU target");
        let arms = Arms::new(vec![made_up(space, &target)], target);
        let truth = self.truth;
        let time = move |text: &str| -> Result<f64, RunError> { Ok(truth(text.parse().expect("a number"))) };
        let mut runner = FakeRunner::new(time).noisy(NOISE, noise_seed);
        let past = self.records(noise_seed);
        let mut session = Session {
            compiler: &FakeCompiler::new(self.folder.path().join("cache")),
            runners: vec![&mut runner],
            log: &mut Writer::open(&self.log(noise_seed)).expect("the log opens"),
            past: &past,
            env: Env::default(),
            policy: Policy { id: "fake-v1".into(), flags: vec![] },
            config: &self.config,
            run: "test".into(),
            clock: Clock { seconds: &|| 0.0, unix_s: &|| 1_700_000_000 },
            stop: &AtomicBool::new(false),
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
            floor_us: None,
            enough_us: None,
            build: &Texts,
        };
        tune(&task, &mut session).expect("the run ends")
    }

    fn choice(&self, noise_seed: u64) -> i64 {
        self.run(noise_seed).best.expect("a winner").knobs["x"].number().expect("a number")
    }
}

#[test]
fn two_tunes_of_one_function_agree() {
    let tuner = Tuner::new(flat);
    let choices: Vec<i64> = (0..400).map(|seed| tuner.choice(seed)).collect();
    let agree = |pair: &&[i64]| {
        let (a, b) = (flat(pair[0]), flat(pair[1]));
        pair[0] == pair[1] || (a - b).abs() <= 0.02 * a.min(b)
    };
    let agreed = choices.chunks(2).filter(agree).count();
    assert!(agreed >= 190, "only {agreed} of 200 pairs agree");
    let near = choices.iter().filter(|x| flat(**x) <= 102.5e3).count();
    assert!(near >= 380, "only {near} of 400 choices are near the best");
}

#[test]
fn the_default_is_not_beaten_by_luck() {
    let tuner = Tuner::new(equal);
    let kept = (0..200).filter(|seed| tuner.run(*seed).best.is_some_and(|b| b.default)).count();
    assert!(kept >= 190, "the default was kept in only {kept} of 200 runs");
}

/// Without the second measurement the best of 64 readings is a lucky one: that is what it is for.
#[test]
fn finalists_undo_the_luck_of_the_first_reading() {
    let tuner = Tuner::new(equal);
    let median = |r: &Record| daylight::log::median(&r.samples_ns).expect("samples");
    let (mut lucky, mut honest) = (0.0, 0.0);
    for seed in 0..40 {
        tuner.run(seed);
        let least = |round| {
            let records = tuner.records(seed);
            records.iter().filter(|r| r.round == round).map(median).fold(f64::INFINITY, f64::min)
        };
        lucky += 1.0 - least(0) / equal(0);
        honest += 1.0 - least(1) / equal(0);
    }
    assert!(lucky / 40.0 > 0.006 && honest < 0.5 * lucky, "{lucky} {honest}");
}

#[test]
fn finalists_of_a_resumed_run_are_a_new_round_only_where_they_are_new() {
    let mut tuner = Tuner::new(flat);
    tuner.config.trials = 8;
    tuner.run(1);
    let rounds = |tuner: &Tuner| tuner.records(1).iter().map(|r| r.round).max();
    assert_eq!(rounds(&tuner), Some(1));
    let before = tuner.records(1).len();
    tuner.run(1);
    assert_eq!(tuner.records(1).len(), before, "nothing is measured twice");
    tuner.config.trials = POINTS as usize;
    let best = tuner.run(1).best.expect("a winner");
    assert_eq!((rounds(&tuner), best.round), (Some(2), 2));
    let last: Vec<Record> = tuner.records(1).into_iter().filter(|r| r.round == 2).collect();
    assert!(last.iter().any(|r| r.default) && last.len() >= 5);
    assert!(last.iter().all(|r| r.samples_ns.len() == last[0].samples_ns.len()), "taken turn by turn");
}

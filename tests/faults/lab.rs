//! A tuning run of one function, with real compile workers and a real measuring worker, in a space
//! where some points are faulty.

use super::texts::{self, N, plan};
use super::watch::{Watch, WatchedCompiler, WatchedRunner};
use super::{Fault, Kind};
use crate::common::arm::made_up;
use daylight::backend::{Compiler, Language, Places, Plan, Source, Tools};
use daylight::ir::DType;
use daylight::ir::Reason;
use daylight::log::{Env, Outcome, Policy, Record, Workload, Writer};
use daylight::measure::{Expected, Setup, Tolerance, WorkerRunner, expected::ExpectedOutput, inputs};
use daylight::rules::{Knob, Space};
use daylight::runner::{CompilePool, DeviceFacts, Limits, Problem, Runner, WorkerCommand, element};
use daylight::target::{HostCpu, Target};
use daylight::tune::{Arms, Build, Built, Clock, Point, Session, Summary, Task, TuneConfig, tune};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::{Duration, Instant};

/// Time that the right kernels waste per block, the first being the default and the third the best.
const SPINS: [i64; 4] = [4_000, 16_000, 0, 8_000];
/// Seconds that a fault may cost beyond the time limit of its stage.
const EXTRA: f64 = 2.0;
/// Memory of a measuring worker on the CPU, which one candidate tries to exceed.
const MEMORY: u64 = 512 << 20;

/// Where the runs take place.
pub struct Lab {
    /// For the cache, the reference and the logs.
    folder: tempfile::TempDir,
    kind: Kind,
    /// Target id.
    target: String,
    setup: Setup,
    tools: Tools,
    /// The worker program.
    worker: PathBuf,
    /// The command that stands between, for faults of the process.
    between: Option<WorkerCommand>,
    limits: Limits,
}

/// What became of a run.
struct Run {
    summary: Summary,
    records: Vec<Record>,
    watch: Watch,
}

/// What became of one fault.
pub struct Row {
    pub name: &'static str,
    pub outcome: &'static str,
    pub reason: String,
    /// Seconds that it cost, and how many it may.
    pub seconds: f64,
    pub limit: f64,
    /// What is not as it has to be.
    pub problems: Vec<String>,
}

impl Lab {
    /// A lab on the CPU, or on the CUDA device of a number, with a worker program. `between` is the
    /// command that measures in its place and does the faults of the process, where kernels do not.
    /// `limit` is that of compiling and of checking a candidate.
    pub fn new(
        cuda: Option<u32>,
        worker: PathBuf,
        between: Option<WorkerCommand>,
        limit: Duration,
    ) -> Result<Lab, String> {
        let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
        let mut places = Places::of(|k| std::env::var_os(k), None);
        let language = if cuda.is_some() { Language::Cuda } else { Language::C };
        let tools = Tools::find(&places, language);
        places.cache = folder.path().join("cache");
        let tools = Tools { artifacts: places.cache.clone(), ..tools };
        let facts = DeviceFacts { kind: "cpu".into(), l2_bytes: 1 << 20, ..DeviceFacts::default() };
        let setup = cuda.map_or(Setup::cpu(facts), Setup::cuda);
        let host = if cfg!(target_arch = "x86_64") { "cpu:x86-64-v3" } else { "cpu:aarch64" };
        let limits = Limits { compile: limit, execute: limit, measure_bytes: Some(MEMORY), ..Limits::default() };
        let kind = if cuda.is_some() { Kind::Cuda } else { Kind::Cpu };
        let mut lab = Lab { folder, kind, target: host.into(), setup, tools, worker, between, limits };
        if kind == Kind::Cuda {
            let cc = lab.runner().device().map_err(|e| e.message)?.cc;
            lab.target = format!("cuda:sm_{}{}{}", cc.0, cc.1, if cc.0 >= 9 { "a" } else { "" });
        }
        Ok(lab)
    }

    fn runner(&self) -> WorkerRunner {
        let command = self.between.clone().unwrap_or_else(|| WorkerCommand::daylight(&self.worker, "measure"));
        WorkerRunner::new(command, self.setup.clone(), self.limits)
    }

    fn compiler(&self) -> CompilePool {
        CompilePool::new(WorkerCommand::daylight(&self.worker, "compile"), self.tools.clone(), 2, self.limits)
    }

    fn source(&self, spin: i64, fault: Option<Fault>) -> Source {
        let injected = self.between.is_some() && fault.is_some_and(Fault::is_of_process);
        texts::source(self.kind, &self.target, spin, fault, injected)
    }

    /// `B = 2 A`, exactly.
    fn problem(&self) -> Problem {
        let input = inputs::tensor(DType::F32, N, 5, 0, None);
        let values = (0..N).map(|i| 2.0 * element::get(DType::F32, &input, i)).collect();
        let output = ExpectedOutput { param: 1, points: None, values, tolerance: Tolerance::EXACT };
        let path = self.folder.path().join("expected");
        Expected { outputs: vec![output] }.write(&path).expect("the folder is writable");
        Problem { seed: 5, expected: Some(path), ..Problem::default() }
    }

    /// Tunes over the right kernels and the given faulty ones.
    fn tune(&self, faults: &[Fault]) -> Result<Run, String> {
        let pool = self.compiler();
        let watch = Watch::default();
        let right = self.source(SPINS[0], None);
        let compiler = WatchedCompiler { inner: &pool, watch: &watch, right, probes: AtomicUsize::new(0) };
        let mut runner = WatchedRunner { inner: self.runner(), watch: &watch, right: None };
        let work = Work {
            faults,
            text: &|spin, fault| (self.source(spin, fault), plan(self.kind, fault)),
            problem: self.problem(),
            policy: self.setup.policy(),
            quiet: self.kind == Kind::Cpu,
            log: self.folder.path().join(format!("log-{}", faults.len())),
        };
        let (summary, records) = work.tune(&compiler, &mut runner)?;
        Ok(Run { summary, records, watch })
    }

    /// Seconds that a fault may cost.
    fn limit(&self, fault: Fault) -> f64 {
        let stage = if fault == Fault::EndlessCompile { self.limits.compile } else { self.limits.execute };
        stage.as_secs_f64() + EXTRA
    }

    fn row(&self, run: &Run, fault: Fault) -> Row {
        let (outcome, reason, mut problems) = judge(&run.records, fault, self.kind);
        let (seconds, limit) = (run.watch.seconds(fault).unwrap_or(f64::NAN), self.limit(fault));
        if seconds.is_nan() || seconds > limit {
            problems.push("too slow".to_string());
        }
        Row { name: fault.name(), outcome, reason, seconds, limit, problems }
    }
}

/// Outcome and reason of a fault, and what is wrong with its record.
pub fn judge(records: &[Record], fault: Fault, kind: Kind) -> (&'static str, String, Vec<String>) {
    let found: Vec<&Record> = of_round_0(records).filter(|r| fault_of(r) == Some(fault)).collect();
    let (outcome, words) = fault.expected(kind);
    let first = found.first();
    let reason = first.and_then(|r| r.reason.clone()).unwrap_or_default();
    let mut problems = vec![];
    if found.len() != 1 {
        problems.push(format!("{} records", found.len()));
    }
    if first.is_some_and(|r| r.outcome != outcome) {
        problems.push(format!("expected {}", outcome.name()));
    }
    if !reason.contains(words) {
        problems.push(format!("the reason does not say \"{words}\""));
    }
    (first.map_or("none", |r| r.outcome.name()), reason, problems)
}

/// What is wrong with the right kernels: each has one record, and the best of them wins.
pub fn judge_right(summary: &Summary, records: &[Record]) -> Vec<String> {
    let mut problems = vec![];
    for shape in 0..SPINS.len() as i64 {
        let found: Vec<Outcome> =
            of_round_0(records).filter(|r| r.knobs["shape"] == shape.into()).map(|r| r.outcome).collect();
        if found != [Outcome::Ok] {
            problems.push(format!("the right kernel {shape} has the outcomes {found:?}"));
        }
    }
    let winner = summary.best.as_ref().map(|r| r.knobs["shape"].clone());
    if winner != Some(2.into()) {
        problems.push(format!("the winner is {winner:?}"));
    }
    problems
}

impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Row { name, outcome, reason, seconds, limit, problems } = self;
        let verdict = if problems.is_empty() { "ok".to_string() } else { format!("FAILED: {}", problems.join(", ")) };
        let reason: String = reason.chars().take(100).collect();
        write!(f, "| {name:17} | {outcome:13} | {seconds:5.2} | {limit:4.1} | {verdict} | {reason} |")
    }
}

/// Runs with and without the ten faults: one row per fault, and what is wrong with the other candidates.
pub fn report(lab: &Lab) -> Result<(Vec<Row>, Vec<String>), String> {
    let clean = lab.tune(&[])?;
    let run = lab.tune(&Fault::ALL)?;
    let rows = Fault::ALL.iter().map(|f| lab.row(&run, *f)).collect();
    let without = judge_right(&clean.summary, &clean.records).into_iter().map(|p| format!("without faults, {p}"));
    Ok((rows, judge_right(&run.summary, &run.records).into_iter().chain(without).collect()))
}

/// Candidates as first measured.
fn of_round_0(records: &[Record]) -> impl Iterator<Item = &Record> {
    records.iter().filter(|r| r.round == 0)
}

fn fault_of(record: &Record) -> Option<Fault> {
    let index = usize::try_from(record.knobs["shape"].number()?).ok()?.checked_sub(SPINS.len())?;
    Fault::ALL.get(index).copied()
}

/// One knob: the right kernels come first.
fn arms(faults: usize) -> Arms {
    let knob = Knob {
        name: "shape".to_string(),
        default: 0,
        values: (0..(SPINS.len() + faults) as i64).collect(),
        ..Knob::default()
    };
    let target = Target::parse("cpu", &HostCpu { arch: "x86-64-v3".into(), ..HostCpu::default() });
    let target = target.expect("a known target");
    Arms::new(vec![made_up(Space::new("twice", 1, vec![knob]), &target)], target)
}

/// Text and plan of a right kernel that wastes time, or of a faulty one.
pub type Text<'a> = dyn Fn(i64, Option<Fault>) -> (Source, Plan) + Sync + 'a;

/// A function whose space has the right kernels and some faulty ones.
pub struct Work<'a> {
    pub faults: &'a [Fault],
    pub text: &'a Text<'a>,
    pub problem: Problem,
    pub policy: &'a str,
    pub quiet: bool,
    pub log: PathBuf,
}

impl Work<'_> {
    /// Tunes it into a new log; gives the log's records too.
    pub fn tune(
        &self,
        compiler: &dyn Compiler,
        runner: &mut (dyn Runner + Send),
    ) -> Result<(Summary, Vec<Record>), String> {
        let config = TuneConfig { jobs: 2, quiet: self.quiet, ..TuneConfig::default() };
        let arms = arms(self.faults.len());
        let start = Instant::now();
        let mut session = Session {
            compiler,
            runners: vec![runner],
            log: &mut Writer::open(&self.log)?,
            past: &[],
            env: Env::default(),
            policy: Policy { id: self.policy.into(), flags: vec![] },
            config: &config,
            run: "test".into(),
            clock: Clock { seconds: &|| start.elapsed().as_secs_f64(), unix_s: &|| 1_700_000_000 },
            stop: &AtomicBool::new(false),
            progress: &mut |_| {},
        };
        let task = Task {
            workload: Workload { key: "faults".into(), name: "twice".into() },
            bind: BTreeMap::new(),
            target: "test".into(),
            problem: self.problem.clone(),
            params: vec![],
            arms: &arms,
            default: arms.defaults().into_iter().next(),
            floor_us: None,
            enough_us: None,
            build: self,
        };
        let summary = tune(&task, &mut session).map_err(|e| e.to_string())?;
        Ok((summary, daylight::log::read(&self.log)?.records))
    }
}

impl Build for Work<'_> {
    fn build(&self, point: &Point) -> Result<Built, Reason> {
        let shape = point.knobs.get("shape") as usize;
        let fault = shape.checked_sub(SPINS.len()).and_then(|i| self.faults.get(i)).copied();
        let (source, plan) = (self.text)(SPINS.get(shape).copied().unwrap_or(0), fault);
        Ok(Built { source, plan, trace: vec![], variants: vec![] })
    }
}

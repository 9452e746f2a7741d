//! `daylight tune`: the main job.

use super::args;
use super::bandwidth;
use super::context::Context;
use super::device::Device;
use super::exit::{Exit, Failure};
use super::input::{Input, load};
use super::output;
use super::progress::Bar;
use super::select;
use crate::assemble::{Assembly, Subject};
use crate::log::{self, Env, Record, Workload, Writer};
use crate::rules::ScheduleRule;
use crate::target::{Kind, Target};
use crate::tune::{
    Arms, Build, Built, Clock, Point, Progress, Reject, Session, Summary, Task, TuneConfig, TuneError, problem, tune,
};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The result for one function; the order of the fields is the order in the JSON.
#[derive(Serialize, Clone)]
struct Report {
    schema: u32,
    file: String,
    name: String,
    workload: String,
    bind: BTreeMap<String, i64>,
    target: String,
    device: String,
    rule: Option<String>,
    knobs: BTreeMap<String, i64>,
    variants: Vec<log::Variant>,
    default_us: Option<f64>,
    best_us: Option<f64>,
    floor_us: Option<f64>,
    candidates: usize,
    pruned: usize,
    compiled: usize,
    measured: usize,
    failed: BTreeMap<String, usize>,
    pruned_by: BTreeMap<String, usize>,
    resumed: usize,
    seconds: f64,
}

/// What all functions of one run share.
struct Bench<'a> {
    cx: &'a Context,
    device: Device,
    target: Target,
    env: Env,
    config: TuneConfig,
    log: PathBuf,
    writer: Writer,
    past: Vec<Record>,
    start: Instant,
}

/// Runs the command.
pub fn run(cx: &Context, a: &args::Tune) -> Result<Exit, Failure> {
    let config = config(cx, a)?;
    crate::tune::search::by_name(&config.search, 1, 0).map_err(Failure::usage)?;
    let inputs = load(&cx.bind, &a.files)?;
    let mut worst = Exit::Done;
    for bad in inputs.iter().filter_map(|i| i.as_ref().err()) {
        complain(&bad.failure, &mut worst);
    }
    let inputs: Vec<Input> = inputs.into_iter().flatten().collect();
    if inputs.is_empty() {
        return Ok(worst);
    }
    let mut bench = Bench::open(cx, a, config)?;
    let mut done: BTreeMap<(String, BTreeMap<String, i64>), Report> = BTreeMap::new();
    for input in &inputs {
        if cx.stop.load(Ordering::Relaxed) {
            output::note("stopped; the functions that are left were not tuned");
            break;
        }
        let identity = (input.key.clone(), input.bind.clone());
        if let Some(twin) = done.get(&identity) {
            output::note(&format!("{}: the same computation as {}, tuned once", input.name, twin.name));
            print(cx, &Report { file: input.file.clone(), name: input.name.clone(), ..twin.clone() });
            continue;
        }
        match bench.tune(input) {
            Ok(report) => {
                print(cx, &report);
                if report.best_us.is_none() {
                    worst = worst.max(Exit::Failed);
                }
                done.insert(identity, report);
            }
            Err(f) => complain(&f, &mut worst),
        }
        if worst == Exit::Missing {
            break;
        }
    }
    Ok(worst)
}

fn complain(f: &Failure, worst: &mut Exit) {
    output::note(&format!("daylight: {}", f.message));
    *worst = (*worst).max(f.exit);
}

fn config(cx: &Context, a: &args::Tune) -> Result<TuneConfig, Failure> {
    let bad = || Failure::usage(format!("--shard {}: expected K/N with 1 <= K <= N, such as 1/4", a.shard));
    let (k, n) = a.shard.split_once('/').ok_or_else(bad)?;
    let (k, n): (u64, u64) = (k.parse().map_err(|_| bad())?, n.parse().map_err(|_| bad())?);
    if k < 1 || k > n {
        return Err(bad());
    }
    if a.time_limit.is_some_and(|s| !(s.is_finite() && s > 0.0)) {
        return Err(Failure::usage("--time-limit: expected a positive number of seconds"));
    }
    Ok(TuneConfig {
        trials: a.trials as usize,
        time_limit: a.time_limit,
        seed: a.seed,
        search: a.search.clone(),
        jobs: a.jobs.unwrap_or(cx.host.cores) as usize,
        shard: (k, n),
        ..TuneConfig::default()
    })
}

impl<'a> Bench<'a> {
    fn open(cx: &'a Context, a: &args::Tune, config: TuneConfig) -> Result<Bench<'a>, Failure> {
        let device = Device::open(cx, &a.device)?;
        let env = device.env(cx)?;
        let mut target = device.target.clone();
        let config = TuneConfig { quiet: target.kind == Kind::Cpu, ..config };
        let log = log::path_for(&a.log, &target.id);
        let writer = Writer::open(&log).map_err(Failure::usage)?;
        let past = log::read(&log).map_err(Failure::usage)?;
        past.skipped.iter().for_each(|s| output::note(&s.to_string()));
        output::note(&format!("tuning on {}, logging to {}", device.describe(), log.display()));
        if target.kind == Kind::Cpu {
            target.copy_gbps = bandwidth::measure(cx.host.cores);
        }
        Ok(Bench { cx, device, target, env, config, log, writer, past: past.records, start: Instant::now() })
    }

    fn tune(&mut self, input: &Input) -> Result<Report, Failure> {
        let refused = |d| Failure::new(Exit::Input, format!("{}: refused: {d}", input.name));
        let subject = Subject::new(&input.func, &input.original, self.target.clone()).map_err(refused)?;
        input.require_bound()?;
        let free = args::Choose { rule: None, set: vec![] };
        let arms = select::arms(&subject, &self.cx.spaces, &input.name, &free)?;
        let folder = tempfile::tempdir().map_err(|e| Failure::usage(format!("no temporary folder: {e}")))?;
        let given = problem::given(&input.func, &input.bind, self.config.seed);
        let (problem, floor_us) = problem::problem(&subject, &given, folder.path()).map_err(Failure::usage)?;
        let (rules, spaces): (Vec<_>, Vec<_>) = arms.into_iter().map(|a| (a.rule, a.space)).unzip();
        let spaces = Arms::new(spaces, self.target.clone());
        let default = spaces.defaults().into_iter().next();
        let task = Task {
            workload: Workload { key: input.key.clone(), name: input.name.clone() },
            bind: input.bind.clone(),
            target: self.target.id.clone(),
            problem,
            arms: &spaces,
            default,
            floor_us,
            build: &RuleBuild { subject: &subject, rules: &rules },
        };
        let summary = self.drive(&task)?;
        self.past.extend(log::read(&self.log).map_err(Failure::usage)?.records.into_iter().skip(self.past.len()));
        Ok(self.report(input, &task, summary))
    }

    fn drive(&mut self, task: &Task<'_>) -> Result<Summary, Failure> {
        let bar = Bar::new(&task.workload.name);
        let compiler = self.device.compiler(self.cx, self.config.jobs);
        let start = self.start;
        let policy = self.device.policy();
        let mut session = Session {
            compiler: &compiler,
            runner: self.device.runner(),
            log: &mut self.writer,
            past: &self.past,
            env: self.env.clone(),
            policy,
            config: &self.config,
            clock: Clock { seconds: &|| start.elapsed().as_secs_f64(), unix_s: &unix_seconds },
            stop: self.cx.stop,
            progress: &mut |p: &Progress| bar.show(p),
        };
        let summary = tune(task, &mut session);
        bar.end();
        summary.map_err(|e| match e {
            TuneError::Missing(m) => Failure::missing(m),
            TuneError::Usage(m) => Failure::usage(m),
        })
    }

    fn report(&self, input: &Input, task: &Task<'_>, s: Summary) -> Report {
        let best = s.best.as_ref();
        let report = Report {
            schema: 1,
            file: input.file.clone(),
            name: input.name.clone(),
            workload: input.key.clone(),
            bind: input.bind.clone(),
            target: task.target.clone(),
            device: self.env.gpu.clone(),
            rule: best.map(|b| b.rule.clone()),
            knobs: best.map(|b| b.knobs.clone()).unwrap_or_default(),
            variants: best.map(|b| b.variants.clone()).unwrap_or_default(),
            default_us: s.default_us,
            best_us: s.best_us,
            floor_us: task.floor_us,
            candidates: s.counts.candidates,
            pruned: s.counts.pruned,
            compiled: s.counts.compiled,
            measured: s.counts.measured,
            failed: s.counts.failed.clone(),
            pruned_by: s.counts.pruned_by.clone(),
            resumed: s.resumed,
            seconds: s.seconds,
        };
        for (reason, example) in &s.examples {
            let n = s.counts.failed.get(reason).or(s.counts.pruned_by.get(reason)).copied().unwrap_or(0);
            let is_plain = reason == "same_kernel";
            if !is_plain {
                output::note(&format!("  {n} x {reason}, such as: {}", example.lines().next().unwrap_or("")));
            }
        }
        if best.is_none() && !s.interrupted {
            let rules: Vec<&str> = task.arms.spaces.iter().map(|s| s.form).collect();
            output::note(&format!("daylight: {}: no candidate of {} survived", input.name, rules.join(", ")));
        }
        if s.interrupted {
            let kept = if best.is_some() { "what was measured is in the log" } else { "nothing was measured yet" };
            output::note(&format!("stopped early; {kept}"));
        }
        if !self.cx.json {
            human(&report, task, &self.log.display().to_string());
        }
        report
    }
}

/// Makes kernels of points with the rules.
struct RuleBuild<'a> {
    subject: &'a Subject,
    /// One per arm.
    rules: &'a [&'static dyn ScheduleRule],
}

impl Build for RuleBuild<'_> {
    fn build(&self, point: &Point) -> Result<Built, Reject> {
        match self.subject.candidate(self.rules[point.arm], &point.knobs) {
            Ok(Assembly { source, plan, trace, .. }) => Ok(Built { source, plan, trace }),
            Err(unfit) => Err(Reject { predicate: unfit.predicate, reason: unfit.reason }),
        }
    }
}

fn unix_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

fn print(cx: &Context, report: &Report) {
    if cx.json {
        output::line(&serde_json::to_string(report).expect("a report holds only what JSON can say"));
    }
}

fn human(r: &Report, task: &Task<'_>, log: &str) {
    let knobs: Vec<String> = r.knobs.iter().map(|(k, v)| format!("{k}={v}")).collect();
    let us = |x: Option<f64>| x.map_or("         -".to_string(), |x| format!("{x:10.2} us"));
    let bind: Vec<String> = r.bind.iter().map(|(k, v)| format!(" {k}={v}")).collect();
    output::line(&format!("{}{} ({}) on {}", r.name, bind.concat(), r.file, r.target));
    let default = task.default.as_ref().map(|p| format!("  {}: {}", task.arms.spaces[p.arm].form, p.knobs));
    output::line(&format!("  default {}{}", us(r.default_us), default.unwrap_or_default()));
    let rule = r.rule.as_deref().unwrap_or("none");
    output::line(&format!("  best    {}  {rule}: {}", us(r.best_us), knobs.join(" ")));
    let share = r.floor_us.zip(r.best_us).map(|(f, b)| format!("  best reaches {:.0} % of it", 100.0 * f / b));
    output::line(&format!("  floor   {}{}", us(r.floor_us), share.unwrap_or_default()));
    if let (Some(d), Some(b)) = (r.default_us, r.best_us) {
        output::line(&format!("  speedup {:10.2} x", d / b));
    }
    let failed: usize = r.failed.values().sum();
    output::line(&format!(
        "  {} candidates in {:.1} s ({} measured, {} pruned, {failed} failed, {} known before), logged to {log}",
        r.candidates, r.seconds, r.measured, r.pruned, r.resumed
    ));
}

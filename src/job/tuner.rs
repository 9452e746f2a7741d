//! Tunes many functions on one device, or on all GPUs of a machine.

use super::budget::{Claim, order, share};
use super::work::Work;
use super::{Device, Failure, Input, Report, Weights, guarded};
use crate::assemble::{Constant, Overlap, check_constants};
use crate::backend::Compiler;
use crate::log::{self, Env, Policy, Record, Writer};
use crate::machine::{Machine, Watch};
use crate::measure::{self, AaSettings};
use crate::rules::Spaces;
use crate::runner::CompilePool;
use crate::target::{Kind, Target};
use crate::tune::{Clock, Progress, Session, Summary, TuneConfig, TuneError, search, tune};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// GPUs whose copy takes this much longer or shorter than the usual one are not used together.
const CALIBRATED: f64 = 0.03;
/// The copy that is timed on each GPU.
const CALIBRATION: AaSettings = AaSettings { bytes: 256 << 20, trials: 3, turns: 15, limit: Duration::from_secs(5) };

/// What happens while functions are tuned.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event<'e> {
    /// A sentence for people.
    Note(&'e str),
    /// A candidate has an outcome.
    Progress(&'e Progress),
    /// A function is done.
    Tuned(&'e Report),
    /// A function could not be tuned.
    Failed(&'e Failure),
}

/// Takes events.
pub type Watcher<'w> = &'w mut dyn FnMut(Event<'_>);

/// An opened device and log, ready to tune functions.
///
/// ```no_run
/// use daylight::job::{Event, Tuner, load};
/// use daylight::machine::Machine;
/// use daylight::tune::TuneConfig;
/// use std::sync::atomic::AtomicBool;
///
/// let config = TuneConfig {
///     device: "cuda:0".into(),
///     // Candidates run in processes of this program; a library starts no process by itself.
///     worker: Some("/usr/local/bin/daylight".into()),
///     log: "tuning-logs".into(),
///     trials: 64,
///     ..TuneConfig::default()
/// };
/// let stop = AtomicBool::new(false);
/// let mut watch = |event: Event<'_>| {
///     if let Event::Progress(p) = event {
///         eprintln!("{}: {} of {}, best {:?} us", p.name, p.done, p.total, p.best_us);
///     }
/// };
/// let inputs: Vec<_> = load(&Default::default(), &["kernels/mean.py".into()])?.into_iter().flatten().collect();
/// let mut tuner = Tuner::open(&Machine::here(None), config, &stop, &mut watch)?;
/// for report in tuner.tune(&inputs, &mut watch) {
///     println!("{}: {:?} us with {:?}", report.name, report.best_us, report.knobs);
/// }
/// # Ok::<(), daylight::job::Failure>(())
/// ```
pub struct Tuner<'a> {
    config: TuneConfig,
    spaces: Spaces,
    device: Device,
    /// Its processes serve all functions.
    compiler: CompilePool,
    target: Target,
    env: Env,
    /// Name of this run in the log.
    run: String,
    log: PathBuf,
    writer: Writer,
    past: Vec<Record>,
    watch: Watch,
    /// When the job began, by the watch: opening is part of the first.
    since: f64,
    stop: &'a AtomicBool,
}

impl<'a> Tuner<'a> {
    /// Opens the configuration's device and log. `stop` may be set at any time to end early; everything
    /// measured until then is in the log.
    ///
    /// # Errors
    /// A setting that is wrong, a log that cannot be written, a device or tool that is missing.
    pub fn open(
        machine: &Machine,
        config: TuneConfig,
        stop: &'a AtomicBool,
        watcher: Watcher<'_>,
    ) -> Result<Tuner<'a>, Failure> {
        let watch = Watch::start();
        search::by_name(&config.search, 0).map_err(Failure::usage)?;
        let spaces = match &config.schedules {
            Some(folder) => Spaces::with_folder(folder).map_err(Failure::usage)?,
            None => Spaces::built_in(),
        };
        let limits = config.limits.for_machine(machine.memory_bytes, config.jobs);
        let mut device = Device::open(machine, config.worker.as_deref(), &config.device, &limits)?;
        if let Some(name) = &config.target {
            device = device.built_for(Target::parse(name, &machine.host).map_err(Failure::usage)?)?;
        }
        calibrate(&mut device, watcher)?;
        let env = device.env()?;
        let compiler = device.compiler(config.jobs);
        let mut target = device.target.clone();
        if config.overlap && !Overlap::is_of(&target) {
            let text = format!("kernels of {} cannot overlap; GPUs can from sm_90 on", target.id);
            return Err(Failure::usage(text));
        }
        let config = TuneConfig { quiet: target.kind == Kind::Cpu, ..config };
        let log = log::path_for(&config.log, &target.id);
        let writer = Writer::open(&log).map_err(Failure::usage)?;
        let past = log::past(&log).map_err(Failure::usage)?;
        past.skipped.iter().for_each(|s| watcher(Event::Note(&s.to_string())));
        watcher(Event::Note(&format!("tuning on {}, logging to {}", device.describe(), log.display())));
        if target.kind == Kind::Cpu {
            target.copy_gbps = machine.measure_bandwidth();
        }
        Ok(Tuner {
            config,
            spaces,
            device,
            compiler,
            target,
            env,
            run: Watch::name(),
            log,
            writer,
            past: past.records,
            watch,
            since: 0.0,
            stop,
        })
    }

    /// The log file.
    pub fn log(&self) -> &std::path::Path {
        &self.log
    }

    /// Tunes functions: each computation once, this shard's part of them, within the time limit, of
    /// which opening takes its part the first time. Every default is tried, however short the limit. The
    /// reports come in the order of the inputs, without those of other shards and those that failed,
    /// which the watcher is told of.
    pub fn tune(&mut self, inputs: &[Input], watcher: Watcher<'_>) -> Vec<Report> {
        let weights = Weights::new(self.config.weights.clone());
        if let Err(f) = weights.check(inputs).and_then(|()| check_constants(inputs, &self.config.constant)) {
            watcher(Event::Failed(&f));
            return vec![];
        }
        let groups = deal(inputs, &self.config.constant, self.config.shard);
        if groups.is_empty() && !inputs.is_empty() {
            watcher(Event::Note("this shard has no function: there are fewer functions than shards"));
        }
        let firsts: Vec<&Input> = groups.iter().map(|g| &inputs[g[0]]).collect();
        let calls: Vec<f64> = groups.iter().map(|g| g.iter().map(|i| weights.of(&inputs[*i])).sum()).collect();
        let mut reports: BTreeMap<usize, Report> = BTreeMap::new();
        let mut done = |group: usize, report: Report, watcher: Watcher<'_>| {
            for (nth, i) in groups[group].iter().enumerate() {
                let input = &inputs[*i];
                if nth > 0 {
                    let text = format!("{}: the same computation as {}, tuned once", input.name, report.name);
                    watcher(Event::Note(&text));
                }
                let (file, name, calls) = (input.file.clone(), input.name.clone(), weights.of(input));
                let own = Report { file, name, calls, ..report.clone() };
                watcher(Event::Tuned(&own));
                reports.insert(*i, own);
            }
        };
        let shared = self.config.time_limit.is_some() && firsts.len() > 1 || self.config.all_trials.is_some();
        match shared {
            true => self.within(&firsts, &calls, &mut done, watcher),
            false => self.one_by_one(&firsts, &mut done, watcher),
        }
        self.since = self.watch.seconds();
        reports.into_values().collect()
    }

    fn one_by_one(&mut self, inputs: &[&Input], done: Done<'_>, watcher: Watcher<'_>) {
        for (i, input) in inputs.iter().enumerate() {
            if self.is_stopped(watcher) {
                return;
            }
            let report = self.prepare(input, watcher).and_then(|work| {
                let time_limit = self.config.time_limit.map(|limit| self.since + limit - self.watch.seconds());
                let config = TuneConfig { time_limit, ..self.config.clone() };
                self.run(&work, &config, watcher)
            });
            if !hand_over(report, i, done, watcher) {
                return;
            }
        }
    }

    /// Measures every default first, then gives each function its share of the time and of the candidates that are left.
    fn within(&mut self, inputs: &[&Input], calls: &[f64], done: Done<'_>, watcher: Watcher<'_>) {
        let end = self.config.time_limit.map(|limit| self.since + limit);
        let mut left = self.config.all_trials.map(|all| all.saturating_sub(inputs.len()));
        let first = TuneConfig { trials: 1, finalists: 0, time_limit: None, ..self.config.clone() };
        let mut waiting = vec![];
        for (i, input) in inputs.iter().enumerate() {
            if self.is_stopped(watcher) {
                return;
            }
            let measured = self.prepare(input, watcher).and_then(|work| {
                let report = self.run(&work, &first, watcher)?;
                Ok((work, report))
            });
            match measured {
                Ok((work, report)) => waiting.push((i, work, report)),
                Err(f) if !failed(&f, watcher) => return,
                Err(_) => {}
            }
        }
        let claim = |(i, _, r): &(usize, Work, Report)| Claim {
            calls: calls[*i],
            default_us: r.default_us.or(r.best_us),
            floor_us: r.floor_us,
        };
        let claims: Vec<Claim> = waiting.iter().map(claim).collect();
        let turns = order(&claims);
        for (nth, turn) in turns.iter().enumerate() {
            if self.is_stopped(watcher) {
                return;
            }
            let to_come: Vec<Claim> = turns[nth..].iter().map(|t| claims[*t]).collect();
            let time_limit = end.map(|end| share(end - self.watch.seconds(), &to_come));
            let more = left.map(|left| share(left as f64, &to_come).round() as usize);
            let (i, work, before) = &waiting[*turn];
            // The default is one of them.
            let trials = more.map_or(self.config.trials, |more| 1 + more);
            let config = TuneConfig { time_limit, trials, ..self.config.clone() };
            let report = self.run(work, &config, watcher).map(|r| r.after(before));
            if let (Some(left), Ok(report)) = (&mut left, &report) {
                *left -= (report.candidates + report.resumed).saturating_sub(1).min(trials - 1).min(*left);
            }
            if !hand_over(report, *i, done, watcher) {
                return;
            }
        }
    }

    fn is_stopped(&self, watcher: Watcher<'_>) -> bool {
        let stopped = self.stop.load(Ordering::Relaxed);
        if stopped {
            watcher(Event::Note("stopped; the functions that are left were not tuned"));
        }
        stopped
    }

    fn prepare(&self, input: &Input, watcher: Watcher<'_>) -> Result<Work, Failure> {
        let mut say = |text: &str| watcher(Event::Note(text));
        guarded(&input.name, || {
            let work = Work::new(input, &self.target, &self.spaces, self.config.seed, &mut say)?;
            work.settle(&self.compiler);
            Ok(work)
        })
    }

    fn run(&mut self, work: &Work, config: &TuneConfig, watcher: Watcher<'_>) -> Result<Report, Failure> {
        guarded(work.name(), || self.tuned(work, config, watcher))
    }

    fn tuned(&mut self, work: &Work, config: &TuneConfig, watcher: Watcher<'_>) -> Result<Report, Failure> {
        let overlap = self.config.overlap.then(|| work.overlap(&self.config.constant));
        let flags = overlap.as_ref().map(Overlap::flags).unwrap_or_default();
        let policy = Policy { flags, ..self.device.policy() };
        let watch = self.watch;
        let mut progress = |p: &Progress| watcher(Event::Progress(p));
        let made = overlap.as_ref().map(|o| (o, &self.compiler as &dyn Compiler));
        let summary = work.with_task(made, |task| {
            let mut session = Session {
                compiler: &self.compiler,
                runners: self.device.runners().iter_mut().map(|r| r as _).collect(),
                log: &mut self.writer,
                past: &self.past,
                env: self.env.clone(),
                run: self.run.clone(),
                policy,
                config,
                clock: Clock { seconds: &|| watch.seconds(), unix_s: &Watch::unix_s },
                stop: self.stop,
                progress: &mut progress,
            };
            tune(task, &mut session)
        });
        let summary: Summary = summary.map_err(|e| match e {
            TuneError::Missing(m) => Failure::missing(m),
            TuneError::Usage(m) => Failure::usage(m),
        })?;
        self.past.extend(log::past(&self.log).map_err(Failure::usage)?.records.into_iter().skip(self.past.len()));
        Ok(work.report(&self.env, summary))
    }
}

/// Takes the report of a group of equal functions.
type Done<'d> = &'d mut dyn FnMut(usize, Report, Watcher<'_>);

/// Passes a result on; false when nothing that follows can do better.
fn hand_over(report: Result<Report, Failure>, group: usize, done: Done<'_>, watcher: Watcher<'_>) -> bool {
    match report {
        Ok(report) => {
            done(group, report, watcher);
            true
        }
        Err(f) => failed(&f, watcher),
    }
}

fn failed(f: &Failure, watcher: Watcher<'_>) -> bool {
    watcher(Event::Failed(f));
    f.exit != super::Exit::Missing
}

/// Key, extents, and which tensors are constant.
type Computation<'i> = (&'i str, &'i BTreeMap<String, i64>, Vec<String>);

/// Positions of the functions of shard `k` of `n`, equal computations with the same constant tensors together: sorted by key and
/// extents they are dealt out in turn; the first of each group is the one that is tuned.
pub fn deal(inputs: &[Input], constant: &[Constant], (k, n): (u64, u64)) -> Vec<Vec<usize>> {
    let mut groups: BTreeMap<Computation<'_>, Vec<usize>> = BTreeMap::new();
    for (i, input) in inputs.iter().enumerate() {
        let flags = Overlap::new(input, constant).flags();
        groups.entry((&input.key, &input.bind, flags)).or_default().push(i);
    }
    let ours = groups.into_values().enumerate().filter(|(i, _)| *i as u64 % n.max(1) + 1 == k);
    let mut ours: Vec<Vec<usize>> = ours.map(|(_, g)| g).collect();
    // Within a shard the user's order stands.
    ours.sort();
    ours
}

/// Leaves out GPUs that copy at another speed than most: their times would not compare.
fn calibrate(device: &mut Device, watcher: Watcher<'_>) -> Result<(), Failure> {
    if device.count() < 2 {
        return Ok(());
    }
    let (compiler, target) = (device.compiler(1), device.target.id.clone());
    let mut times = vec![];
    for runner in device.runners() {
        let copy = measure::aa_test(&compiler, runner, &target, &CALIBRATION).map_err(Failure::missing)?;
        times.push(copy.median_us);
    }
    let usual = log::median(&times).unwrap_or(0.0);
    let odd: Vec<usize> = (0..times.len()).filter(|i| (times[*i] / usual - 1.0).abs() > CALIBRATED).collect();
    for i in &odd {
        let text = format!("GPU {i} copies in {:.1} us where {usual:.1} us are usual; it is left out", times[*i]);
        watcher(Event::Note(&text));
    }
    device.drop_runners(&odd);
    if device.count() == 0 {
        return Err(Failure::missing("no two GPUs of this machine are equally fast; name one with --device cuda:0"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(key: &str, size: i64) -> Input {
        let text = "@T.prim_func\ndef f(A: T.Buffer((8,), \"float32\")):\n    T.evaluate(0)\n";
        let func = crate::ir::read(text, "f.py").expect("it parses").remove(0);
        Input {
            file: "f.py".into(),
            name: key.into(),
            original: func.clone(),
            func,
            bind: BTreeMap::from([("n".to_string(), size)]),
            key: key.into(),
            program: None,
        }
    }

    #[test]
    fn shards_share_all_functions_and_twins_stay_together() {
        let inputs: Vec<Input> =
            [("d", 1), ("a", 2), ("a", 1), ("c", 1), ("a", 2), ("b", 1)].map(|(k, n)| input(k, n)).into();
        assert_eq!(deal(&inputs, &[], (1, 1)), [vec![0], vec![1, 4], vec![2], vec![3], vec![5]]);
        let (one, two) = (deal(&inputs, &[], (1, 2)), deal(&inputs, &[], (2, 2)));
        assert_eq!(one, [vec![0], vec![2], vec![5]]);
        assert_eq!(two, [vec![1, 4], vec![3]]);
        assert_eq!(deal(&inputs, &[], (7, 9)).len(), 0);
    }
}

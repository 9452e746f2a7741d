//! A runner in this process, over any device. The measuring worker is one behind a pipe; a crash of
//! a candidate is a crash of the process.

use super::buffers::{Buffers, Workspaces};
use super::check::{Wanted, check_output, wanted};
use super::expected::Expected;
use super::sampling::{Sampling, Warm, take, warm_up};
use super::watch::Watch;
use super::{bound, inputs};
use crate::backend::plan::Init;
use crate::backend::{Plan, PlanParam, Role, eval};
use crate::log::stats;
use crate::runner::device::{Device, ModuleId, Outcome, Protocol, Region, Run, Scalars, Timer, bind};
use crate::runner::{Candidate, DeviceFacts, DeviceState, Errors, Problem, RunError, RunFailure, Runner, Timing};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;

/// A candidate this many times slower than the best is not even timed properly.
const HOPELESS: f64 = 3.0;

/// Checks and times candidates on a device of this process.
pub struct LocalRunner {
    device: Box<dyn Device>,
    protocol: Protocol,
    sampling: Sampling,
    problem: Problem,
    /// As read from the file, until the outputs' dtypes are known.
    expected: Option<Expected>,
    wanted: Vec<Wanted>,
    buffers: Option<Buffers>,
    /// Outputs on their way to be compared.
    scratch: Vec<u8>,
    watch: Watch,
    /// Where the order of turns comes from.
    order: StdRng,
}

/// A candidate on the device.
struct Loaded {
    module: ModuleId,
    workspaces: Workspaces,
    runs: Vec<Run>,
}

impl LocalRunner {
    /// A runner for a device.
    pub fn new(device: Box<dyn Device>, protocol: Protocol, sampling: Sampling) -> LocalRunner {
        let problem = Problem::default();
        let (expected, wanted, buffers, scratch) = (None, vec![], None, vec![]);
        let (watch, order) = (Watch::default(), StdRng::seed_from_u64(0));
        LocalRunner { device, protocol, sampling, problem, expected, wanted, buffers, scratch, watch, order }
    }

    /// True after an error that makes every later call fail.
    pub fn is_lost(&self) -> bool {
        self.device.is_lost()
    }

    /// True while the inputs lie on the device.
    pub fn has_inputs(&self) -> bool {
        self.buffers.is_some()
    }

    fn drop_inputs(&mut self) {
        if let Some(buffers) = self.buffers.take() {
            buffers.free(self.device.as_mut());
        }
    }

    fn buffers(&self) -> Outcome<&Buffers> {
        self.buffers.as_ref().ok_or_else(|| RunError::new(RunFailure::BadRequest, "the inputs were not generated"))
    }

    /// Loads a candidate for `sets` sets of buffers, or all of them.
    fn load(&mut self, candidate: &Candidate, sets: Option<usize>) -> Outcome<Loaded> {
        self.make_inputs(&candidate.plan.params)?;
        let sets = sets.unwrap_or(self.buffers()?.sets());
        let addresses: Vec<Vec<u64>> = (0..sets).map(|s| Ok(self.buffers()?.addresses(s))).collect::<Outcome<_>>()?;
        let scalars = scalars(&candidate.plan, &self.problem);
        place(self.device.as_mut(), candidate, &scalars, &addresses)
    }

    fn unload(&mut self, loaded: Loaded) {
        unload(self.device.as_mut(), loaded);
    }

    /// One run on the first set, checked.
    fn check(&mut self, loaded: &Loaded, plan: &Plan) -> Outcome<Errors> {
        let device = self.device.as_mut();
        let missing = || RunError::new(RunFailure::BadRequest, "the inputs were not generated");
        let buffers = self.buffers.as_mut().ok_or_else(missing)?;
        buffers.reset(device)?;
        loaded.workspaces.reset(device, &zeroed(plan))?;
        device.run(loaded.module, &loaded.runs[0])?;
        buffers.check_guards(device, &plan.params)?;
        buffers.check_inputs(device, &plan.params)?;
        let mut worst = Errors::default();
        for want in &self.wanted {
            let errors = check_output(device, buffers, plan, want, &mut self.scratch)?;
            worst = Errors { l2: worst.l2.max(errors.l2), max: worst.max.max(errors.max) };
        }
        Ok(worst)
    }

    /// Makes a loaded candidate ready to be timed.
    fn timer(&mut self, loaded: &Loaded, estimate_ns: f64) -> Outcome<Box<dyn Timer>> {
        let touched = self.buffers()?.touched_bytes();
        self.device.begin(loaded.module, loaded.runs.clone(), self.protocol, estimate_ns, touched)
    }

    /// Roughly how long a run takes: the second one, as the first may load code.
    fn estimate(&mut self, loaded: &Loaded) -> Outcome<f64> {
        let first = self.device.run(loaded.module, &loaded.runs[0])?;
        if first > LONG_NS {
            return Ok(first);
        }
        self.device.run(loaded.module, &loaded.runs[loaded.runs.len() - 1])
    }

    /// Samples of `runs` runs each, unless no run can be that fast.
    fn timing(&self, samples_ns: Vec<f64>, runs: usize, state: Option<DeviceState>) -> Outcome<Timing> {
        let median = stats::median(&samples_ns).unwrap_or(0.0);
        let facts = self.device.facts();
        let absorbed = bound::absorbed(self.buffers()?.written_bytes(), facts.l2_bytes, runs);
        bound::refuse(median, bound::least_ns(&self.problem, facts, absorbed))?;
        Ok(Timing { policy: self.device.policy(self.protocol).to_string(), samples_ns, dropped: false, state })
    }

    /// The few samples of a candidate that is far behind.
    fn dropped(&self, samples_ns: Vec<f64>, runs: usize) -> Outcome<Timing> {
        Ok(Timing { dropped: true, ..self.timing(samples_ns, runs, None)? })
    }

    fn time_loaded(&mut self, loaded: &Loaded, best_ns: Option<f64>) -> Outcome<Timing> {
        let estimate = self.estimate(loaded)?;
        if best_ns.is_some_and(|best| estimate > HOPELESS * best + LAUNCH_NS) {
            return self.dropped(vec![estimate], 1);
        }
        let mut timer = self.timer(loaded, estimate)?;
        let runs = timer.runs();
        let start = Instant::now();
        let mut now = || start.elapsed().as_nanos() as f64;
        let rules = self.sampling;
        let mut first = match warm_up(&rules, best_ns, &mut now, &mut || timer.sample())? {
            Warm::Hopeless(ns) => return self.dropped(vec![ns], runs),
            Warm::Ready(ns) => Some(ns),
        };
        let mut batch = || take(&rules, best_ns, first.take(), &mut now, &mut || timer.sample());
        let (taken, state) = self.watch.steady(&mut || self.device.state(), &mut batch, |taken| taken.dropped)?;
        if taken.dropped { self.dropped(taken.samples, runs) } else { self.timing(taken.samples, runs, state) }
    }

    /// `rounds` samples of each, taken turn by turn.
    fn interleave(&mut self, loaded: &[Loaded], rounds: usize) -> Outcome<Vec<Outcome<Timing>>> {
        let mut timers = vec![];
        for l in loaded {
            let estimate = self.estimate(l)?;
            let mut timer = self.timer(l, estimate)?;
            // They were timed before; this warms up their code.
            timer.sample()?;
            timers.push(timer);
        }
        let mut batch = || turns(&mut timers, rounds.max(1), &mut self.order);
        let (samples, state) = self.watch.steady(&mut || self.device.state(), &mut batch, |_| false)?;
        let each = samples.into_iter().zip(&timers);
        Ok(each.map(|(samples, timer)| self.timing(samples, timer.runs(), state.clone())).collect())
    }
}

/// One list per timer, whose n-th sample is of the n-th turn. Each turn has its own order: who comes
/// first, after whom, on which buffers must not always be the same one.
fn turns(timers: &mut [Box<dyn Timer>], rounds: usize, order: &mut StdRng) -> Outcome<Vec<Vec<f64>>> {
    let mut samples = vec![Vec::with_capacity(rounds); timers.len()];
    let mut turn: Vec<usize> = (0..timers.len()).collect();
    for _ in 0..rounds {
        turn.shuffle(order);
        for i in &turn {
            samples[*i].push(timers[*i].sample()?);
        }
    }
    Ok(samples)
}

/// Beside a run this long, loading code takes no time.
const LONG_NS: f64 = 1e8;
/// Launching adds at most about this to a rough time.
const LAUNCH_NS: f64 = 5e4;

/// Loads a candidate's file and binds its plan to one address list per set.
fn place(device: &mut dyn Device, candidate: &Candidate, scalars: &Scalars, sets: &[Vec<u64>]) -> Outcome<Loaded> {
    let plan = &candidate.plan;
    let bad = |e| RunError::new(RunFailure::BadRequest, e);
    let size = |w: &crate::backend::PlanWorkspace| {
        let bytes = eval(&w.bytes, &scalars.extents).map_err(bad)?;
        usize::try_from(bytes).map_err(|_| bad(format!("a workspace of {bytes} bytes")))
    };
    let sizes = plan.workspaces.iter().map(size).collect::<Outcome<Vec<usize>>>()?;
    let symbols: Vec<String> = plan.launches.iter().map(|l| l.symbol.clone()).collect();
    let module = device.load(&candidate.file, &symbols)?;
    let workspaces = Workspaces::new(device, &sizes, sets.len()).inspect_err(|_| device.unload(module))?;
    let run = |(set, params): (usize, &Vec<u64>)| bind(plan, scalars, params, &workspaces.regions(set));
    match sets.iter().enumerate().map(run).collect() {
        Ok(runs) => Ok(Loaded { module, workspaces, runs }),
        Err(e) => {
            workspaces.free(device);
            device.unload(module);
            Err(e)
        }
    }
}

fn unload(device: &mut dyn Device, loaded: Loaded) {
    loaded.workspaces.free(device);
    device.unload(loaded.module);
}

fn zeroed(plan: &Plan) -> Vec<bool> {
    plan.workspaces.iter().map(|w| w.init == Init::ZeroOnce).collect()
}

/// Values of extents and scalar parameters, those not given generated.
fn scalars(plan: &Plan, problem: &Problem) -> Scalars {
    let mut values = problem.scalars.clone();
    for p in plan.params.iter().filter(|p| p.role == Role::Scalar) {
        values.entry(p.name.clone()).or_insert_with(|| inputs::scalar(p.dtype, problem.seed, p.index));
    }
    Scalars { extents: problem.extents.clone(), values }
}

impl Runner for LocalRunner {
    fn device(&mut self) -> Outcome<DeviceFacts> {
        Ok(self.device.facts().clone())
    }

    fn prepare(&mut self, problem: &Problem) -> Outcome<()> {
        self.drop_inputs();
        self.wanted.clear();
        self.watch.forget();
        self.expected = match &problem.expected {
            None => None,
            Some(path) => Some(Expected::read(path).map_err(|e| {
                RunError::new(RunFailure::BadRequest, format!("the reference {} can't be read: {e}", path.display()))
            })?),
        };
        self.problem = problem.clone();
        Ok(())
    }

    fn make_inputs(&mut self, params: &[PlanParam]) -> Outcome<()> {
        if self.buffers.is_none() {
            self.buffers = Some(Buffers::new(self.device.as_mut(), params, &self.problem)?);
        }
        if let Some(expected) = self.expected.take() {
            self.wanted = wanted(expected, params)?;
        }
        Ok(())
    }

    fn execute(&mut self, candidate: &Candidate) -> Outcome<Errors> {
        let loaded = self.load(candidate, Some(1))?;
        let checked = self.check(&loaded, &candidate.plan);
        self.unload(loaded);
        if checked.is_err() && !self.is_lost() {
            // What wrote wrong numbers may have written them over the inputs too.
            self.drop_inputs();
        }
        checked
    }

    fn run_files(
        &mut self,
        candidate: &Candidate,
        inputs: &BTreeMap<usize, PathBuf>,
        outputs: &BTreeMap<usize, PathBuf>,
    ) -> Outcome<()> {
        let scalars = scalars(&candidate.plan, &self.problem);
        let device = self.device.as_mut();
        let mut regions = vec![];
        let done = run_files(device, candidate, &scalars, inputs, outputs, &mut regions);
        regions.into_iter().flatten().for_each(|r| device.free(r));
        done
    }

    fn time(&mut self, candidate: &Candidate, best_ns: Option<f64>) -> Outcome<Timing> {
        let loaded = self.load(candidate, None)?;
        let reset = loaded.workspaces.reset(self.device.as_mut(), &zeroed(&candidate.plan));
        let timing = reset.and_then(|()| self.time_loaded(&loaded, best_ns));
        self.unload(loaded);
        timing
    }

    fn time_interleaved(&mut self, candidates: &[Candidate], rounds: usize) -> Vec<Outcome<Timing>> {
        let mut loaded = vec![];
        let mut failed = None;
        for c in candidates {
            let ready = self.load(c, None).and_then(|l| {
                let reset = l.workspaces.reset(self.device.as_mut(), &zeroed(&c.plan));
                loaded.push(l);
                reset
            });
            failed = failed.or(ready.err());
        }
        let timings = match failed {
            None => self.interleave(&loaded, rounds),
            Some(e) => Err(e),
        };
        loaded.into_iter().for_each(|l| self.unload(l));
        match timings {
            Err(e) => candidates.iter().map(|_| Err(e.clone())).collect(),
            // A kernel with a race may be right once and wrong now: finalists are checked again.
            Ok(all) => candidates.iter().zip(all).map(|(c, timing)| self.execute(c).and(timing)).collect(),
        }
    }
}

fn run_files(
    device: &mut dyn Device,
    candidate: &Candidate,
    scalars: &Scalars,
    inputs: &BTreeMap<usize, PathBuf>,
    outputs: &BTreeMap<usize, PathBuf>,
    regions: &mut Vec<Option<Region>>,
) -> Outcome<()> {
    for p in &candidate.plan.params {
        let region = if p.is_tensor() { Some(upload(device, p, scalars, inputs.get(&p.index))?) } else { None };
        regions.push(region);
    }
    let addresses: Vec<u64> = regions.iter().map(|r| r.map_or(0, |r| r.at)).collect();
    let loaded = place(device, candidate, scalars, &[addresses])?;
    let reset = loaded.workspaces.reset(device, &zeroed(&candidate.plan));
    let ran = reset.and_then(|()| device.run(loaded.module, &loaded.runs[0]));
    unload(device, loaded);
    ran?;
    for (param, path) in outputs {
        let region = regions.get(*param).copied().flatten();
        let region =
            region.ok_or_else(|| RunError::new(RunFailure::BadRequest, format!("parameter {param} is no tensor")))?;
        let mut bytes = vec![0; region.bytes];
        device.download(region.at, &mut bytes)?;
        std::fs::write(path, bytes).map_err(|e| file_error(path, &e))?;
    }
    Ok(())
}

/// A buffer with the contents of a file, or zeros.
fn upload(device: &mut dyn Device, p: &PlanParam, scalars: &Scalars, file: Option<&PathBuf>) -> Outcome<Region> {
    let bad = |e| RunError::new(RunFailure::BadRequest, e);
    let bytes = p.len(&scalars.extents).map_err(bad)? * p.dtype.bytes() as usize;
    let region = device.allocate(bytes)?;
    let Some(path) = file else {
        device.fill(region, 0)?;
        return Ok(region);
    };
    let data = std::fs::read(path).map_err(|e| file_error(path, &e))?;
    if data.len() != bytes {
        return Err(bad(format!("{} has {} bytes, `{}` needs {bytes}", path.display(), data.len(), p.name)));
    }
    device.upload(region.at, &data)?;
    Ok(region)
}

fn file_error(path: &std::path::Path, e: &std::io::Error) -> RunError {
    RunError::new(RunFailure::BadRequest, format!("{}: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;

    /// Notes who was sampled; the sample is how many samples there were before.
    struct Noted(usize, Rc<RefCell<Vec<usize>>>);

    impl Timer for Noted {
        fn sample(&mut self) -> Outcome<f64> {
            let mut noted = self.1.borrow_mut();
            noted.push(self.0);
            Ok(noted.len() as f64)
        }

        fn runs(&self) -> usize {
            1
        }
    }

    #[test]
    fn every_turn_samples_each_once_in_an_order_of_its_own() {
        let noted = Rc::default();
        let mut timers: Vec<Box<dyn Timer>> =
            (0..3).map(|i| Box::new(Noted(i, Rc::clone(&noted))) as Box<dyn Timer>).collect();
        let samples = turns(&mut timers, 60, &mut StdRng::seed_from_u64(0)).unwrap();
        for (turn, place) in (0..60).flat_map(|t| (0..3).map(move |p| (t, p))) {
            let who = noted.borrow()[3 * turn + place];
            assert_eq!(samples[who][turn], (3 * turn + place + 1) as f64, "the n-th sample is of the n-th turn");
        }
        for (who, place) in (0..3).flat_map(|w| (0..3).map(move |p| (w, p))) {
            let there = (0..60).filter(|t| noted.borrow()[3 * t + place] == who).count();
            assert!((10..=30).contains(&there), "{who} was at place {place} {there} times of 60");
        }
        assert!(turns(&mut [], 3, &mut StdRng::seed_from_u64(0)).unwrap().is_empty());
    }
}

//! Ranks a function's candidates for a target that is not there, and logs the ranking.

use super::select::{Choice, arms};
use super::{Failure, Input, language};
use crate::backend::{Artifact, Compiler, LocalCompiler, Tools, nvrtc};
use crate::log::{Env, Outcome, Policy, Record, Setting, Workload, Writer};
use crate::machine::{Machine, Watch};
use crate::rules::Spaces;
use crate::runner::{CompilePool, WorkerCommand};
use crate::target::{Kind, Target};
use crate::tune::predict::{Ranked, Unranked, predict};
use crate::tune::{Arms, Occupancy, RuleBuild, TuneConfig, with_candidate, with_steps};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What stands for the device in records of a ranking.
pub const NO_DEVICE: &str = "none";

/// The way of ranking, as records name it: scores of different ways are not comparable.
const POLICY: &str = "prior-v2";

/// What is needed to rank for one target.
pub struct Predictor {
    target: Target,
    spaces: Spaces,
    compiler: Box<dyn Compiler>,
    nvdisasm: Option<PathBuf>,
    env: Env,
    trials: usize,
    seed: u64,
}

/// The ranking of one function.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[non_exhaustive]
pub struct Prediction {
    /// Schema of this object.
    pub schema: u32,
    /// The file.
    pub file: String,
    /// The function.
    pub name: String,
    /// Its key.
    pub workload: String,
    /// Values of the bound extents.
    pub bind: BTreeMap<String, i64>,
    /// The target.
    pub target: String,
    /// Rule of the first in the ranking.
    pub rule: Option<String>,
    /// Its knobs.
    pub knobs: BTreeMap<String, Setting>,
    /// Its score over that of the default; below 1 is better. No ratio of times.
    pub relative: Option<f64>,
    /// What the first takes of a multiprocessor; `None` on a CPU.
    pub occupancy: Option<Occupancy>,
    /// Legal points.
    pub legal: u64,
    /// Candidates that compiled and are ranked.
    pub ranked: usize,
    /// Those that did not, by reason.
    pub failed: BTreeMap<String, usize>,
    /// True where machine code was read.
    pub sass: bool,
}

impl Predictor {
    /// Finds the compiler for a target. `config` says how many candidates, with which seed, on how many
    /// compilers, and by which worker program.
    ///
    /// # Errors
    /// A simulated target, no compiler for the target, no worker program.
    pub fn open(machine: &Machine, target: Target, spaces: Spaces, config: &TuneConfig) -> Result<Predictor, Failure> {
        if target.simulated {
            let text = format!("nothing is built for {}, which is simulated; rank for a cuda: target", target.id);
            return Err(Failure::usage(text));
        }
        let tools = Tools::find(&machine.places, language(&target));
        let id = LocalCompiler::new(tools.clone()).id(language(&target)).map_err(|e| Failure::missing(e.message))?;
        let worker = config.worker.as_ref().ok_or_else(|| Failure::usage("no worker program was named"))?;
        let limits = config.limits.for_machine(machine.memory_bytes, config.jobs);
        let pool = CompilePool::new(WorkerCommand::daylight(worker, "compile"), tools, config.jobs, limits);
        Ok(Predictor {
            nvdisasm: nvrtc::find_nvdisasm(&machine.places).filter(|_| target.kind == Kind::Cuda),
            env: Env {
                gpu: NO_DEVICE.into(),
                cc: String::new(),
                sms: target.sms,
                driver: String::new(),
                nvrtc: id,
                daylight: env!("CARGO_PKG_VERSION").into(),
            },
            target,
            spaces,
            compiler: Box::new(pool),
            trials: config.trials,
            seed: config.seed,
        })
    }

    /// Ranks one function and appends what is new in the ranking to a log that holds `past`.
    ///
    /// # Errors
    /// A function that is refused or that no rule takes, extents without a value, a log that cannot be
    /// written.
    pub fn predict(&self, input: &Input, past: &[Record], log: &mut Writer) -> Result<Prediction, Failure> {
        let subject = input.schedulable(&self.target)?;
        input.require_bound()?;
        let arms = arms(&subject, &self.spaces, &input.name, &Choice::default())?;
        let arms = Arms::new(arms, self.target.clone());
        let build = RuleBuild { subject: &subject, arms: &arms, overlap: None };
        let sass = |a: &Artifact| nvrtc::sass(self.nvdisasm.as_ref()?, &a.path).ok();
        let (ranked, unranked) = predict(&arms, &build, self.compiler.as_ref(), &sass, self.trials);
        for (rank, one) in ranked.iter().enumerate() {
            let record = self.record(input, &arms, one);
            let record = if rank == 0 { with_steps(record, &one.built) } else { record };
            if !past.iter().any(|old| says_the_same(old, &record)) {
                log.append(&record).map_err(Failure::usage)?;
            }
        }
        Ok(self.prediction(input, &arms, &ranked, &unranked))
    }

    fn record(&self, input: &Input, arms: &Arms, one: &Ranked) -> Record {
        let workload = Workload { key: input.key.clone(), name: input.name.clone() };
        let about = Record {
            env: self.env.clone(),
            policy: Policy { id: POLICY.into(), flags: vec![] },
            seed: self.seed,
            unix_s: Watch::unix_s(),
            default: arms.defaults().first() == Some(&one.point),
            score: Some(one.score),
            ..Record::new(workload, input.bind.clone(), &self.target.id, Outcome::Predicted)
        };
        with_candidate(about, arms, &one.point, Some(&one.built), Some(&one.artifact))
    }

    fn prediction(&self, input: &Input, arms: &Arms, ranked: &[Ranked], unranked: &[Unranked]) -> Prediction {
        let best = ranked.first();
        let default = arms.defaults().into_iter().next();
        let base = ranked.iter().find(|r| Some(&r.point) == default.as_ref());
        let mut failed: BTreeMap<String, usize> = BTreeMap::new();
        for one in unranked {
            *failed.entry(one.why.predicate.to_string()).or_default() += 1;
        }
        Prediction {
            schema: 1,
            file: input.file.clone(),
            name: input.name.clone(),
            workload: input.key.clone(),
            bind: input.bind.clone(),
            target: self.target.id.clone(),
            rule: best.map(|b| arms.of(&b.point).space.form.to_string()),
            knobs: best.map(|b| arms.of(&b.point).space.settings(&b.point.knobs)).unwrap_or_default(),
            relative: best.zip(base).map(|(b, d)| b.score / d.score),
            occupancy: best.and_then(|b| b.occupancy.clone()),
            legal: arms.census().legal,
            ranked: ranked.len(),
            failed,
            sass: self.nvdisasm.is_some(),
        }
    }
}

/// True when a ranking of an earlier run says the same of the same candidate.
fn says_the_same(old: &Record, new: &Record) -> bool {
    let parts = |r: &Record| (r.outcome, r.source_digits().map(str::to_string), r.candidate());
    // The log keeps nine digits.
    let alike = |a: f64, b: f64| (a - b).abs() <= 1e-8 * b.abs();
    (&old.workload.key, &old.bind, &old.target) == (&new.workload.key, &new.bind, &new.target)
        && (&old.env, &old.policy) == (&new.env, &new.policy)
        && parts(old) == parts(new)
        && old.score.zip(new.score).is_some_and(|(a, b)| alike(a, b))
}

//! One function made ready to be tuned: its rules, spaces, inputs and expected outputs.

use super::report::SpaceReport;
use super::select::{Choice, arms};
use super::{Failure, Input, Report};
use crate::assemble::{Constant, Overlap, Schedulable};
use crate::backend::{Compiler, Plan};
use crate::files::scratch::Scratch;
use crate::log::{Env, Workload};
use crate::rules::Spaces;
use crate::runner::Problem;
use crate::target::Target;
use crate::tune::reference::takes_long;
use crate::tune::{Arms, RuleBuild, Summary, Task, problem};

/// Why a search ended that neither stopped by itself nor was interrupted.
const OUT_OF_TIME: &str = "the time is over";

/// A function that can be tuned.
pub struct Work {
    input: Input,
    subject: Schedulable,
    arms: Arms,
    problem: Problem,
    floor_us: Option<f64>,
    enough_us: Option<f64>,
    /// Holds the expected outputs.
    _folder: Scratch,
}

impl Work {
    /// Prepares a function: evaluates it on seeded inputs. `say` is told before that takes long.
    ///
    /// # Errors
    /// A function that is refused, that no rule takes, that has extents without a value, or that cannot
    /// be evaluated.
    pub fn new(
        input: &Input,
        target: &Target,
        spaces: &Spaces,
        seed: u64,
        say: &mut dyn FnMut(&str),
    ) -> Result<Work, Failure> {
        let subject = input.schedulable(target)?;
        input.require_bound()?;
        let arms = arms(&subject, spaces, &input.name, &Choice::default())?;
        let folder = Scratch::new().map_err(|e| Failure::usage(format!("no temporary folder: {e}")))?;
        let given = problem::given(&input.func, &input.bind, seed);
        if let Some(why) = takes_long(&subject.prepared.func, &given) {
            say(&format!("{}: {why}", input.name));
        }
        let (problem, floor_us) = problem::problem(&subject, &given, folder.path()).map_err(|e| {
            Failure::usage(format!("{}: what it computes of drawn inputs is not known: {e}", input.name))
        })?;
        let enough_us = problem::enough_us(&problem, target);
        let arms = Arms::new(arms, target.clone());
        Ok(Work { input: input.clone(), subject, arms, problem, floor_us, enough_us, _folder: folder })
    }

    /// Compiles what the untuned choice is chosen among, which is what is built where no log says more.
    pub fn settle(&self, compiler: &dyn Compiler) {
        if let Some(first) = self.arms.list.first() {
            self.subject.settle(first, compiler);
        }
    }

    /// The function's name.
    pub fn name(&self) -> &str {
        &self.input.name
    }

    /// How its kernels overlap.
    pub fn overlap(&self, constant: &[Constant]) -> Overlap {
        Overlap::new(&self.input, constant)
    }

    /// Calls `run` with the task that the tuner takes. `overlap`: how its kernels do, and what compiles them.
    pub fn with_task<T>(&self, overlap: Option<(&Overlap, &dyn Compiler)>, run: impl FnOnce(&Task<'_>) -> T) -> T {
        run(&Task {
            workload: Workload { key: self.input.key.clone(), name: self.input.name.clone() },
            bind: self.input.bind.clone(),
            target: self.subject.target.id.clone(),
            problem: self.problem.clone(),
            params: Plan::params(&self.subject.prepared.func, &self.subject.roles).unwrap_or_default(),
            arms: &self.arms,
            default: self.arms.defaults().into_iter().next(),
            floor_us: self.floor_us,
            enough_us: self.enough_us,
            build: &RuleBuild { subject: &self.subject, arms: &self.arms, overlap },
        })
    }

    /// What came out, for people and programs.
    pub fn report(&self, env: &Env, s: Summary) -> Report {
        let best = s.best.as_ref();
        let census = self.arms.census();
        let waited = s.overlap.waited_s.iter().map(|(cause, seconds)| (cause.to_string(), *seconds));
        Report {
            schema: 1,
            file: self.input.file.clone(),
            name: self.input.name.clone(),
            workload: self.input.key.clone(),
            bind: self.input.bind.clone(),
            target: self.subject.target.id.clone(),
            device: env.gpu.clone(),
            rule: best.map(|b| b.rule.clone()),
            knobs: best.map(|b| b.knobs.clone()).unwrap_or_default(),
            variants: best.map(|b| b.variants.clone()).unwrap_or_default(),
            calls: 1.0,
            default_us: s.default_us,
            best_us: s.best_us,
            speedup: s.speedup.map(|m| m.value),
            speedup_interval: s.speedup.map(|m| [m.low, m.high]),
            spread: s.spread,
            floor_us: self.floor_us,
            candidates: s.counts.candidates,
            pruned: s.counts.pruned,
            compiled: s.counts.compiled,
            measured: s.counts.measured,
            failed: s.counts.failed.iter().map(|(outcome, n)| (outcome.name().to_string(), *n)).collect(),
            pruned_by: s.counts.pruned_by,
            space: SpaceReport {
                points: census.points,
                legal: census.legal,
                ruled_out: census.ruled_out.iter().map(|(name, n)| (name.to_string(), *n)).collect(),
            },
            resumed: s.resumed,
            stop: s.stop.map(|stop| stop.to_string()).or((!s.interrupted).then(|| OUT_OF_TIME.to_string())),
            device_busy: s.overlap.busy_share(),
            device_busy_s: s.overlap.busy_s,
            compile_s: s.overlap.compile_s,
            device_waited_s: waited.collect(),
            default: self.arms.defaults().first().map(|p| {
                let space = &self.arms.of(p).space;
                format!("{}: {}", space.form, space.show(&p.knobs))
            }),
            examples: s.examples,
            interrupted: s.interrupted,
            seconds: s.seconds,
        }
    }
}

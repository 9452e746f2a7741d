//! From a schedule to what a compiler takes: lower, generate, plan. The one place where the stages
//! between a schedule and its text are put together; the tuner, `apply`, `explain` and `verify` all
//! come through here. `input` reads the functions that they are given, `sizes` are those of one, `subject` is one of them on a target,
//! scheduled by rules or by hand, `overlap` lets kernels start early, `settle` compiles what the untuned choice
//! is chosen among, `failure` says how a command ends, `guard` what becomes of a bug.

mod failure;
mod guard;
mod input;
mod overlap;
mod settle;
mod sizes;
mod subject;

pub use failure::{Exit, Failure};
pub use guard::{caught, guarded};
pub use input::{BadFile, Bindings, Input, Reading, Sizes, load};
pub use overlap::{Constant, Overlap, check_constants};
pub use settle::compiled;
pub use sizes::{label, smaller_first};
pub use subject::{Scheduled, Subject, TileProgram};

use crate::analysis::roles;
use crate::backend::{Language, Plan, Source};
use crate::ir::kernel::Program;
use crate::ir::{Param, PrimFunc, Reason, Role};
use crate::lower::LowerError;
use crate::rules::{Arm, Knobs, Prepared, Spaces, arms, last_resorts, verdicts};
use crate::schedule::{Schedule, Step};
use crate::target::{Kind, Target};
use crate::{codegen, lower};
use std::collections::BTreeMap;
use std::fmt::Display;

/// A scheduled function with everything that follows from it.
#[derive(Clone, Debug)]
pub struct Assembly {
    /// The kernels.
    pub program: Program,
    /// Their text.
    pub source: Source,
    /// How to launch them.
    pub plan: Plan,
    /// The schedule's steps.
    pub trace: Vec<String>,
}

/// A function ready to be scheduled for a target.
pub struct Schedulable {
    /// The normalized function and its facts.
    pub prepared: Prepared,
    /// The target.
    pub target: Target,
    /// What each parameter is for.
    pub roles: Vec<Role>,
}

impl Schedulable {
    /// Normalizes a function whose extents are bound as far as they will be. `original` is the
    /// function as read, which knows the extents among the parameters.
    ///
    /// # Errors
    /// The predicate for which the function cannot be scheduled.
    pub fn new(bound: &PrimFunc, original: &PrimFunc, target: Target) -> Result<Schedulable, crate::analysis::Decline> {
        let prepared = Prepared::new(bound)?;
        Ok(Schedulable { prepared, target, roles: roles(original) })
    }

    /// The rules that take the function, the untuned choice first, with their spaces. Where none of them makes a kernel by default, rules of
    /// last resort come before them.
    pub fn arms(&self, spaces: &Spaces) -> Vec<Arm> {
        let arms = arms(verdicts(&self.prepared, &self.target, spaces));
        let makes = |arm: &Arm| arm.default().is_some_and(|knobs| self.candidate(arm, &knobs).is_ok());
        if arms.iter().any(makes) {
            return arms;
        }
        let mut out = last_resorts(&self.prepared, &self.target, spaces);
        out.retain(makes);
        let others: Vec<Arm> = arms.into_iter().filter(|a| out.iter().all(|o| o.space.form != a.space.form)).collect();
        out.into_iter().chain(others).collect()
    }

    /// The kernel of a rule that takes the function, at one legal point of its space.
    ///
    /// # Errors
    /// The pass that cannot lower it.
    pub fn candidate(&self, arm: &Arm, knobs: &Knobs) -> Result<Assembly, Reason> {
        self.assemble(&arm.schedule(knobs).map_err(|e| Reason::new("schedule", e.to_string()))?)
    }

    /// The schedule that a trace of the log makes.
    ///
    /// # Errors
    /// The step that is not understood, cannot be taken any more, or that no rule would take.
    pub fn replay(&self, trace: &[String]) -> Result<Schedule, Reason> {
        let steps: Result<Vec<Step>, String> = trace.iter().map(|t| t.parse()).collect();
        let steps = steps.map_err(|e| Reason::new("trace", e))?;
        self.rounds_as_rules_do(&steps)?;
        Schedule::replay(self.prepared.func.clone(), &steps).map_err(|e| Reason::new("trace", e.to_string()))
    }

    /// A trace is somebody's: steps that change how results are rounded are for outputs of 16 bits.
    fn rounds_as_rules_do(&self, steps: &[Step]) -> Result<(), Reason> {
        let relaxes = |s: &&Step| matches!(s, Step::RelaxArithmetic { .. } | Step::OnlineReductions { .. });
        let f = &self.prepared.func;
        let wide = f.params.iter().zip(&self.roles).find_map(|(p, role)| match p {
            Param::Buffer(b) if matches!(role, Role::Out | Role::Inout) && f.buffer(b).dtype.bytes() > 2 => Some(b),
            Param::Buffer(_) | Param::Scalar { .. } => None,
        });
        match (steps.iter().find(relaxes), wide) {
            (Some(step), Some(output)) => {
                let output = f.display_name(output);
                let why =
                    format!("`{step}` rounds otherwise than the function says, and `{output}` is wider than 16 bits");
                Err(Reason::new("relaxed_output", why))
            }
            (None, _) | (_, None) => Ok(()),
        }
    }

    /// The schedule of a logged candidate; `None` where it can no longer be made. Without steps, which a
    /// compacted log may have dropped, the rule takes them again at the same point, unless its table has
    /// changed since.
    pub fn logged(
        &self,
        trace: &[String],
        (form, version): (&str, u32),
        knobs: &BTreeMap<String, impl Display>,
        spaces: &Spaces,
    ) -> Option<Schedule> {
        if !trace.is_empty() {
            return self.replay(trace).ok();
        }
        let same = |a: &Arm| a.space.form == form && a.space.version == version;
        let arm = self.arms(spaces).into_iter().find(same)?;
        let knobs = arm.space.logged(knobs).filter(|k| arm.space.possible(k).is_ok())?;
        arm.schedule(&knobs).ok()
    }

    /// The kernels of a schedule.
    ///
    /// # Errors
    /// The pass that cannot lower it, or a limit of the target that it breaks.
    pub fn assemble(&self, schedule: &Schedule) -> Result<Assembly, Reason> {
        let trace: Vec<String> = schedule.trace().iter().map(Step::to_string).collect();
        let program = lower::lower(schedule.func(), &self.target, &trace);
        let program = program.map_err(unfit)?;
        finish(program, &self.prepared.func, &self.roles, &self.target, trace)
    }
}

fn unfit(e: LowerError) -> Reason {
    Reason::new(format!("lower_{}", e.pass.replace(' ', "_")), e.to_string())
}

/// Text and launch plan of lowered kernels.
fn finish(
    program: Program,
    func: &PrimFunc,
    roles: &[Role],
    target: &Target,
    trace: Vec<String>,
) -> Result<Assembly, Reason> {
    fits(&program, target)?;
    let (text, language) = match target.kind {
        Kind::Cuda => (codegen::cuda(&program), Language::Cuda),
        Kind::Cpu => (codegen::c(&program, target.vector_bytes), Language::C),
    };
    let symbols = program.launches.iter().map(|l| l.kernel.symbol.clone()).collect();
    let source = Source { text, language, target: target.table_id(), symbols };
    let plan = Plan::of(&program, func, roles).map_err(|e| Reason::new("plan", e))?;
    Ok(Assembly { program, source, plan, trace })
}

/// Checks a program against the limits of a GPU, before a compiler or a launch would.
fn fits(program: &Program, target: &Target) -> Result<(), Reason> {
    if target.kind == Kind::Cpu {
        return Ok(());
    }
    for l in &program.launches {
        let (threads, smem) = (l.threads(), l.kernel.shared_bytes());
        if threads > target.max_threads {
            return Err(Reason::new("threads_per_block", format!("{threads} threads exceed {}", target.max_threads)));
        }
        if smem > u64::from(target.smem_per_block) {
            let reason = format!("{smem} bytes of shared memory exceed {}", target.smem_per_block);
            return Err(Reason::new("shared_memory", reason));
        }
        for (axis, limit) in [(0, i64::from(i32::MAX)), (1, 65535), (2, 65535)] {
            if l.grid[axis].as_int().is_some_and(|n| n > limit) {
                let reason = format!("the grid's axis {axis} has more than {limit} blocks");
                return Err(Reason::new("grid", reason));
            }
        }
    }
    Ok(())
}

//! From a schedule to what a compiler takes: lower, generate, plan. The one place where the stages
//! between a schedule and its text are put together; the tuner, `apply`, `explain` and `verify` all
//! come through here. `input` reads the functions that they are given, `failure` says how a command ends.

mod failure;
mod input;

pub use failure::{Exit, Failure};
pub use input::{BadFile, Bindings, Input, load};

use crate::analysis::{ParamRole, program_roles, roles};
use crate::backend::{Language, Plan, Role, Source};
use crate::ir::kernel::Program;
use crate::ir::{DeviceFunc, PrimFunc};
use crate::lower::LowerError;
use crate::rules::{Arm, Knobs, Prepared, Spaces, verdicts};
use crate::schedule::{Schedule, Step};
use crate::target::{Kind, Target};
use crate::tile::Decision;
use crate::{codegen, lower};
use std::collections::BTreeMap;
use std::fmt;

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

/// Why a schedule has no kernel: a named predicate and the reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unfit {
    /// Name of what did not hold.
    pub predicate: String,
    /// The sentence for people.
    pub reason: String,
}

impl Unfit {
    fn new(predicate: impl Into<String>, reason: impl fmt::Display) -> Unfit {
        Unfit { predicate: predicate.into(), reason: reason.to_string() }
    }
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.predicate, self.reason)
    }
}

/// A function ready to be scheduled for a target.
pub struct Subject {
    /// The normalized function and its facts.
    pub prepared: Prepared,
    /// The target.
    pub target: Target,
    /// What each parameter is for.
    pub roles: Vec<Role>,
}

impl Subject {
    /// Normalizes a function whose extents are bound as far as they will be. `original` is the
    /// function as read, which knows the extents among the parameters.
    ///
    /// # Errors
    /// The predicate for which the function cannot be scheduled.
    pub fn new(bound: &PrimFunc, original: &PrimFunc, target: Target) -> Result<Subject, crate::analysis::Decline> {
        let prepared = Prepared::new(bound)?;
        Ok(Subject { prepared, target, roles: roles(original).into_iter().map(plan_role).collect() })
    }

    /// The rules that take the function, in order, with their spaces.
    pub fn arms(&self, spaces: &Spaces) -> Vec<Arm> {
        verdicts(&self.prepared, &self.target, spaces).into_iter().filter_map(|v| v.arm.ok()).collect()
    }

    /// The kernel of a rule that takes the function, at one legal point of its space.
    ///
    /// # Errors
    /// The pass that cannot lower it.
    pub fn candidate(&self, arm: &Arm, knobs: &Knobs) -> Result<Assembly, Unfit> {
        self.assemble(&arm.schedule(knobs).map_err(|e| Unfit::new("schedule", e))?)
    }

    /// The schedule that a trace of the log makes.
    ///
    /// # Errors
    /// The step that is not understood or cannot be taken any more.
    pub fn replay(&self, trace: &[String]) -> Result<Schedule, Unfit> {
        let steps: Result<Vec<Step>, String> = trace.iter().map(|t| t.parse()).collect();
        let steps = steps.map_err(|e| Unfit::new("trace", e))?;
        Schedule::replay(self.prepared.func.clone(), &steps).map_err(|e| Unfit::new("trace", e))
    }

    /// The schedule of a logged candidate; `None` where it can no longer be made. Without steps, which a
    /// compacted log may have dropped, the rule takes them again at the same point, unless its table has
    /// changed since.
    pub fn logged(
        &self,
        trace: &[String],
        (form, version): (&str, u32),
        knobs: &BTreeMap<String, i64>,
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

    /// What dispatch decides for each tile call that a schedule leaves.
    ///
    /// # Errors
    /// The pass that cannot lower it.
    pub fn decisions(&self, schedule: &Schedule) -> Result<Vec<Decision>, Unfit> {
        let lowered = lower::lower_decided(schedule.func(), &self.target, &[]);
        lowered.map(|(_, d)| d).map_err(|e| Unfit::new(format!("lower_{}", e.pass), e))
    }

    /// The kernels of a schedule.
    ///
    /// # Errors
    /// The pass that cannot lower it, or a limit of the target that it breaks.
    pub fn assemble(&self, schedule: &Schedule) -> Result<Assembly, Unfit> {
        let trace: Vec<String> = schedule.trace().iter().map(Step::to_string).collect();
        let program = lower::lower(schedule.func(), &self.target, &trace);
        let program = program.map_err(unfit)?;
        finish(program, &self.prepared.func, &self.roles, &self.target, trace)
    }
}

/// The kernel of a tile program, and what was decided for each of its tile calls.
///
/// # Errors
/// Where no variant carries out a call, or a limit of the target is broken.
pub fn assemble_program(program: &DeviceFunc, target: &Target) -> Result<(Assembly, Vec<Decision>), Unfit> {
    let (lowered, decisions) = lower::lower_device(program, target).map_err(unfit)?;
    let roles: Vec<Role> = program_roles(program).into_iter().map(plan_role).collect();
    Ok((finish(lowered, &program.func, &roles, target, vec![])?, decisions))
}

fn unfit(e: LowerError) -> Unfit {
    Unfit::new(format!("lower_{}", e.pass.replace(' ', "_")), e)
}

/// Text and launch plan of lowered kernels.
fn finish(
    program: Program,
    func: &PrimFunc,
    roles: &[Role],
    target: &Target,
    trace: Vec<String>,
) -> Result<Assembly, Unfit> {
    fits(&program, target)?;
    let (text, language) = match target.kind {
        Kind::Cuda => (codegen::cuda(&program), Language::Cuda),
        Kind::Cpu => (codegen::c(&program, target.vector_bytes), Language::C),
    };
    let symbols = program.launches.iter().map(|l| l.kernel.symbol.clone()).collect();
    let source = Source { text, language, target: target.table_id(), symbols };
    let plan = Plan::of(&program, func, roles).map_err(|e| Unfit::new("plan", e))?;
    Ok(Assembly { program, source, plan, trace })
}

/// Checks a program against the limits of a GPU, before a compiler or a launch would.
fn fits(program: &Program, target: &Target) -> Result<(), Unfit> {
    if target.kind == Kind::Cpu {
        return Ok(());
    }
    for l in &program.launches {
        let (threads, smem) = (l.threads(), l.kernel.shared_bytes());
        if threads > target.max_threads {
            return Err(Unfit::new("threads_per_block", format!("{threads} threads exceed {}", target.max_threads)));
        }
        if smem > u64::from(target.smem_per_block) {
            let reason = format!("{smem} bytes of shared memory exceed {}", target.smem_per_block);
            return Err(Unfit::new("shared_memory", reason));
        }
        for (axis, limit) in [(0, i64::from(i32::MAX)), (1, 65535), (2, 65535)] {
            if l.grid[axis].as_int().is_some_and(|n| n > limit) {
                let reason = format!("the grid's axis {axis} has more than {limit} blocks");
                return Err(Unfit::new("grid", reason));
            }
        }
    }
    Ok(())
}

fn plan_role(role: ParamRole) -> Role {
    match role {
        ParamRole::In => Role::In,
        ParamRole::Out => Role::Out,
        ParamRole::InOut => Role::Inout,
        ParamRole::Scalar => Role::Scalar,
        ParamRole::Extent => Role::Extent,
    }
}

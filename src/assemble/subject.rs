//! What commands work on: a tensor function, which rules schedule, or a tile program, which a person did.

use super::{Assembly, Schedulable, finish, unfit};
use crate::analysis::program_roles;
use crate::ir::{DeviceFunc, DeviceLaunch, Reason};
use crate::lower::{self, Pass, Way, device_decisions, lower_after, lower_device, lower_device_after};
use crate::schedule::Schedule;
use crate::target::{Kind, Target};
use crate::tile::Decision;
use std::fmt;

/// A function of either kind on a target.
pub enum Subject {
    /// To be scheduled by rules.
    Tensor(Box<Schedulable>),
    /// Scheduled by hand.
    Tile(Box<TileProgram>),
}

/// A tile program and its target.
pub struct TileProgram {
    /// The program.
    pub program: DeviceFunc,
    /// The target.
    pub target: Target,
}

/// A subject with its schedule: one of the rules', or the program as it is. Prints as TVMScript.
#[allow(clippy::large_enum_variant)] // one is made at a time
pub enum Scheduled<'s> {
    /// A tensor function and the schedule of one point.
    Tensor(&'s Schedulable, Schedule),
    /// A tile program.
    Tile(&'s TileProgram),
}

impl Scheduled<'_> {
    /// The schedule; a tile program has none.
    pub fn schedule(&self) -> Option<&Schedule> {
        match self {
            Scheduled::Tensor(_, schedule) => Some(schedule),
            Scheduled::Tile(_) => None,
        }
    }

    /// True where the target cannot run it whatever it does: a tile program is for GPUs.
    pub fn is_for_another_kind(&self) -> bool {
        matches!(self, Scheduled::Tile(t) if t.target.kind != Kind::Cuda)
    }

    /// Its kernels.
    ///
    /// # Errors
    /// The pass that cannot lower it, a tile call that no variant carries out, or a limit of the target
    /// that it breaks.
    pub fn assemble(&self) -> Result<Assembly, Reason> {
        match self {
            Scheduled::Tensor(subject, schedule) => subject.assemble(schedule),
            Scheduled::Tile(TileProgram { program, target }) => {
                let (lowered, _) = lower_device(program, target).map_err(unfit)?;
                finish(lowered, &program.func, &program_roles(program), target, vec![])
            }
        }
    }

    /// How its launches come to be.
    pub fn way(&self) -> Way {
        match self {
            Scheduled::Tensor(subject, _) => Way::of(&subject.target),
            Scheduled::Tile(_) => Way::Program,
        }
    }

    /// Its launches after a pass of that way.
    ///
    /// # Errors
    /// The pass up to there that cannot lower it.
    pub fn after(&self, last: &Pass) -> Result<Vec<DeviceLaunch>, Reason> {
        match self {
            Scheduled::Tensor(subject, schedule) => lower_after(schedule.func(), &subject.target, last).map_err(unfit),
            Scheduled::Tile(t) => lower_device_after(&t.program, &t.target, last).map(|l| vec![l]).map_err(unfit),
        }
    }

    /// What dispatch decides for each tile call; of a program also where it has no kernel.
    ///
    /// # Errors
    /// The pass that cannot lower a scheduled function.
    pub fn decisions(&self) -> Result<Vec<Decision>, Reason> {
        match self {
            Scheduled::Tensor(subject, schedule) => {
                lower::lower_decided(schedule.func(), &subject.target, &[]).map(|(_, d)| d).map_err(unfit)
            }
            Scheduled::Tile(t) => Ok(device_decisions(&t.program, &t.target)),
        }
    }
}

impl fmt::Display for Scheduled<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scheduled::Tensor(_, schedule) => schedule.func().fmt(f),
            Scheduled::Tile(t) => t.program.fmt(f),
        }
    }
}

//! A function plus the trace of steps that made it: one file per primitive.
//!
//! A step names loops, blocks and buffers by their canonical names, which are never reused, so a
//! trace is plain text and replays to the same function. Each primitive's file opens with a
//! picture, its named preconditions and its effect; a step that fails leaves the schedule as it
//! was and says which precondition did not hold.

// A path begins with a module of `daylight` everywhere, in that module too.
extern crate self as schedule;

use daylight_analysis as analysis;
use daylight_ir as ir;

mod draft;
mod failure;
mod field;
mod help;
mod primitive;
mod steps;

pub use primitive::cache::reindex::Operand;
pub use steps::Step;

use crate::ir::{Mark, Name, PrimFunc, Reason};
use draft::Draft;
use failure::Failure;
use std::fmt;

/// A step that could not be taken. The schedule is as it was before the step.
#[derive(Clone, PartialEq, Debug)]
pub struct ScheduleError {
    /// The step.
    pub step: Box<Step>,
    /// The loop, block or buffer at fault; an empty name where the step names none.
    pub at: Name,
    /// The precondition that does not hold, as the primitive's file lists it, and what to do about it.
    pub reason: Reason,
}

impl fmt::Display for ScheduleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at.as_str() {
            "" => write!(f, "{}: {}", self.step, self.reason),
            at => write!(f, "{}: {} at `{at}`: {}", self.step, self.reason.predicate, self.reason.text),
        }
    }
}

impl std::error::Error for ScheduleError {}

/// A function under schedule, with the steps taken so far.
#[derive(Clone, Debug)]
pub struct Schedule {
    draft: Draft,
    trace: Vec<Step>,
}

impl Schedule {
    /// A schedule of `func` (verified, canonical names) with no step taken.
    pub fn new(func: PrimFunc) -> Schedule {
        Schedule { draft: Draft::new(func), trace: vec![] }
    }

    /// The function as it stands.
    pub fn func(&self) -> &PrimFunc {
        &self.draft.func
    }

    /// The steps taken, in order.
    pub fn trace(&self) -> &[Step] {
        &self.trace
    }

    /// Takes every step of `trace` on `func`. The same trace gives the same names and text.
    pub fn replay(func: PrimFunc, trace: &[Step]) -> Result<Schedule, ScheduleError> {
        let mut s = Schedule::new(func);
        for step in trace {
            s.apply(step.clone())?;
        }
        Ok(s)
    }

    /// Takes one step and returns the names it made (loops or blocks, outermost first).
    pub fn apply(&mut self, step: Step) -> Result<Vec<Name>, ScheduleError> {
        let mut draft = self.draft.clone();
        match step.run(&mut draft) {
            Ok(names) => {
                draft.bury(self.func(), &format!("step {}: {step}", self.trace.len()));
                self.draft = draft;
                self.trace.push(step);
                Ok(names)
            }
            Err(Failure { at, reason }) => Err(ScheduleError { step: Box::new(step), at, reason }),
        }
    }

    /// Annotates a loop or a block with what lowering is to know of it.
    pub fn mark(&mut self, at: &Name, mark: Mark) -> Result<(), ScheduleError> {
        let (key, value) = mark.to_attr();
        self.annotate(at, key, value)
    }

    /// Every block, in program order.
    pub fn blocks(&self) -> Vec<Name> {
        help::query::blocks(self.func()).into_iter().map(|b| b.name.clone()).collect()
    }

    /// The loops around a block (or loop), outermost first, up to the block that holds it. Empty
    /// where there is none of that name.
    pub fn loops(&self, of: &Name) -> Vec<Name> {
        help::tree::loops_around(self.func(), of).into_iter().map(|l| l.var.clone()).collect()
    }

    /// The other blocks that write what `block` reads, in program order.
    pub fn producers(&self, block: &Name) -> Vec<Name> {
        help::tree::find_block(self.func(), block).map_or(vec![], |b| help::query::producers(self.func(), b))
    }

    /// The other blocks that read what `block` writes, in program order.
    pub fn consumers(&self, block: &Name) -> Vec<Name> {
        help::tree::find_block(self.func(), block).map_or(vec![], |b| help::query::consumers(self.func(), b))
    }

    /// The blocks that read a buffer, in program order.
    pub fn readers(&self, buffer: &Name) -> Vec<Name> {
        help::query::readers(self.func(), buffer).into_iter().map(|b| b.name.clone()).collect()
    }
}

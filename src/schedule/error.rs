//! Why a step was refused.

use super::Step;
use crate::ir::Name;
use std::fmt;

/// A step that could not be taken. The schedule is as it was before the step.
#[derive(Clone, PartialEq, Debug)]
pub struct ScheduleError {
    /// The step.
    pub step: Box<Step>,
    /// Name of the precondition that does not hold, as the primitive's file lists it.
    pub precondition: &'static str,
    /// The loop, block or buffer at fault; an empty name where the step names none.
    pub at: Name,
    /// What is wrong and what to do about it.
    pub why: String,
}

impl fmt::Display for ScheduleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at.as_str() {
            "" => write!(f, "{}: {}: {}", self.step, self.precondition, self.why),
            at => write!(f, "{}: {} at `{at}`: {}", self.step, self.precondition, self.why),
        }
    }
}

impl std::error::Error for ScheduleError {}

/// A precondition that does not hold; the schedule adds the step to make a [`ScheduleError`].
#[derive(Clone, PartialEq, Debug)]
pub struct Failure {
    /// Name of the precondition.
    pub precondition: &'static str,
    /// The loop, block or buffer at fault.
    pub at: Name,
    /// What is wrong and what to do about it.
    pub why: String,
}

impl Failure {
    /// The failure of `precondition` at `at`.
    pub fn new(precondition: &'static str, at: &Name, why: impl Into<String>) -> Failure {
        Failure { precondition, at: at.clone(), why: why.into() }
    }

    /// `Ok` where `holds`, else the failure.
    pub fn unless(
        holds: bool,
        precondition: &'static str,
        at: &Name,
        why: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        if holds { Ok(()) } else { Err(Failure::new(precondition, at, why())) }
    }
}

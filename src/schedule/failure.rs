//! Why a primitive refuses.

use crate::ir::Name;

/// A precondition that does not hold; the schedule adds the step to make a [`super::ScheduleError`].
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

//! Why a primitive refuses.

use crate::ir::{Name, Reason};

/// A precondition that does not hold; the schedule adds the step to make a [`super::ScheduleError`].
#[derive(Clone, PartialEq, Debug)]
pub struct Failure {
    /// The loop, block or buffer at fault.
    pub at: Name,
    /// The precondition, and what to do about it.
    pub reason: Reason,
}

impl Failure {
    /// The failure of `precondition` at `at`.
    pub fn new(precondition: &'static str, at: &Name, why: impl Into<String>) -> Failure {
        Failure { at: at.clone(), reason: Reason::new(precondition, why) }
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

//! Why something does not apply.

use crate::ir::Reason;
use std::fmt;

/// A named reason for not taking a function: an expected answer, not a failure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decline {
    /// Who declined: a rule's name, `refuse`, `normalize`.
    pub by: &'static str,
    /// The predicate that did not hold, and the sentence for people.
    pub reason: Reason,
}

impl fmt::Display for Decline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.by, self.reason)
    }
}

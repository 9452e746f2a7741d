//! Why something does not apply.

use std::fmt;

/// A named reason for not taking a function: an expected answer, not a failure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decline {
    /// Who declined: a rule's name, `refuse`, `normalize`.
    pub by: &'static str,
    /// The predicate that did not hold, as one name.
    pub predicate: &'static str,
    /// The sentence for people.
    pub reason: String,
}

impl fmt::Display for Decline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.by, self.predicate, self.reason)
    }
}

//! Why something does not hold: what rules, conditions, tile variants and passes answer with.

use serde::Serialize;
use std::borrow::Cow;
use std::fmt;

/// The name of a predicate that does not hold, and why not: an expected answer, not a failure.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Reason {
    /// The predicate, as one name.
    pub predicate: Cow<'static, str>,
    /// The sentence for people, with the values.
    pub text: String,
}

impl Reason {
    /// The reason for which `predicate` does not hold.
    pub fn new(predicate: impl Into<Cow<'static, str>>, text: impl Into<String>) -> Reason {
        Reason { predicate: predicate.into(), text: text.into() }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.predicate, self.text)
    }
}

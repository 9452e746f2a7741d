//! Why a scheduled function can't be lowered.

use crate::ir::Name;
use crate::ir::kernel::KStmt;
use std::fmt;

/// A scheduled function that has no kernel. The schedule is at fault (a candidate that a rule should
/// not have made), never the process: a tuner drops the candidate and goes on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LowerError {
    /// The pass that gave up.
    pub pass: &'static str,
    /// The block, loop or buffer it stood at.
    pub at: Name,
    /// What was wrong and what was expected.
    pub why: String,
    /// The statement of the kernel that breaks a rule, as it prints; of a loop or conditional its head.
    pub statement: Option<String>,
}

impl LowerError {
    /// An error of `pass` at `at`.
    pub fn new(pass: &'static str, at: &Name, why: impl Into<String>) -> LowerError {
        LowerError { pass, at: at.clone(), why: why.into(), statement: None }
    }

    /// The same error in a statement, where the innermost around it is not known yet.
    pub fn within(self, s: &KStmt) -> LowerError {
        LowerError { statement: self.statement.or_else(|| Some(s.head())), ..self }
    }
}

impl fmt::Display for LowerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot lower `{}` ({}): {}", self.at, self.pass, self.why)?;
        self.statement.iter().try_for_each(|s| write!(f, ", in `{s}`"))
    }
}

impl std::error::Error for LowerError {}

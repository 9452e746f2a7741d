//! Exit codes and the sentences that go with them.

use crate::backend::{CompileError, CompileFailure};
use std::fmt;

/// How a command ends.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum Exit {
    /// Done.
    Done,
    /// The work failed: a wrong result, no candidate survived, no rule took it.
    Failed,
    /// Wrong arguments, unreadable or unwritable files, unknown names.
    Usage,
    /// The input was not understood or was refused.
    Input,
    /// A device or tool is missing.
    Missing,
    /// Ended by Ctrl-C; what was done until then is kept.
    Interrupted,
}

impl Exit {
    /// The process's exit code.
    pub fn code(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Input => 3,
            Exit::Missing => 4,
            Exit::Interrupted => 130,
        }
    }
}

/// Why a command, or its part for one function, ended.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Failure {
    /// The exit code that follows.
    pub exit: Exit,
    /// One sentence.
    pub message: String,
}

impl Failure {
    /// A failure with its sentence.
    pub fn new(exit: Exit, message: impl Into<String>) -> Failure {
        Failure { exit, message: message.into() }
    }

    /// Wrong arguments or files.
    pub fn usage(message: impl Into<String>) -> Failure {
        Failure::new(Exit::Usage, message)
    }

    /// A device or tool is missing.
    pub fn missing(message: impl Into<String>) -> Failure {
        Failure::new(Exit::Missing, message)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

impl From<CompileError> for Failure {
    fn from(e: CompileError) -> Failure {
        match e.failure {
            CompileFailure::ToolMissing => Failure::missing(e.message),
            CompileFailure::Disk | CompileFailure::Environment => Failure::usage(e.message),
            CompileFailure::Rejected | CompileFailure::TimedOut | CompileFailure::Crashed => {
                Failure::new(Exit::Failed, e.message)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greater_codes_are_greater_exits() {
        let all = [Exit::Done, Exit::Failed, Exit::Usage, Exit::Input, Exit::Missing];
        assert!(all.windows(2).all(|w| w[0] < w[1] && w[0].code() + 1 == w[1].code()));
    }
}

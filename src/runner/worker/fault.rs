//! How a worker fails, and whose fault that is taken to be: the candidate's that it worked on, unless it did not
//! start or was ended from outside.

use crate::backend::{CompileError, CompileFailure};
use crate::runner::{RunError, RunFailure};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::Duration;

/// Why a worker was given up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WorkerFault {
    /// It could not be started.
    Start(String),
    /// It did not answer in time.
    TimedOut(Duration),
    /// It died; how, and the end of what it wrote to standard error.
    Died(String),
    /// Somebody else ended it, who said how by a signal that no kernel raises.
    Ended(String),
    /// It wrote something that is not a reply.
    Garbage(String),
}

impl std::fmt::Display for WorkerFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            WorkerFault::Start(why) => write!(f, "the worker could not be started: {why}"),
            WorkerFault::TimedOut(limit) => write!(f, "no answer within {:.1} s", limit.as_secs_f64()),
            WorkerFault::Died(how) | WorkerFault::Ended(how) => write!(f, "the worker process {how}"),
            WorkerFault::Garbage(what) => write!(f, "the worker wrote something that is no reply: {what}"),
        }
    }
}

impl From<WorkerFault> for RunError {
    fn from(fault: WorkerFault) -> RunError {
        let kind = match fault {
            WorkerFault::TimedOut(_) => RunFailure::TimedOut,
            WorkerFault::Start(_) | WorkerFault::Ended(_) => RunFailure::Environment,
            WorkerFault::Died(_) | WorkerFault::Garbage(_) => RunFailure::Crashed,
        };
        RunError::new(kind, fault.to_string())
    }
}

impl From<WorkerFault> for CompileError {
    fn from(fault: WorkerFault) -> CompileError {
        let kind = match fault {
            WorkerFault::TimedOut(_) => CompileFailure::TimedOut,
            WorkerFault::Start(_) | WorkerFault::Ended(_) => CompileFailure::Environment,
            WorkerFault::Died(_) | WorkerFault::Garbage(_) => CompileFailure::Crashed,
        };
        CompileError::new(kind, format!("compiling: {fault}"))
    }
}

/// Signals by number, as Linux numbers them on x86 and ARM.
const SIGNALS: [(i32, &str); 10] = [
    (4, "SIGILL"),
    (5, "SIGTRAP"),
    (6, "SIGABRT"),
    (7, "SIGBUS"),
    (8, "SIGFPE"),
    (9, "SIGKILL"),
    (11, "SIGSEGV"),
    (13, "SIGPIPE"),
    (15, "SIGTERM"),
    (31, "SIGSYS"),
];

/// `ended with exit code 3`, `was killed by SIGSEGV`; with a word on memory where `peak` bytes came
/// near the limit.
pub(super) fn describe(status: ExitStatus, peak: u64, limit: Option<u64>) -> String {
    let how = match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, Some(signal)) => {
            let name = SIGNALS.iter().find(|n| n.0 == signal);
            format!("was killed by {}", name.map_or(format!("signal {signal}"), |n| n.1.to_string()))
        }
        (None, None) => "ended without a status".to_string(),
    };
    match limit {
        // A failed allocation shows only as what the kernel did next.
        Some(limit) if peak >= limit / 4 * 3 => {
            format!("{how} with {} MiB allocated, its limit being {} MiB", peak >> 20, limit >> 20)
        }
        Some(_) | None => how,
    }
}

/// True for an end by a signal that people and systems send and kernels do not raise, where memory is no reason.
pub(super) fn is_from_outside(status: ExitStatus, peak: u64, limit: Option<u64>) -> bool {
    const SENT: [i32; 4] = [1, 2, 9, 15]; // SIGHUP, SIGINT, SIGKILL, SIGTERM
    status.signal().is_some_and(|s| SENT.contains(&s)) && limit.is_none_or(|limit| peak < limit / 4 * 3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::Outcome;

    #[test]
    fn ends_are_named() {
        let text = |raw, peak| describe(ExitStatus::from_raw(raw), peak, Some(512 << 20));
        assert_eq!(text(3 << 8, 0), "ended with exit code 3");
        assert_eq!(text(5, 0), "was killed by SIGTRAP");
        assert_eq!(text(34, 0), "was killed by signal 34");
        assert_eq!(text(11, 500 << 20), "was killed by SIGSEGV with 500 MiB allocated, its limit being 512 MiB");
    }

    #[test]
    fn a_fault_is_the_candidates_outcome() {
        let outcome = |f: WorkerFault| (RunError::from(f.clone()).outcome(), CompileError::from(f).outcome());
        assert_eq!(outcome(WorkerFault::TimedOut(Duration::from_secs(1))), (Outcome::TimedOut, Outcome::TimedOut));
        assert_eq!(outcome(WorkerFault::Died("was killed by SIGILL".into())), (Outcome::Crashed, Outcome::Crashed));
        assert_eq!(outcome(WorkerFault::Garbage("x".into())), (Outcome::Crashed, Outcome::Crashed));
    }

    #[test]
    fn what_others_do_is_not_the_candidates_fault() {
        for fault in
            [WorkerFault::Start("too many open files".into()), WorkerFault::Ended("was killed by SIGKILL".into())]
        {
            assert_eq!(RunError::from(fault.clone()).failure, RunFailure::Environment);
            assert_eq!(CompileError::from(fault).failure, CompileFailure::Environment);
        }
        let outside = |raw, peak| is_from_outside(ExitStatus::from_raw(raw), peak, Some(512 << 20));
        assert!(outside(9, 0) && outside(15, 0));
        assert!(!outside(9, 500 << 20) && !outside(11, 0) && !outside(9 << 8, 0));
    }
}

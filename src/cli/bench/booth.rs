//! What contenders of one function have in common: what they are made of, and what is said of one that has no time.

use crate::assemble::Schedulable;
use crate::backend::{CompileError, CompileFailure, Plan};
use crate::cli::context::Context;
use crate::job::{Exit, Input};
use crate::log::Record;
use crate::report::Contender;
use crate::runner::{Candidate, RunError, RunFailure};
use std::path::Path;

/// Why a contender has no time, and the exit code that follows.
pub struct Missed {
    /// Its status in the line of the function.
    pub status: &'static str,
    /// One sentence.
    pub reason: String,
    /// What the command ends with if nothing worse happens.
    pub exit: Exit,
}

impl Missed {
    /// With its sentence.
    pub fn new(status: &'static str, exit: Exit, reason: impl Into<String>) -> Missed {
        Missed { status, reason: reason.into(), exit }
    }
}

impl From<RunError> for Missed {
    fn from(e: RunError) -> Missed {
        match e.failure {
            RunFailure::DeviceMissing => Missed::new("missing", Exit::Missing, e.message),
            _ => Missed::new(e.outcome().name(), Exit::Failed, e.message),
        }
    }
}

impl From<CompileError> for Missed {
    fn from(e: CompileError) -> Missed {
        match e.failure {
            CompileFailure::ToolMissing => Missed::new("missing", Exit::Missing, e.message),
            _ => Missed::new(e.outcome().name(), Exit::Failed, e.message),
        }
    }
}

/// A contender, and what runs of it.
pub type Entrant = (Contender, Result<Candidate, Missed>);

/// One function for which contenders are found.
pub struct Booth<'a> {
    /// The machine and the knob tables.
    pub cx: &'a Context,
    /// The function.
    pub input: &'a Input,
    /// The function, ready to be scheduled for the device.
    pub subject: &'a Schedulable,
    /// What the log holds.
    pub records: &'a [Record],
    /// For files that contenders need.
    pub folder: &'a Path,
}

impl Booth<'_> {
    /// The parameters of every plan of the function.
    pub fn plan(&self) -> Result<Plan, Missed> {
        let params = Plan::params(&self.subject.prepared.func, &self.subject.roles);
        let params = params.map_err(|e| Missed::new("declined", Exit::Done, e))?;
        Ok(Plan { params, ..Plan::default() })
    }
}

/// A contender of that name, of which nothing is known yet.
pub fn contender(name: &str) -> Contender {
    Contender { contender: name.into(), ..Contender::default() }
}

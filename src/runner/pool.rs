//! A pool of compile workers, one process per core. NVRTC inside one process gains nothing beyond
//! two threads; sixteen processes on sixteen cores compile ten times as much.

use super::Limits;
use super::worker::{CompileRequest, Compiled, WorkerCommand, WorkerFault, WorkerProcess};
use crate::backend::local::Tools;
use crate::backend::{Artifact, CompileError, CompileFailure, Compiler, Source};
use crate::parallel;
use std::sync::{Condvar, Mutex};

/// A compiler made of worker processes. Safe to use from many threads: each takes a free worker or
/// waits for one. A worker that dies, hangs or talks nonsense loses the program it was given and is
/// replaced.
pub struct CompilePool {
    command: WorkerCommand,
    tools: Tools,
    limits: Limits,
    workers: usize,
    /// Workers that nobody uses; `None` is a place whose worker is yet to be started.
    idle: Mutex<Vec<Option<WorkerProcess>>>,
    freed: Condvar,
}

impl CompilePool {
    /// A pool of `workers` processes of `command`, each within `limits`. Processes start when they are
    /// first needed.
    pub fn new(command: WorkerCommand, tools: Tools, workers: usize, limits: Limits) -> CompilePool {
        let workers = workers.max(1);
        let idle = Mutex::new((0..workers).map(|_| None).collect());
        CompilePool { command, tools, limits, workers, idle, freed: Condvar::new() }
    }

    /// A free place, preferring one whose worker runs.
    fn take(&self) -> Option<WorkerProcess> {
        let mut idle = self.idle.lock().expect("no thread panics while it holds the pool");
        loop {
            if let Some(at) = idle.iter().rposition(Option::is_some).or(idle.len().checked_sub(1)) {
                return idle.swap_remove(at);
            }
            idle = self.freed.wait(idle).expect("no thread panics while it holds the pool");
        }
    }

    fn give(&self, worker: Option<WorkerProcess>) {
        self.idle.lock().expect("no thread panics while it holds the pool").push(worker);
        self.freed.notify_one();
    }

    fn start(&self) -> Result<WorkerProcess, WorkerFault> {
        let mut worker = WorkerProcess::start(&self.command, self.limits.compile_bytes)?;
        let setup = CompileRequest::Setup(self.tools.clone());
        let _: Result<Option<Compiled>, CompileError> = worker.ask(&setup, self.limits.setup)?;
        Ok(worker)
    }

    /// Compiles with the given worker or a new one; gives the worker back if it is still good.
    fn compile_with(
        &self,
        worker: Option<WorkerProcess>,
        source: &Source,
    ) -> (Option<WorkerProcess>, Result<Artifact, CompileError>) {
        let mut worker = match worker.map_or_else(|| self.start(), Ok) {
            Ok(worker) => worker,
            Err(fault) => return (None, Err(fault.into())),
        };
        let asked: Result<Result<Option<Compiled>, CompileError>, WorkerFault> =
            worker.ask(&CompileRequest::Compile(source.clone()), self.limits.compile);
        match asked {
            Ok(Ok(Some(compiled))) => (Some(worker), compiled.load()),
            Ok(Ok(None)) => (None, Err(CompileError::new(CompileFailure::Crashed, "the worker gave no artifact"))),
            Ok(Err(error)) => (Some(worker), Err(error)),
            Err(fault) => (None, Err(fault.into())),
        }
    }
}

impl Compiler for CompilePool {
    fn compile(&self, source: &Source) -> Result<Artifact, CompileError> {
        let (worker, result) = self.compile_with(self.take(), source);
        self.give(worker);
        result
    }

    fn compile_many(&self, sources: &[Source]) -> Vec<Result<Artifact, CompileError>> {
        parallel::map(sources, self.workers, |s| self.compile(s))
    }
}

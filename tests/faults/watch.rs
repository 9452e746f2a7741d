//! A compiler and a runner that note what each fault costs: from the call that fails until the same
//! tool has done right work again.

use super::Fault;
use daylight::backend::{Artifact, CompileError, Compiler, PlanParam, Source};
use daylight::runner::{Candidate, DeviceFacts, Errors, Problem, RunError, Runner, Timing};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Seconds per fault.
#[derive(Default)]
pub struct Watch {
    seconds: Mutex<BTreeMap<Fault, f64>>,
}

impl Watch {
    /// What a fault cost; `None` if it was not met.
    pub fn seconds(&self, fault: Fault) -> Option<f64> {
        self.seconds.lock().expect("no thread panics while it notes").get(&fault).copied()
    }

    fn note(&self, symbols: &[String], start: Instant) {
        let fault = Fault::ALL.into_iter().find(|f| symbols.iter().any(|s| s == f.name()));
        if let Some(fault) = fault {
            let seconds = start.elapsed().as_secs_f64();
            *self.seconds.lock().expect("no thread panics while it notes").entry(fault).or_default() += seconds;
        }
    }
}

/// Notes the cost of what does not compile.
pub struct WatchedCompiler<'a> {
    pub inner: &'a dyn Compiler,
    pub watch: &'a Watch,
    /// A text that compiles.
    pub right: Source,
    pub probes: AtomicUsize,
}

impl Compiler for WatchedCompiler<'_> {
    fn compile(&self, source: &Source) -> Result<Artifact, CompileError> {
        let start = Instant::now();
        let result = self.inner.compile(source);
        if result.is_err() {
            // A text of its own, so that it is not found in the cache.
            let number = self.probes.fetch_add(1, Ordering::Relaxed);
            let text = format!("// probe {number}\n{}", self.right.text);
            self.inner.compile(&Source { text, ..self.right.clone() }).expect("a right text compiles");
            self.watch.note(&source.symbols, start);
        }
        result
    }
}

/// Notes the cost of what does not run.
pub struct WatchedRunner<'a, R> {
    pub inner: R,
    pub watch: &'a Watch,
    /// The last candidate that was right.
    pub right: Option<Candidate>,
}

impl<R: Runner> WatchedRunner<'_, R> {
    fn call<T>(
        &mut self,
        candidate: &Candidate,
        run: impl FnOnce(&mut R) -> Result<T, RunError>,
    ) -> Result<T, RunError> {
        let start = Instant::now();
        let result = run(&mut self.inner);
        match (&result, &self.right) {
            (Ok(_), _) => self.right = Some(candidate.clone()),
            (Err(_), Some(right)) => {
                self.inner.execute(right).expect("what was right stays right after a fault");
                let symbols: Vec<String> = candidate.plan.launches.iter().map(|l| l.symbol.clone()).collect();
                self.watch.note(&symbols, start);
            }
            (Err(_), None) => {}
        }
        result
    }
}

impl<R: Runner> Runner for WatchedRunner<'_, R> {
    fn device(&mut self) -> Result<DeviceFacts, RunError> {
        self.inner.device()
    }

    fn prepare(&mut self, problem: &Problem) -> Result<(), RunError> {
        self.inner.prepare(problem)
    }

    fn make_inputs(&mut self, params: &[PlanParam]) -> Result<(), RunError> {
        self.inner.make_inputs(params)
    }

    fn execute(&mut self, candidate: &Candidate) -> Result<Errors, RunError> {
        self.call(candidate, |r| r.execute(candidate))
    }

    fn run_files(
        &mut self,
        candidate: &Candidate,
        inputs: &BTreeMap<usize, PathBuf>,
        outputs: &BTreeMap<usize, PathBuf>,
    ) -> Result<(), RunError> {
        self.inner.run_files(candidate, inputs, outputs)
    }

    fn time(&mut self, candidate: &Candidate, best_ns: Option<f64>) -> Result<Timing, RunError> {
        self.call(candidate, |r| r.time(candidate, best_ns))
    }

    fn time_interleaved(&mut self, candidates: &[Candidate], rounds: usize) -> Vec<Result<Timing, RunError>> {
        self.inner.time_interleaved(candidates, rounds)
    }
}

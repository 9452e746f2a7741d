//! A compiler and a runner without a machine: the "artifact" is the text, its time a function of the
//! text. For tests of whatever drives a tuning session.

use super::worker::WorkerFault;
use super::{Candidate, DeviceFacts, Errors, Limits, Problem, RunError, RunFailure, Runner, Timing};
use crate::backend::{Artifact, CompileError, CompileFailure, Compiler, Format, PlanParam, Resources, Source};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Compiles nothing: writes the text to a file in `folder` and returns it. Text that contains
/// `#error` is rejected; with `#hang` it never ends, which is known at once; with `#crash` its worker dies.
pub struct FakeCompiler {
    folder: PathBuf,
    compiled: AtomicUsize,
}

impl FakeCompiler {
    /// A compiler that writes its "artifacts" to a folder.
    pub fn new(folder: impl Into<PathBuf>) -> FakeCompiler {
        FakeCompiler { folder: folder.into(), compiled: AtomicUsize::new(0) }
    }

    /// Programs compiled so far.
    pub fn compiled(&self) -> usize {
        self.compiled.load(Ordering::Relaxed)
    }
}

impl Compiler for FakeCompiler {
    fn compile(&self, source: &Source) -> Result<Artifact, CompileError> {
        self.compiled.fetch_add(1, Ordering::Relaxed);
        if source.text.contains("#error") {
            return Err(CompileError::new(CompileFailure::Rejected, "the text contains #error"));
        }
        if source.text.contains("#hang") {
            return Err(WorkerFault::TimedOut(Limits::default().compile).into());
        }
        if source.text.contains("#crash") {
            return Err(WorkerFault::Died("was killed by SIGSEGV".to_string()).into());
        }
        let bytes = source.text.as_bytes();
        let path = self.folder.join(format!("{:032x}.fake", xxhash_rust::xxh3::xxh3_128(bytes)));
        let written = std::fs::create_dir_all(&self.folder).and_then(|()| std::fs::write(&path, bytes));
        written.map_err(|e| CompileError::new(CompileFailure::Crashed, format!("{}: {e}", path.display())))?;
        Ok(Artifact {
            format: Format::SharedObject,
            bytes: bytes.into(),
            path,
            res: Resources::default(),
            warnings: vec![],
            compiler: "fake 1".to_string(),
        })
    }
}

/// Policy that fake times are given under.
const POLICY: &str = "fake-v1";

/// What a [`FakeRunner`] makes of an artifact's text: its time in nanoseconds, or how it fails. A
/// [`WorkerFault`] turns into the error that a real worker's would: `WorkerFault::Died(..).into()`.
pub type Verdict = dyn Fn(&str) -> Result<f64, RunError> + Send;

/// Runs nothing: a function of the artifact's text decides the outcome.
pub struct FakeRunner {
    verdict: Box<Verdict>,
    /// Standard deviation of a sample as a share of the true time, and where its chance comes from.
    noise: Option<(f64, StdRng)>,
    /// Its pretended worker lives, and how often it was started.
    alive: bool,
    starts: Arc<AtomicUsize>,
}

impl FakeRunner {
    /// A runner whose times and failures come from `verdict`.
    pub fn new(verdict: impl Fn(&str) -> Result<f64, RunError> + Send + 'static) -> FakeRunner {
        FakeRunner { verdict: Box::new(verdict), noise: None, alive: false, starts: Arc::default() }
    }

    /// The same runner whose samples scatter by `share` of the true time (0.01: one percent), normally
    /// distributed and the same again for the same seed.
    pub fn noisy(self, share: f64, seed: u64) -> FakeRunner {
        FakeRunner { noise: Some((share, StdRng::seed_from_u64(seed))), ..self }
    }

    /// Counts how often the pretended worker was started: once, and again after each crash and timeout.
    pub fn starts(&self) -> Arc<AtomicUsize> {
        self.starts.clone()
    }

    fn sample(&mut self, ns: f64) -> f64 {
        match &mut self.noise {
            None => ns,
            // The sum of twelve uniform numbers has variance one.
            Some((share, rng)) => ns * (1.0 + *share * ((0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0)),
        }
    }

    fn judge(&mut self, candidate: &Candidate) -> Result<f64, RunError> {
        if !self.alive {
            self.alive = true;
            self.starts.fetch_add(1, Ordering::Relaxed);
        }
        let text = std::fs::read_to_string(&candidate.file)
            .map_err(|e| RunError::new(RunFailure::BadRequest, format!("{}: {e}", candidate.file.display())))?;
        let verdict = (self.verdict)(&text);
        self.alive = !verdict.as_ref().is_err_and(|e| matches!(e.failure, RunFailure::Crashed | RunFailure::TimedOut));
        verdict
    }
}

impl Runner for FakeRunner {
    fn device(&mut self) -> Result<DeviceFacts, RunError> {
        Ok(DeviceFacts { name: "fake".to_string(), kind: "cpu".to_string(), sms: 1, ..DeviceFacts::default() })
    }

    fn prepare(&mut self, _: &Problem) -> Result<(), RunError> {
        Ok(())
    }

    fn make_inputs(&mut self, _: &[PlanParam]) -> Result<(), RunError> {
        Ok(())
    }

    fn execute(&mut self, candidate: &Candidate) -> Result<Errors, RunError> {
        self.judge(candidate).map(|_| Errors::default())
    }

    fn run_files(
        &mut self,
        candidate: &Candidate,
        _: &BTreeMap<usize, PathBuf>,
        _: &BTreeMap<usize, PathBuf>,
    ) -> Result<(), RunError> {
        self.judge(candidate).map(|_| ())
    }

    fn time(&mut self, candidate: &Candidate, best_ns: Option<f64>) -> Result<Timing, RunError> {
        let ns = self.judge(candidate)?;
        let dropped = best_ns.is_some_and(|best| ns > 1.5 * best);
        let samples_ns = (0..if dropped { 3 } else { 10 }).map(|_| self.sample(ns)).collect();
        Ok(Timing { policy: POLICY.to_string(), samples_ns, dropped, state: None })
    }

    fn time_interleaved(&mut self, candidates: &[Candidate], rounds: usize) -> Vec<Result<Timing, RunError>> {
        let times: Vec<_> = candidates.iter().map(|c| self.judge(c)).collect();
        let timing = |time: Result<f64, RunError>| {
            let ns = time?;
            let samples_ns = (0..rounds.max(1)).map(|_| self.sample(ns)).collect();
            Ok(Timing { policy: POLICY.to_string(), samples_ns, dropped: false, state: None })
        };
        times.into_iter().map(timing).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::{Language, Plan};

    #[test]
    fn the_text_decides() {
        let folder = tempfile::tempdir().unwrap();
        let compiler = FakeCompiler::new(folder.path());
        let source = |text: &str| Source {
            text: text.to_string(),
            language: Language::C,
            target: "cpu".to_string(),
            symbols: vec![],
        };
        let file = compiler.compile(&source("120")).unwrap().path;
        let failed = |text| compiler.compile(&source(text)).unwrap_err().failure;
        assert_eq!((failed("#error no"), compiler.compiled()), (CompileFailure::Rejected, 2));
        assert_eq!((failed("#hang"), failed("#crash")), (CompileFailure::TimedOut, CompileFailure::Crashed));
        let mut runner = FakeRunner::new(|text| {
            text.parse().map_err(|_| RunError::new(RunFailure::Crashed, format!("`{text}` is no time")))
        });
        let candidate = Candidate { id: 0, file, plan: Plan::default() };
        assert_eq!(runner.time(&candidate, None).unwrap().samples_ns.len(), 10);
        assert!(runner.time(&candidate, Some(50.0)).unwrap().dropped);
        let noise = |seed| runner_of_120(&candidate, seed);
        assert_eq!(noise(1), noise(1));
        assert_ne!(noise(1), noise(2));
        assert!(noise(3).iter().all(|ns| *ns != 120.0 && (ns / 120.0 - 1.0).abs() < 0.07));
    }

    fn runner_of_120(candidate: &Candidate, seed: u64) -> Vec<f64> {
        let mut runner = FakeRunner::new(|_| Ok(120.0)).noisy(0.01, seed);
        runner.time(candidate, None).unwrap().samples_ns
    }
}

//! A runner whose device is driven by a worker process. What a candidate does to the process is that
//! candidate's outcome; the next one finds a new worker with the same inputs.

use super::worker::{Answer, DeviceChoice, MeasureReply, MeasureRequest, Setup};
use crate::backend::PlanParam;
use crate::runner::worker::{WorkerFault, WorkerProcess};
use crate::runner::{
    Candidate, DeviceFacts, Errors, Limits, Problem, RunError, RunFailure, Runner, Timing, WorkerCommand,
};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// Operations per second that even the worst candidate reaches, on a CUDA device and on the CPU.
const SLOWEST: (f64, f64) = (1e11, 5e9);
/// How long a device is given to recover.
const RECOVERY: Duration = Duration::from_millis(500);
/// Runs that timing a very slow candidate takes.
const SLOW_RUNS: f64 = 8.0;

/// A runner behind a worker process.
pub struct WorkerRunner {
    command: WorkerCommand,
    setup: Setup,
    limits: Limits,
    problem: Option<Problem>,
    worker: Option<Worker>,
    /// A worker has opened the device before.
    opened: bool,
}

/// A worker that was set up.
struct Worker {
    process: WorkerProcess,
    facts: DeviceFacts,
    /// It knows the current problem.
    prepared: bool,
    /// The inputs lie on the device.
    inputs: bool,
}

impl WorkerRunner {
    /// A runner that starts `command` when it is first needed.
    pub fn new(command: WorkerCommand, setup: Setup, limits: Limits) -> WorkerRunner {
        WorkerRunner { command, setup, limits, problem: None, worker: None, opened: false }
    }

    /// What is added to the limits for `runs` runs of a large workload.
    fn allowance(&self, runs: f64) -> Duration {
        let slowest = match self.setup.device {
            DeviceChoice::Cuda { .. } => SLOWEST.0,
            DeviceChoice::Cpu { .. } => SLOWEST.1,
        };
        let flops = self.problem.as_ref().and_then(|p| p.flops).unwrap_or(0) as f64;
        Duration::from_secs_f64((runs * flops / slowest).min(3600.0))
    }

    /// Bytes that a worker may allocate.
    fn memory(&self) -> Option<u64> {
        match self.setup.device {
            // The driver maps host memory of its own, by the gigabyte and by the device: neither its data
            // nor its address space can be limited.
            DeviceChoice::Cuda { .. } => None,
            DeviceChoice::Cpu { .. } => self.limits.measure_bytes,
        }
    }

    /// The running worker, started if need be.
    fn worker(&mut self) -> Result<&mut Worker, RunError> {
        if self.worker.is_none() {
            let started = self.start();
            // A device that was there may need a moment to recover from what ended the last worker.
            let started = if started.is_err() && self.opened {
                std::thread::sleep(RECOVERY);
                self.start()
            } else {
                started
            };
            self.worker = Some(started?);
            self.opened = true;
        }
        self.worker.as_mut().ok_or_else(confused)
    }

    fn start(&self) -> Result<Worker, RunError> {
        let start = |f: WorkerFault| RunError::new(RunFailure::Crashed, format!("starting to measure: {f}"));
        let mut process = WorkerProcess::start(&self.command, self.memory()).map_err(start)?;
        let request = MeasureRequest::Setup(self.setup.clone());
        let reply: MeasureReply = process.ask(&request, self.limits.setup).map_err(start)?;
        match reply.answer? {
            Answer::Device(facts) => Ok(Worker { process, facts, prepared: false, inputs: false }),
            Answer::Done | Answer::Errors(_) | Answer::Timing(_) | Answer::Timings(_) => Err(confused()),
        }
    }

    /// Asks the worker; what goes wrong with it is the answer, and ends it.
    fn ask(&mut self, request: &MeasureRequest, limit: Duration) -> Result<Answer, RunError> {
        let worker = self.worker()?;
        match worker.process.ask::<_, MeasureReply>(request, limit) {
            Ok(reply) => {
                worker.inputs = reply.inputs;
                if reply.lost {
                    self.worker = None;
                }
                reply.answer
            }
            Err(fault) => {
                self.worker = None;
                Err(fault.into())
            }
        }
    }

    /// One of these broke the worker or the device: each alone tells which, and the others take turns
    /// again. Where none fails alone, none can be blamed, and each is timed alone.
    fn without_the_broken(&mut self, candidates: &[Candidate], rounds: usize) -> Vec<Result<Timing, RunError>> {
        let alone: Vec<Result<Timing, RunError>> = candidates.iter().map(|c| self.time(c, None)).collect();
        if candidates.len() == 1 || alone.iter().all(Result::is_ok) {
            return alone;
        }
        let whole = candidates.iter().zip(&alone).filter(|(_, t)| t.is_ok()).map(|(c, _)| c.clone());
        let whole: Vec<Candidate> = whole.collect();
        let mut again = self.time_interleaved(&whole, rounds).into_iter();
        alone.into_iter().map(|t| t.and_then(|t| again.next().unwrap_or(Ok(t)))).collect()
    }

    /// Makes sure that the worker has the problem and, for these parameters, its inputs.
    fn ready(&mut self, params: Option<&[PlanParam]>) -> Result<(), RunError> {
        if !self.worker()?.prepared
            && let Some(problem) = self.problem.clone()
        {
            self.ask(&MeasureRequest::Prepare(problem), self.limits.inputs)?;
            self.worker()?.prepared = true;
        }
        match params {
            Some(params) if !self.worker()?.inputs => {
                self.ask(&MeasureRequest::Inputs(params.to_vec()), self.limits.inputs).map(|_| ())
            }
            Some(_) | None => Ok(()),
        }
    }
}

fn confused() -> RunError {
    RunError::new(RunFailure::Crashed, "the worker answered another question")
}

impl Runner for WorkerRunner {
    fn device(&mut self) -> Result<DeviceFacts, RunError> {
        self.worker().map(|w| w.facts.clone())
    }

    fn prepare(&mut self, problem: &Problem) -> Result<(), RunError> {
        self.problem = Some(problem.clone());
        let worker = self.worker()?;
        (worker.prepared, worker.inputs) = (false, false);
        self.ready(None)
    }

    fn make_inputs(&mut self, params: &[PlanParam]) -> Result<(), RunError> {
        self.ready(Some(params))
    }

    fn execute(&mut self, candidate: &Candidate) -> Result<Errors, RunError> {
        self.ready(Some(&candidate.plan.params))?;
        let limit = self.limits.execute + self.allowance(1.0);
        match self.ask(&MeasureRequest::Execute(candidate.clone()), limit)? {
            Answer::Errors(errors) => Ok(errors),
            Answer::Done | Answer::Device(_) | Answer::Timing(_) | Answer::Timings(_) => Err(confused()),
        }
    }

    fn run_files(
        &mut self,
        candidate: &Candidate,
        inputs: &BTreeMap<usize, PathBuf>,
        outputs: &BTreeMap<usize, PathBuf>,
    ) -> Result<(), RunError> {
        self.ready(None)?;
        let (candidate, inputs, outputs) = (candidate.clone(), inputs.clone(), outputs.clone());
        let request = MeasureRequest::RunFiles { candidate, inputs, outputs };
        self.ask(&request, self.limits.inputs + self.limits.execute + self.allowance(1.0)).map(|_| ())
    }

    fn time(&mut self, candidate: &Candidate, best_ns: Option<f64>) -> Result<Timing, RunError> {
        self.ready(Some(&candidate.plan.params))?;
        let limit = self.limits.time + self.allowance(SLOW_RUNS);
        match self.ask(&MeasureRequest::Time { candidate: candidate.clone(), best_ns }, limit)? {
            Answer::Timing(timing) => Ok(timing),
            Answer::Done | Answer::Device(_) | Answer::Errors(_) | Answer::Timings(_) => Err(confused()),
        }
    }

    fn time_interleaved(&mut self, candidates: &[Candidate], rounds: usize) -> Vec<Result<Timing, RunError>> {
        let Some(first) = candidates.first() else { return vec![] };
        let each = self.limits.time + self.allowance(SLOW_RUNS + rounds as f64);
        let limit = each * candidates.len() as u32;
        let asked = self
            .ready(Some(&first.plan.params))
            .and_then(|()| self.ask(&MeasureRequest::Interleave { candidates: candidates.to_vec(), rounds }, limit));
        match asked {
            Ok(Answer::Timings(timings)) if timings.len() == candidates.len() && timings.iter().any(Result::is_ok) => {
                timings
            }
            Ok(_) | Err(_) => self.without_the_broken(candidates, rounds),
        }
    }
}

//! The measuring worker: a [`LocalRunner`] behind the pipe.

use super::local::LocalRunner;
use super::sampling::Sampling;
use crate::backend::PlanParam;
use crate::runner::cpu::CpuDevice;
use crate::runner::cuda::CudaDevice;
use crate::runner::device::{Device, Protocol};
use crate::runner::worker::serve;
use crate::runner::{Candidate, DeviceFacts, Errors, Problem, RunError, RunFailure, Runner, Timing};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The device to measure on.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceChoice {
    /// A CUDA device by number.
    Cuda {
        /// Its number.
        ordinal: u32,
    },
    /// The host, with what the caller knows about it.
    Cpu {
        /// Name, cores, cache and memory sizes.
        facts: DeviceFacts,
    },
}

/// How a worker measures.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Setup {
    /// Where.
    pub device: DeviceChoice,
    /// With which clock.
    pub protocol: Protocol,
    /// How often.
    pub sampling: Sampling,
}

impl Setup {
    /// Tuning on a CUDA device: graphs over rotated buffers.
    pub fn cuda(ordinal: u32) -> Setup {
        Setup { device: DeviceChoice::Cuda { ordinal }, protocol: Protocol::Rotate, sampling: Sampling::graph() }
    }

    /// The clock that peers are measured with: one launch between two events, the L2 cooled by reading.
    pub fn cuda_events(ordinal: u32) -> Setup {
        Setup { device: DeviceChoice::Cuda { ordinal }, protocol: Protocol::ColdRead, sampling: Sampling::events() }
    }

    /// Tuning on the host.
    pub fn cpu(facts: DeviceFacts) -> Setup {
        Setup { device: DeviceChoice::Cpu { facts }, protocol: Protocol::Rotate, sampling: Sampling::cpu() }
    }

    /// Name of the policy that this measures by, as [`crate::runner::Timing`] carries it.
    pub fn policy(&self) -> &'static str {
        match (&self.device, self.protocol) {
            (DeviceChoice::Cuda { .. }, Protocol::Rotate) => CudaDevice::ROTATE,
            (DeviceChoice::Cuda { .. }, Protocol::ColdRead) => CudaDevice::COLD_READ,
            (DeviceChoice::Cpu { .. }, _) => CpuDevice::POLICY,
        }
    }

    /// Opens the device in this process.
    ///
    /// # Errors
    /// [`RunFailure::DeviceMissing`] with what to install.
    pub fn open(&self) -> Result<LocalRunner, RunError> {
        let device: Box<dyn Device> = match &self.device {
            DeviceChoice::Cuda { ordinal } => Box::new(CudaDevice::open(*ordinal)?),
            DeviceChoice::Cpu { facts } => Box::new(CpuDevice::new(facts.clone())),
        };
        Ok(LocalRunner::new(device, self.protocol, self.sampling))
    }
}

/// What a measuring worker is asked.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MeasureRequest {
    /// First: which device, which policy. Answered with the device's facts.
    Setup(Setup),
    /// The workload of the following requests.
    Prepare(Problem),
    /// Generate its inputs.
    Inputs(Vec<PlanParam>),
    /// Check one candidate.
    Execute(Candidate),
    /// Run one candidate on files.
    RunFiles { candidate: Candidate, inputs: BTreeMap<usize, PathBuf>, outputs: BTreeMap<usize, PathBuf> },
    /// Time one candidate.
    Time { candidate: Candidate, best_ns: Option<f64> },
    /// Time several candidates by turns.
    Interleave { candidates: Vec<Candidate>, rounds: usize },
}

/// What it answers.
#[derive(Serialize, Deserialize)]
pub struct MeasureReply {
    /// The device is broken; the worker ends.
    pub lost: bool,
    /// The inputs lie on the device.
    pub inputs: bool,
    /// The answer.
    pub answer: Result<Answer, RunError>,
}

/// The answer to a request that succeeded.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Nothing more to say.
    Done,
    /// To a set-up.
    Device(DeviceFacts),
    /// To `Execute`.
    Errors(Errors),
    /// To `Time`.
    Timing(Timing),
    /// To `Interleave`.
    Timings(Vec<Result<Timing, RunError>>),
}

/// Runs a measuring worker until standard input ends: `daylight worker measure`.
///
/// # Errors
/// A sentence, when the pipe breaks or the peer speaks another protocol.
pub fn worker_main() -> Result<(), String> {
    let mut runner: Option<LocalRunner> = None;
    serve(move |request: MeasureRequest| {
        let answer = match (request, &mut runner) {
            (MeasureRequest::Setup(setup), slot) => setup.open().and_then(|mut opened| {
                let facts = opened.device();
                *slot = Some(opened);
                facts.map(Answer::Device)
            }),
            (_, None) => Err(RunError::new(RunFailure::BadRequest, "the worker was not set up")),
            (request, Some(runner)) => answer(runner, request),
        };
        let state = |f: fn(&LocalRunner) -> bool| runner.as_ref().is_some_and(f);
        MeasureReply { lost: state(LocalRunner::is_lost), inputs: state(LocalRunner::has_inputs), answer }
    })
}

fn answer(runner: &mut LocalRunner, request: MeasureRequest) -> Result<Answer, RunError> {
    match request {
        MeasureRequest::Setup(_) => runner.device().map(Answer::Device),
        MeasureRequest::Prepare(problem) => runner.prepare(&problem).map(|()| Answer::Done),
        MeasureRequest::Inputs(params) => runner.make_inputs(&params).map(|()| Answer::Done),
        MeasureRequest::Execute(candidate) => runner.execute(&candidate).map(Answer::Errors),
        MeasureRequest::RunFiles { candidate, inputs, outputs } => {
            runner.run_files(&candidate, &inputs, &outputs).map(|()| Answer::Done)
        }
        MeasureRequest::Time { candidate, best_ns } => runner.time(&candidate, best_ns).map(Answer::Timing),
        MeasureRequest::Interleave { candidates, rounds } => {
            Ok(Answer::Timings(runner.time_interleaved(&candidates, rounds)))
        }
    }
}

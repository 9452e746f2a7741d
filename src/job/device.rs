//! Devices by name: what they are, how to compile for them and measure on them.

use super::Failure;
use crate::backend::{Language, LocalCompiler, Tools};
use crate::log::{Env, Policy};
use crate::machine::Machine;
use crate::measure::{Setup, WorkerRunner};
use crate::runner::{CompilePool, DeviceFacts, Limits, RunError, RunFailure, Runner, WorkerCommand, cuda};
use crate::target::{Kind, Target, nearest};
use std::path::{Path, PathBuf};

/// What is said where candidates shall run and no program was named that could run them.
const NO_WORKER: &str = "candidates are run by worker processes, and none was named: \
set TuneConfig.worker to the path of the daylight program";

/// A device that is there; several where all GPUs of a machine work together.
pub struct Device {
    /// What kernels are built for, with the figures of this very device.
    pub target: Target,
    /// Architecture of the processor, whatever kernels are built for.
    arch: String,
    /// What the driver says of it, of the first one where there are several.
    pub facts: DeviceFacts,
    setup: Setup,
    /// One per GPU; one on the CPU.
    runners: Vec<WorkerRunner>,
    tools: Tools,
    worker: PathBuf,
    limits: Limits,
}

/// A device name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wanted {
    Auto,
    Cpu,
    Cuda(u32),
    AllCuda,
}

impl Device {
    /// Opens `auto`, `cpu`, `cuda`, `cuda:N` or `cuda:all`; `auto` is the first CUDA device, else the
    /// CPU. `worker` is the `daylight` program whose processes run candidates.
    ///
    /// # Errors
    /// An unknown name; a device that is not there; no worker.
    pub fn open(machine: &Machine, worker: Option<&Path>, name: &str, limits: &Limits) -> Result<Device, Failure> {
        let wanted = wanted(name)?;
        let worker = worker.ok_or_else(|| Failure::usage(NO_WORKER))?;
        match wanted {
            Wanted::Cpu => Device::cpu(machine, worker, limits),
            Wanted::Cuda(n) => Device::cuda(machine, worker, n, limits).map_err(missing),
            Wanted::AllCuda => Device::all_cuda(machine, worker, limits),
            Wanted::Auto => match Device::cuda(machine, worker, 0, limits) {
                Ok(device) => Ok(device),
                Err(e) if e.failure == RunFailure::DeviceMissing => Device::cpu(machine, worker, limits),
                Err(e) => Err(missing(e)),
            },
        }
    }

    fn cpu(machine: &Machine, worker: &Path, limits: &Limits) -> Result<Device, Failure> {
        let host = &machine.host;
        let target = Target::parse("cpu", host).map_err(Failure::missing)?;
        let facts = DeviceFacts {
            name: host.model.clone(),
            kind: "cpu".into(),
            sms: host.cores,
            l2_bytes: host.llc_bytes,
            memory_bytes: machine.memory_bytes,
            ..DeviceFacts::default()
        };
        let setup = Setup::cpu(facts.clone());
        let runners = vec![runner(worker, &setup, limits)];
        let tools = Tools::find(&machine.places, Language::C);
        let arch = target.arch.clone();
        Ok(Device { target, arch, facts, setup, runners, tools, worker: worker.into(), limits: *limits })
    }

    fn cuda(machine: &Machine, worker: &Path, ordinal: u32, limits: &Limits) -> Result<Device, RunError> {
        let setup = Setup::cuda(ordinal);
        let mut runner = runner(worker, &setup, limits);
        let facts = runner.device()?;
        let arch = format!("cuda:sm_{}{}", facts.cc.0, facts.cc.1);
        let target = Target::parse(&arch, &machine.host);
        let target = target.map_err(|_| {
            let text =
                format!("{} has compute capability {}.{}, which is not supported", facts.name, facts.cc.0, facts.cc.1);
            RunError::new(RunFailure::DeviceMissing, text)
        })?;
        let target = target.measured_as(facts.sms, facts.l2_bytes, facts.dram_gbps);
        let tools = Tools::find(&machine.places, Language::Cuda);
        let (arch, runners) = (target.arch.clone(), vec![runner]);
        Ok(Device { target, arch, facts, setup, runners, tools, worker: worker.into(), limits: *limits })
    }

    /// The first GPU and every other one of the same model.
    fn all_cuda(machine: &Machine, worker: &Path, limits: &Limits) -> Result<Device, Failure> {
        let count = cuda::devices().map_err(missing)?.len() as u32;
        let mut all = Device::cuda(machine, worker, 0, limits).map_err(missing)?;
        for ordinal in 1..count {
            let mut other = runner(worker, &Setup::cuda(ordinal), limits);
            if other.device().map_err(missing)? == all.facts {
                all.runners.push(other);
            }
        }
        Ok(all)
    }

    /// The device with kernels built for another target than its own.
    ///
    /// # Errors
    /// A target whose kernels it cannot run.
    pub fn built_for(mut self, target: Target) -> Result<Device, Failure> {
        if !self.target.runs(&target) {
            return Err(Failure::missing(format!(
                "this machine has {}, which cannot run {}",
                self.describe(),
                target.id
            )));
        }
        self.target = target.measured_as(self.facts.sms, self.facts.l2_bytes, self.facts.dram_gbps);
        Ok(self)
    }

    /// The runner that checks and times on the device, on the first where there are several.
    pub fn runner(&mut self) -> &mut WorkerRunner {
        &mut self.runners[0]
    }

    /// One runner per device.
    pub fn runners(&mut self) -> &mut [WorkerRunner] {
        &mut self.runners
    }

    /// Number of devices that measure at the same time.
    pub fn count(&self) -> usize {
        self.runners.len()
    }

    /// Gives up the runners at these positions.
    pub fn drop_runners(&mut self, positions: &[usize]) {
        let mut at = 0;
        self.runners.retain(|_| {
            at += 1;
            !positions.contains(&(at - 1))
        });
    }

    /// Compiles for the device on `jobs` worker processes.
    pub fn compiler(&self, jobs: usize) -> CompilePool {
        let command = WorkerCommand::daylight(&self.worker, "compile");
        CompilePool::new(command, self.tools.clone(), jobs, self.limits)
    }

    /// The machine, as records name it.
    ///
    /// # Errors
    /// A compiler that is not there.
    pub fn env(&self) -> Result<Env, Failure> {
        let compiler = LocalCompiler::new(self.tools.clone()).id(language(&self.target));
        let compiler = compiler.map_err(|e| Failure::missing(e.message))?;
        let cc = match self.target.kind {
            Kind::Cuda => format!("{}.{}", self.facts.cc.0, self.facts.cc.1),
            Kind::Cpu => self.arch.clone(),
        };
        Ok(Env {
            gpu: self.facts.name.clone(),
            cc,
            sms: self.facts.sms,
            driver: self.facts.driver.clone(),
            nvrtc: compiler,
            daylight: env!("CARGO_PKG_VERSION").into(),
        })
    }

    /// How it is measured.
    pub fn policy(&self) -> Policy {
        Policy { id: self.setup.policy().into(), flags: vec![] }
    }

    /// `cpu:x86-64-v4 (Intel ...)`.
    pub fn describe(&self) -> String {
        let count = if self.count() > 1 { format!("{} x ", self.count()) } else { String::new() };
        format!("{} ({count}{})", self.target.id, self.facts.name)
    }
}

/// The language of a target's kernels.
pub fn language(target: &Target) -> Language {
    match target.kind {
        Kind::Cuda => Language::Cuda,
        Kind::Cpu => Language::C,
    }
}

fn missing(e: RunError) -> Failure {
    Failure::missing(e.message)
}

fn runner(worker: &Path, setup: &Setup, limits: &Limits) -> WorkerRunner {
    WorkerRunner::new(WorkerCommand::daylight(worker, "measure"), setup.clone(), *limits)
}

fn wanted(name: &str) -> Result<Wanted, Failure> {
    const NAMES: [&str; 5] = ["auto", "cpu", "cuda", "cuda:0", "cuda:all"];
    match (name, name.strip_prefix("cuda:").map(str::parse)) {
        ("auto", _) => Ok(Wanted::Auto),
        ("cpu", _) => Ok(Wanted::Cpu),
        ("cuda", _) => Ok(Wanted::Cuda(0)),
        ("cuda:all", _) => Ok(Wanted::AllCuda),
        (_, Some(Ok(n))) => Ok(Wanted::Cuda(n)),
        ("gpu" | "GPU" | "nvidia", _) => {
            Err(Failure::usage(format!("unknown device \"{name}\"; GPUs are called cuda, cuda:1, ...")))
        }
        _ => Err(Failure::usage(match nearest(name, NAMES) {
            Some(near) => format!("unknown device \"{name}\"; did you mean \"{near}\"?"),
            None => format!("unknown device \"{name}\"; the devices are auto, cpu, cuda, cuda:1, ..., cuda:all"),
        })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_devices() {
        assert_eq!(wanted("auto"), Ok(Wanted::Auto));
        assert_eq!(wanted("cuda"), Ok(Wanted::Cuda(0)));
        assert_eq!(wanted("cuda:3"), Ok(Wanted::Cuda(3)));
        assert_eq!(wanted("cuda:all"), Ok(Wanted::AllCuda));
        assert_eq!(wanted("cud").unwrap_err().message, "unknown device \"cud\"; did you mean \"cuda\"?");
        assert!(wanted("tpu-v5e").unwrap_err().message.contains("the devices are auto, cpu"));
        assert!(wanted("cuda:x").is_err());
    }
}

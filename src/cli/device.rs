//! Devices by name: what they are, how to compile for them and measure on them.

use super::context::Context;
use super::exit::Failure;
use crate::backend::{
    CompilePool, DeviceFacts, Language, Limits, LocalCompiler, RunError, RunFailure, Runner, Tools, WorkerCommand,
};
use crate::log::{Env, Policy};
use crate::measure::{Setup, WorkerRunner};
use crate::target::{Kind, Target, nearest};

/// A device that is there.
pub struct Device {
    /// What kernels are built for, with the figures of this very device.
    pub target: Target,
    /// What the driver says of it.
    pub facts: DeviceFacts,
    setup: Setup,
    runner: WorkerRunner,
}

/// A device name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wanted {
    Auto,
    Cpu,
    Cuda(u32),
}

impl Device {
    /// Opens `auto`, `cpu`, `cuda` or `cuda:N`; `auto` is the first CUDA device, else the CPU.
    ///
    /// # Errors
    /// An unknown name; a device that is not there.
    pub fn open(cx: &Context, name: &str) -> Result<Device, Failure> {
        match wanted(name)? {
            Wanted::Cpu => Device::cpu(cx),
            Wanted::Cuda(n) => Device::cuda(cx, n).map_err(|e| Failure::missing(e.message)),
            Wanted::Auto => match Device::cuda(cx, 0) {
                Ok(device) => Ok(device),
                Err(e) if e.failure == RunFailure::DeviceMissing => Device::cpu(cx),
                Err(e) => Err(Failure::missing(e.message)),
            },
        }
    }

    fn cpu(cx: &Context) -> Result<Device, Failure> {
        let target = Target::parse("cpu", &cx.host).map_err(Failure::missing)?;
        let facts = DeviceFacts {
            name: cx.host.model.clone(),
            kind: "cpu".into(),
            sms: cx.host.cores,
            l2_bytes: cx.host.llc_bytes,
            memory_bytes: super::host::memory_bytes(),
            ..DeviceFacts::default()
        };
        let setup = Setup::cpu(facts.clone());
        let runner = runner(cx, &setup);
        Ok(Device { target, facts, setup, runner })
    }

    fn cuda(cx: &Context, ordinal: u32) -> Result<Device, RunError> {
        let setup = Setup::cuda(ordinal);
        let mut runner = runner(cx, &setup);
        let facts = runner.device()?;
        let arch = format!("cuda:sm_{}{}", facts.cc.0, facts.cc.1);
        let target = Target::parse(&arch, &cx.host);
        let target = target.map_err(|_| {
            let text =
                format!("{} has compute capability {}.{}, which is not supported", facts.name, facts.cc.0, facts.cc.1);
            RunError::new(RunFailure::DeviceMissing, text)
        })?;
        let target = target.measured_as(facts.sms, facts.l2_bytes, facts.dram_gbps);
        Ok(Device { target, facts, setup, runner })
    }

    /// The runner that checks and times on the device.
    pub fn runner(&mut self) -> &mut WorkerRunner {
        &mut self.runner
    }

    /// Compiles for the device on `jobs` worker processes.
    pub fn compiler(&self, cx: &Context, jobs: usize) -> CompilePool {
        let command = WorkerCommand::daylight(&cx.program, "compile");
        CompilePool::new(command, self.tools(cx), jobs, limits(jobs))
    }

    fn tools(&self, cx: &Context) -> Tools {
        Tools::find(&cx.places, language(&self.target))
    }

    /// The machine, as records name it.
    ///
    /// # Errors
    /// A compiler that is not there.
    pub fn env(&self, cx: &Context) -> Result<Env, Failure> {
        let compiler = LocalCompiler::new(self.tools(cx)).id(language(&self.target));
        let compiler = compiler.map_err(|e| Failure::missing(e.message))?;
        let cc = match self.target.kind {
            Kind::Cuda => format!("{}.{}", self.facts.cc.0, self.facts.cc.1),
            Kind::Cpu => self.target.arch.clone(),
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
        format!("{} ({})", self.target.id, self.facts.name)
    }
}

/// The language of a target's kernels.
pub fn language(target: &Target) -> Language {
    match target.kind {
        Kind::Cuda => Language::Cuda,
        Kind::Cpu => Language::C,
    }
}

fn runner(cx: &Context, setup: &Setup) -> WorkerRunner {
    WorkerRunner::new(WorkerCommand::daylight(&cx.program, "measure"), setup.clone(), limits(1))
}

/// What a candidate may cost on this machine when `jobs` of them compile at once.
fn limits(jobs: usize) -> Limits {
    Limits::default().for_machine(super::host::memory_bytes(), jobs)
}

fn wanted(name: &str) -> Result<Wanted, Failure> {
    const NAMES: [&str; 4] = ["auto", "cpu", "cuda", "cuda:0"];
    match (name, name.strip_prefix("cuda:").map(str::parse)) {
        ("auto", _) => Ok(Wanted::Auto),
        ("cpu", _) => Ok(Wanted::Cpu),
        ("cuda", _) => Ok(Wanted::Cuda(0)),
        (_, Some(Ok(n))) => Ok(Wanted::Cuda(n)),
        _ => Err(Failure::usage(match nearest(name, NAMES) {
            Some(near) => format!("unknown device \"{name}\"; did you mean \"{near}\"?"),
            None => format!("unknown device \"{name}\"; the devices are auto, cpu, cuda, cuda:1, ..."),
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
        assert_eq!(wanted("cud").unwrap_err().message, "unknown device \"cud\"; did you mean \"cuda\"?");
        assert!(wanted("tpu-v5e").unwrap_err().message.contains("the devices are auto, cpu"));
        assert!(wanted("cuda:x").is_err());
    }
}

//! `daylight doctor`: what was found, what is missing, how to get it.

use super::args;
use super::context::Context;
use super::device::Device;
use super::exit::{Exit, Failure};
use super::output;
use crate::backend::{Language, LocalCompiler, Tools, cuda, nvrtc};
use crate::measure;
use crate::target::{Kind, Target};
use serde_json::json;

/// Bytes copied to measure the noise of a GPU.
const CUDA_COPY: u64 = 256 << 20;
/// Bytes copied to measure the noise of a CPU.
const CPU_COPY: u64 = 32 << 20;

/// One thing that was looked for.
struct Finding {
    what: &'static str,
    found: Result<String, String>,
    /// False for what Daylight works without.
    needed: bool,
}

/// Runs the command. Exit code 4 when something is missing that every use needs.
pub fn run(cx: &Context, a: &args::Doctor) -> Result<Exit, Failure> {
    if a.fetch_nvrtc {
        fetch(cx)?;
    }
    let mut findings = look(cx);
    if let Some(name) = &a.device {
        findings.push(Finding { what: "noise", found: noise(cx, name)?, needed: true });
    }
    for f in &findings {
        print(cx, f);
    }
    let lacking = findings.iter().any(|f| f.needed && f.found.is_err());
    Ok(if lacking { Exit::Missing } else { Exit::Done })
}

fn fetch(cx: &Context) -> Result<(), Failure> {
    for got in [nvrtc::fetch_nvrtc(&cx.places), nvrtc::fetch_nvdisasm(&cx.places)] {
        let path = got.map_err(Failure::missing)?;
        output::note(&format!("fetched {}", path.display()));
    }
    Ok(())
}

fn look(cx: &Context) -> Vec<Finding> {
    let host = &cx.host;
    let cpu = Target::parse("cpu", host).map(|t| {
        let mib = host.llc_bytes >> 20;
        format!("{} ({}, {} cores, {mib} MiB last-level cache)", t.id, host.model, host.cores)
    });
    let disassembler = nvrtc::find_nvdisasm(&cx.places).map(|p| p.display().to_string());
    let none = "not found, --emit sass needs it; run `daylight doctor --fetch-nvrtc`";
    vec![
        Finding { what: "processor", found: cpu, needed: true },
        Finding { what: "C compiler", found: compiler(cx, Language::C), needed: true },
        Finding { what: "CUDA device", found: devices(), needed: false },
        Finding { what: "NVRTC", found: compiler(cx, Language::Cuda), needed: false },
        Finding { what: "nvdisasm", found: disassembler.ok_or_else(|| none.to_string()), needed: false },
        Finding { what: "cache", found: Ok(cx.places.cache.display().to_string()), needed: false },
    ]
}

/// How a copy on a device compares with itself.
fn noise(cx: &Context, name: &str) -> Result<Result<String, String>, Failure> {
    let mut device = Device::open(cx, name)?;
    let (compiler, target) = (device.compiler(cx, 1), device.target.id.clone());
    let bytes = if device.target.kind == Kind::Cuda { CUDA_COPY } else { CPU_COPY };
    let text = |n: measure::Noise| {
        let percent = |share: f64| 100.0 * share;
        format!(
            "a copy takes {:.1} us ({:.0} GB/s), samples spread by {:.2} %, against itself {:.2} % ({target})",
            n.median_us,
            n.copy_gbps,
            percent(n.spread),
            percent(n.difference)
        )
    };
    Ok(measure::noise(&compiler, device.runner(), &target, bytes).map(text))
}

/// The CUDA devices with their driver.
fn devices() -> Result<String, String> {
    let devices = cuda::devices().map_err(|e| e.message)?;
    let text = devices.iter().enumerate().map(|(i, d)| {
        let gib = d.memory_bytes >> 30;
        format!("{i}: {} (sm_{}{}, {} SMs, {gib} GiB, driver of CUDA {})", d.name, d.cc.0, d.cc.1, d.sms, d.driver)
    });
    let text = text.collect::<Vec<_>>().join("; ");
    if text.is_empty() { Err("the driver knows no device; use --device cpu".to_string()) } else { Ok(text) }
}

/// The compiler's version and where it lies.
fn compiler(cx: &Context, language: Language) -> Result<String, String> {
    let tools = Tools::find(&cx.places, language);
    let path = match language {
        Language::Cuda => tools.nvrtc.clone()?,
        Language::C => tools.cc.clone()?,
    };
    let id = LocalCompiler::new(tools).id(language).map_err(|e| e.message)?;
    Ok(format!("{id} at {}", path.display()))
}

fn print(cx: &Context, f: &Finding) {
    if cx.json {
        let (found, text) = match &f.found {
            Ok(text) => (true, text),
            Err(text) => (false, text),
        };
        output::line(
            &json!({"schema": 1, "what": f.what, "found": found, "text": text, "needed": f.needed}).to_string(),
        );
        return;
    }
    match &f.found {
        Ok(text) => output::line(&format!("ok       {:<11} {text}", f.what)),
        Err(why) => output::line(&format!("{:<8} {:<11} {why}", if f.needed { "missing" } else { "absent" }, f.what)),
    }
}

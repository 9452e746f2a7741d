//! `daylight doctor`: what was found, what is missing, how to get it.

use super::args;
use super::context::Context;
use super::output;
use crate::backend::{Language, LocalCompiler, Tools, nvrtc};
use crate::job::{Exit, Failure};
use crate::measure::{self, AaReport, AaSettings};
use crate::runner::cuda;
use crate::target::{Kind, Target};
use serde_json::json;
use std::time::Duration;

/// Bytes copied to measure the noise of a GPU: a long kernel and one of a few microseconds.
const CUDA_COPIES: [u64; 2] = [256 << 20, 1 << 20];
/// Bytes copied to measure the noise of a CPU.
const CPU_COPIES: [u64; 2] = [32 << 20, 256 << 10];
/// Trials of each copy, as far as the time reaches.
const TRIALS: usize = 100;
/// Turns of each trial.
const TURNS: usize = 15;
/// Longest time for the trials of one copy.
const TRIALS_LIMIT: Duration = Duration::from_secs(10);

/// One thing that was looked for.
struct Finding {
    what: &'static str,
    found: Result<String, String>,
    /// False for what Daylight works without.
    needed: bool,
    /// The same in numbers.
    noise: Option<AaReport>,
}

impl Finding {
    fn new(what: &'static str, found: Result<String, String>, needed: bool) -> Finding {
        Finding { what, found, needed, noise: None }
    }
}

/// Runs the command. Exit code 4 when something is missing that every use needs.
pub fn run(cx: &Context, a: &args::Doctor) -> Result<Exit, Failure> {
    if a.fetch_nvrtc {
        fetch(cx)?;
    }
    let mut findings = look(cx);
    if let Some(name) = &a.device {
        findings.extend(noise(cx, name)?);
    }
    for f in &findings {
        print(cx, f);
    }
    let lacking = findings.iter().any(|f| f.needed && f.found.is_err());
    Ok(if lacking { Exit::Missing } else { Exit::Done })
}

fn fetch(cx: &Context) -> Result<(), Failure> {
    for got in [nvrtc::fetch_nvrtc(&cx.machine.places), nvrtc::fetch_nvdisasm(&cx.machine.places)] {
        let path = got.map_err(Failure::missing)?;
        output::note(&format!("fetched {}", path.display()));
    }
    Ok(())
}

fn look(cx: &Context) -> Vec<Finding> {
    let host = &cx.machine.host;
    let cpu = Target::parse("cpu", host).map(|t| {
        let mib = host.llc_bytes >> 20;
        format!("{} ({}, {} cores, {mib} MiB last-level cache)", t.id, host.model, host.cores)
    });
    let disassembler = nvrtc::find_nvdisasm(&cx.machine.places).map(|p| p.display().to_string());
    let none = "not found, --emit sass needs it; run `daylight doctor --fetch-nvrtc`";
    vec![
        Finding::new("processor", cpu, true),
        Finding::new("C compiler", compiler(cx, Language::C), true),
        Finding::new("CUDA device", devices(), false),
        Finding::new("NVML", states(), false),
        Finding::new("NVRTC", compiler(cx, Language::Cuda), false),
        Finding::new("nvdisasm", disassembler.ok_or_else(|| none.to_string()), false),
        Finding::new("cache", Ok(cx.machine.places.cache.display().to_string()), false),
    ]
}

/// How copies on a device compare with themselves.
fn noise(cx: &Context, name: &str) -> Result<Vec<Finding>, Failure> {
    let mut device = cx.device(name)?;
    let (compiler, target) = (device.compiler(1), device.target.id.clone());
    let copies = if device.target.kind == Kind::Cuda { CUDA_COPIES } else { CPU_COPIES };
    let tested = copies.map(|bytes| {
        let settings = AaSettings { bytes, trials: TRIALS, turns: TURNS, limit: TRIALS_LIMIT };
        let report = measure::aa_test(&compiler, device.runner(), &target, &settings);
        Finding { noise: report.clone().ok(), ..Finding::new("noise", report.map(|r| in_words(&r, &target)), true) }
    });
    Ok(tested.into())
}

fn in_words(r: &AaReport, target: &str) -> String {
    let percent = |share: f64| format!("{:.2} %", 100.0 * share);
    let size = if r.bytes < 1 << 20 { format!("{} KiB", r.bytes >> 10) } else { format!("{} MiB", r.bytes >> 20) };
    let mut text = format!(
        "{target}: a copy of {size} takes {:.1} us ({:.0} GB/s), samples spread by {}; against itself in {} trials: \
         half differ by less than {}, 99 of 100 by less than {}, {:.0} % by less than 1 %; {} taken for different",
        r.median_us,
        r.copy_gbps,
        percent(r.spread),
        r.trials,
        percent(r.difference_p50),
        percent(r.difference_p99),
        100.0 * r.under_one_percent,
        r.false_differences
    );
    if r.repeats > 0 {
        text += &format!("; {} batches were disturbed and repeated", r.repeats);
    }
    if !r.is_quiet() {
        text += "; this machine is noisy: end what else runs on it before tuning";
    }
    text
}

/// What NVML says of each CUDA device.
fn states() -> Result<String, String> {
    let count = cuda::devices().map_err(|e| e.message)?.len() as u32;
    if count == 0 {
        return Err("there is no device to watch".to_string());
    }
    let one = |i: u32| {
        let cuda::Observation { state, first, next } = cuda::observe(i)?;
        let throttle = if state.throttle.is_empty() { "not throttled".into() } else { state.throttle.join(" and ") };
        Ok(format!(
            "{i}: SM {} MHz, memory {} MHz, {} C, {throttle}, {} processes; asked in {:.2} ms, again in {:.2} ms",
            state.sm_mhz,
            state.mem_mhz,
            state.temperature_c,
            state.processes,
            1e3 * first.as_secs_f64(),
            1e3 * next.as_secs_f64()
        ))
    };
    Ok((0..count).map(one).collect::<Result<Vec<_>, String>>()?.join("; "))
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
    let tools = Tools::find(&cx.machine.places, language);
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
        let mut line = json!({"schema": 1, "what": f.what, "found": found, "text": text, "needed": f.needed});
        if let Some(noise) = &f.noise {
            line["noise"] = json!(noise);
        }
        output::line(&line.to_string());
        return;
    }
    match &f.found {
        Ok(text) => output::line(&format!("ok       {:<11} {text}", f.what)),
        Err(why) => output::line(&format!("{:<8} {:<11} {why}", if f.needed { "missing" } else { "absent" }, f.what)),
    }
}

//! `daylight explain`: decisions, or the text at any stage. Needs no device.

use super::args::{self, Emit};
use super::context::Context;
use super::{output, tile};
use crate::assemble::{Assembly, Subject, Unfit};
use crate::backend::{Artifact, Compiler, Language, LocalCompiler, Tools, nvrtc};
use crate::ir::DeviceLaunch;
use crate::job::{Exit, Failure, Input, load, select};
use crate::lower::{Pass, Way, lower_after, passes};
use crate::rules::{Arm, Knobs, verdicts};
use crate::schedule::Schedule;
use crate::target::{Kind, Target};
use crate::tile::Decision;
use serde_json::json;

/// Runs the command.
pub fn run(cx: &Context, a: &args::Explain) -> Result<Exit, Failure> {
    let target = cx.target(&a.target)?;
    if a.after.is_some() && a.emit != Emit::Kernel {
        return Err(Failure::usage("--after shows a kernel on its way down and needs --emit kernel"));
    }
    let mut worst = Exit::Done;
    for input in load(&cx.bind, &a.files)? {
        let done = match input {
            Ok(input) => one(cx, a, &input, &target),
            Err(e) => Err(e.failure),
        };
        if let Err(f) = done {
            output::note(&format!("daylight: {}", f.message));
            worst = worst.max(f.exit);
        }
    }
    Ok(worst)
}

fn one(cx: &Context, a: &args::Explain, input: &Input, target: &Target) -> Result<(), Failure> {
    if let Some(program) = &input.program {
        return tile::explain(cx, a, input, program, target);
    }
    let subject = input.subject(target)?;
    if a.emit == Emit::Decisions {
        decisions(cx, input, &subject, &calls(cx, a, input, &subject)?);
        return Ok(());
    }
    let arms = select::arms(&subject, &cx.spaces, &input.name, &a.choose.choice())?;
    let (arm, knobs) = select::point(&arms, &a.choose.choice())?;
    let bug = |e: String| Failure::new(Exit::Failed, format!("{}: {e}", input.name));
    let schedule = arm.schedule(&knobs).map_err(|e| bug(e.to_string()))?;
    let unfit = |u: Unfit| bug(u.to_string());
    let text = match a.emit {
        Emit::Decisions | Emit::Tir => schedule.func().to_string(),
        Emit::Trace => trace(&schedule),
        Emit::Kernel => match pass(a, Way::of(target), &target.id)? {
            Some(last) => {
                let launches = lower_after(schedule.func(), target, last).map_err(|e| bug(e.to_string()))?;
                after(last, &launches)
            }
            None => subject.assemble(&schedule).map_err(unfit)?.program.to_string(),
        },
        Emit::Cuda => source(&subject.assemble(&schedule).map_err(unfit)?, target, Kind::Cuda, "cuda")?,
        Emit::C => source(&subject.assemble(&schedule).map_err(unfit)?, target, Kind::Cpu, "c")?,
        Emit::Ptx | Emit::Cubin | Emit::Sass => {
            let assembly = subject.assemble(&schedule).map_err(unfit)?;
            let chosen = Some((arm.space.form, &knobs));
            return machine_text(cx, input, &assembly, target, chosen, a.emit);
        }
    };
    print(cx, input, Some((arm.space.form, &knobs)), a.emit, &text);
    Ok(())
}

/// The pass that `--after` names.
pub(super) fn pass(a: &args::Explain, way: Way, whose: &str) -> Result<Option<&'static Pass>, Failure> {
    let Some(name) = &a.after else { return Ok(None) };
    let names = || passes(way).map(|p| p.name).collect::<Vec<_>>().join(", ");
    let unknown = || Failure::usage(format!("--after {name}: no pass for {whose} has this name; they are {}", names()));
    passes(way).find(|p| p.name == name).map(Some).ok_or_else(unknown)
}

/// Launches between two passes, as text.
pub(super) fn after(last: &Pass, launches: &[DeviceLaunch]) -> String {
    let launches: String = launches.iter().map(|l| format!("\n{l}")).collect();
    format!("after {}: {}\n{launches}", last.name, last.what)
}

/// What the compiler makes of a kernel.
pub(super) fn machine_text(
    cx: &Context,
    input: &Input,
    assembly: &Assembly,
    target: &Target,
    chosen: Option<(&str, &Knobs)>,
    emit: Emit,
) -> Result<(), Failure> {
    source(assembly, target, Kind::Cuda, "ptx, cubin and sass")?;
    let text = match emit {
        Emit::Cubin => return cubin(cx, input, assembly, chosen),
        Emit::Sass => sass(cx, assembly)?,
        _ => ptx(cx, assembly)?,
    };
    print(cx, input, chosen, emit, &text);
    Ok(())
}

/// What dispatch decides for the tile calls that the kernel of the chosen point leaves; none where no
/// rule takes the function.
fn calls(cx: &Context, a: &args::Explain, input: &Input, subject: &Subject) -> Result<Vec<Decision>, Failure> {
    let choice = a.choose.choice();
    let arms = match select::arms(subject, &cx.spaces, &input.name, &choice) {
        Ok(arms) => arms,
        // That no rule takes it is what the decisions say; a name nobody knows is an error.
        Err(f) if f.exit == Exit::Failed => return Ok(vec![]),
        Err(f) => return Err(f),
    };
    let (arm, knobs) = select::point(&arms, &choice)?;
    let bug = |e: String| Failure::new(Exit::Failed, format!("{}: {e}", input.name));
    let schedule = arm.schedule(&knobs).map_err(|e| bug(e.to_string()))?;
    subject.decisions(&schedule).map_err(|e| bug(e.to_string()))
}

fn trace(s: &Schedule) -> String {
    s.trace().iter().map(|t| format!("{t}\n")).collect()
}

pub(super) fn source(assembly: &Assembly, target: &Target, kind: Kind, what: &str) -> Result<String, Failure> {
    if target.kind == kind {
        return Ok(assembly.source.text.clone());
    }
    let example = if kind == Kind::Cuda { "cuda:sm_90a" } else { "cpu" };
    Err(Failure::usage(format!("--emit {what} needs another target than {}, such as {example}", target.id)))
}

fn compiler(cx: &Context, language: Language) -> LocalCompiler {
    LocalCompiler::new(Tools::find(&cx.machine.places, language))
}

fn compiled(cx: &Context, assembly: &Assembly) -> Result<Artifact, Failure> {
    let made = compiler(cx, Language::Cuda).compile(&assembly.source).map_err(Failure::from)?;
    made.warnings.iter().for_each(|w| output::note(&format!("the compiler says: {w}")));
    Ok(made)
}

fn ptx(cx: &Context, assembly: &Assembly) -> Result<String, Failure> {
    let local = compiler(cx, Language::Cuda);
    let nvrtc = local.nvrtc().map_err(|e| Failure::missing(e.message))?;
    nvrtc.ptx(&assembly.source.text, &assembly.source.target).map_err(|e| Failure::new(Exit::Failed, e.message))
}

fn sass(cx: &Context, assembly: &Assembly) -> Result<String, Failure> {
    let advice = "nvdisasm was not found; run `daylight doctor --fetch-nvrtc`, or install the CUDA toolkit";
    let tool = nvrtc::find_nvdisasm(&cx.machine.places).ok_or_else(|| Failure::missing(advice))?;
    let artifact = compiled(cx, assembly)?;
    nvrtc::sass(&tool, &artifact.path).map_err(|e| Failure::new(Exit::Failed, e))
}

/// A binary goes to a pipe or a file as it is; on JSON output, as the path where it lies.
fn cubin(cx: &Context, input: &Input, assembly: &Assembly, chosen: Option<(&str, &Knobs)>) -> Result<(), Failure> {
    use std::io::IsTerminal;
    let artifact = compiled(cx, assembly)?;
    let path = artifact.path.display().to_string();
    let res = artifact.res;
    output::note(&format!("{} registers, {} bytes spilled, {} bytes of shared memory", res.regs, res.spill, res.smem));
    if cx.json || std::io::stdout().is_terminal() {
        print(cx, input, chosen, Emit::Cubin, &path);
    } else {
        output::bytes(&artifact.bytes);
    }
    Ok(())
}

/// Shows a text, as JSON with the rule and knobs that made it (none of a tile program).
pub(super) fn print(cx: &Context, input: &Input, chosen: Option<(&str, &Knobs)>, emit: Emit, text: &str) {
    if cx.json {
        let stage = format!("{emit:?}").to_lowercase();
        let object = json!({
            "schema": 1, "file": input.file, "name": input.name, "workload": input.key,
            "rule": chosen.map(|c| c.0), "knobs": chosen.map(|c| &c.1.0), "emit": stage, "text": text,
        });
        output::line(&object.to_string());
    } else {
        output::text(text);
        if !text.ends_with('\n') {
            output::text("\n");
        }
    }
}

/// What every rule says of the function, and every variant of the tile calls that are left.
fn decisions(cx: &Context, input: &Input, subject: &Subject, calls: &[Decision]) {
    let verdicts = verdicts(&subject.prepared, &subject.target, &cx.spaces);
    if cx.json {
        let rules: Vec<serde_json::Value> = verdicts
            .iter()
            .map(|v| match &v.arm {
                Ok(Arm { space: s, .. }) => {
                    let census = s.census().1;
                    json!({
                        "rule": v.rule, "accepted": true, "default": s.default().map(|k| k.0),
                        "points": census.points, "legal": census.legal, "ruled_out": census.ruled_out,
                    })
                }
                Err(d) => json!({
                    "rule": v.rule, "accepted": false, "predicate": d.predicate, "reason": d.reason,
                }),
            })
            .collect();
        let object = json!({
            "schema": 1, "file": input.file, "name": input.name, "workload": input.key,
            "target": subject.target.id, "rules": rules,
            "calls": calls.iter().enumerate().map(|(k, d)| tile::decision(k, d)).collect::<Vec<_>>(),
        });
        output::line(&object.to_string());
        return;
    }
    output::line(&format!("{} ({}) on {}, workload {}", input.name, input.file, subject.target.id, input.key));
    let mut first = true;
    for v in &verdicts {
        match &v.arm {
            Ok(Arm { space: s, .. }) => {
                let default = s.default().map_or("no legal point".to_string(), |k| k.to_string());
                let mark = if std::mem::take(&mut first) { "accepts, untuned choice" } else { "accepts" };
                let census = s.census().1;
                let (points, legal) = (census.points, census.legal);
                output::line(&format!("  {:<20} {mark}: {default}; {points} points, {legal} legal", v.rule));
                let by: Vec<String> = census.ruled_out.iter().map(|(name, n)| format!("{n} {name}")).collect();
                if !by.is_empty() {
                    output::line(&format!("    ruled out    {}", by.join(", ")));
                }
                for k in &s.knobs {
                    output::line(&format!("    {:<12} {:?} {}: {}", k.name, k.values, k.unit, k.meaning));
                }
            }
            Err(d) => output::line(&format!("  {:<20} declines: {}: {}", v.rule, d.predicate, d.reason)),
        }
    }
    tile::tables(calls);
}

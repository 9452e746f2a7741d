//! `daylight explain`: decisions, or the text at any stage. Needs no device.

use super::args::{self, Emit};
use super::context::Context;
use super::output;
use crate::assemble::{Assembly, Scheduled, Subject};
use crate::backend::{Artifact, Compiler, Language, LocalCompiler, Tools, nvrtc};
use crate::ir::DeviceLaunch;
use crate::job::select::{self, Chosen};
use crate::job::{Exit, Failure, Input, guarded};
use crate::log::Setting;
use crate::lower::{Pass, Way, passes};
use crate::rules::{Knob, Verdict, is_form_of, untuned, verdicts};
use crate::schedule::Schedule;
use crate::target::{Kind, Target};
use crate::tile::Decision;
use serde_json::{Value, json};

/// Runs the command.
pub fn run(cx: &Context, a: &args::Explain) -> Result<Exit, Failure> {
    let target = cx.target(&a.target)?;
    if a.after.is_some() && a.emit != Emit::Kernel {
        return Err(Failure::usage("--after shows a kernel on its way down and needs --emit kernel"));
    }
    let mut worst = Exit::Done;
    for input in cx.load(&a.files)? {
        let done = match input {
            Ok(input) => guarded(&input.name, || one(cx, a, &input, &target)),
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
    let subject = input.subject(target)?;
    if a.emit == Emit::Decisions {
        return decisions(cx, a, input, &subject, target);
    }
    let (scheduled, chosen) = select::scheduled(&subject, &cx.spaces, &input.name, &a.choose.choice())?;
    let chosen = chosen.as_ref();
    let assembly = || input.assembly(&scheduled, target);
    let text =
        match a.emit {
            Emit::Decisions | Emit::Tir => scheduled.to_string(),
            Emit::Trace => trace(scheduled.schedule().ok_or_else(|| {
                Failure::usage(format!("{}: a tile program has no schedule, so no trace", input.name))
            })?),
            Emit::Kernel => match pass(a, &scheduled, target)? {
                Some(last) => after(last, &input.lowered(&scheduled, target, |s| s.after(last))?),
                None => assembly()?.program.to_string(),
            },
            Emit::Cuda => source(&assembly()?, target, Kind::Cuda, "cuda")?,
            Emit::C => source(&assembly()?, target, Kind::Cpu, "c")?,
            Emit::Ptx | Emit::Cubin | Emit::Sass => {
                return machine_text(cx, input, &assembly()?, target, chosen, a.emit);
            }
        };
    print(cx, input, chosen, a.emit, &text);
    Ok(())
}

/// The pass that `--after` names.
fn pass(a: &args::Explain, scheduled: &Scheduled<'_>, target: &Target) -> Result<Option<&'static Pass>, Failure> {
    let Some(name) = &a.after else { return Ok(None) };
    let way = scheduled.way();
    let whose = if way == Way::Program { "tile programs" } else { &target.id };
    let names = || passes(way).map(|p| p.name).collect::<Vec<_>>().join(", ");
    let unknown = || Failure::usage(format!("--after {name}: no pass for {whose} has this name; they are {}", names()));
    passes(way).find(|p| p.name == name).map(Some).ok_or_else(unknown)
}

/// Launches between two passes, as text.
fn after(last: &Pass, launches: &[DeviceLaunch]) -> String {
    let launches: String = launches.iter().map(|l| format!("\n{l}")).collect();
    format!("after {}: {}\n{launches}", last.name, last.what)
}

/// What the compiler makes of a kernel.
fn machine_text(
    cx: &Context,
    input: &Input,
    assembly: &Assembly,
    target: &Target,
    chosen: Option<&Chosen>,
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

/// What every rule says of a function, and what every variant says of the tile calls of the chosen point;
/// none where no rule takes the function.
fn decisions(
    cx: &Context,
    a: &args::Explain,
    input: &Input,
    subject: &Subject,
    target: &Target,
) -> Result<(), Failure> {
    let verdicts = match subject {
        Subject::Tensor(s) => Some(verdicts(&s.prepared, target, &cx.spaces)),
        Subject::Tile(_) => None,
    };
    let scheduled = match select::scheduled(subject, &cx.spaces, &input.name, &a.choose.choice()) {
        Ok((scheduled, _)) => Some(scheduled),
        // That no rule takes it is what the verdicts say; a name nobody knows is an error.
        Err(_) if verdicts.as_ref().is_some_and(|all| nobody(all, a.choose.rule.as_deref())) => None,
        Err(f) => return Err(f),
    };
    let calls = scheduled.as_ref().map_or(Ok(vec![]), Scheduled::decisions);
    let calls = calls.map_err(|why| Failure::new(Exit::Failed, format!("{}: {why}", input.name)))?;
    let made = match &scheduled {
        Some(program @ Scheduled::Tile(_)) => input.assembly(program, target).map(drop),
        Some(Scheduled::Tensor(..)) | None => Ok(()),
    };
    if made.is_ok() || !calls.is_empty() {
        print_decisions(cx, input, target, verdicts.as_deref(), &calls);
    }
    made
}

fn trace(s: &Schedule) -> String {
    s.trace().iter().map(|t| format!("{t}\n")).collect()
}

fn source(assembly: &Assembly, target: &Target, kind: Kind, what: &str) -> Result<String, Failure> {
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
fn cubin(cx: &Context, input: &Input, assembly: &Assembly, chosen: Option<&Chosen>) -> Result<(), Failure> {
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
fn print(cx: &Context, input: &Input, chosen: Option<&Chosen>, emit: Emit, text: &str) {
    if cx.json {
        let stage = format!("{emit:?}").to_lowercase();
        let object = json!({
            "schema": 1, "file": input.file, "name": input.name, "workload": input.key,
            "rule": chosen.map(|c| c.0), "knobs": chosen.map(|c| &c.1), "emit": stage, "text": text,
        });
        output::line(&object.to_string());
    } else {
        output::text(text);
        if !text.ends_with('\n') {
            output::text("\n");
        }
    }
}

/// True where the rule that was asked for is known and none of its forms takes the function.
fn nobody(verdicts: &[Verdict], wanted: Option<&str>) -> bool {
    let mut asked = verdicts.iter().filter(|v| wanted.is_none_or(|w| is_form_of(v.rule, w))).peekable();
    asked.peek().is_some() && asked.all(|v| v.arm.is_err())
}

fn print_decisions(cx: &Context, input: &Input, target: &Target, verdicts: Option<&[Verdict]>, calls: &[Decision]) {
    let chosen = verdicts.and_then(untuned).map(|v| v.rule);
    if cx.json {
        let calls: Vec<Value> = calls.iter().enumerate().map(|(k, d)| call(k, d)).collect();
        let mut object = json!({
            "schema": 1, "file": input.file, "name": input.name, "workload": input.key,
            "target": target.id, "calls": calls,
        });
        if let Some(verdicts) = verdicts {
            object["rules"] = verdicts.iter().map(|v| rule(v, chosen)).collect();
        }
        return output::line(&object.to_string());
    }
    output::line(&format!("{} ({}) on {}, workload {}", input.name, input.file, target.id, input.key));
    let of_target = |v: &&Verdict| v.arm.as_ref().err().is_none_or(|d| d.reason.predicate != "target_kind");
    for v in verdicts.unwrap_or_default().iter().filter(of_target) {
        match &v.arm {
            Ok(arm) => {
                let s = &arm.space;
                let default = arm.default().map_or("no legal point".to_string(), |k| s.show(&k));
                let mark = if chosen == Some(v.rule) { "accepts, untuned choice" } else { "accepts" };
                let census = s.census().1;
                let (points, legal) = (census.points, census.legal);
                output::line(&format!("  {:<20} {mark}: {default}; {points} points, {legal} legal", v.rule));
                let by: Vec<String> = census.ruled_out.iter().map(|(name, n)| format!("{n} {name}")).collect();
                if !by.is_empty() {
                    output::line(&format!("    ruled out    {}", by.join(", ")));
                }
                for k in &s.knobs {
                    output::line(&format!("    {:<12} {}: {}", k.name, values(k), k.meaning));
                }
            }
            Err(d) => output::line(&format!("  {:<20} declines: {}", v.rule, d.reason)),
        }
    }
    for (k, d) in calls.iter().enumerate() {
        output::line(&format!("call {k}"));
        d.to_string().lines().for_each(|l| output::line(&format!("  {l}")));
    }
}

/// What a rule says, as JSON; `chosen` is that of the untuned choice.
fn rule(v: &Verdict, chosen: Option<&str>) -> Value {
    match &v.arm {
        Ok(arm) => {
            let (s, census) = (&arm.space, arm.space.census().1);
            json!({
                "rule": v.rule, "accepted": true, "untuned": chosen == Some(v.rule), "default": arm.default().map(|k| s.settings::<Setting>(&k)),
                "points": census.points, "legal": census.legal, "ruled_out": census.ruled_out,
            })
        }
        Err(d) => json!({
            "rule": v.rule, "accepted": false, "predicate": d.reason.predicate, "reason": d.reason.text,
        }),
    }
}

/// What every variant says of a tile call, as JSON.
fn call(k: usize, d: &Decision) -> Value {
    let verdicts = d.verdicts.iter().map(|v| {
        let refusals: Vec<Value> =
            v.refusals.iter().map(|r| json!({ "predicate": r.predicate, "reason": r.text })).collect();
        json!({ "variant": v.variant, "priority": v.priority, "accepted": refusals.is_empty(), "refusals": refusals })
    });
    json!({
        "call": k, "op": d.call.op.name(), "text": d.call.to_string(), "variant": d.chosen,
        "variants": verdicts.collect::<Vec<_>>(),
    })
}

/// The values that are searched, with their unit.
fn values(k: &Knob) -> String {
    let values: Vec<String> = k.values.iter().map(|v| k.show(*v)).collect();
    format!("[{}] {}", values.join(", "), k.unit).trim_end().to_string()
}

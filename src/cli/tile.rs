//! Tile programs in the commands that take them.
//!
//! Stands in a circle with `explain`, which hands it tile programs and prints what it finds.

use super::args::{self, Emit};
use super::context::Context;
use super::{explain, output};
use crate::assemble::{Assembly, assemble_program};
use crate::backend::Compiler;
use crate::ir::DeviceFunc;
use crate::job::{Device, Exit, Failure, Input};
use crate::lower::{self, Way};
use crate::runner::{Candidate, Errors, Problem, RunFailure, Runner};
use crate::target::{Kind, Target};
use crate::tile::{Decision, stores_replicas};
use crate::tune::{problem, program, simulate};
use serde_json::{Value, json};

/// The kernel of a program.
///
/// # Errors
/// A CPU (exit code 3); a call that no variant carries out, with the whole table of reasons.
pub(super) fn assembly(input: &Input, program: &DeviceFunc, target: &Target) -> Result<Assembly, Failure> {
    decided(input, program, target).map(|(assembly, _)| assembly)
}

/// Refuses a target that is no GPU.
fn require_gpu(input: &Input, target: &Target) -> Result<(), Failure> {
    match target.kind {
        Kind::Cuda => Ok(()),
        Kind::Cpu => {
            let text = format!("{}: a tile program is for GPUs; {} is none", input.name, target.id);
            Err(Failure::new(Exit::Input, text))
        }
    }
}

fn decided(input: &Input, program: &DeviceFunc, target: &Target) -> Result<(Assembly, Vec<Decision>), Failure> {
    require_gpu(input, target)?;
    assemble_program(program, target).map_err(|u| Failure::new(Exit::Failed, format!("{}: {u}", input.name)))
}

/// `daylight explain` of a program.
pub(super) fn explain(
    cx: &Context,
    a: &args::Explain,
    input: &Input,
    program: &DeviceFunc,
    target: &Target,
) -> Result<(), Failure> {
    if a.choose.rule.is_some() || !a.choose.set.is_empty() {
        let text = format!("{}: a tile program has no rule and no knobs to choose", input.name);
        return Err(Failure::usage(text));
    }
    let text = match a.emit {
        Emit::Tir => program.to_string(),
        Emit::Trace => {
            return Err(Failure::usage(format!("{}: a tile program has no schedule, so no trace", input.name)));
        }
        Emit::Decisions => {
            let made = decided(input, program, target);
            let all = match &made {
                Ok((_, all)) => all.clone(),
                Err(_) => lower::device_decisions(program, target),
            };
            if made.is_ok() || !all.is_empty() {
                decisions(cx, input, target, &all);
            }
            return made.map(drop);
        }
        Emit::Kernel => match explain::pass(a, Way::Program, "tile programs")? {
            Some(last) => {
                require_gpu(input, target)?;
                let launch = lower::lower_device_after(program, target, last);
                let failed = |e| Failure::new(Exit::Failed, format!("{}: {e}", input.name));
                explain::after(last, &[launch.map_err(failed)?])
            }
            None => assembly(input, program, target)?.program.to_string(),
        },
        Emit::Cuda => explain::source(&assembly(input, program, target)?, target, Kind::Cuda, "cuda")?,
        Emit::C => explain::source(&assembly(input, program, target)?, target, Kind::Cpu, "c")?,
        Emit::Ptx | Emit::Cubin | Emit::Sass => {
            return explain::machine_text(cx, input, &assembly(input, program, target)?, target, None, a.emit);
        }
    };
    explain::print(cx, input, None, a.emit, &text);
    Ok(())
}

/// What was decided for each tile call.
pub(super) fn decisions(cx: &Context, input: &Input, target: &Target, all: &[Decision]) {
    if cx.json {
        let calls: Vec<Value> = all.iter().enumerate().map(|(k, d)| decision(k, d)).collect();
        let object = json!({
            "schema": 1, "file": input.file, "name": input.name, "workload": input.key,
            "target": target.id, "calls": calls,
        });
        return output::line(&object.to_string());
    }
    output::line(&format!("{} ({}) on {}, workload {}", input.name, input.file, target.id, input.key));
    tables(all);
}

/// The dispatch table of every tile call, as text.
pub(super) fn tables(all: &[Decision]) {
    for (k, d) in all.iter().enumerate() {
        output::line(&format!("call {k}"));
        d.to_string().lines().for_each(|l| output::line(&format!("  {l}")));
    }
}

/// One decision as JSON.
pub(super) fn decision(k: usize, d: &Decision) -> Value {
    let verdicts = d.verdicts.iter().map(|v| {
        let refusals: Vec<Value> =
            v.refusals.iter().map(|r| json!({ "predicate": r.predicate, "reason": r.reason })).collect();
        json!({ "variant": v.variant, "priority": v.priority, "accepted": refusals.is_empty(), "refusals": refusals })
    });
    json!({
        "call": k, "op": d.call.op.name(), "text": d.call.to_string(), "variant": d.chosen,
        "variants": verdicts.collect::<Vec<_>>(),
    })
}

/// `daylight verify` of a program: in the simulator, or on a device.
pub(super) fn verify(
    cx: &Context,
    a: &args::Verify,
    input: &Input,
    program: &DeviceFunc,
    target: &Target,
    device: Option<&mut Device>,
) -> Result<Exit, Failure> {
    let made = assembly(input, program, target)?;
    let variants: Vec<Value> =
        made.program.variants.iter().map(|v| json!({ "call": v.call, "op": v.op, "variant": v.variant })).collect();
    let given = problem::given(&program.func, &input.bind, a.seed);
    let result = match device {
        None => {
            let options = simulate::Options { blocks: a.blocks, seed: a.seed, replicas: stores_replicas(program) };
            program::simulate(program, &made.program, &given, options)
        }
        Some(device) => on_device(program, made, &given, device)?,
    };
    let (right, reason) = (result.is_ok(), result.as_ref().err());
    if cx.json {
        let errors = result.as_ref().ok();
        let object = json!({
            "schema": 1, "file": input.file, "name": input.name, "workload": input.key, "target": target.id,
            "status": if right { "ok" } else { "wrong" },
            "candidates": [{
                "rule": null, "knobs": {}, "variants": variants, "right": right,
                "l2": errors.map(|e| e.l2), "max": errors.map(|e| e.max), "reason": reason,
            }],
        });
        output::line(&object.to_string());
    } else {
        let verdict = reason.map_or_else(|| "right".to_string(), |why| format!("wrong: {why}"));
        output::line(&format!("{} on {}: tile program {verdict}", input.name, target.id));
    }
    Ok(if right { Exit::Done } else { Exit::Failed })
}

fn on_device(
    program: &DeviceFunc,
    made: Assembly,
    given: &crate::tune::reference::Given,
    device: &mut Device,
) -> Result<Result<Errors, String>, Failure> {
    let folder = tempfile::tempdir().map_err(|e| Failure::usage(format!("no temporary folder: {e}")))?;
    let path = folder.path().join("expected");
    let reference = program::expected(program, given).map_err(|e| Failure::new(Exit::Failed, e))?;
    reference.write(&path).map_err(|e| Failure::usage(format!("cannot write {}: {e}", path.display())))?;
    let names = given.scalars.iter().map(|(n, v)| (program.func.display_name(n).to_string(), *v));
    let problem = Problem {
        scalars: names.collect(),
        seed: given.seed,
        ranges: given.ranges.clone(),
        expected: Some(path),
        ..Problem::default()
    };
    let missing = |e: crate::runner::RunError| Failure::missing(e.message);
    device.runner().prepare(&problem).map_err(missing)?;
    let artifact = match device.compiler(1).compile(&made.source) {
        Ok(artifact) => artifact,
        Err(e) => return Ok(Err(e.message)),
    };
    match device.runner().execute(&Candidate { id: 0, file: artifact.path.clone(), plan: made.plan }) {
        Err(e) if e.failure == RunFailure::DeviceMissing => Err(missing(e)),
        done => Ok(done.map_err(|e| e.message)),
    }
}

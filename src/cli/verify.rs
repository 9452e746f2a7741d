//! `daylight verify`: candidates through the simulator or on the device, without timing.

use super::args;
use super::context::Context;
use super::output;
use crate::analysis::Awkward;
use crate::assemble::{Assembly, Schedulable};
use crate::backend::Compiler;
use crate::files::scratch::Scratch;
use crate::interp::scalar_ops;
use crate::ir::{DeviceFunc, Expr};
use crate::job::{Device, Exit, Failure, Input, guarded, select};
use crate::log::{Setting, pairs};
use crate::machine::memory;
use crate::measure::Expected;
use crate::rules::Arm;
use crate::runner::{Candidate, Errors, RunError, RunFailure, Runner};
use crate::target::Target;
use crate::tile::stores_replicas;
use crate::tune::reference::{Given, expected, takes_long};
use crate::tune::{Arms, Point, search};
use crate::tune::{problem, program, simulate};
use rayon::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

/// Runs the command.
pub fn run(cx: &Context, a: &args::Verify) -> Result<Exit, Failure> {
    let target = cx.target(&a.target)?;
    let inputs = cx.load(&a.files)?;
    let mut device = if target.simulated { None } else { Some(device(cx, &target)?) };
    let mut worst = Exit::Done;
    for input in inputs {
        if cx.stop().load(Ordering::Relaxed) {
            break;
        }
        let done = match input {
            Ok(input) => guarded(&input.name, || one(cx, a, &input, &target, device.as_mut())),
            Err(e) => Err(e.failure),
        };
        match done {
            Ok(exit) => worst = worst.max(exit),
            Err(f) => {
                output::note(&format!("daylight: {}", f.message));
                worst = worst.max(f.exit);
            }
        }
    }
    Ok(cx.ended(worst))
}

/// The device whose target that is.
fn device(cx: &Context, target: &Target) -> Result<Device, Failure> {
    let device = cx.device(target.family())?;
    if !device.target.runs(target) {
        let text =
            format!("this machine has {}, not {}; sim:sm_{} needs no GPU", device.describe(), target.id, target.sm);
        return Err(Failure::missing(text));
    }
    device.built_for(target.clone())
}

fn one(
    cx: &Context,
    a: &args::Verify,
    input: &Input,
    target: &Target,
    device: Option<&mut Device>,
) -> Result<Exit, Failure> {
    if let Some(program) = &input.program {
        return hand_written(cx, a, input, program, target, device);
    }
    let resized = a.sizes.map(|sizes| input.resized(awkward(sizes)));
    let input = resized.as_ref().unwrap_or(input);
    input.require_bound()?;
    let twin = twin(a, input, target);
    let input = twin.as_ref().unwrap_or(input);
    let subject = input.schedulable(target)?;
    fits(input)?;
    let free = select::Choice::default();
    let arms = select::arms(&subject, &cx.spaces, &input.name, &free)?;
    // A device draws its inputs itself, plainly: what is special may be slow there.
    let special = target.simulated;
    let given = Given { special, ..problem::given(&input.func, &input.bind, a.seed) };
    if let Some(why) = takes_long(&subject.prepared.func, &given) {
        output::note(&format!("{}: {why}", input.name));
    }
    let candidates = candidates(arms, target, a);
    let results = match device {
        None => simulated(a, &subject, &given, &candidates),
        Some(device) => on_device(&subject, &given, &candidates, device),
    };
    let results = results.map_err(|e| Failure { message: format!("{}: {}", input.name, e.message), ..e })?;
    let scope = Scope { twin: twin.is_some(), blocks: a.blocks.filter(|_| target.simulated) };
    Ok(report(cx, input, target, &scope, &results))
}

/// Copies of all buffers that a check has at a time: of inputs, in the reference and in a candidate per thread.
const COPIES: i64 = 4;

/// Refuses what this machine has no memory for.
fn fits(input: &Input) -> Result<(), Failure> {
    let wanted = input.bytes().map_or(i64::MAX, |bytes| bytes.saturating_mul(COPIES));
    match memory::free() {
        Some(free) if u64::try_from(wanted).is_ok_and(|w| w > free) => Err(Failure::usage(format!(
            "{}: checking it takes {} MiB of memory, of which {} are free; bind smaller sizes",
            input.name,
            wanted >> 20,
            free >> 20
        ))),
        Some(_) | None => Ok(()),
    }
}

/// Operations of a function from which on a twin with smaller sizes is simulated in its place: seconds for
/// each candidate.
const WHOLE: u64 = 30_000_000;

/// Steps of the twin's loops, about.
const TWIN_STEPS: u64 = 300_000;

/// The twin of a function that is too large to simulate whole; `None` where it is not, or where the user
/// asks for a part, all or other sizes of it.
fn twin(a: &args::Verify, input: &Input, target: &Target) -> Option<Input> {
    let as_is = !target.simulated || a.whole || a.blocks.is_some() || a.sizes.is_some();
    if as_is || !input.unbound().is_empty() || scalar_ops(&input.func) <= WHOLE {
        return None;
    }
    let twin = input.shrunk(TWIN_STEPS);
    if twin.is_none() {
        output::note(&format!("{}: no smaller sizes fit it; simulating all of it takes long", input.name));
    }
    twin
}

/// What of a function was verified.
struct Scope {
    twin: bool,
    blocks: Option<u64>,
}

impl Scope {
    /// What to say of it.
    fn note(&self, input: &Input) -> String {
        match (self.twin, self.blocks) {
            (true, _) => {
                let shapes: Vec<String> = input.func.buffer_params().map(|b| shape(&b.shape)).collect();
                format!(
                    ", with smaller sizes in place of its own ({}); --blocks or --whole for its own",
                    shapes.join(", ")
                )
            }
            (false, Some(n)) => format!(", by {n} blocks of the last launch"),
            (false, None) => String::new(),
        }
    }
}

fn shape(extents: &[Expr]) -> String {
    let sizes: Vec<String> = extents.iter().filter_map(Expr::as_int).map(|n| n.to_string()).collect();
    if sizes.is_empty() { "scalar".into() } else { sizes.join("x") }
}

fn awkward(sizes: args::Sizes) -> Awkward {
    match sizes {
        args::Sizes::Odd => Awkward::Odd,
        args::Sizes::Prime => Awkward::Prime,
        args::Sizes::One => Awkward::One,
    }
}

struct Candidates {
    arms: Arms,
    points: Vec<Point>,
}

/// The defaults of all rules and a sample of the other points.
fn candidates(arms: Vec<Arm>, target: &Target, a: &args::Verify) -> Candidates {
    let arms = Arms::new(arms, target.clone());
    let mut points = arms.defaults();
    let seen: search::History = points.iter().map(|p| (p.clone(), None)).collect();
    if let Ok(mut random) = search::by_name("random", a.seed) {
        points.extend(random.propose(&arms, &seen, a.candidates as usize));
    }
    Candidates { arms, points }
}

/// A candidate with its verdict.
struct Verdict {
    rule: &'static str,
    knobs: BTreeMap<String, Setting>,
    result: Result<Errors, String>,
    /// Elements that were compared, where that are not all.
    compared: Option<usize>,
}

fn verdict(c: &Candidates, p: &Point, result: Result<Errors, String>) -> Verdict {
    let space = &c.arms.of(p).space;
    Verdict { rule: space.form, knobs: space.settings(&p.knobs), result, compared: None }
}

fn assemble(subject: &Schedulable, c: &Candidates, p: &Point) -> Result<Assembly, String> {
    subject.candidate(c.arms.of(p), &p.knobs).map_err(|u| u.to_string())
}

fn simulated(a: &args::Verify, subject: &Schedulable, given: &Given, c: &Candidates) -> Result<Vec<Verdict>, Failure> {
    let options = simulate::Options { blocks: a.blocks, seed: a.seed, ..simulate::Options::default() };
    if a.blocks.is_some() {
        let part = |p: &Point| {
            let made = assemble(subject, c, p);
            let checked = made.and_then(|made| simulate::check_part(subject, &made.program, given, options));
            let compared = checked.as_ref().ok().map(|(_, n)| *n);
            Verdict { compared, ..verdict(c, p, checked.map(|(errors, _)| errors)) }
        };
        return Ok(c.points.par_iter().map(part).collect());
    }
    let func = &subject.prepared.func;
    let want: Expected = expected(func, &subject.prepared.facts, given).map_err(|e| Failure::new(Exit::Failed, e))?;
    let whole = |p: &Point| {
        let checked = assemble(subject, c, p);
        let checked = checked.and_then(|made| simulate::check(subject, &made.program, given, &want, options));
        verdict(c, p, checked)
    };
    Ok(c.points.par_iter().map(whole).collect())
}

fn on_device(
    subject: &Schedulable,
    given: &Given,
    c: &Candidates,
    device: &mut Device,
) -> Result<Vec<Verdict>, Failure> {
    let folder = temporary()?;
    let (problem, _) = problem::problem(subject, given, folder.path()).map_err(|e| Failure::new(Exit::Failed, e))?;
    device.runner().prepare(&problem).map_err(missing)?;
    let tried = |p: &Point| {
        let checked = match assemble(subject, c, p) {
            Ok(made) => execute(device, made)?,
            Err(why) => Err(why),
        };
        Ok(verdict(c, p, checked))
    };
    c.points.iter().map(tried).collect()
}

fn temporary() -> Result<Scratch, Failure> {
    Scratch::new().map_err(|e| Failure::usage(format!("no temporary folder: {e}")))
}

fn missing(e: RunError) -> Failure {
    Failure::missing(e.message)
}

/// Compiles and runs kernels on a device that has the problem.
fn execute(device: &mut Device, made: Assembly) -> Result<Result<Errors, String>, Failure> {
    let artifact = match device.compiler(1).compile(&made.source) {
        Ok(artifact) => artifact,
        Err(e) => return Ok(Err(e.message)),
    };
    match device.runner().execute(&Candidate { id: 0, file: artifact.path.clone(), plan: made.plan }) {
        Err(e) if e.failure == RunFailure::DeviceMissing => Err(missing(e)),
        done => Ok(done.map_err(|e| e.message)),
    }
}

/// A tile program: in the simulator, or on a device.
fn hand_written(
    cx: &Context,
    a: &args::Verify,
    input: &Input,
    program: &DeviceFunc,
    target: &Target,
    device: Option<&mut Device>,
) -> Result<Exit, Failure> {
    let subject = input.subject(target)?;
    let (scheduled, _) = select::scheduled(&subject, &cx.spaces, &input.name, &select::Choice::default())?;
    let made = input.assembly(&scheduled, target)?;
    let variants: Vec<Value> =
        made.program.variants.iter().map(|v| json!({ "call": v.call, "op": v.op, "variant": v.variant })).collect();
    let given = program::given(program, &input.bind, a.seed);
    let result = match device {
        None => {
            let options = simulate::Options { blocks: a.blocks, seed: a.seed, replicas: stores_replicas(program) };
            program::simulate(program, &made.program, &given, options)
        }
        Some(device) => {
            let folder = temporary()?;
            let reference = program::expected(program, &given).map_err(|e| Failure::new(Exit::Failed, e))?;
            let stated = problem::stated(&program.func, &given, &reference, folder.path());
            device.runner().prepare(&stated.map_err(Failure::usage)?).map_err(missing)?;
            execute(device, made)?
        }
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

fn report(cx: &Context, input: &Input, target: &Target, scope: &Scope, results: &[Verdict]) -> Exit {
    let wrong: Vec<&Verdict> = results.iter().filter(|v| v.result.is_err()).collect();
    if cx.json {
        let list: Vec<Value> = results
            .iter()
            .map(|v| match &v.result {
                Ok(e) => json!({
                    "rule": v.rule, "knobs": v.knobs, "right": true, "l2": e.l2, "max": e.max, "compared": v.compared,
                }),
                Err(why) => {
                    let mut lines = why.lines();
                    let reason = lines.next().unwrap_or_default();
                    let statements: Vec<&str> = lines.map(str::trim_start).collect();
                    json!({"rule": v.rule, "knobs": v.knobs, "right": false, "reason": reason, "statements": statements})
                }
            })
            .collect();
        let object = json!({
            "schema": 1, "file": input.file, "name": input.name, "workload": input.key, "target": target.id,
            "bind": input.bind, "twin": scope.twin, "blocks": scope.blocks,
            "status": if wrong.is_empty() { "ok" } else { "wrong" }, "candidates": list,
        });
        output::line(&object.to_string());
    } else {
        let right = results.len() - wrong.len();
        let (all, note) = (results.len(), scope.note(input));
        output::line(&format!("{} on {}: {right} of {all} candidates right{note}", input.name, target.id));
        for v in &wrong {
            let why = v.result.as_ref().err().map(String::as_str).unwrap_or_default();
            output::line(&format!("  {} {}: {why}", v.rule, pairs(&v.knobs)));
        }
    }
    if wrong.is_empty() { Exit::Done } else { Exit::Failed }
}

//! `daylight run`: one execution on `.npy` files, on a device or in the simulator.

mod files;
mod simulated;

use super::args;
use super::context::Context;
use super::npy;
use super::output;
use crate::apply::Rung;
use crate::apply::ladder::{self, Found, Wanted};
use crate::assemble::{Assembly, Schedulable, Scheduled, Subject};
use crate::backend::{Compiler, PlanParam, Role};
use crate::files::scratch::Scratch;
use crate::ir::Param;
use crate::job::{Device, Exit, Failure, Input, guarded, select};
use crate::log::{self, Record, Setting};
use crate::rules::Spaces;
use crate::runner::{Candidate, Problem, RunError, RunFailure, Runner};
use crate::target::Target;
use serde_json::json;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Runs the command.
pub fn run(cx: &Context, a: &args::Run) -> Result<Exit, Failure> {
    let mut inputs = vec![];
    for input in cx.load(std::slice::from_ref(&a.file))? {
        inputs.push(input.map_err(|e| e.failure)?);
    }
    let [input] = inputs.as_mut_slice() else {
        return Err(Failure::usage(format!(
            "{} holds {} functions; run takes one, which --function names",
            a.file.display(),
            inputs.len()
        )));
    };
    let name = input.name.clone();
    guarded(&name, || one(cx, a, input))
}

fn one(cx: &Context, a: &args::Run, input: &mut Input) -> Result<Exit, Failure> {
    infer(input, &a.inputs)?;
    let mut place = Place::open(cx, &a.device)?;
    let target = place.target().clone();
    let (assembly, source) = match input.subject(&target)? {
        Subject::Tensor(subject) => {
            input.require_bound()?;
            kernel(cx, a, input, &subject, place.gpu())?
        }
        Subject::Tile(program) => {
            let source = Source { rung: "hand-written", rule: "tile program".into(), knobs: BTreeMap::new() };
            (input.assembly(&Scheduled::Tile(&program), &target)?, source)
        }
    };
    let written = match &mut place {
        Place::Device(device) => launch(device, input, assembly, a)?,
        Place::Simulator(_) => simulated::run(&assembly, input, a)?,
    };
    print(cx, input, &place, &source, &written);
    Ok(Exit::Done)
}

/// Where it runs.
enum Place {
    Device(Box<Device>),
    Simulator(Box<Target>),
}

impl Place {
    /// The device, or the simulator for `sim:sm_NN`.
    fn open(cx: &Context, name: &str) -> Result<Place, Failure> {
        Ok(match name.starts_with("sim:") {
            true => Place::Simulator(Box::new(cx.target(name)?)),
            false => Place::Device(Box::new(cx.device(name)?)),
        })
    }

    fn target(&self) -> &Target {
        match self {
            Place::Device(device) => &device.target,
            Place::Simulator(target) => target,
        }
    }

    /// The machine whose measurements count; the simulator takes those of any.
    fn gpu(&self) -> Option<&str> {
        match self {
            Place::Device(device) => Some(&device.facts.name),
            Place::Simulator(_) => None,
        }
    }

    fn name(&self) -> &str {
        self.gpu().unwrap_or("simulator")
    }
}

/// Compiles and runs; gives the paths of the outputs.
fn launch(device: &mut Device, input: &Input, assembly: Assembly, a: &args::Run) -> Result<Vec<PathBuf>, Failure> {
    let artifact = device.compiler(1).compile(&assembly.source)?;
    let candidate = Candidate { id: 0, file: artifact.path.clone(), plan: assembly.plan };
    execute(device, input, &candidate, a)
}

/// Takes extents without a value from the shapes of the input files.
fn infer(input: &mut Input, folder: &Path) -> Result<(), Failure> {
    let mut found = input.bind.clone();
    for (i, p) in input.original.params.iter().enumerate() {
        let Param::Buffer(b) = p else { continue };
        let name = input.original.display_name(b);
        let Ok(path) = files::find(folder, i, name) else { continue };
        let array = npy::read(&path)?;
        for (dim, size) in input.original.buffer(b).shape.iter().zip(array.shape) {
            if let Some(extent) = dim.as_var() {
                found.entry(input.original.display_name(extent).to_string()).or_insert(size);
            }
        }
    }
    input.func = input.original.bind(&found);
    input.bind = found;
    Ok(())
}

/// Where a kernel came from.
struct Source {
    rung: &'static str,
    rule: String,
    knobs: BTreeMap<String, Setting>,
}

/// The log's best kernel, or the default, or the one that `--rule` and `--set` choose.
fn kernel(
    cx: &Context,
    a: &args::Run,
    input: &Input,
    subject: &Schedulable,
    gpu: Option<&str>,
) -> Result<(Assembly, Source), Failure> {
    let chosen = a.choose.rule.is_some() || !a.choose.set.is_empty();
    if let (Some(path), false) = (&a.log, chosen) {
        let log = log::read(path).map_err(Failure::usage)?;
        log.skipped.iter().for_each(|s| output::note(&s.to_string()));
        if let Some(found) = logged(input, subject, gpu, &log.records, &cx.spaces)? {
            return Ok(found);
        }
        let target = subject.target.table_id();
        output::note(&format!("{}: the log has no kernel for {target}; running the default", input.name));
    }
    let arms = select::arms(subject, &cx.spaces, &input.name, &a.choose.choice())?;
    let (arm, knobs) = select::point(&arms, &a.choose.choice())?;
    let assembly = subject.candidate(arm, &knobs);
    let assembly = assembly.map_err(|u| Failure::new(Exit::Failed, format!("{}: {u}", input.name)))?;
    let rung = if chosen { "chosen" } else { "default" };
    Ok((assembly, Source { rung, rule: arm.space.form.into(), knobs: arm.space.settings(&knobs) }))
}

/// What the log has measured on this device, of this size or the nearest.
fn logged(
    input: &Input,
    subject: &Schedulable,
    gpu: Option<&str>,
    records: &[Record],
    spaces: &Spaces,
) -> Result<Option<(Assembly, Source)>, Failure> {
    let target = subject.target.table_id();
    let wanted = Wanted { key: &input.key, bind: &input.bind, target: &target, flags: &[] };
    let gpu = match gpu {
        Some(gpu) => Some(gpu),
        None => ladder::machine(records, &target, None).map_err(Failure::usage)?,
    };
    let Some(Found { rung, record: r, assembly, .. }) = ladder::find(records, &wanted, gpu, (subject, spaces)) else {
        return Ok(None);
    };
    let rung = match rung {
        Rung::Exact | Rung::SameArch => "logged",
        Rung::Neighbour => "neighbour",
        Rung::Predicted | Rung::Default => return Ok(None),
    };
    Ok(Some((assembly, Source { rung, rule: r.rule.clone(), knobs: r.knobs.clone() })))
}

/// Reads the inputs, runs, writes the outputs; gives their paths.
fn execute(device: &mut Device, input: &Input, candidate: &Candidate, a: &args::Run) -> Result<Vec<PathBuf>, Failure> {
    let folder = Scratch::new().map_err(|e| Failure::usage(format!("no temporary folder: {e}")))?;
    let plan = &candidate.plan;
    let (mut inputs, mut outputs) = (BTreeMap::new(), BTreeMap::new());
    for p in &plan.params {
        if matches!(p.role, Role::In | Role::Inout) {
            let array = files::read(p, &a.inputs, &files::shape(p)?)?;
            inputs.insert(p.index, raw(&folder, p, "in", &array.data)?);
        }
        if matches!(p.role, Role::Out | Role::Inout) {
            outputs.insert(p.index, folder.path().join(format!("{}.out", p.index)));
        }
    }
    let scalars = files::scalars(plan, input, &a.inputs)?;
    let problem = Problem { extents: input.bind.clone(), scalars, ..Problem::default() };
    let done = device.runner().prepare(&problem);
    done.and_then(|()| device.runner().run_files(candidate, &inputs, &outputs)).map_err(failure)?;
    let bytes = |(index, from): (usize, PathBuf)| match std::fs::read(&from) {
        Ok(bytes) => Ok((index, bytes)),
        Err(e) => Err(Failure::usage(format!("cannot read the output {}: {e}", from.display()))),
    };
    files::save(plan, outputs.into_iter().map(bytes).collect::<Result<_, _>>()?, &a.outputs)
}

fn failure(e: RunError) -> Failure {
    match e.failure {
        RunFailure::DeviceMissing => Failure::missing(e.message),
        RunFailure::BadRequest | RunFailure::Environment => Failure::usage(e.message),
        RunFailure::LaunchFailed
        | RunFailure::WrongResult
        | RunFailure::TimedOut
        | RunFailure::Crashed
        | RunFailure::Impossible => Failure::new(Exit::Failed, e.message),
    }
}

fn raw(folder: &Scratch, p: &PlanParam, kind: &str, data: &[u8]) -> Result<PathBuf, Failure> {
    let path = folder.path().join(format!("{}.{kind}", p.index));
    std::fs::write(&path, data).map_err(|e| Failure::usage(format!("cannot write {}: {e}", path.display())))?;
    Ok(path)
}

fn print(cx: &Context, input: &Input, place: &Place, source: &Source, written: &[PathBuf]) {
    let outputs: Vec<String> = written.iter().map(|p| p.display().to_string()).collect();
    if cx.json {
        let object = json!({
            "schema": 1, "file": input.file, "name": input.name, "workload": input.key, "bind": input.bind,
            "target": place.target().id, "device": place.name(), "kernel": source.rung,
            "rule": source.rule, "knobs": source.knobs, "outputs": outputs,
        });
        output::line(&object.to_string());
    } else {
        let knobs = if source.knobs.is_empty() { String::new() } else { format!(": {}", log::pairs(&source.knobs)) };
        let (name, rung, rule) = (&input.name, source.rung, &source.rule);
        let (target, device) = (&place.target().id, place.name());
        output::line(&format!("{name} on {target} ({device}): {rung} kernel, {rule}{knobs}"));
        outputs.iter().for_each(|o| output::line(&format!("  wrote {o}")));
    }
}

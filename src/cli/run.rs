//! `daylight run`: one execution on `.npy` files.

use super::args;
use super::context::Context;
use super::npy::{self, Npy};
use super::output;
use crate::apply::ladder::{self, Found, Wanted};
use crate::apply::{self, Rung};
use crate::assemble::{Assembly, Schedulable, Scheduled, Subject};
use crate::backend::{Compiler, Plan, PlanParam, Role};
use crate::files::scratch::Scratch;
use crate::interp::Tensor;
use crate::ir::Param;
use crate::job::{Device, Exit, Failure, Input, guarded, select};
use crate::log::{self, Record, Setting};
use crate::rules::Spaces;
use crate::runner::{Candidate, Problem, RunError, RunFailure, Runner};
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
    let mut device = cx.device(&a.device)?;
    let (assembly, source) = match input.subject(&device.target)? {
        Subject::Tensor(subject) => {
            input.require_bound()?;
            kernel(cx, a, input, &subject, &device)?
        }
        Subject::Tile(program) => {
            let source = Source { rung: "hand-written", rule: "tile program".into(), knobs: BTreeMap::new() };
            (input.assembly(&Scheduled::Tile(&program), &device.target)?, source)
        }
    };
    let written = launch(&mut device, input, assembly, a)?;
    print(cx, input, &device, &source, &written);
    Ok(Exit::Done)
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
        let Ok(path) = find(folder, i, name) else { continue };
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
    device: &Device,
) -> Result<(Assembly, Source), Failure> {
    let chosen = a.choose.rule.is_some() || !a.choose.set.is_empty();
    if let (Some(path), false) = (&a.log, chosen) {
        let log = log::read(path).map_err(Failure::usage)?;
        log.skipped.iter().for_each(|s| output::note(&s.to_string()));
        if let Some(found) = logged(input, subject, &device.facts.name, &log.records, &cx.spaces) {
            return Ok(found);
        }
        output::note(&format!("{}: the log has no kernel for {}; running the default", input.name, device.target.id));
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
    gpu: &str,
    records: &[Record],
    spaces: &Spaces,
) -> Option<(Assembly, Source)> {
    let wanted = Wanted { key: &input.key, bind: &input.bind, target: &subject.target.id };
    let Found { rung, record: r, assembly, .. } = ladder::find(records, &wanted, Some(gpu), (subject, spaces))?;
    let rung = match rung {
        Rung::Exact | Rung::SameArch => "logged",
        Rung::Neighbour => "neighbour",
        Rung::Predicted | Rung::Default => return None,
    };
    Some((assembly, Source { rung, rule: r.rule.clone(), knobs: r.knobs.clone() }))
}

/// The file of a parameter: `NN_<param>.npy`, or the one file that starts with `NN_`.
fn find(folder: &Path, index: usize, name: &str) -> Result<PathBuf, String> {
    let exact = folder.join(format!("{index:02}_{name}.npy"));
    if exact.is_file() {
        return Ok(exact);
    }
    let prefix = format!("{index:02}_");
    let entries = std::fs::read_dir(folder).map_err(|e| {
        format!("cannot read the folder {}: {e}; it holds a file such as 00_A.npy for each input", folder.display())
    })?;
    let named = entries.flatten().filter(|e| {
        let name = e.file_name().to_string_lossy().into_owned();
        name.starts_with(&prefix) && name.ends_with(".npy")
    });
    let found: Vec<PathBuf> = named.map(|e| e.path()).collect();
    match found.as_slice() {
        [one] => Ok(one.clone()),
        [] => Err(format!("there is no {} for the parameter `{name}`", exact.display())),
        _ => Err(format!("several files of {} start with {prefix}; expected one", folder.display())),
    }
}

/// Reads the inputs, runs, writes the outputs; gives their paths.
fn execute(device: &mut Device, input: &Input, candidate: &Candidate, a: &args::Run) -> Result<Vec<PathBuf>, Failure> {
    let folder = Scratch::new().map_err(|e| Failure::usage(format!("no temporary folder: {e}")))?;
    let plan = &candidate.plan;
    let (mut inputs, mut outputs, mut scalars) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    for p in &plan.params {
        if matches!(p.role, Role::In | Role::Inout) {
            let array = read(p, &a.inputs, &shape(p)?)?;
            inputs.insert(p.index, raw(&folder, p, "in", &array.data)?);
        }
        if matches!(p.role, Role::Out | Role::Inout) {
            outputs.insert(p.index, folder.path().join(format!("{}.out", p.index)));
        }
        if matches!(p.role, Role::Scalar | Role::Extent) && !input.bind.contains_key(&p.name) {
            let array = read(p, &a.inputs, &[])?;
            scalars.insert(p.name.clone(), Tensor { dtype: p.dtype, shape: vec![], data: array.data }.get_f64(0));
        }
    }
    let values = input.bind.iter().map(|(k, v)| (k.clone(), *v as f64));
    scalars.extend(values);
    let problem = Problem { extents: input.bind.clone(), scalars, ..Problem::default() };
    let done = device.runner().prepare(&problem);
    done.and_then(|()| device.runner().run_files(candidate, &inputs, &outputs)).map_err(failure)?;
    save(plan, &outputs, &a.outputs)
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

fn shape(p: &PlanParam) -> Result<Vec<i64>, Failure> {
    let dims: Option<Vec<i64>> = p.shape.iter().map(|d| d.as_const()).collect();
    dims.ok_or_else(|| Failure::usage(format!("the shape of `{}` has no value; give it with --bind", p.name)))
}

fn read(p: &PlanParam, folder: &Path, shape: &[i64]) -> Result<Npy, Failure> {
    let path = find(folder, p.index, &p.name).map_err(Failure::usage)?;
    npy::read_as(&path, p.dtype, shape)
}

fn raw(folder: &Scratch, p: &PlanParam, kind: &str, data: &[u8]) -> Result<PathBuf, Failure> {
    let path = folder.path().join(format!("{}.{kind}", p.index));
    std::fs::write(&path, data).map_err(|e| Failure::usage(format!("cannot write {}: {e}", path.display())))?;
    Ok(path)
}

fn save(plan: &Plan, outputs: &BTreeMap<usize, PathBuf>, folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut files = BTreeMap::new();
    for (index, from) in outputs {
        let p = &plan.params[*index];
        let data = std::fs::read(from)
            .map_err(|e| Failure::usage(format!("cannot read the output {}: {e}", from.display())))?;
        let array = Npy { descr: npy::descr(p.dtype).into(), shape: shape(p)?, data };
        files.insert(format!("{index:02}_{}.npy", p.name), array.to_bytes());
    }
    apply::write(&files, folder).map_err(Failure::usage)?;
    Ok(files.keys().map(|name| folder.join(name)).collect())
}

fn print(cx: &Context, input: &Input, device: &Device, source: &Source, written: &[PathBuf]) {
    let outputs: Vec<String> = written.iter().map(|p| p.display().to_string()).collect();
    if cx.json {
        let object = json!({
            "schema": 1, "file": input.file, "name": input.name, "workload": input.key, "bind": input.bind,
            "target": device.target.id, "device": device.facts.name, "kernel": source.rung,
            "rule": source.rule, "knobs": source.knobs, "outputs": outputs,
        });
        output::line(&object.to_string());
    } else {
        let knobs = if source.knobs.is_empty() { String::new() } else { format!(": {}", log::pairs(&source.knobs)) };
        let (name, rung, rule) = (&input.name, source.rung, &source.rule);
        output::line(&format!("{name} on {}: {rung} kernel, {rule}{knobs}", device.describe()));
        outputs.iter().for_each(|o| output::line(&format!("  wrote {o}")));
    }
}

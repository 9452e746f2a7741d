//! `daylight apply-best`: the best kernels as files that a program is built with.

use super::args::{self, EmitFiles};
use super::context::Context;
use super::output;
use crate::apply::{self, Content, Options, Unit, When};
use crate::backend::{Compiler, Language, LocalCompiler, Tools};
use crate::interp::scalar_ops;
use crate::job::{Exit, Failure, Input};
use crate::log;
use crate::target::{Kind, Target};
use crate::tune::reference::expected;
use crate::tune::{problem, simulate};
use serde_json::json;

/// Runs the command. What fails for one function does not keep the others from being written.
pub fn run(cx: &Context, a: &args::ApplyBest) -> Result<Exit, Failure> {
    let targets = targets(cx, &a.target)?;
    let inputs = cx.reading.load(&a.files)?;
    let log = log::read(&a.log).map_err(Failure::usage)?;
    log.skipped.iter().for_each(|s| output::note(&s.to_string()));
    let local = LocalCompiler::new(Tools::find(&cx.machine.places, Language::Cuda));
    let wants_cuda = targets.iter().any(|t| t.kind == Kind::Cuda);
    let cuda = if wants_cuda { nvrtc(&local) } else { None };
    if a.emit.contains(&EmitFiles::C) {
        apply::checked_c_name(&a.c_name).map_err(Failure::usage)?;
        if wants_cuda && cuda.is_none() {
            return Err(Failure::new(
                Exit::Missing,
                "--emit c: kernels in C are compiled when they are written; get NVRTC with `daylight doctor --fetch-nvrtc`",
            ));
        }
    }
    let options = Options {
        records: &log.records,
        sizes: &cx.reading.sizes,
        targets: &targets,
        spaces: &cx.spaces,
        gpu: a.gpu.as_deref(),
        log: Some(&a.log),
        require_exact: a.require_exact,
        family: a.family,
        overlap: a.overlap,
        constant: &a.constant,
        cuda,
    };
    let mut worst = Exit::Done;
    let mut functions = vec![];
    for input in inputs {
        let tried = match input {
            Ok(input) => tried(input, &options, a.verify),
            Err(bad) => Err(bad.failure),
        };
        match tried {
            Ok(f) => functions.push(f),
            Err(f) => {
                output::note(&format!("daylight: {}", f.message));
                worst = worst.max(f.exit);
            }
        }
    }
    if functions.is_empty() {
        return Ok(worst.max(Exit::Failed));
    }
    let units = apply::units(&functions, &options)?;
    let has = |e| a.emit.contains(&e);
    let emit = apply::Emit {
        rust: has(EmitFiles::Rust),
        c: has(EmitFiles::C).then(|| a.c_name.clone()),
        text: has(EmitFiles::Text),
        tvm: has(EmitFiles::Tvm),
        rayon: a.rayon,
        link: has(EmitFiles::Link),
    };
    let files = apply::files(&units, emit).map_err(|e| Failure::new(Exit::Failed, e))?;
    apply::write(&files, &a.out).map_err(Failure::usage)?;
    units.iter().for_each(|u| print(cx, u));
    units.iter().filter_map(|u| u.untuned.as_ref()).for_each(|why| output::note(&format!("daylight: {why}")));
    if a.family {
        apply::apart(&units).iter().for_each(|why| output::note(why));
    }
    output::note(&format!("{} files in {}", files.len(), a.out.display()));
    Ok(worst)
}

/// The targets, each once.
fn targets(cx: &Context, names: &[String]) -> Result<Vec<Target>, Failure> {
    let mut out: Vec<Target> = vec![];
    for name in names {
        let target = cx.target(name.trim())?;
        if target.simulated {
            return Err(Failure::usage(format!("{} is the simulator; name the GPU: {}", target.id, target.table_id())));
        }
        if out.iter().all(|t| t.id != target.id) {
            out.push(target);
        }
    }
    Ok(out)
}

fn nvrtc(local: &LocalCompiler) -> Option<(&dyn Compiler, String)> {
    match local.id(Language::Cuda) {
        Ok(id) => Some((local, id)),
        Err(e) => {
            output::note(&format!("{}; writing CUDA text to be compiled on first use", e.message));
            None
        }
    }
}

/// The function, if it can be applied on every target and its kernels are right, where that is asked.
fn tried(f: Input, options: &Options<'_>, verify: bool) -> Result<Input, Failure> {
    f.require_tensor()?;
    let units = apply::units(std::slice::from_ref(&f), options)?;
    if verify {
        verified(&f, &units)?;
    }
    Ok(f)
}

/// The kernels of records through the simulator. Those for every size are a rule's own, as defaults are: the log has
/// named a point of its space.
fn verified(f: &Input, units: &[Unit]) -> Result<(), Failure> {
    let of_size = |u: &&Unit| matches!(u.when, When::Exactly(_));
    if !units.iter().any(|u| of_size(&u)) {
        f.require_bound()?;
        return units.iter().try_for_each(|u| simulated(f, u));
    }
    units.iter().try_for_each(|u| match &u.when {
        When::Exactly(size) => simulated(&f.at(size), u),
        When::UpTo(_) | When::Always => Ok(()),
    })
}

/// Operations of a function from which on some blocks of its kernel are simulated and not all.
const WHOLE: u64 = 30_000_000;

/// The kernel of a unit through the simulator, against the interpreter.
fn simulated(f: &Input, u: &Unit) -> Result<(), Failure> {
    let wrong =
        |why: String| Failure::new(Exit::Failed, format!("{}: its kernel for {} is wrong: {why}", f.name, u.target.id));
    let subject = f.schedulable(&u.target)?;
    let made = subject.replay(&u.trace).and_then(|s| subject.assemble(&s)).map_err(|e| wrong(e.to_string()))?;
    let given = problem::given(&f.func, &f.bind, 0);
    let (func, facts) = (&subject.prepared.func, &subject.prepared.facts);
    let part = simulate::Options { blocks: Some(4), ..simulate::Options::default() };
    let whole = || {
        let want = expected(func, facts, &given)?;
        simulate::check(&subject, &made.program, &given, &want, simulate::Options::default())
    };
    let done = match scalar_ops(&f.func) > WHOLE {
        true => simulate::check_part(&subject, &made.program, &given, part).map(|(errors, _)| errors),
        false => whole(),
    };
    done.map_err(wrong)?;
    output::note(&format!("{}: its kernel for {} is right in the simulator", f.name, u.target.id));
    Ok(())
}

fn print(cx: &Context, u: &Unit) {
    let content = match u.content {
        Content::Cubin => "cubin",
        Content::Cuda => "cuda",
        Content::C => "c",
    };
    if cx.json {
        let object = json!({
            "schema": 1, "name": u.name, "workload": u.key, "target": u.target.id, "rung": u.rung.name(),
            "when": u.when, "measured_us": u.measured_us, "file": u.file, "content": content,
        });
        output::line(&object.to_string());
    } else {
        output::line(&format!("{:<24} {} ({})", u.file, u.name, u.provenance()));
    }
}

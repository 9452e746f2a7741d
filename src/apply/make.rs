//! Units from functions, a log and targets.

use super::ident::FunctionNames;
use super::kernel::{Draft, Kernel, default, draft, replayed};
use super::ladder::{self, Wanted, machine};
use super::options::Options;
use super::rust_cpu::link_name;
use super::unit::{Content, Rung, Unit};
use super::{family, open, untuned};
use crate::assemble::{Exit, Failure, Input, Schedulable, check_constants, guarded};
use crate::backend::CompileFailure;
use crate::target::{Kind, Target};

/// The units of each function for each target, functions in the order given: one, or several where its sizes are
/// known at run time. The same inputs give the same units.
///
/// # Errors
/// The first function that cannot be applied, and why.
pub fn units(functions: &[Input], options: &Options<'_>) -> Result<Vec<Unit>, Failure> {
    family::check(options)?;
    check_constants(functions, options.constant)?;
    let mut names = FunctionNames::new(options.targets.iter().map(|t| t.arch.replace('-', "_")));
    let mut out = vec![];
    for f in functions {
        let name = names.fresh(&f.name);
        let mut drafts = vec![];
        for target in options.targets {
            drafts.extend(guarded(&f.name, || of_target(f, &name, target, options))?);
        }
        drafts.iter_mut().for_each(|d| d.overlap(f, options));
        let shared = family::shared(&drafts, options);
        for d in drafts {
            out.push(match shared.get(&(d.unit.target.arch.clone(), d.unit.when.clone())) {
                Some(file) => exact(f, file.put_into(d.unit), options)?,
                None => exact(f, compiled(f, d, options)?, options)?,
            });
        }
    }
    Ok(out)
}

fn of_target(f: &Input, name: &str, target: &Target, options: &Options<'_>) -> Result<Vec<Draft>, Failure> {
    f.require_tensor()?;
    if !f.unbound().is_empty() {
        return open::drafts(f, name, target, options);
    }
    let subject = f.schedulable(target)?;
    let kernel = find(f, &subject, options)?;
    let untuned = untuned::note(f, kernel.rung, target, options);
    let mut draft = draft(name, f, &subject, kernel);
    draft.unit.untuned = untuned;
    Ok(vec![draft])
}

/// The unit, if its kernel is the one that was measured, where that is asked.
fn exact(f: &Input, unit: Unit, options: &Options<'_>) -> Result<Unit, Failure> {
    if unit.rung == Rung::Exact || !options.require_exact {
        return Ok(unit);
    }
    let (target, rung) = (&unit.target.id, unit.rung.name());
    let text = format!("{}: --require-exact: the kernel for {target} is \"{rung}\", not \"exact\"", f.name);
    Err(Failure::new(Exit::Failed, text))
}

/// The unit with its own file.
fn compiled(f: &Input, draft: Draft, options: &Options<'_>) -> Result<Unit, Failure> {
    let Draft { mut unit, source, .. } = draft;
    let extension = match (unit.target.kind, &options.cuda) {
        (Kind::Cpu, _) => {
            unit.bytes = linkable(&unit, &source.symbols).into_bytes();
            "c"
        }
        (Kind::Cuda, None) => {
            unit.content = Content::Cuda;
            unit.bytes = unit.text.clone().into_bytes();
            "cu"
        }
        (Kind::Cuda, Some((compiler, _))) => match compiler.compile(&source) {
            Ok(artifact) => {
                unit.content = Content::Cubin;
                unit.bytes = artifact.bytes.to_vec();
                "cubin"
            }
            Err(e) if e.failure == CompileFailure::ToolMissing => {
                unit.content = Content::Cuda;
                unit.bytes = unit.text.clone().into_bytes();
                "cu"
            }
            Err(e) => return Err(Failure::new(Exit::Failed, format!("{}: {}", f.name, e.message))),
        },
    };
    unit.file = format!("{}.{extension}", unit.stem(&unit.target.arch));
    Ok(unit)
}

/// C text whose symbols are unique among all kernels of a program.
fn linkable(unit: &Unit, symbols: &[String]) -> String {
    let mut out: String = symbols.iter().map(|s| format!("#define {s} {}\n", link_name(unit, s))).collect();
    out.push_str(&unit.text);
    out
}

/// The kernel of the log's record, or the default.
fn find(f: &Input, subject: &Schedulable, options: &Options<'_>) -> Result<Kernel, Failure> {
    let target = subject.target.table_id();
    let flags = options.flags(f, &subject.target);
    let wanted = Wanted { key: &f.key, bind: &f.bind, target: &target, flags: &flags };
    let gpu = machine(options.records, &target, options.gpu).map_err(Failure::usage)?;
    match ladder::find(options.records, &wanted, gpu, (subject, options.spaces)) {
        Some(found) => Ok(replayed(found, options)),
        None => default(f, subject, options),
    }
}

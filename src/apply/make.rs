//! Units from functions, a log and targets.

use super::family;
use super::ident::FunctionNames;
use super::ladder::{self, Wanted, machine};
use super::rust_cpu::link_name;
use super::tvm;
use super::unit::{Content, Rung, Unit};
use crate::assemble::{Assembly, Exit, Failure, Input, Schedulable, guarded};
use crate::backend::{CompileFailure, Compiler, Source};
use crate::log::Record;
use crate::rules::Spaces;
use crate::target::{Kind, Target};

/// What units are made with.
pub struct Options<'a> {
    /// Where the kernels come from.
    pub records: &'a [Record],
    /// What they are built for.
    pub targets: &'a [Target],
    /// Knob tables, for defaults.
    pub spaces: &'a Spaces,
    /// The machine whose records count.
    pub gpu: Option<&'a str>,
    /// Fail where a kernel is not exactly the one that was measured.
    pub require_exact: bool,
    /// One cubin for the GPUs of a family (sm_100a and sm_103a) whose kernels have the same text.
    pub family: bool,
    /// Compiles CUDA, with its name and version; without it text is written.
    pub cuda: Option<(&'a dyn Compiler, String)>,
}

/// One unit per function and target, functions in the order given. The same inputs give the same
/// units.
///
/// # Errors
/// The first function that cannot be applied, and why.
pub fn units(functions: &[Input], options: &Options<'_>) -> Result<Vec<Unit>, Failure> {
    family::check(options)?;
    let mut names = FunctionNames::new(options.targets.iter().map(|t| t.arch.replace('-', "_")));
    let mut out = vec![];
    for f in functions {
        let name = names.fresh(&f.name);
        let mut drafts = vec![];
        for target in options.targets {
            drafts.push(guarded(&f.name, || draft(f, &name, &f.schedulable(target)?, options))?);
        }
        let shared = family::shared(&drafts, options);
        for d in drafts {
            let unit = match shared.get(&d.unit.target.arch) {
                Some(file) => file.put_into(d.unit),
                None => compiled(f, d, options)?,
            };
            out.push(if options.require_exact { exact(f, unit)? } else { unit });
        }
    }
    Ok(out)
}

/// A unit without its file, and the text for it.
pub(super) struct Draft {
    pub unit: Unit,
    pub source: Source,
}

/// A kernel with where it came from.
struct Found {
    assembly: Assembly,
    rung: Rung,
    measured_us: Option<f64>,
    scheduled: String,
}

/// The unit, if its kernel is the one that was measured.
fn exact(f: &Input, unit: Unit) -> Result<Unit, Failure> {
    if unit.rung == Rung::Exact {
        return Ok(unit);
    }
    let (target, rung) = (&unit.target.id, unit.rung.name());
    let text = format!("{}: --require-exact: the kernel for {target} is \"{rung}\", not \"exact\"", f.name);
    Err(Failure::new(Exit::Failed, text))
}

fn draft(f: &Input, name: &str, subject: &Schedulable, options: &Options<'_>) -> Result<Draft, Failure> {
    let found = find(f, subject, options)?;
    let unit = Unit {
        name: name.to_string(),
        key: f.key.clone(),
        rung: found.rung,
        measured_us: found.measured_us,
        target: subject.target.clone(),
        plan: found.assembly.plan,
        file: String::new(),
        content: Content::C,
        bytes: vec![],
        text: found.assembly.source.text.clone(),
        trace: found.assembly.trace,
        scheduled: found.scheduled,
    };
    Ok(Draft { unit, source: found.assembly.source })
}

/// The unit with its own file.
fn compiled(f: &Input, draft: Draft, options: &Options<'_>) -> Result<Unit, Failure> {
    let Draft { mut unit, source } = draft;
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
    unit.file = format!("{}.{}.{extension}", unit.name, unit.target.arch);
    Ok(unit)
}

/// C text whose symbols are unique among all kernels of a program.
fn linkable(unit: &Unit, symbols: &[String]) -> String {
    let mut out: String = symbols.iter().map(|s| format!("#define {s} {}\n", link_name(unit, s))).collect();
    out.push_str(&unit.text);
    out
}

/// The kernel of the log's record, or the default.
fn find(f: &Input, subject: &Schedulable, options: &Options<'_>) -> Result<Found, Failure> {
    let target = subject.target.table_id();
    let wanted = Wanted { key: &f.key, bind: &f.bind, target: &target };
    let gpu = machine(options.records, &target, options.gpu).map_err(Failure::usage)?;
    let Some(found) = ladder::find(options.records, &wanted, gpu, (subject, options.spaces)) else {
        return default(f, subject, options);
    };
    let is_exact = found.rung == Rung::SameArch && is_same(&found, options);
    let rung = if is_exact { Rung::Exact } else { found.rung };
    let scheduled = tvm::text(found.schedule.func());
    Ok(Found { assembly: found.assembly, rung, measured_us: found.measured_us, scheduled })
}

/// True when the text is the measured one and, on a GPU, so is the compiler's version. C is compiled
/// in the user's build, by a compiler that is not known here.
fn is_same(found: &ladder::Found<'_>, options: &Options<'_>) -> bool {
    let (source, record) = (&found.assembly.source, found.record);
    let hash = format!("{:032x}", xxhash_rust::xxh3::xxh3_128(source.text.as_bytes()));
    let is_c = source.language == crate::backend::Language::C;
    let same_compiler = || options.cuda.as_ref().is_some_and(|(_, id)| version(id) == version(&record.env.nvrtc));
    record.source_hash.as_ref() == Some(&hash) && (is_c || same_compiler())
}

/// `13.0` of `nvrtc 13.0.88`.
fn version(compiler: &str) -> Option<(&str, &str)> {
    let number = compiler.split_whitespace().find(|w| w.starts_with(|c: char| c.is_ascii_digit()))?;
    let mut parts = number.split('.');
    Some((parts.next()?, parts.next()?))
}

/// The default of the first rule whose kernel can be made.
fn default(f: &Input, subject: &Schedulable, options: &Options<'_>) -> Result<Found, Failure> {
    let mut why = vec![];
    for arm in subject.arms(options.spaces) {
        let Some(knobs) = arm.default() else { continue };
        let schedule = arm.schedule(&knobs).map_err(|e| e.to_string());
        let made = schedule.and_then(|s| {
            let assembly = subject.assemble(&s).map_err(|e| e.to_string())?;
            Ok(Found { assembly, rung: Rung::Default, measured_us: None, scheduled: tvm::text(s.func()) })
        });
        match made {
            Ok(found) => return Ok(found),
            Err(e) => why.push(e),
        }
    }
    let target = &subject.target.id;
    let reasons = if why.is_empty() { String::new() } else { format!(": {}", why.join("; ")) };
    Err(Failure::new(Exit::Failed, format!("{}: no rule makes a kernel for {target}{reasons}", f.name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_major_and_minor() {
        assert_eq!(version("nvrtc 13.0.88"), version("nvrtc 13.0"));
        assert_ne!(version("nvrtc 13.1"), version("nvrtc 13.0"));
        assert_eq!(version(""), None);
    }
}

//! Units from functions, a log and targets.

use super::family;
use super::ident::Idents;
use super::ladder::{Wanted, machine, other_size, predicted, same_size};
use super::rust_cpu::link_name;
use super::tvm;
use super::unit::{Content, Rung, Unit};
use crate::assemble::{Assembly, Input, Subject};
use crate::backend::{CompileFailure, Compiler, Source};
use crate::ir::PrimFunc;
use crate::log::{Record, Timing};
use crate::rules::Spaces;
use crate::target::{Kind, Target};
use std::collections::BTreeMap;
use std::fmt;

/// A function to apply.
pub struct Function {
    /// What to call it.
    pub name: String,
    /// As read.
    pub original: PrimFunc,
    /// With extents bound.
    pub func: PrimFunc,
    /// The values of the bound extents.
    pub bind: BTreeMap<String, i64>,
    /// Key of the function as read.
    pub key: String,
}

impl From<Input> for Function {
    fn from(i: Input) -> Function {
        Function { name: i.name, original: i.original, func: i.func, bind: i.bind, key: i.key }
    }
}

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

/// Why there are no units.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ApplyError {
    /// The log has several machines and none was named.
    Usage(String),
    /// A function cannot be scheduled.
    Refused(String),
    /// No rule takes a function, its kernel does not compile, or it is not the measured one.
    Failed(String),
}

impl fmt::Display for ApplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ApplyError::Usage(s) | ApplyError::Refused(s) | ApplyError::Failed(s) => f.write_str(s),
        }
    }
}

impl std::error::Error for ApplyError {}

/// One unit per function and target, functions in the order given. The same inputs give the same
/// units.
///
/// # Errors
/// The first function that cannot be applied, and why.
pub fn units(functions: &[Function], options: &Options<'_>) -> Result<Vec<Unit>, ApplyError> {
    family::check(options)?;
    let mut names = Idents::default();
    let mut out = vec![];
    for f in functions {
        let name = names.fresh(&f.name);
        let mut drafts = vec![];
        for target in options.targets {
            let subject = Subject::new(&f.func, &f.original, target.clone());
            let subject = subject.map_err(|d| ApplyError::Refused(format!("{}: refused: {d}", f.name)))?;
            drafts.push(draft(f, &name, &subject, options)?);
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
fn exact(f: &Function, unit: Unit) -> Result<Unit, ApplyError> {
    if unit.rung == Rung::Exact {
        return Ok(unit);
    }
    let (target, rung) = (&unit.target.id, unit.rung.name());
    let text = format!("{}: --require-exact: the kernel for {target} is \"{rung}\", not \"exact\"", f.name);
    Err(ApplyError::Failed(text))
}

fn draft(f: &Function, name: &str, subject: &Subject, options: &Options<'_>) -> Result<Draft, ApplyError> {
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
fn compiled(f: &Function, draft: Draft, options: &Options<'_>) -> Result<Unit, ApplyError> {
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
            Err(e) => return Err(ApplyError::Failed(format!("{}: {}", f.name, e.message))),
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

/// Goes down the ladder until a rung holds.
fn find(f: &Function, subject: &Subject, options: &Options<'_>) -> Result<Found, ApplyError> {
    let target = subject.target.table_id();
    let wanted = Wanted { key: &f.key, bind: &f.bind, target: &target };
    let gpu = machine(options.records, &target, options.gpu).map_err(ApplyError::Usage)?;
    if let Some(gpu) = gpu {
        if let Some(found) = same_size(options.records, &wanted, gpu).and_then(|t| timed(subject, &t, options)) {
            let same = is_same(&found, options);
            let rung = if same { Rung::Exact } else { Rung::SameArch };
            return Ok(Found { rung, ..found.found });
        }
        if let Some(found) = other_size(options.records, &wanted, gpu).and_then(|t| timed(subject, &t, options)) {
            return Ok(Found { rung: Rung::Neighbour, ..found.found });
        }
    }
    if let Some(guess) = predicted(options.records, &wanted).and_then(|r| replay(subject, r, options)) {
        return Ok(Found { rung: Rung::Predicted, ..guess.found });
    }
    default(f, subject, options)
}

/// A replayed record.
struct Replayed {
    found: Found,
    /// The text is the one that was measured.
    same_source: bool,
    /// The compiler that it was measured with.
    compiler: String,
}

/// The measured kernel, with its time.
fn timed(subject: &Subject, timing: &Timing<'_>, options: &Options<'_>) -> Option<Replayed> {
    let found = replay(subject, timing.record, options)?;
    Some(Replayed { found: Found { measured_us: Some(timing.median_ns / 1e3), ..found.found }, ..found })
}

/// The record's kernel, if it can still be made.
fn replay(subject: &Subject, record: &Record, options: &Options<'_>) -> Option<Replayed> {
    let rule = (record.rule.as_str(), record.rule_version);
    let schedule = subject.logged(&record.trace, rule, &record.knobs, options.spaces)?;
    let assembly = subject.assemble(&schedule).ok()?;
    let hash = format!("{:032x}", xxhash_rust::xxh3::xxh3_128(assembly.source.text.as_bytes()));
    Some(Replayed {
        same_source: record.source_hash.as_ref() == Some(&hash),
        compiler: record.env.nvrtc.clone(),
        found: Found { assembly, rung: Rung::SameArch, measured_us: None, scheduled: tvm::text(schedule.func()) },
    })
}

/// True when the text is the measured one and, on a GPU, so is the compiler's version. C is compiled
/// in the user's build, by a compiler that is not known here.
fn is_same(r: &Replayed, options: &Options<'_>) -> bool {
    let is_c = r.found.assembly.source.language == crate::backend::Language::C;
    r.same_source && (is_c || options.cuda.as_ref().is_some_and(|(_, id)| version(id) == version(&r.compiler)))
}

/// `13.0` of `nvrtc 13.0.88`.
fn version(compiler: &str) -> Option<(&str, &str)> {
    let number = compiler.split_whitespace().find(|w| w.starts_with(|c: char| c.is_ascii_digit()))?;
    let mut parts = number.split('.');
    Some((parts.next()?, parts.next()?))
}

/// The default of the first rule whose kernel can be made.
fn default(f: &Function, subject: &Subject, options: &Options<'_>) -> Result<Found, ApplyError> {
    let mut why = vec![];
    for arm in subject.arms(options.spaces) {
        let Some(knobs) = arm.space.default() else { continue };
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
    Err(ApplyError::Failed(format!("{}: no rule makes a kernel for {target}{reasons}", f.name)))
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

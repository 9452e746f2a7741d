//! One cubin for the GPUs of a family.
//!
//! A family's instructions run on all of its members, so that one file serves them where their kernels
//! have the same text. What only one member has (int8 in tensor memory, which is sm_100a's alone) the
//! compiler refuses for the family; such kernels, and those whose texts differ, keep a file for each.

use super::kernel::Draft;
use super::options::Options;
use super::unit::{Content, Rung, Unit};
use super::when::When;
use crate::assemble::Failure;
use crate::backend::{Compiler, Source};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A family's file.
pub(super) struct Shared {
    /// As NVRTC names it, `sm_100f`.
    pub arch: &'static str,
    /// The cubin.
    pub bytes: Arc<[u8]>,
}

impl Shared {
    /// Puts the file into a unit of one of the members. A kernel that was measured on the member was
    /// compiled for it alone, so that it is not exactly this one.
    pub fn put_into(&self, mut unit: Unit) -> Unit {
        unit.content = Content::Cubin;
        unit.bytes = self.bytes.to_vec();
        unit.file = format!("{}.cubin", unit.stem(self.arch));
        unit.rung = if unit.rung == Rung::Exact { Rung::SameArch } else { unit.rung };
        unit
    }
}

/// The family of each target that shares it with another one, in order.
fn members<'a>(options: &'a Options<'_>) -> impl Iterator<Item = (&'static str, &'a str)> {
    let of = |arch: &str| options.targets.iter().filter(|t| t.family_arch == Some(arch)).count();
    options.targets.iter().filter_map(|t| Some((t.family_arch?, t.arch.as_str()))).filter(move |(f, _)| of(f) > 1)
}

/// That families are of any use with these targets.
///
/// # Errors
/// A sentence that names targets which are of one family.
pub(super) fn check(options: &Options<'_>) -> Result<(), Failure> {
    if !options.family || members(options).next().is_some() {
        return Ok(());
    }
    let names: Vec<&str> = options.targets.iter().map(|t| t.id.as_str()).collect();
    let text = "a family's file is for two or more GPUs of one family, such as cuda:sm_100a and cuda:sm_103a";
    Err(Failure::usage(format!("{text}; the targets are {}", names.join(", "))))
}

/// The files of families for the kernels of one function, by the member's architecture and the sizes they take.
pub(super) fn shared(drafts: &[Draft], options: &Options<'_>) -> BTreeMap<(String, When), Arc<Shared>> {
    let mut out = BTreeMap::new();
    let (true, Some((compiler, _))) = (options.family, &options.cuda) else { return out };
    for (family, arch) in members(options) {
        for first in drafts.iter().filter(|d| d.unit.target.arch == arch) {
            let alike = |d: &&Draft| d.unit.target.family_arch == Some(family) && d.unit.when == first.unit.when;
            let all: Vec<&Draft> = drafts.iter().filter(alike).collect();
            let is_first = all.first().is_some_and(|d| d.unit.target.arch == arch) && all.len() > 1;
            if !is_first || all.iter().any(|d| d.source.text != first.source.text) {
                continue;
            }
            let Some(bytes) = compiled(*compiler, &first.source, family) else { continue };
            let file = Arc::new(Shared { arch: family, bytes });
            out.extend(all.iter().map(|d| ((d.unit.target.arch.clone(), d.unit.when.clone()), file.clone())));
        }
    }
    out
}

/// The cubin for a family; `None` where it refuses what its members take.
fn compiled(compiler: &dyn Compiler, source: &Source, family: &str) -> Option<Arc<[u8]>> {
    let source = Source { target: format!("cuda:{family}"), ..source.clone() };
    compiler.compile(&source).ok().map(|a| a.bytes)
}

/// For each function whose GPUs of one family need a file each, a sentence.
pub fn apart(units: &[Unit]) -> Vec<String> {
    let mut files: BTreeMap<(&str, &When, &str), Vec<&str>> = BTreeMap::new();
    for u in units {
        if let (Some(family), Content::Cubin) = (u.target.family_arch, u.content) {
            files.entry((&u.name, &u.when, family)).or_default().push(&u.file);
        }
    }
    let mut out = vec![];
    for ((name, _, family), own) in files {
        if own.windows(2).any(|w| w[0] != w[1]) {
            out.push(format!("{name}: its kernels cannot share a file for {family}; there are {}", own.join(" and ")));
        }
    }
    out
}

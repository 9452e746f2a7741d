//! Rules are held to what they say: every predicate by which one declines and every condition of its space has a
//! case that trips it, and headers of rules show what happens. `docs/rules.md` is written from them.

mod declines;
mod docs;
mod loops;
mod nest;
mod shown;
mod source;
mod spaces;

use daylight::ir;
use daylight::rules::{Prepared, Rule, Spaces, Verdict, verdicts};
use daylight::target::{HostCpu, Target};
use rayon::prelude::*;
use std::path::{Path, PathBuf};

/// A file or folder of the repository.
fn root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// A target by its name; `cuda:sm_80 without mma` is none that there is.
fn target(name: &str) -> Target {
    let (id, lacks) = name.split_once(" without ").unwrap_or((name, ""));
    let host = HostCpu { arch: "x86-64-v3".into(), ..HostCpu::default() };
    let mut target = Target::parse(id, &host).unwrap_or_else(|e| panic!("{e}"));
    target.has.mma &= lacks != "mma";
    target
}

/// What all rules say of a function.
fn asked(text: &str, target: &Target, spaces: &Spaces) -> Vec<Verdict> {
    let func = ir::read(text, "case").unwrap_or_else(|e| panic!("{e}\n{text}")).remove(0);
    let input = Prepared::new(&func).unwrap_or_else(|d| panic!("{d}\n{text}"));
    verdicts(&input, target, spaces)
}

/// The files of `tests/cases/rules/<folder>` with their names and texts, sorted.
fn cases(folder: &str) -> Vec<(PathBuf, String, String)> {
    let entries = std::fs::read_dir(root("tests/cases/rules").join(folder)).expect("the cases are there");
    let mut files: Vec<PathBuf> = entries.map(|e| e.expect("list the folder").path()).collect();
    files.sort();
    let name = |p: &Path| p.file_stem().expect("a file has a name").to_string_lossy().into_owned();
    files.into_iter().map(|p| (p.clone(), name(&p), std::fs::read_to_string(&p).expect("read a case"))).collect()
}

/// Compares what comes of each case of a folder, by its name and text, with its text, or writes it there with
/// `UPDATE_EXPECT=1`.
fn settle(folder: &str, outcome: impl Fn(&str, &str) -> String + Sync) {
    let compare = |(file, name, want): &(PathBuf, String, String)| {
        let got = outcome(name, want);
        if got != *want && std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(file, got).expect("write the case");
            return None;
        }
        (got != *want).then(|| format!("{}\nwant:\n{want}\ngot:\n{got}", file.display()))
    };
    let wrong: Vec<String> = cases(folder).par_iter().filter_map(compare).collect();
    assert!(wrong.is_empty(), "{} differ; UPDATE_EXPECT=1 accepts\n{}", wrong.len(), wrong.join("\n"));
}

/// The target on which a rule is shown where nothing else is said.
fn usual(rule: &Rule) -> &'static str {
    match rule.kind {
        daylight::target::Kind::Cuda => "cuda:sm_90a",
        daylight::target::Kind::Cpu => "cpu",
    }
}

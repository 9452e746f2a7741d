//! What mutants are made of: files of this repository, and what is made from them.

use crate::common::arm::ask;
use crate::common::record::{full, record};
use daylight::assemble::Schedulable;
use daylight::ir::{self, PrimFunc};
use daylight::log;
use daylight::rules::Arm;
use daylight::target::{HostCpu, Target};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// A path in this repository.
pub fn root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The texts of a folder's files with that ending, sorted by name.
fn texts(folder: &str, ending: &str) -> Vec<(String, String)> {
    let entries = std::fs::read_dir(root(folder)).expect("a folder").map(|e| e.expect("an entry").path());
    let mut files: Vec<PathBuf> = entries.filter(|p| p.extension().is_some_and(|e| e == ending)).collect();
    files.sort();
    let name = |p: &Path| p.file_stem().expect("a name").to_string_lossy().into_owned();
    files.iter().map(|p| (name(p), std::fs::read_to_string(p).expect("a text"))).collect()
}

/// A target, whatever machine this is.
pub fn target(id: &str) -> Target {
    let host = HostCpu { arch: "x86-64-v3".into(), ..HostCpu::default() };
    Target::parse(id, &host).unwrap_or_else(|e| panic!("{e}"))
}

/// Both kinds of targets.
pub const TARGETS: [&str; 2] = ["cuda:sm_90a", "cpu"];

/// Functions: some of models, refused ones among them, and small ones that a rule takes each.
pub static FUNCTIONS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let kinds = ["refused", "reduction", "gemv-quant", "dynamic", "elementwise", "conv"];
    let big = kinds.iter().flat_map(|k| texts(&format!("tests/workloads/{k}"), "py"));
    big.map(|(_, text)| text).chain(SMALL.iter().map(|s| s.text.clone())).collect()
});

/// A small function that is taken by a rule.
pub struct Small {
    /// The rule.
    pub form: String,
    /// The text.
    pub text: String,
    /// The function.
    pub func: PrimFunc,
    /// Where the rule takes it.
    pub target: &'static str,
}

/// One function for each rule.
pub static SMALL: LazyLock<Vec<Small>> = LazyLock::new(|| {
    let small = |(form, case): (String, String)| {
        let (text, on) = case.split_once("--- on ").unwrap_or((&case, "cuda"));
        let target = if on.starts_with("cpu") { "cpu" } else { "cuda:sm_90a" };
        let func = ir::read(text, &form).unwrap_or_else(|e| panic!("{e}")).remove(0);
        Small { form, text: text.to_string(), func, target }
    };
    texts("tests/cases/rules/spaces", "tir").into_iter().map(small).collect()
});

/// Tile programs.
pub static TILES: LazyLock<Vec<String>> =
    LazyLock::new(|| texts("tests/tile_programs", "py").into_iter().map(|t| t.1).collect());

/// Knob tables with the names of their rules.
pub static TABLES: LazyLock<Vec<(String, String)>> = LazyLock::new(|| texts("schedules", "toml"));

/// A function ready to be scheduled, and the trace of one of its points.
pub struct Traced {
    /// The function on its target.
    pub subject: Schedulable,
    /// What takes it.
    pub arm: Arm,
    /// The steps.
    pub trace: Vec<String>,
}

/// The default points of small functions.
pub static TRACES: LazyLock<Vec<Traced>> = LazyLock::new(|| {
    let traced = |s: &Small| {
        let subject = Schedulable::new(&s.func, &s.func, target(s.target)).ok()?;
        // the rule alone: each mutant has little time, which the first of a process spends here
        let arm = ask(&s.form, &subject.prepared, &subject.target).ok()?;
        let schedule = arm.schedule(&arm.space.default()?).ok()?;
        let trace = schedule.trace().iter().map(|t| t.to_string()).collect();
        Some(Traced { subject, arm, trace })
    };
    SMALL.iter().filter_map(traced).collect()
});

/// Lines of logs: records of tests, and of a log that was measured, complete in themselves and with what they refer to.
pub static LINES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let measured = log::read(&root("tests/data/mean_last-2048x8192-f32.jsonl.gz")).expect("the log reads");
    let records = measured.records.into_iter().step_by(40).take(8).chain([full(), record(64, &[1.5, 2.5])]);
    records.flat_map(|r| [r.to_line(), log::Encoder::default().lines(&r)]).collect()
});

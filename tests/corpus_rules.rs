//! Which rules take each function of the corpus, on a GPU and on the CPU.

use crate::common::{golden, scripts};
use daylight::ir;
use daylight::rules::{Prepared, Spaces, verdicts};
use daylight::target::{HostCpu, Target};
use rayon::prelude::*;
use std::path::{Path, PathBuf};

/// Every file outside `refused`, with the kind and the name.
fn files() -> Vec<(String, PathBuf)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/workloads");
    let name = |p: &Path| p.strip_prefix(&root).expect("below the corpus").with_extension("").display().to_string();
    let all = scripts(&root).into_iter().map(|p| (name(&p), p));
    all.filter(|(name, _)| !name.starts_with("refused")).collect()
}

/// The rules that take a function, in the order in which they are asked.
fn rules(path: &Path, target: &Target) -> Vec<&'static str> {
    let text = std::fs::read_to_string(path).expect("a text file");
    let func = ir::read(&text, "corpus").expect("it reads").remove(0);
    let input = Prepared::new(&func)
        .unwrap_or_else(|d| panic!("{}: {}: {}", path.display(), d.reason.predicate, d.reason.text));
    let asked = verdicts(&input, target, &Spaces::built_in());
    asked.into_iter().filter(|v| v.arm.is_ok()).map(|v| v.rule).collect()
}

#[test]
fn every_function_has_a_rule() {
    let host = HostCpu { arch: "x86-64-v3".into(), ..HostCpu::default() };
    let targets = ["cuda:sm_90a", "cpu:x86-64-v3"].map(|id| Target::parse(id, &host).expect("a known target"));
    let found = files();
    assert_eq!(found.len(), 86);
    let row = |(name, path): &(String, PathBuf)| {
        let [gpu, cpu] = targets.each_ref().map(|t| rules(path, t));
        (name.clone(), gpu, cpu)
    };
    let rows: Vec<_> = found.par_iter().map(row).collect();
    let line = |(name, gpu, cpu): &(String, Vec<&str>, Vec<&str>)| {
        format!("{name}\n    {}\n    {}\n", gpu.join(" "), cpu.join(" "))
    };
    golden("golden/corpus_rules.txt", &rows.iter().map(line).collect::<String>());
    let none: Vec<&String> = rows.iter().filter(|(_, g, c)| g.is_empty() || c.is_empty()).map(|r| &r.0).collect();
    assert!(none.is_empty(), "no rule takes {none:?}");
}

//! Every candidate that a rule makes of the corpus has a kernel.

mod lower_cases;

use daylight::ir::{self, PrimFunc};
use daylight::lower::lower;
use daylight::rules::{Prepared, Spaces, verdicts};
use daylight::target::Target;
use lower_cases::{cpu, gpu};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Points of each space that are tried besides the default.
const POINTS: u64 = 6;

fn files(dir: &Path, out: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(dir).expect("the corpus").map(|e| e.expect("an entry").path()).collect();
    entries.sort();
    for p in entries {
        if p.is_dir() {
            files(&p, out);
        } else if p.extension().is_some_and(|e| e == "py") {
            out.push(p);
        }
    }
}

fn corpus() -> Vec<(String, PrimFunc)> {
    let mut paths = vec![];
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/workloads"), &mut paths);
    let mut out = vec![];
    for p in paths {
        let text = std::fs::read_to_string(&p).expect("a text file");
        let name = p.file_stem().expect("a name").to_string_lossy().into_owned();
        for f in ir::read(&text, &name).unwrap_or_default() {
            out.push((name.clone(), f));
        }
    }
    out
}

fn candidates(target: &Target) {
    let spaces = Spaces::built_in();
    let mut failures: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut made = 0;
    for (name, f) in corpus() {
        let Ok(input) = Prepared::new(&f) else { continue };
        for v in verdicts(&input, target, &spaces) {
            let Ok(space) = v.space else { continue };
            let step = (space.size() / POINTS).max(1);
            let points = (0..POINTS).map(|i| space.point((i * step + i) % space.size())).chain(space.default());
            for knobs in points.filter(|k| space.check(k).is_ok()) {
                let Ok(s) = v.rule.schedule(&input, target, &knobs) else { continue };
                made += 1;
                if let Err(e) = lower(s.func(), target, &[]) {
                    failures.entry(e.to_string()).or_default().push(format!("{name} {} {knobs:?}", v.rule.name()));
                }
            }
        }
    }
    for (why, who) in &failures {
        println!("{} x {why}\n    {}", who.len(), who[0]);
    }
    println!("{made} candidates");
    assert!(failures.is_empty(), "{} kinds of failure", failures.len());
    assert!(made > 100, "{made} candidates");
}

#[test]
fn gpu_candidates_lower() {
    candidates(&gpu());
}

#[test]
fn cpu_candidates_lower() {
    candidates(&cpu());
}

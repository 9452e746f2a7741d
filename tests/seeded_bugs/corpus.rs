//! The workloads with small sizes in place of their own, under the default of every rule that takes them.

use daylight::analysis::shrink;
use daylight::assemble::Subject;
use daylight::ir::PrimFunc;
use daylight::job::{Bindings, load};
use daylight::rules::Spaces;
use daylight::target::{HostCpu, Target};
use daylight::tune::reference::expected;
use daylight::tune::{problem, simulate};
use rayon::prelude::*;
use std::path::PathBuf;

/// Steps of a twin's loops, about.
const STEPS: u64 = 8_000;

/// The value of symbolic extents.
const EXTENT: i64 = 21;

/// Small twins of all workloads with names.
fn twins() -> Vec<(String, PrimFunc)> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/workloads");
    let kinds = std::fs::read_dir(&root).expect("a folder").map(|e| e.expect("a folder").path());
    let folders: Vec<PathBuf> = kinds.filter(|p| p.is_dir() && !p.ends_with("refused")).collect();
    let inputs = load(&Bindings::new(), &folders).unwrap_or_else(|e| panic!("{}", e.message));
    let twin = |input: Result<daylight::job::Input, daylight::job::BadFile>| {
        let input = input.ok()?;
        let bind: Bindings = input.unbound().into_iter().map(|n| (n.to_string(), EXTENT)).collect();
        let func = input.original.bind(&bind);
        let twin = shrink(&func, STEPS).unwrap_or(func);
        Some((input.file.clone(), twin))
    };
    inputs.into_iter().filter_map(twin).collect()
}

/// What the simulator has against the default of each rule, with one seed.
fn accusations(name: &str, func: &PrimFunc, target: &Target) -> Vec<String> {
    let Ok(subject) = Subject::new(func, func, target.clone()) else { return vec![] };
    let given = problem::given(&subject.prepared.func, &Bindings::new(), 3);
    let want = expected(&subject.prepared.func, &subject.prepared.facts, &given);
    let want = want.unwrap_or_else(|e| panic!("{name}: {e}"));
    let check = |arm: daylight::rules::Arm| {
        let knobs = arm.space.default()?;
        let at = format!("{name} {} {} {knobs}", target.id, arm.space.form);
        let made = match subject.candidate(&arm, &knobs) {
            Ok(made) => made,
            Err(e) => return Some(format!("{at}: {e}")),
        };
        let options = simulate::Options { seed: 11, ..simulate::Options::default() };
        simulate::check(&subject, &made.program, &given, &want, options).err().map(|e| format!("{at}: {e}"))
    };
    subject.arms(&Spaces::built_in()).into_iter().filter_map(check).collect()
}

#[test]
fn defaults_of_the_corpus_are_not_accused() {
    let all = twins();
    assert!(all.len() >= 84, "only {} workloads", all.len());
    let host = HostCpu { arch: "x86-64-v3".into(), ..HostCpu::default() };
    let targets = ["cuda:sm_90a", "cpu"].map(|id| Target::parse(id, &host).expect("a known target"));
    let found: Vec<String> =
        all.par_iter().flat_map_iter(|(name, f)| targets.iter().flat_map(|t| accusations(name, f, t))).collect();
    assert!(found.is_empty(), "{} accusations:\n{}", found.len(), found.join("\n\n"));
}

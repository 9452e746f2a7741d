//! Every function of the corpus at odd, prime and unit sizes: each rule's default point and a random one run in
//! the simulator and are compared with the interpreter, on a GPU and on the CPU.

use super::harness::target;
use daylight::analysis::Awkward;
use daylight::assemble::Schedulable;
use daylight::job::{Bindings, Input, load};
use daylight::rules::{Arm, Knobs, Spaces};
use daylight::tune::reference::expected;
use daylight::tune::{problem, simulate};
use rand::prelude::*;
use rayon::prelude::*;
use std::path::PathBuf;

const KINDS: [Awkward; 3] = [Awkward::Odd, Awkward::Prime, Awkward::One];

/// Every file outside `refused`.
pub fn inputs() -> Vec<Input> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/workloads");
    let kinds = std::fs::read_dir(&root).expect("a folder").map(|e| e.expect("a folder").path());
    let folders: Vec<PathBuf> = kinds.filter(|p| p.is_dir() && !p.ends_with("refused")).collect();
    let all = load(&Bindings::new(), &folders).unwrap_or_else(|e| panic!("{}", e.message));
    all.into_iter().map(|i| i.unwrap_or_else(|e| panic!("{}: {}", e.file, e.failure.message))).collect()
}

/// The default point of a rule and a random one.
fn points(arm: &Arm, seed: u64) -> Vec<Knobs> {
    let legal = arm.space.points();
    let random = legal.choose(&mut StdRng::seed_from_u64(seed)).cloned();
    arm.space.default().into_iter().chain(random).collect()
}

/// What there is against a function at other sizes.
fn accusations(original: &Input, to: Awkward, id: &str) -> Vec<String> {
    let (input, target) = (original.resized(to), target(id));
    let at = format!("{} {to:?} {id}", original.file);
    let subject = Schedulable::new(&input.func, &input.func, target).unwrap_or_else(|d| panic!("{at}: {d}"));
    let given = problem::given(&input.func, &input.bind, 5);
    let want = expected(&subject.prepared.func, &subject.prepared.facts, &given);
    let want = want.unwrap_or_else(|e| panic!("{at}: {e}"));
    let arms = subject.arms(&Spaces::built_in());
    let mut found = vec![];
    if want.outputs.iter().any(|o| o.points.is_some()) {
        found.push(format!("{at}: it does not write its outputs whole"));
    }
    if arms.is_empty() {
        found.push(format!("{at}: no rule takes it"));
    }
    for arm in &arms {
        for knobs in points(arm, at.len() as u64) {
            let options = simulate::Options { seed: 11, ..simulate::Options::default() };
            let made = subject.candidate(arm, &knobs).map_err(|e| e.to_string());
            let done = made.and_then(|made| simulate::check(&subject, &made.program, &given, &want, options));
            found.extend(done.err().map(|e| format!("{at}: {} {knobs}: {e}", arm.space.form)));
        }
    }
    found
}

#[test]
fn every_function_at_awkward_sizes() {
    let all = inputs();
    assert_eq!(all.len(), 86);
    let cases: Vec<_> =
        all.iter().flat_map(|i| KINDS.map(|k| ["cuda:sm_90a", "cpu"].map(|t| (i, k, t)))).flatten().collect();
    let found: Vec<String> = cases.par_iter().flat_map_iter(|(i, k, t)| accusations(i, *k, t)).collect();
    assert!(found.is_empty(), "{} accusations:\n{}", found.len(), found.join("\n\n"));
}

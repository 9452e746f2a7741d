//! What the rules make has a kernel, over the corpus, and computes what it should, at small and
//! odd shapes.

use crate::common::scripts;
use crate::lower_cases::*;
use daylight::interp::{Scalar, Scalars};
use daylight::ir::{self, PrimFunc};
use daylight::lower::lower;
use daylight::rules::{Knobs, Prepared, Space, Spaces, verdicts};
use daylight::schedule::Schedule;
use daylight::target::Target;
use std::collections::BTreeMap;
use std::path::Path;

/// Points of each space that are tried besides the default.
const POINTS: u64 = 12;

/// Spread points of a space that are legal, the default first.
fn points(space: &Space) -> Vec<Knobs> {
    let step = (space.size() / POINTS).max(1);
    let spread = (0..POINTS).map(|i| space.point((i * step + 7 * i) % space.size()));
    space.default().into_iter().chain(spread).filter(|k| space.check(k).is_ok()).collect()
}

/// Calls `f` with every schedule that the rules make of a function.
fn each_candidate(func: &PrimFunc, target: &Target, f: &mut impl FnMut(&str, &Prepared, &Schedule)) {
    let Ok(input) = Prepared::new(func) else { return };
    for v in verdicts(&input, target, &Spaces::built_in()) {
        let Ok(arm) = v.arm else { continue };
        for knobs in points(&arm.space) {
            if let Ok(s) = arm.schedule(&knobs) {
                f(&format!("{} {knobs:?}", v.rule), &input, &s);
            }
        }
    }
}

/// The functions of `tests/workloads`.
pub fn corpus() -> Vec<(String, PrimFunc)> {
    let mut out = vec![];
    for p in scripts(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/workloads")) {
        let text = std::fs::read_to_string(&p).expect("a text file");
        let name = p.file_stem().expect("a name").to_string_lossy().into_owned();
        out.extend(ir::read(&text, &name).unwrap_or_default().into_iter().map(|f| (name.clone(), f)));
    }
    out
}

fn all_lower(target: &Target) {
    let mut failures: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut made = 0;
    for (name, f) in corpus() {
        each_candidate(&f, target, &mut |what, _, s| {
            made += 1;
            if let Err(e) = lower(s.func(), target, &[]) {
                failures.entry(e.to_string()).or_default().push(format!("{name} {what}"));
            }
        });
    }
    let kinds: Vec<String> = failures.iter().map(|(why, who)| format!("{} x {why}: {}", who.len(), who[0])).collect();
    assert!(kinds.is_empty(), "{}", kinds.join("\n"));
    assert!(made > 100, "{made} candidates");
}

#[test]
fn gpu_candidates_of_the_corpus_lower() {
    all_lower(&gpu());
}

#[test]
fn cpu_candidates_of_the_corpus_lower() {
    all_lower(&cpu());
}

/// Runs every candidate for both targets with all symbolic extents at `n`.
fn computes(f: &PrimFunc, n: i64) {
    for target in [gpu(), cpu()] {
        let mut made = 0;
        each_candidate(f, &target, &mut |what, input, s| {
            made += 1;
            let scalars: Scalars = input.func.extents.iter().map(|e| (e.name.clone(), Scalar::Int(n))).collect();
            compare(&format!("{} at {n}: {what} on {}", f.name, target.id), &input.func, s.func(), &target, &scalars);
        });
        assert!(made > 0, "no candidate for {} on {}", f.name, target.id);
    }
}

#[test]
fn symbolic_shapes_compute() {
    let rows = read(
        r#"
@T.prim_func
def rows(pa: T.handle, po: T.handle):
    n = T.int64()
    a = T.match_buffer(pa, (n, T.int64(96)), "float32")
    out = T.match_buffer(po, (n,), "float32")
    for i, j in T.grid(n, T.int64(96)):
        with T.block("sum"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                out[vi] = T.float32(0)
            out[vi] = out[vi] + a[vi, vj]
"#,
    );
    let length = read(
        r#"
@T.prim_func
def length(pa: T.handle, po: T.handle):
    n = T.int32()
    a = T.match_buffer(pa, (5, n), "float32")
    out = T.match_buffer(po, (5,), "float32")
    for i, j in T.grid(5, n):
        with T.block("sum"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                out[vi] = T.float32(0)
            out[vi] = out[vi] + a[vi, vj]
"#,
    );
    let elements = read(
        r#"
@T.prim_func
def elements(pa: T.handle, po: T.handle):
    n = T.int64()
    a = T.match_buffer(pa, (n, T.int64(24)), "float16")
    out = T.match_buffer(po, (n, T.int64(24)), "float16")
    for i, j in T.grid(n, T.int64(24)):
        with T.block("double"):
            vi, vj = T.axis.remap("SS", [i, j])
            out[vi, vj] = a[vi, vj] * T.float16(2)
"#,
    );
    for n in [1, 6, 77] {
        computes(&rows, n);
        computes(&length, n);
        computes(&elements, n);
    }
}

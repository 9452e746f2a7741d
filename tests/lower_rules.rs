//! What the rules make has a kernel, over the corpus, and computes what it should, at small and
//! odd shapes.

mod lower_cases;

use daylight::interp::{Scalar, Scalars};
use daylight::ir::{self, PrimFunc};
use daylight::lower::lower;
use daylight::rules::{Knobs, Prepared, ScheduleRule, Space, Spaces, verdicts};
use daylight::schedule::Schedule;
use daylight::target::Target;
use lower_cases::*;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

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
        let Ok(space) = v.space else { continue };
        for knobs in points(&space) {
            if let Ok(s) = v.rule.schedule(&input, target, &knobs) {
                f(&format!("{} {knobs:?}", name(v.rule)), &input, &s);
            }
        }
    }
}

/// What the rules say of a function that none of them made anything of.
fn why_not(func: &PrimFunc, target: &Target) -> String {
    let input = match Prepared::new(func) {
        Ok(input) => input,
        Err(e) => return format!("refused: {}", e.reason),
    };
    let mut out = String::new();
    for v in verdicts(&input, target, &Spaces::built_in()) {
        match v.space {
            Err(d) => out += &format!("{} declines: {}\n", name(v.rule), d.reason),
            Ok(space) => match space.default() {
                None => out += &format!("{}: no legal point of {}\n", name(v.rule), space.size()),
                Some(k) => out += &format!("{}: {:?}\n", name(v.rule), v.rule.schedule(&input, target, &k).err()),
            },
        }
    }
    out
}

fn name(rule: &dyn ScheduleRule) -> &'static str {
    rule.name()
}

fn files(dir: &Path, out: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(dir).expect("the corpus");
    let mut entries: Vec<PathBuf> = entries.map(|e| e.expect("an entry").path()).collect();
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

/// Runs every candidate for both targets with all symbolic extents at `n`. Rules may have no legal
/// point for a tiny shape, so shapes without a candidate are only counted.
fn computes(f: &PrimFunc, n: i64) -> usize {
    let mut all = 0;
    for target in [gpu(), cpu()] {
        let mut made = 0;
        each_candidate(f, &target, &mut |what, input, s| {
            made += 1;
            let scalars: Scalars = input.func.extents.iter().map(|e| (e.name.clone(), Scalar::Int(n))).collect();
            compare(&format!("{} at {n}: {what} on {}", f.name, target.id), &input.func, s.func(), &target, &scalars);
        });
        if made == 0 {
            println!("no candidate for {} on {}:\n{}", f.name, target.id, why_not(f, &target));
        }
        all += made;
    }
    all
}

#[test]
fn reductions_compute() {
    let mut made = 0;
    for (m, k) in [(3, 37), (5, 256), (33, 130), (1, 1024)] {
        made += computes(&row_sum(m, k, "float32"), 0);
        made += computes(&row_sum(m, k, "float16"), 0);
        made += computes(&column_sum(k, m * 8, "float32"), 0);
        made += computes(&column_sum(k, m * 2 + 1, "bfloat16"), 0);
    }
    assert!(made > 50, "{made} candidates");
}

#[test]
fn products_compute() {
    let mut made = 0;
    for (n, k) in [(3, 40), (17, 256), (8, 513)] {
        made += computes(&gemv(n, k, "bfloat16"), 0);
        made += computes(&gemv(n, k, "float32"), 0);
    }
    assert!(made > 20, "{made} candidates");
}

#[test]
fn elements_compute() {
    let mut made = 0;
    for n in [1, 13, 96, 4097] {
        made += computes(&elementwise(n, "float32"), 0);
        made += computes(&elementwise(n, "float16"), 0);
    }
    let rotate = read(
        r#"
@T.prim_func
def rotate(a: T.Buffer((3, 5, 16), "float32"), c: T.Buffer((3, 16), "float32"), out: T.Buffer((3, 5, 16), "float32")):
    for i, j, k in T.grid(3, 5, 16):
        with T.block("rotate"):
            vi, vj, vk = T.axis.remap("SSS", [i, j, k])
            out[vi, vj, vk] = c[vi, vk] * a[vi, vj, vk] + T.if_then_else(vk < 8, a[vi, vj, vk + 8] * T.float32(-1), a[vi, vj, vk - 8])
"#,
    );
    made += computes(&rotate, 0);
    assert!(made > 30, "{made} candidates");
}

#[test]
fn epilogues_compute() {
    let mut made = 0;
    let mean = read(
        r#"
@T.prim_func
def mean(a: T.Buffer((7, 200), "float32"), b: T.Buffer((7,), "float32"), out: T.Buffer((7,), "float32")):
    s = T.alloc_buffer((7,), "float32")
    for i, j in T.grid(7, 200):
        with T.block("sum"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                s[vi] = T.float32(0)
            s[vi] = s[vi] + a[vi, vj] * a[vi, vj]
    for i in range(7):
        with T.block("scale"):
            vi = T.axis.spatial(7, i)
            out[vi] = s[vi] * T.float32(0.005) + b[vi]
"#,
    );
    made += computes(&mean, 0);
    let most = read(
        r#"
@T.prim_func
def most(a: T.Buffer((6, 100), "float16"), out: T.Buffer((6,), "float16")):
    for i, j in T.grid(6, 100):
        with T.block("max"):
            vi, vj = T.axis.remap("SR", [i, j])
            with T.init():
                out[vi] = T.min_value("float16")
            out[vi] = T.max(out[vi], T.fabs(a[vi, vj]))
"#,
    );
    made += computes(&most, 0);
    assert!(made > 10, "{made} candidates");
}

#[test]
fn symbolic_shapes_compute() {
    let mut made = 0;
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
        made += computes(&rows, n);
        made += computes(&length, n);
        made += computes(&elements, n);
    }
    assert!(made > 20, "{made} candidates");
}

//! Neighbouring launches that do not depend on each other become one kernel.

use super::harness::{Case, check_all, check_at, read, target};
use crate::common::{self, arm::arm};
use daylight::codegen;
use daylight::ir::kernel::Program;
use daylight::lower::lower;
use daylight::rules::{Knobs, Prepared};

const HEAD: &str = "from tvm.script import tirx as T\nfrom tvm.script.tirx import TypeVar\nn = TypeVar(\"n\")\n\n";

fn case(name: &str, params: &str, body: &str, extents: &[(&'static str, i64)], length: i64) -> Case {
    let text = format!("{HEAD}@T.prim_func(s_tir=True)\ndef main({params}):\n{body}");
    Case { name: name.into(), text, extents: extents.to_vec(), length }
}

fn spatial(name: &str, len: &str, store: &str) -> String {
    format!(
        "    for i in range({len}):\n        with T.sblock(\"{name}\"):\n            v = T.axis.spatial({len}, i)\n            {store}\n"
    )
}

fn row_sums(name: &str, rows: i64, of: i64, to: &str, from: &str) -> String {
    format!(
        "    for i, k in T.grid({rows}, {of}):
        with T.sblock(\"{name}\"):
            vi, vk = T.axis.remap(\"SR\", [i, k])
            with T.init():
                {to}[vi] = T.float32(0)
            {to}[vi] = {to}[vi] + {from}
"
    )
}

const VECTORS: &str = "A: T.Buffer((1000,), \"float32\"), X: T.Buffer((1000,), \"float32\"), B: T.Buffer((300,), \"float32\"), Y: T.Buffer((300,), \"float32\"), Z: T.Buffer((700,), \"float32\")";

/// Elementwise functions of different sizes; `second` is what `Y` has.
fn vectors(name: &str, second: &str) -> Case {
    let body = spatial("x", "1000", "X[v] = A[v] * T.float32(2)")
        + &spatial("y", "300", second)
        + &spatial("z", "700", "Z[v] = A[v] + T.float32(1)");
    case(name, VECTORS, &body, &[], 0)
}

/// The program of a rule's default point with some knobs changed.
fn program(case: &Case, rule: &str, knobs: &[(&str, i64)]) -> (Program, Knobs) {
    let arm = arm(rule, &Prepared::new(&read(case)).expect("a function"), &target("cuda:sm_90a"));
    let point = arm.space.default().expect("a legal point");
    let point = knobs.iter().fold(point, |k, (name, value)| k.with(name, *value));
    arm.space.check(&point).unwrap_or_else(|e| panic!("{}: {}", e.predicate, e.text));
    let s = arm.schedule(&point).unwrap_or_else(|e| panic!("{}: {e}", case.name));
    (lower(s.func(), &target("cuda:sm_90a"), &[]).unwrap_or_else(|e| panic!("{}: {e}", case.name)), point)
}

fn grids(p: &Program) -> Vec<Option<i64>> {
    p.launches.iter().map(|l| l.grid[0].as_int()).collect()
}

fn compiles(p: &Program) {
    let Some(nvrtc) = common::nvidia::compiler() else { return };
    let cubin = nvrtc.cubin(&codegen::cuda(p), "cuda:sm_90a").unwrap_or_else(|e| panic!("{e}"));
    assert_eq!((cubin.res.spill, cubin.warnings), (0, vec![]));
}

#[test]
fn three_neighbours_are_one_kernel() {
    let three = vectors("three", "Y[v] = B[v] - T.float32(1)");
    let (merged, point) = program(&three, "fallback.cuda", &[("threads", 64)]);
    assert_eq!((point.get("merge"), grids(&merged)), (1, vec![Some(4 + 2 + 3)]));
    common::golden("golden/lower/merged.txt", &merged.to_string());
    compiles(&merged);
    let (apart, _) = program(&three, "fallback.cuda", &[("threads", 64), ("merge", 0)]);
    assert_eq!(grids(&apart), [Some(4), Some(2), Some(3)]);
    check_all(vec![three], &["fallback.cuda"]);
}

/// `Y` reads `X`, `Z` reads neither: the last two are one kernel, the first is alone.
#[test]
fn what_depends_on_the_launch_before_is_a_kernel_of_its_own() {
    let chain = vectors("chain", "Y[v] = B[v] + X[v]");
    let (some, _) = program(&chain, "fallback.cuda", &[("threads", 64)]);
    assert_eq!(grids(&some), [Some(4), Some(2 + 3)]);
    check_all(vec![chain], &["fallback.cuda"]);
    let params = "A: T.Buffer((512,), \"float32\"), X: T.Buffer((512,), \"float32\"), Y: T.Buffer((512,), \"float32\")";
    // Not inlined: what it leaves is a result too.
    let body = spatial("x", "512", "X[v] = A[v] * T.float32(2)") + &spatial("y", "512", "Y[v] = X[v] + T.float32(1)");
    let input = Prepared::new(&read(&case("dependent", params, &body, &[], 0))).expect("a function");
    assert!(arm("fallback.cuda", &input, &target("cuda:sm_90a")).space.knob("merge").is_none());
}

#[test]
fn grids_of_run_time_sizes_add_up() {
    let params = "A: T.Buffer((n,), \"float32\"), X: T.Buffer((n,), \"float32\"), B: T.Buffer((640,), \"float32\"), Y: T.Buffer((640,), \"float32\")";
    let body = spatial("x", "n", "X[v] = A[v] * T.float32(2)") + &spatial("y", "640", "Y[v] = B[v] + A[0]");
    for n in [1, 300, 2048] {
        let symbolic = case("symbolic", params, &body, &[("n", n)], 0);
        let (merged, _) = program(&symbolic, "fallback.cuda", &[]);
        assert_eq!(grids(&merged), [None]);
        compiles(&merged);
        check_all(vec![symbolic], &["fallback.cuda"]);
    }
}

/// Sums of rows beside an elementwise function and other sums.
fn sums_and_more() -> Case {
    let params = "A: T.Buffer((40, 256), \"float32\"), R: T.Buffer((40,), \"float32\"), B: T.Buffer((3000,), \"float32\"), X: T.Buffer((3000,), \"float32\"), C: T.Buffer((24, 512), \"float32\"), S: T.Buffer((24,), \"float32\")";
    let body = row_sums("r", 40, 256, "R", "A[vi, vk]")
        + &spatial("x", "3000", "X[v] = B[v] * T.float32(0.5)")
        + &row_sums("s", 24, 512, "S", "C[vi, vk]");
    case("sums_and_more", params, &body, &[], 512)
}

#[test]
fn pieces_of_several_rules_are_one_kernel() {
    let (merged, point) = program(&sums_and_more(), "pieces.cuda", &[]);
    assert_eq!((point.get("merge"), merged.launches.len()), (1, 1), "{merged}");
    compiles(&merged);
    check_all(vec![sums_and_more()], &["pieces.cuda"]);
    // Blocks of several shapes, threads along x.
    let columns = "    for i, k in T.grid(300, 24):
        with T.sblock(\"c\"):
            vi, vk = T.axis.remap(\"SR\", [i, k])
            with T.init():
                S[vi] = T.float32(0)
            S[vi] = S[vi] + C[vk, vi]
";
    let params = "A: T.Buffer((40, 256), \"float32\"), R: T.Buffer((40,), \"float32\"), C: T.Buffer((24, 300), \"float32\"), S: T.Buffer((300,), \"float32\")";
    let body = row_sums("r", 40, 256, "R", "A[vi, vk]") + columns;
    let shapes = case("shapes", params, &body, &[], 256);
    // Where no trees choose other numbers of threads for each.
    let ampere = target("cuda:sm_80");
    let arm = arm("pieces.cuda", &Prepared::new(&read(&shapes)).expect("a function"), &ampere);
    let point = arm.default().expect("a legal point");
    let merged = lower(arm.schedule(&point).expect("a schedule").func(), &ampere, &[]).expect("a kernel");
    assert_eq!(merged.launches.len(), 1, "{merged}");
    compiles(&merged);
    check_at(&shapes, "pieces.cuda", "cuda:sm_80", point);
    check_all(vec![shapes], &["pieces.cuda"]);
}

#[test]
fn blocks_with_other_numbers_of_threads_are_not_merged() {
    let case = sums_and_more();
    let arm = arm("pieces.cuda", &Prepared::new(&read(&case)).expect("a function"), &target("cuda:sm_90a"));
    let apart: Vec<Knobs> = arm.space.points().into_iter().filter(|k| k.get("merge") == 0).collect();
    let refusal = |k: &Knobs| arm.space.check(&k.with("merge", 1)).err().map(|e| e.predicate);
    let (merge, stay): (Vec<_>, Vec<_>) = apart.iter().partition(|k| refusal(k).is_none());
    assert!(!merge.is_empty() && stay.iter().all(|k| refusal(k).as_deref() == Some("merged_alike")));
    let launches = |k: &Knobs| {
        let s = arm.schedule(k).unwrap_or_else(|e| panic!("{k}: {e}"));
        lower(s.func(), &target("cuda:sm_90a"), &[]).unwrap_or_else(|e| panic!("{k}: {e}")).launches
    };
    let stays = launches(stay.first().expect("pieces with other numbers of threads"));
    assert!(stays.windows(2).all(|pair| pair[0].threads() != pair[1].threads()));
    let mut joined = 0;
    for k in merge.iter().step_by(merge.len() / 8 + 1) {
        let merged = launches(&k.with("merge", 1));
        if merged.len() == launches(k).len() {
            // Blocks in long rows stay alone.
            assert!(merged.iter().any(|l| l.block[0] > 32 && l.block[1] > 1), "{k}");
            continue;
        }
        joined += 1;
        let outlined = arm.outline(&k.with("merge", 1)).expect("an outline").launches;
        let shown: Vec<_> = outlined.iter().map(|l| (Some(l.blocks), l.threads)).collect();
        let is: Vec<_> = merged.iter().map(|l| (l.grid[0].as_int(), i64::from(l.threads()))).collect();
        assert_eq!(shown, is, "{k}");
    }
    assert!(joined > 2, "{joined}");
}

//! Every rule on odd, prime, tiny and larger shapes: the default point and random ones are scheduled,
//! compared with the unscheduled function in the interpreter, lowered and run in the simulator.

#[path = "rules/texts.rs"]
mod texts;

use daylight::interp::{self, Mode, Scalar, Tensor};
use daylight::ir::{self, PrimFunc};
use daylight::lower::lower;
use daylight::rules::{Knobs, Prepared, ScheduleRule, Space, Spaces, verdicts};
use daylight::sim;
use daylight::target::{HostCpu, Target};
use rand::prelude::*;
use texts::*;

/// Random points per rule and function, besides the default one.
const POINTS: usize = 5;

fn target(id: &str) -> Target {
    Target::parse(id, &HostCpu { arch: "x86-64-v3".into(), ..HostCpu::default() }).expect("a known target")
}

fn read(case: &Case) -> PrimFunc {
    ir::read(&case.text, &case.name).unwrap_or_else(|e| panic!("{}: {e}", case.name)).remove(0)
}

/// Seeded inputs, zeros for what is only written: small integers for integers, else normal-like.
fn arguments(func: &PrimFunc, case: &Case, rng: &mut StdRng) -> Vec<Tensor> {
    let extent = |e: &ir::Expr| match (e.as_int(), e.as_var()) {
        (Some(n), _) => n,
        (None, Some(v)) => case.extents.iter().find(|(n, _)| *n == func.display_name(v)).expect("a bound extent").1,
        (None, None) => panic!("{}: extents are constants or names", case.name),
    };
    let make = |b: &ir::Buffer| {
        let shape: Vec<i64> = b.shape.iter().map(extent).collect();
        let n: i64 = shape.iter().product();
        let values: Vec<f64> = (0..n).map(|_| rng.random_range(-8i32..=8) as f64 / 8.0 + 1.0).collect();
        let scaled: Vec<f64> =
            if b.dtype.is_float() { values } else { values.iter().map(|v| (v * 8.0).round()).collect() };
        Tensor::from_f64(b.dtype, &shape, &scaled)
    };
    func.buffer_params().map(make).collect()
}

fn points(space: &Space, rng: &mut StdRng) -> Vec<Knobs> {
    let legal: Vec<Knobs> = space.points();
    let mut out: Vec<Knobs> = space.default().into_iter().collect();
    out.extend(legal.sample(rng, POINTS).cloned());
    out
}

/// Largest difference relative to the larger of the values and 1.
fn difference(a: &Tensor, b: &Tensor) -> f64 {
    let pairs = a.to_f64().into_iter().zip(b.to_f64());
    pairs
        .map(|(x, y)| if x == y { 0.0 } else { (x - y).abs() / y.abs().max(1.0) })
        .fold(0.0, |m, d| if d > m || d.is_nan() { d } else { m })
}

/// Results of products and long 16-bit sums differ by rounding of the output type and the order.
fn tolerance(out: &Tensor) -> f64 {
    if out.dtype.is_float() { 16.0 * out.dtype.roundoff() + 1e-5 } else { 0.0 }
}

fn check_point(
    rule: &dyn ScheduleRule,
    case: &Case,
    input: &Prepared,
    target: &Target,
    knobs: &Knobs,
    args: &[Tensor],
    want: &[Tensor],
) {
    let at = format!("{} {} {} {knobs}", case.name, rule.name(), target.id);
    let s = rule.schedule(input, target, knobs).unwrap_or_else(|e| panic!("{at}: {e}"));
    ir::verify(s.func()).unwrap_or_else(|e| panic!("{at}: {e:?}"));
    let mut got = args.to_vec();
    interp::run(s.func(), &mut got, &Default::default(), Mode::Exact)
        .unwrap_or_else(|e| panic!("{at}: {e}\n{}", s.func()));
    compare(&format!("{at} interpreted"), &got, want);
    let trace: Vec<String> = s.trace().iter().map(|s| s.to_string()).collect();
    let program = lower(s.func(), target, &trace).unwrap_or_else(|e| panic!("{at}: {e}\n{}", s.func()));
    let mut got = args.to_vec();
    let bound =
        |name| case.extents.iter().find(|(n, _)| *n == input.func.display_name(name)).expect("a bound extent").1;
    let extents = input.func.extents.iter().map(|e| (e.name.clone(), Scalar::Int(bound(&e.name)))).collect();
    let options = sim::SimOptions { seed: 7, max_blocks: None, inout: vec![] };
    sim::run(&program, &mut got, &extents, &options).unwrap_or_else(|e| panic!("{at}: {e}\n{program}"));
    compare(&format!("{at} simulated"), &got, want);
}

fn compare(at: &str, got: &[Tensor], want: &[Tensor]) {
    for (g, w) in got.iter().zip(want) {
        let d = difference(g, w);
        assert!(d <= tolerance(w), "{at}: differs by {d:.2e}");
    }
}

/// Checks every rule that accepts the function; returns their names.
fn check(case: &Case, targets: &[&str]) -> Vec<String> {
    let func = read(case);
    let input = Prepared::new(&func).unwrap_or_else(|d| panic!("{}: {}: {}", case.name, d.predicate, d.reason));
    let mut rng = StdRng::seed_from_u64(case.name.len() as u64);
    let args = arguments(&func, case, &mut rng);
    let mut want = args.clone();
    interp::run(&func, &mut want, &Default::default(), Mode::F64).unwrap_or_else(|e| panic!("{}: {e}", case.name));
    let mut taken = vec![];
    for id in targets {
        let target = target(id);
        for v in verdicts(&input, &target, &Spaces::built_in()) {
            let Ok(space) = v.space else { continue };
            taken.push(v.rule.name().to_string());
            for knobs in points(&space, &mut rng) {
                check_point(v.rule, case, &input, &target, &knobs, &args, &want);
            }
        }
    }
    taken
}

fn check_all(cases: Vec<Case>, want: &[&str]) {
    use rayon::prelude::*;
    cases.par_iter().for_each(|case| {
        let taken = check(case, &["cuda:sm_90a", "cpu"]);
        // A reduction of one element is a copy.
        let is_copy = taken == ["fallback.cuda", "fallback.cpu"];
        assert!(taken == want || (is_copy && case.length == 1), "{}: {taken:?}", case.name);
    });
}

#[test]
fn row_reductions() {
    let mut cases = vec![];
    for shape in [[1, 1], [3, 5], [37, 53], [8, 1024], [5, 1031], [64, 96], [2, 4099]] {
        cases.push(reduction("sum", "float32", &shape, "SR", false));
    }
    for op in ["sum", "max", "min", "prod"] {
        cases.push(reduction(op, "float32", &[13, 40], "SR", true));
        cases.push(reduction(op, "int32", &[7, 29], "SR", op == "sum"));
    }
    cases.push(reduction("max", "bfloat16", &[9, 136], "SR", false));
    cases.push(reduction("sum", "float16", &[4, 264], "SR", true));
    cases.push(reduction("sum", "float32", &[3, 4, 5, 7], "SSRR", true));
    check_all(cases, &["reduction.inner", "reduction.cpu"]);
}

#[test]
fn channel_reductions() {
    let shapes = [[4, 3, 5, 7], [2, 8, 4, 8], [1, 6, 1, 9]];
    let cases = shapes.iter().map(|s| reduction("sum", "float32", s, "RSRR", false)).collect();
    check_all(cases, &["reduction.inner", "reduction.cpu"]);
}

#[test]
fn full_reductions() {
    let mut cases = vec![];
    for n in [1, 2, 31, 1000, 4096, 65537] {
        cases.push(reduction("sum", "float32", &[n], "R", false));
    }
    cases.push(reduction("max", "float16", &[61, 67], "RR", false));
    cases.push(reduction("sum", "float32", &[8192], "R", true));
    check_all(cases, &["reduction.inner", "reduction.cpu"]);
}

#[test]
fn column_reductions() {
    let mut cases = vec![];
    for shape in [[5, 3], [53, 37], [1024, 8], [96, 64], [1031, 5], [7, 256]] {
        cases.push(reduction("sum", "float32", &shape, "RS", false));
    }
    for op in ["max", "prod", "min"] {
        cases.push(reduction(op, "float32", &[40, 24], "RS", true));
    }
    cases.push(reduction("sum", "float32", &[3, 17, 20], "SRS", true));
    cases.push(reduction("sum", "int32", &[33, 6], "RS", false));
    cases.push(reduction("max", "bfloat16", &[40, 48], "RS", false));
    check_all(cases, &["reduction.outer", "reduction.outer_cpu"]);
}

#[test]
fn matrix_vector_products() {
    let mut cases = vec![];
    for dtype in ["float32", "float16", "bfloat16"] {
        for (n, k) in [(3, 8), (37, 53), (16, 1024), (64, 264), (5, 1031)] {
            cases.push(gemv(dtype, n, k, false, n % 2 == 1));
        }
    }
    cases.push(batched_gemv(3, 10, 64));
    cases.push(batched_gemv(2, 7, 13));
    check_all(cases, &["gemv.inner", "gemv.cpu"]);
}

#[test]
fn vector_matrix_products() {
    let shapes = [(8, 3), (53, 37), (64, 128), (24, 1031)];
    let cases = shapes.iter().map(|(n, k)| gemv("bfloat16", *n, *k, true, true)).collect();
    check_all(cases, &["reduction.outer", "reduction.outer_cpu"]);
}

#[test]
fn injective_functions() {
    let mut cases = vec![];
    for (m, n) in [(1, 1), (3, 5), (37, 53), (8, 128), (5, 1024)] {
        cases.push(elementwise("float32", m, n, "T.max(C[vi, vj], T.float32(0.0))"));
        cases.push(elementwise("float16", m, n, "C[vi, vj] * A[vi, vj]"));
        cases.push(transpose("float32", m, n));
    }
    cases.push(elementwise("float32", 6, 20, "T.if_then_else(vj < 7, C[vi, vj], T.exp(A[vi, vj]))"));
    cases.push(elementwise("bfloat16", 6, 40, "T.sigmoid(C[vi, vj])"));
    cases.push(elementwise("int32", 6, 36, "C[vi, vj] // 3 + A[vi, vj] % 5"));
    check_all(cases, &["fallback.cuda", "fallback.cpu"]);
}

#[test]
fn symbolic_extents() {
    let cases = vec![symbolic_rows(5, Some(96)), symbolic_rows(37, Some(53)), symbolic_rows(6, None)];
    check_all(cases, &["reduction.inner", "reduction.cpu"]);
}

#[test]
fn a_contraction_is_declined_by_name() {
    let text = "@T.prim_func(s_tir=True)
def main(A: T.Buffer((4, 8), \"float32\"), B: T.Buffer((8, 6), \"float32\"), C: T.Buffer((4, 6), \"float32\")):
    for i, j, k in T.grid(4, 6, 8):
        with T.sblock(\"C\"):
            vi, vj, vk = T.axis.remap(\"SSR\", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0.0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
";
    let input = Prepared::new(&ir::read(text, "matmul").expect("reads").remove(0)).expect("is accepted");
    let all = verdicts(&input, &target("cuda:sm_90a"), &Spaces::built_in());
    let names: Vec<&str> = all.iter().filter_map(|v| v.space.as_ref().err().map(|d| d.predicate)).collect();
    assert_eq!(
        names,
        [
            "full_read",
            "target_kind",
            "full_read",
            "full_read",
            "target_kind",
            "target_kind",
            "all_spatial",
            "target_kind"
        ]
    );
}

/// Rows and parts of several rows in one block used to be let through and then failed to be scheduled.
#[test]
fn rows_and_parts_that_break_no_hard_condition_are_scheduled() {
    let case = reduction("sum", "float32", &[8, 1024], "SR", true);
    let input = Prepared::new(&read(&case)).expect("is accepted");
    let target = target("cuda:sm_90a");
    let rule = daylight::rules::rule_by_name("reduction.inner").expect("a rule");
    let space = rule.space(&input, &target, &Spaces::built_in()).expect("it takes row sums");
    let base = space.default().expect("a legal point").with("threads", 64).with("min_blocks", 1);
    for (rows, split) in [(1, 1), (2, 1), (4, 1), (8, 1), (1, 2), (1, 8), (2, 2), (4, 2), (2, 8), (8, 4)] {
        let knobs = base.with("rows", rows).with("split", split);
        match space.possible(&knobs) {
            Ok(()) => drop(rule.schedule(&input, &target, &knobs).unwrap_or_else(|e| panic!("{knobs}: {e}"))),
            Err(why) => {
                assert!(rows > 1 && split > 1, "{knobs}: {}", why.predicate);
                let want = format!("{rows} rows per block and {split} parts per row: set `rows` or `split` to 1");
                assert_eq!((why.predicate, why.reason), ("parts_of_one_row", want));
            }
        }
    }
}

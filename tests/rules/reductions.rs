//! Reductions, products with a vector, and injective functions.

use super::harness::*;
use super::products::check_points;
use super::texts::*;
use super::tuple_texts::{Form, arg};
use crate::common::arm::arm;
use daylight::ir;
use daylight::rules::{Knobs, Prepared, Spaces, verdicts};
use rand::prelude::*;

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
    // A column alone lies along its rows.
    cases.push(reduction("sum", "float32", &[4099, 1], "RS", true));
    cases.push(reduction("max", "float32", &[257, 1], "RS", false));
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

/// Columns of a prime length used to have one block each.
#[test]
fn parts_of_columns_need_not_be_alike() {
    for (shape, knobs) in [
        ([1031, 16], [("threads", 4), ("rows", 64), ("unroll", 1), ("split", 8)]),
        ([1031, 5], [("threads", 8), ("rows", 8), ("unroll", 4), ("split", 32)]),
        ([331, 96], [("threads", 32), ("rows", 1), ("unroll", 2), ("split", 16)]),
    ] {
        for (op, dtype) in [("sum", "float32"), ("max", "bfloat16"), ("prod", "float32")] {
            let case = reduction(op, dtype, &shape, "RS", op == "max");
            let vector = if shape[1] == 5 { 4 } else { 8 };
            let more = [("min_blocks", 1), ("hint", 1), ("fold", 0), ("add_parts", 0), ("vector", vector)];
            let knobs = knobs.iter().chain(&more).map(|(k, v)| (k.to_string(), *v));
            let knobs = knobs.map(|(k, v)| if k == "vector" && dtype == "bfloat16" { (k, v / 2) } else { (k, v) });
            check_at(&case, "reduction.outer", "cuda:sm_90a", Knobs(knobs.collect()));
        }
    }
}

/// The blocks of a column add its parts as a cluster: with as many results for each of them, or all by the first.
#[test]
fn clusters_add_parts_of_columns() {
    let mut cases: Vec<Case> =
        [[331, 96], [64, 20], [97, 256]].map(|s| reduction("sum", "float32", &s, "RS", false)).into();
    cases.push(reduction("max", "bfloat16", &[130, 72], "RS", true));
    cases.push(reduction("prod", "float32", &[3, 40, 24], "SRS", true));
    cases.push(arg("max", "float32", &[96, 64], "RS", Form::First, true));
    cases.push(arg("min", "float16", &[3, 64, 20], "SRS", Form::Last, false));
    cases.push(gemv("bfloat16", 64, 128, true, true));
    for case in cases {
        check_points(&case, "reduction.outer", "cuda:sm_90a", |space, rng| {
            let points: Vec<Knobs> = space.points().into_iter().filter(|k| k.find("add_parts") == Some(1)).collect();
            assert!(!points.is_empty(), "{}: no such point", case.name);
            points.sample(rng, 4).cloned().collect()
        });
    }
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

/// The vectors of a row, and the rows of a matrix but not the vector they share, are asked for ahead.
#[test]
fn rows_that_are_read_once_are_asked_for_ahead() {
    let places = |case: &Case, rule: &str, knobs: &[(&str, i64)], bytes: i64| -> Vec<String> {
        let knobs = knobs.iter().copied().chain([("prefetch", bytes)]).map(|(k, v)| (k.to_string(), v));
        let text = check_at(case, rule, "cpu", Knobs(knobs.collect())).to_string();
        let asked = text.lines().filter_map(|l| l.trim().strip_prefix("prefetch "));
        asked.map(str::to_string).collect()
    };
    let row = reduction("sum", "float32", &[6, 64], "SR", false);
    let knobs = [("vector", 16), ("unroll", 2), ("split", 1)];
    assert_eq!(places(&row, "reduction.cpu", &knobs, 0), [""; 0]);
    let at = "p0[blockIdx.x * 64 + i1_0 * 8 + i1_1_0 * 4 + 256]";
    assert_eq!(places(&row, "reduction.cpu", &knobs, 1024), [at]);
    let product = gemv("float32", 6, 64, false, false);
    let knobs = [("vector", 16), ("unroll", 2), ("rows", 2)];
    let asked = places(&product, "gemv.cpu", &knobs, 1024);
    assert!(!asked.is_empty() && asked.iter().all(|a| a.starts_with("p1[") && a.contains("256")), "{asked:?}");
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
    for v in all.iter().filter(|v| v.rule == "gemv.inner" || v.rule.starts_with("reduction.")) {
        let decline = v.arm.as_ref().err().unwrap_or_else(|| panic!("{} takes it", v.rule));
        let predicate = &decline.reason.predicate;
        assert!(["full_read", "target_kind", "last_resort"].contains(&&**predicate), "{}: {predicate}", v.rule);
    }
}

/// Rows and parts of several rows in one block used to be let through and then failed to be scheduled.
#[test]
fn rows_and_parts_that_break_no_hard_condition_are_scheduled() {
    let case = reduction("sum", "float32", &[8, 1024], "SR", true);
    let input = Prepared::new(&read(&case)).expect("is accepted");
    let target = target("cuda:sm_90a");
    let arm = arm("reduction.inner", &input, &target);
    let base = arm.space.default().expect("a legal point").with("threads", 64).with("min_blocks", 1);
    for (rows, split) in [(1, 1), (2, 1), (4, 1), (8, 1), (1, 2), (1, 8), (2, 2), (4, 2), (2, 8), (8, 4)] {
        let knobs = base.with("rows", rows).with("split", split);
        match arm.space.possible(&knobs) {
            Ok(()) => drop(arm.schedule(&knobs).unwrap_or_else(|e| panic!("{knobs}: {e}"))),
            Err(why) => {
                assert!(rows > 1 && split > 1, "{knobs}: {}", why.predicate);
                let want = format!("{rows} rows per block and {split} parts per row: set `rows` or `split` to 1");
                assert_eq!((&*why.predicate, why.text), ("parts_of_one_row", want));
            }
        }
    }
}

/// Whole rows on most of the device beat parts of rows on all of it: these need a second launch.
#[test]
fn rows_for_half_of_the_device_may_stay_whole() {
    let target = target("cuda:sm_90a");
    let said = |rows: i64, per_block: i64| {
        let input =
            Prepared::new(&read(&reduction("sum", "float32", &[rows, 65536], "SR", true))).expect("is accepted");
        let arm = arm("reduction.inner", &input, &target);
        let base = arm.space.default().expect("a legal point").with("split", 1).with("rows", per_block);
        let whole = base.with("threads", 512 / per_block).with("unroll", 4).with("vector", 16).with("min_blocks", 1);
        arm.space.check(&whole).map_err(|why| (why.predicate.to_string(), why.text))
    };
    assert_eq!((said(66, 1), said(131, 1), said(132, 1)), (Ok(()), Ok(()), Ok(())));
    let refused = |text: &str| Err(("fills_device".to_string(), text.to_string()));
    assert_eq!(said(65, 1), refused("65 blocks leave 67 of 132 multiprocessors idle"));
    assert_eq!(said(131, 2), refused("66 blocks leave 66 of 132 multiprocessors idle"));
}

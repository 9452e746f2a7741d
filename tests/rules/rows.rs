//! Softmax, norms and their like on odd, prime, tiny and larger shapes.

use super::harness::{
    Case, arguments, check_all, check_at, check_point, compare, difference, kernel_at, read, refusal, scalars, target,
};
use super::products::check_points;
use super::row_texts::*;
use crate::common::arm::arm;
use daylight::interp::{self, Mode, Tensor};
use daylight::lower::lower;
use daylight::rules::{Arm, Knobs, Prepared, Space};
use daylight::schedule::Schedule;
use daylight::sim;
use rand::prelude::*;

/// The rules that take every function here.
const RULES: &[&str] = &["general_reduction.rows", "general_reduction.cpu"];

/// Shapes of rows and columns: odd, prime, one row, two columns, whole and broken steps of threads.
const SHAPES: [[&str; 2]; 6] = [["1", "64"], ["7", "33"], ["5", "131"], ["3", "2"], ["2", "512"], ["17", "24"]];

fn shapes(make: impl Fn(&[&str]) -> Case) -> Vec<Case> {
    SHAPES.iter().map(|s| make(s)).collect()
}

#[test]
fn softmax_of_float32() {
    check_all(shapes(|s| softmax(s, "float32", &[])), RULES);
}

#[test]
fn softmax_of_sixteen_bits() {
    check_all(shapes(|s| softmax(s, "bfloat16", &[])), RULES);
    check_all(vec![softmax(&["6", "136"], "float16", &[])], RULES);
}

#[test]
fn rows_along_several_axes() {
    check_all(vec![softmax(&["2", "3", "5", "40"], "float32", &[]), layer_norm(&["3", "5", "64"], "float16")], RULES);
}

#[test]
fn rms_norms() {
    check_all(shapes(|s| rms_norm(s, "float16", &[])), RULES);
    check_all(vec![rms_norm(&["6", "128"], "float32", &[])], RULES);
}

#[test]
fn layer_norms() {
    check_all(shapes(|s| layer_norm(s, "float32")), RULES);
    check_all(vec![layer_norm(&["6", "136"], "bfloat16")], RULES);
}

/// What all passes make of two tensors is kept, where it takes less room than both: rows of float32 and a residual in registers and
/// in shared memory, and not of 16 bits, which take as little. So too with a tensor that one pass alone reads.
#[test]
fn one_value_is_kept_of_two_tensors() {
    check_all(shapes(|s| residual_norm(s, "float32")), RULES);
    check_all(vec![residual_norm(&["6", "136"], "float16")], RULES);
    let at = |dtype, row| {
        let knobs = [("row", row), ("threads", 32), ("vector", 16)];
        kernel_at(&residual_norm(&["4", "512"], dtype), "general_reduction.rows", &knobs)
    };
    let (registers, shared) = (at("float32", 1), at("float32", 2));
    assert!(registers.contains("register float32 b0_value_local[16]"), "{registers}");
    assert!(shared.contains("shared float32 b0_value_shared[512]") && !shared.contains("p0_shared"), "{shared}");
    for text in [&registers, &shared] {
        assert_eq!(["p0[", "p1["].map(|t| text.matches(&format!("<- {t}")).count()), [1, 1], "{text}");
    }
    assert!(!at("float16", 2).contains("value_shared"));
}

/// A row of so many columns in place 1 (registers) or 2 (shared memory), shared by so many threads in so many blocks.
fn whole_row(row: i64, threads: i64, blocks: i64) -> [(&'static str, i64); 6] {
    [("row", row), ("threads", threads), ("rows", 1), ("cluster", 1), ("vector", 16), ("min_blocks", blocks)]
}

/// What a layer norm holds of its weights, `all` of a thread or `some`, by blocks per multiprocessor; that it is right with some.
fn check_weights(case: &Case, (row, threads): (i64, i64), [some, all]: [i64; 2], cut: &[(i64, bool)]) {
    for (blocks, in_parts) in cut {
        let at = whole_row(row, threads, *blocks);
        let text = kernel_at(case, "general_reduction.rows", &at);
        let held = [some, all].map(|n| text.contains(&format!("register float32 p1_vec[{n}]")));
        assert_eq!(held, [*in_parts, !in_parts], "{blocks} blocks");
        if *in_parts {
            check_points(case, "general_reduction.rows", "cuda:sm_90a", |space, _| {
                vec![at.into_iter().fold(space.default().expect("a legal point"), |k, (name, n)| k.with(name, n))]
            });
        }
    }
}

/// Weights of a row in shared memory are loaded in parts where the launch bounds leave too few registers for all of them.
#[test]
fn weights_are_loaded_in_parts() {
    check_weights(&layer_norm(&["3", "6144"], "float32"), (2, 512), [4, 12], &[(1, false), (2, false), (3, true)]);
    let at = whole_row(2, 512, 4);
    let alone = kernel_at(&softmax(&["3", "18432"], "float32", &[]), "general_reduction.rows", &at);
    assert!(alone.contains("< 9 {") && !alone.contains("< 3 {"), "no weights, no parts: {alone}");
}

/// The same of a row in registers, which its elements share with them.
#[test]
fn weights_beside_a_row_in_registers_are_loaded_in_parts() {
    check_weights(&layer_norm(&["3", "12288"], "float32"), (1, 256), [24, 48], &[(1, false), (2, true)]);
}

/// A mask is in all passes, and in registers all the while: it is not cut, and where it has no room a point is not searched.
#[test]
fn a_mask_has_room_in_registers() {
    check_all(vec![masked_softmax(&["5", "131"], "float16"), masked_softmax(&["7", "264"], "float32")], RULES);
    let case = masked_softmax(&["3", "12288"], "float32");
    let text = kernel_at(&case, "general_reduction.rows", &whole_row(1, 256, 2));
    assert!(text.contains("register float32 p1_vec[48]"), "{text}");
    let why = |row, blocks| refusal(&case, "general_reduction.rows", &whole_row(row, 256, blocks));
    // 48 elements of the mask beside those of the row where they are in registers, and alone where the row is in shared memory.
    assert!(why(1, 2).ends_with("registers exceed the 128 of a thread"), "{}", why(1, 2));
    assert!(why(2, 8).ends_with("48 registers exceed the 32 of a thread"), "{}", why(2, 8));
}

/// Odd rows of 257 columns and more have as many points as shorter ones: no thread has much in flight there.
#[test]
fn odd_rows_of_medium_length_have_points() {
    for columns in ["251", "259", "327", "511"] {
        let input = Prepared::new(&read(&rms_norm(&["345458", columns], "bfloat16", &[]))).expect("a function");
        let points = arm("general_reduction.rows", &input, &target("cuda:sm_90a")).space.points().len();
        assert!(points >= 64, "{columns} columns: {points} points");
    }
}

/// Sixteen-bit rows in registers stay packed: pinned before the second and the third pass.
#[test]
fn rows_stay_packed_between_passes() {
    let knobs = [("row", 1), ("threads", 32), ("vector", 16)];
    let pins = |dtype: &'static str| {
        let case = layer_norm(&["4", "512"], dtype);
        kernel_at(&case, "general_reduction.rows", &knobs).matches("pin ").count()
    };
    assert_eq!((pins("bfloat16"), pins("float32")), (2, 0));
}

#[test]
fn logarithms() {
    check_all(shapes(log_softmax), RULES);
    check_all(shapes(log_sum_exp), RULES);
}

#[test]
fn euclidean_norms() {
    check_all(shapes(normalize), RULES);
}

/// Small outputs stay in the caches, so that no space of theirs has these points.
#[test]
fn rows_past_the_caches_and_ahead_of_time() {
    for case in [softmax(&["7", "64"], "float32", &[]), layer_norm(&["5", "48"], "bfloat16")] {
        let texts: Vec<String> = [(0, 0), (1, 0), (0, 2), (1, 1)]
            .map(|(stream, prefetch)| {
                let set = [("vector", 16), ("unroll", 2), ("keep", 0), ("stream", stream), ("prefetch_rows", prefetch)];
                check_at(&case, "general_reduction.cpu", "cpu", Knobs::from(set)).to_string()
            })
            .to_vec();
        let has = |what: &str| texts.iter().map(|t| t.contains(what)).collect::<Vec<_>>();
        assert_eq!(has("store.streaming p"), [false, true, false, true], "{}", texts[1]);
        assert_eq!(has("prefetch p0["), [false, false, true, true], "{}", texts[2]);
    }
}

#[test]
fn symbolic_rows_and_columns() {
    let extents: [(&str, i64); 2] = [("n", 5), ("m", 37)];
    check_all(vec![softmax(&["n", "m"], "float32", &extents)], RULES);
    check_all(vec![rms_norm(&["n", "T.int64(64)"], "float16", &extents[..1])], RULES);
}

/// The rule for a function of rows on a GPU.
fn rows_of(input: &Prepared) -> Arm {
    arm(RULES[0], input, &target("cuda:sm_90a"))
}

/// Points that find maximum and sum in one pass, slow ones too.
fn online_points(space: &Space) -> Vec<Knobs> {
    let mut found = vec![];
    for (threads, rows, vector, unroll) in
        [(32, 1, 16, 4), (32, 2, 4, 2), (64, 1, 2, 1), (128, 1, 2, 2), (32, 4, 8, 4), (256, 1, 2, 1), (64, 2, 1, 1)]
    {
        for relax in [0, 1] {
            found.push(Knobs::from([
                ("row", 3),
                ("threads", threads),
                ("rows", rows),
                ("vector", vector),
                ("unroll", unroll),
                ("online", 1),
                ("min_blocks", 1),
                ("hint", 0),
                ("relax", relax),
            ]));
        }
    }
    found.retain(|k| space.possible(k).is_ok());
    found
}

fn check_online(case: &Case) {
    let input = Prepared::new(&read(case)).unwrap_or_else(|d| panic!("{}: {}", d.reason.predicate, d.reason.text));
    let args = arguments(&input.func, case, &mut StdRng::seed_from_u64(5));
    let mut want = args.clone();
    interp::run(&input.func, &mut want, &Default::default(), Mode::F64).unwrap_or_else(|e| panic!("{e}"));
    let arm = rows_of(&input);
    let space = &arm.space;
    let points = online_points(space);
    assert!(!points.is_empty(), "{}: no point is online", case.name);
    for knobs in points {
        check_point(&arm, case, &input, &target("cuda:sm_90a"), &knobs, &args, &want);
    }
}

#[test]
fn softmax_in_one_pass_and_the_one_that_writes() {
    shapes(|s| softmax(s, "bfloat16", &[])).iter().for_each(check_online);
    check_online(&softmax(&["2", "3", "4099"], "float16", &[]));
    check_online(&softmax(&["n", "m"], "float16", &[("n", 5), ("m", 263)]));
}

#[test]
fn layer_norm_in_one_pass_and_the_one_that_writes() {
    [["1", "64"], ["7", "33"], ["3", "2"], ["2", "512"], ["17", "24"]]
        .iter()
        .for_each(|s| check_online(&layer_norm(s, "bfloat16")));
    check_online(&layer_norm(&["2", "3", "4099"], "float16"));
}

/// In float64, whole and broken steps and states without a step give what two passes give.
#[test]
fn one_pass_is_two_passes_but_for_rounding() {
    for columns in ["37", "36", "5", "2"] {
        for case in [log_softmax(&["3", columns]), layer_norm(&["3", columns], "float32")] {
            let func = read(&case);
            let mut s = Schedule::new(func.clone());
            let blocks = s.blocks();
            let mut at = vec![];
            for b in &blocks[..2] {
                let column = s.loops(b).pop().expect("a loop over columns");
                let l = s.split(&column, &[None, Some(3), Some(2)]).expect("it splits");
                s.reorder(&[l[1].clone(), l[0].clone()]).expect("it reorders");
                at.push(l[0].clone());
            }
            s.online_reductions(&blocks[0], &blocks[1], &at[0]).unwrap_or_else(|e| panic!("{}: {e}", case.name));
            let run = |f| {
                let mut args = arguments(&func, &case, &mut StdRng::seed_from_u64(9));
                interp::run(f, &mut args, &Default::default(), Mode::F64).unwrap_or_else(|e| panic!("{e}"));
                args.pop().expect("an output")
            };
            let apart = difference(&run(s.func()), &run(&func));
            assert!(apart < 1e-6, "{}: differs by {apart:e}", case.name);
        }
    }
}

#[test]
fn one_pass_is_for_narrow_outputs_and_the_default_of_long_rows() {
    let space = |case: Case| rows_of(&Prepared::new(&read(&case)).expect("it has a kernel")).space;
    let default = |case: Case| {
        let point = space(case).default().expect("a legal point");
        (point.get("online"), point.get("cluster"))
    };
    assert!(online_points(&space(softmax(&["7", "33"], "float32", &[]))).is_empty());
    assert!(online_points(&space(rms_norm(&["7", "33"], "float16", &[]))).is_empty());
    assert_eq!(default(softmax(&["512", "4096"], "bfloat16", &[])), (0, 1));
    // A cluster of blocks keeps the row, up to a length.
    assert_eq!(default(softmax(&["512", "128256"], "bfloat16", &[])), (0, 8));
    assert_eq!(default(softmax(&["8", "1048576"], "bfloat16", &[])), (1, 1));
}

/// Rows that start with, consist of or contain values that are not finite, and one of equal values.
fn special_rows(columns: usize) -> Vec<f64> {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    let plain = |j: usize| ((j * 37) % 19) as f64 / 4.0 - 2.0;
    let row = |f: &dyn Fn(usize) -> f64| (0..columns).map(f).collect::<Vec<f64>>();
    [
        row(&|j| if j < columns - 1 { -inf } else { 1.0 }),
        row(&|j| if j < columns / 2 { -inf } else { plain(j) }),
        row(&|j| if j % 2 == 0 { -inf } else { plain(j) }),
        row(&|_| -inf),
        row(&|j| if j == columns / 3 { inf } else { plain(j) }),
        row(&|j| if j == columns / 3 { nan } else { plain(j) }),
        row(&|_| 3.0),
        row(&|j| j as f64 - 300.0),
    ]
    .concat()
}

#[test]
fn values_that_are_not_finite_come_out_as_in_two_passes() {
    const COLUMNS: usize = 331;
    let case = softmax(&["8", "331"], "bfloat16", &[]);
    let input = Prepared::new(&read(&case)).expect("it has a kernel");
    let x = Tensor::from_f64(daylight::ir::DType::BF16, &[8, 331], &special_rows(COLUMNS));
    let args = vec![x.clone(), Tensor::zeros(x.dtype, &[8, 331])];
    let mut want = args.clone();
    interp::run(&input.func, &mut want, &Default::default(), Mode::F64).unwrap_or_else(|e| panic!("{e}"));
    let nan_rows = want[1].to_f64().chunks(COLUMNS).map(|r| r.iter().all(|v| v.is_nan())).collect::<Vec<_>>();
    assert_eq!(nan_rows, [false, false, false, true, true, true, false, false]);
    // What is NaN has to be NaN: a number that no softmax is.
    let known = |t: &Tensor| {
        let values: Vec<f64> = t.to_f64().iter().map(|v| if v.is_nan() { -1.0 } else { *v }).collect();
        Tensor::from_f64(t.dtype, &[8, 331], &values)
    };
    let arm = rows_of(&input);
    let space = &arm.space;
    for knobs in online_points(space) {
        let at = target("cuda:sm_90a");
        let s = arm.schedule(&knobs).unwrap_or_else(|e| panic!("{knobs}: {e}"));
        let program = lower(s.func(), &at, &[]).unwrap_or_else(|e| panic!("{knobs}: {e}"));
        let mut got = args.clone();
        let options = sim::SimOptions { seed: 3, ..Default::default() };
        sim::run(&program, &mut got, &scalars(s.func()), &options).unwrap_or_else(|e| panic!("{knobs}: {e}"));
        compare(&knobs.to_string(), &input, &[known(&got[1])], &[known(&want[1])]);
    }
}

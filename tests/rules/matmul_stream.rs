//! Products of few rows whose factors come from memory straight into registers: plain and packed weights.

use super::harness::{Case, kernel_at, refusal};
use super::matmul_quant::{product, scaled};
use super::products::{Matmul, check_all, check_points};

const RULE: &str = "matmul.stream";
const TARGET: &str = "cuda:sm_90a";

fn plain(dtype: &'static str, m: i64, n: i64, k: i64) -> Matmul {
    Matmul::new(dtype, m, n, k).accumulated("float32").transposed(false, true)
}

#[test]
fn odd_rows_and_columns() {
    let sizes = [[2, 33, 256], [5, 67, 136], [8, 130, 512], [16, 101, 264], [11, 41, 1032], [13, 64, 320]];
    let mut cases = vec![];
    for (i, [m, n, k]) in sizes.into_iter().enumerate() {
        let dtype = if i % 2 == 0 { "float16" } else { "bfloat16" };
        cases.push(plain(dtype, m, n, k).case());
        cases.push(plain(dtype, m, n, k).with_epilogue().case());
    }
    check_all(cases, RULE, TARGET);
}

#[test]
fn batches_and_symbolic_rows() {
    let mut cases = vec![plain("float16", 7, 40, 128).batched(3).case(), plain("bfloat16", 9, 24, 256).gated().case()];
    for m in [5, 70] {
        cases.push(plain("bfloat16", m, 24, 160).symbolic().case());
    }
    cases.push(Matmul::new("float16", 8, 40, 128).transposed(false, true).case());
    check_all(cases, RULE, TARGET);
}

#[test]
fn other_targets() {
    for target in ["cuda:sm_80", "cuda:sm_100a", "cuda:sm_120a"] {
        check_all(vec![plain("bfloat16", 8, 67, 256).case()], RULE, target);
    }
}

#[test]
fn packed_weights() {
    let of = |m, n, k, group| product(m, false, [n, k, group], &scaled());
    let cases = vec![of(5, 32, 256, 64), of(8, 96, 1024, 128), of(15, 64, 512, 32)];
    check_all(cases, RULE, TARGET);
    check_all(vec![product(19, true, [64, 256, 64], &scaled())], RULE, "cuda:sm_80");
}

/// Columns that are no whole tiles, and depths that are no whole steps of all warps, some of lanes.
#[test]
fn packed_weights_of_odd_sizes() {
    let of = |m, n, k, group| product(m, false, [n, k, group], &scaled());
    let cases = vec![of(5, 40, 1376, 32), of(8, 23, 1072, 16), of(16, 72, 592, 16), of(3, 136, 2320, 16)];
    check_all(cases, RULE, TARGET);
}

/// Scales multiply sums of 64 values that share one: of groups of 64 and of several times as many, in steps of one and of several
/// groups, of columns that are no whole tiles, and of depths that are no whole steps.
#[test]
fn scales_multiply_sums() {
    let of = |m, n, k, group| product(m, false, [n, k, group], &scaled());
    for case in [of(4, 40, 1344, 64), of(16, 72, 1024, 128), of(3, 136, 1152, 192), of(9, 24, 1024, 1024)] {
        check_points(&case, RULE, TARGET, |space, _| {
            let all: Vec<_> = space.points().into_iter().filter(|k| k.get("scales") == 1).collect();
            assert!(all.len() > 4 && all.len() == space.points().len(), "{} points", all.len());
            [0, all.len() / 3, all.len() * 2 / 3, all.len() - 1].map(|i| all[i].clone()).into()
        });
    }
}

/// One multiplication for each sum; each value is multiplied where lanes that load together have several scales, and of
/// functions that are strict.
#[test]
fn scales_of_lanes() {
    let knobs = |scales| [("warps_k", 4), ("step_k", 128), ("scales", scales)];
    let of = |group, scales| kernel_at(&product(8, false, [64, 2048, group], &scaled()), RULE, &knobs(scales));
    let (sums, values) = (of(64, 1), of(32, 0));
    assert_eq!([&sums, &values].map(|text| text.matches("mul.rn.x2").count()), [0, 4], "{sums}{values}");
    assert!(sums.contains("b0_right_row_scales[c * 2 + x_1] = p2[") && sums.contains("= fma(part["), "{sums}");
    assert!(!values.contains("fma(part["), "{values}");
    let strict = |mut case: Case| {
        case.text =
            case.text.replace("    for i, j, k", "    T.func_attr({\"daylight.strict\": True})\n    for i, j, k");
        case
    };
    let why = |case: Case| refusal(&case, RULE, &knobs(1));
    assert!(why(strict(product(8, false, [64, 2048, 64], &scaled()))).contains("the function is strict"));
    assert!(why(product(8, false, [64, 2048, 32], &scaled())).contains("have no scale that all of each 64 of them"));
}

/// Lanes whose columns or rows lie outside read the last ones: no load waits for a condition but those past the depth.
#[test]
fn loads_have_no_conditions() {
    let knobs = [("warps_k", 4), ("step_k", 128)];
    let plain = kernel_at(&plain("bfloat16", 5, 101, 1024).case(), RULE, &knobs);
    assert!(plain.contains("min(blockIdx.x * 16 + x_1 * 8 + threadIdx.x // 4, 100)"), "{plain}");
    assert!(plain.contains("min(threadIdx.x // 4, 4)") && !plain.contains("} else {"), "{plain}");
    let deep = |k| kernel_at(&product(8, false, [40, k, 32], &scaled()), RULE, &knobs);
    let (whole, tail) = (deep(1024), deep(1056));
    assert!(!whole.contains("} else {") && tail.contains("} else {"), "{whole}{tail}");
}

/// Rows that begin anywhere: of tensors that end with a whole word and without, of tiles that are larger than what there
/// is, less deep than what all warps take, and one value off a row that is aligned.
#[test]
fn rows_that_begin_anywhere() {
    let sizes = [[2, 33, 257], [5, 67, 134], [8, 37, 203], [16, 40, 262], [3, 7, 999], [13, 16, 325], [4, 24, 331]];
    let mut cases = vec![];
    for (i, [m, n, k]) in sizes.into_iter().enumerate() {
        let dtype = if i % 2 == 0 { "float16" } else { "bfloat16" };
        cases.push(plain(dtype, m, n, k).case());
        cases.push(plain(dtype, m, n, k).with_epilogue().case());
    }
    cases.push(plain("float16", 7, 40, 131).batched(3).case());
    cases.push(plain("bfloat16", 9, 24, 173).symbolic().case());
    check_all(cases, RULE, TARGET);
}

/// Inside of rows two words are loaded for each run without a condition; at their ends values are cut off, and those of a
/// last word that is not whole loaded one by one.
#[test]
fn runs_are_shifted_out_of_words() {
    let text = kernel_at(&plain("bfloat16", 5, 101, 1021).case(), RULE, &[("warps_k", 4), ("step_k", 64)]);
    let (inside, ends) = text.split_once("} else {").expect("a branch for the ends of rows");
    let words = |text: &str| text.matches("copy8.streaming p1_words[").count();
    assert_eq!([words(inside), words(ends)], [2, 2], "{text}");
    assert!(inside.contains("% 8 of 8\n") && !inside.contains("b0_right_run"), "{text}");
    assert!(ends.contains("of 1021 - threadIdx.y") && ends.contains("if w < 1 {"), "{text}");
}

/// Many warps, steps of several runs, more rows than a block takes.
#[test]
fn points_of_many_warps() {
    check_points(&plain("float16", 8, 40, 2048).with_epilogue().case(), RULE, TARGET, |space, _| {
        let all = space.points().into_iter();
        let many = all.filter(|k| k.get("warps_k") == 16 && k.get("step_k") == 128);
        let many: Vec<_> = many.take(2).collect();
        assert!(!many.is_empty(), "16 warps have a step each");
        many
    });
}

/// Clusters share the reduced axis of tiles, whole and not, of aligned rows, of others and of words, and each block stores its
/// share of the results: with what follows the product, and with batches.
#[test]
fn blocks_of_clusters_add_their_sums() {
    let words = |m, n, k, group| product(m, false, [n, k, group], &scaled());
    let cases = [
        plain("float16", 8, 40, 2048).with_epilogue().case(),
        plain("bfloat16", 3, 37, 1096).case(),
        plain("float16", 13, 24, 1021).with_epilogue().case(),
        plain("float16", 7, 16, 600).batched(3).case(),
        words(5, 40, 1376, 32),
        words(16, 72, 2048, 128),
    ];
    for case in cases {
        check_points(&case, RULE, TARGET, |space, _| {
            let all: Vec<_> = space.points().into_iter().filter(|k| k.get("split_k") > 1).collect();
            assert!(all.len() > 8, "{} points", all.len());
            [0, all.len() / 3, all.len() * 2 / 3, all.len() - 1].map(|i| all[i].clone()).into()
        });
    }
}

/// Parts of a tile are added once by the warps of a block and once by the blocks of the cluster: what of it passes between
/// blocks is one tile each, and each stores a share.
#[test]
fn parts_pass_between_blocks_once() {
    let knobs = [("warps_k", 4), ("step_k", 64), ("split_k", 2)];
    let text = kernel_at(&plain("bfloat16", 8, 64, 1024).case(), RULE, &knobs);
    assert!(text.contains("cluster 2") && text.contains("shared float32 b0_result_rf[320]"), "{text}");
    assert!(text.contains("cluster_load2 ") && text.contains("copy2 p3[rank * 256 +"), "{text}");
}

/// Nothing of the factors lies in shared memory, and every lane loads 16 bytes at a time.
#[test]
fn factors_stay_in_registers() {
    let text = kernel_at(&plain("bfloat16", 8, 4096, 4096).case(), RULE, &[("block_n", 32), ("warps_k", 8)]);
    assert!(text.contains("register bfloat16 b0_right[") && text.contains("register bfloat16 b0_left["), "{text}");
    assert!(text.contains("copy8.no_allocate_256 b0_right_run[0] <- p1"), "{text}");
    assert!(!text.contains("shared bfloat16"), "{text}");
}

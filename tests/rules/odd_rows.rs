//! Rows that begin anywhere, read in vectors all the same: shifted out of aligned words (`vec_shifted`), or counted from where a
//! vector begins (`align_loop`).

use super::harness::Case;
use super::products::check_points;
use super::row_texts::*;
use super::texts::{gemv, reduction};
use daylight::rules::Knobs;
use rand::prelude::*;

/// Points of a space.
const MOST: usize = 8;

/// Points with vectors of 16 bytes, whose program has `text`.
fn check_vectors(case: &Case, rule: &str, text: &str) {
    check_vectors_of(case, rule, text, |_| true);
}

/// [`check_vectors`] of some points.
fn check_vectors_of(case: &Case, rule: &str, text: &str, of: impl Fn(&Knobs) -> bool) {
    let programs = check_points(case, rule, "cuda:sm_90a", |space, rng| {
        let mut all = space.points();
        all.retain(|k| k.get("vector") == 16 && of(k));
        assert!(!all.is_empty(), "{}: no point has vectors", case.name);
        all.shuffle(rng);
        all.into_iter().take(MOST).collect()
    });
    for program in programs {
        assert!(program.to_string().contains(text), "{}:\n{program}", case.name);
    }
}

/// Rows of odd, prime and even lengths; tensors of whole and broken words.
const SHAPES: [[i64; 2]; 5] = [[3, 2051], [5, 2777], [8, 2049], [2, 4099], [6, 2054]];

#[test]
fn reductions() {
    for (shape, dtype) in SHAPES.into_iter().flat_map(|s| ["float16", "bfloat16"].map(|d| (s, d))) {
        for op in ["sum", "max"] {
            check_vectors(&reduction(op, dtype, &shape, "SR", false), "reduction.inner", "funnel_shift");
        }
    }
}

#[test]
fn matrix_vector_products() {
    for dtype in ["float16", "bfloat16"] {
        for (n, k) in [(37, 2051), (5, 2777), (16, 2050)] {
            check_vectors(&gemv(dtype, n, k, false, n % 2 == 1), "gemv.inner", "funnel_shift");
        }
    }
}

#[test]
fn rows_in_registers() {
    let rule = "general_reduction.rows";
    for dims in [["7", "131"], ["8", "515"], ["3", "1031"], ["5", "2049"]] {
        for dtype in ["float16", "bfloat16"] {
            check_vectors(&softmax(&dims, dtype, &[]), rule, "copy8");
            check_vectors(&masked_softmax(&dims, dtype), rule, "copy8");
            check_vectors(&rms_norm(&dims, dtype, &[]), rule, "copy8");
            check_vectors(&layer_norm(&dims, dtype), rule, "copy8");
            check_vectors(&residual_norm(&dims, dtype), rule, "copy8");
        }
        check_vectors(&log_softmax(&dims), rule, "copy4");
        check_vectors(&log_sum_exp(&dims), rule, "copy4");
    }
}

#[test]
fn rows_in_clusters() {
    let (rule, parted) = ("general_reduction.rows", |k: &Knobs| k.get("cluster") > 1);
    for dims in [["3", "2051"], ["2", "4099"]] {
        check_vectors_of(&softmax(&dims, "bfloat16", &[]), rule, "copy8", parted);
        check_vectors_of(&masked_softmax(&dims, "float16"), rule, "copy8", parted);
        check_vectors_of(&residual_norm(&dims, "bfloat16"), rule, "copy8", parted);
        check_vectors_of(&log_softmax(&dims), rule, "copy4", parted);
    }
}

//! Softmax, norms and their like on odd, prime, tiny and larger shapes.

use super::harness::{Case, check_all};
use super::row_texts::*;

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

#[test]
fn logarithms() {
    check_all(shapes(log_softmax), RULES);
    check_all(shapes(log_sum_exp), RULES);
}

#[test]
fn euclidean_norms() {
    check_all(shapes(normalize), RULES);
}

#[test]
fn symbolic_rows_and_columns() {
    let extents: [(&str, i64); 2] = [("n", 5), ("m", 37)];
    check_all(vec![softmax(&["n", "m"], "float32", &extents)], RULES);
    check_all(vec![rms_norm(&["n", "T.int64(64)"], "float16", &extents[..1])], RULES);
}

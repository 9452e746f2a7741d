//! `matmul.cpu` on products of every layout, and convolutions.

use super::harness::{Case, check};
use super::products::{Matmul, convolution};
use rayon::prelude::*;

/// Every rule of the CPU that takes a function is right, and `matmul.cpu` takes it.
fn all_right(cases: Vec<Case>) {
    cases.par_iter().for_each(|case| {
        let taken = check(case, &["cpu"]);
        assert!(taken.iter().any(|t| t == "matmul.cpu"), "{}: {taken:?}", case.name);
    });
}

#[test]
fn layouts() {
    let layouts = [[false, false], [false, true], [true, false], [true, true]];
    all_right(layouts.map(|[a, b]| Matmul::new("float32", 33, 35, 37).transposed(a, b).case()).into());
}

#[test]
fn sizes() {
    let sizes = [[1, 1, 2], [1, 40, 7], [17, 1, 13], [64, 64, 64], [7, 130, 3], [101, 5, 67]];
    all_right(sizes.map(|[m, n, k]| Matmul::new("float32", m, n, k).case()).into());
}

#[test]
fn types() {
    let cases = vec![
        Matmul::new("float16", 19, 32, 24).case(),
        Matmul::new("float16", 19, 33, 24).accumulated("float32").transposed(false, true).with_epilogue().case(),
        Matmul::new("bfloat16", 9, 31, 65).accumulated("float32").case(),
        Matmul::new("int8", 18, 37, 29).accumulated("int32").transposed(false, true).case(),
        Matmul::new("float64", 21, 18, 12).case(),
    ];
    all_right(cases);
}

#[test]
fn batches_epilogues_and_symbolic_rows() {
    let cases = vec![
        Matmul::new("float32", 13, 18, 22).batched(3).case(),
        Matmul::new("float32", 13, 18, 22).batched(3).transposed(false, true).with_epilogue().case(),
        Matmul::new("float32", 29, 48, 31).with_epilogue().case(),
        Matmul::new("float32", 21, 35, 19).symbolic().case(),
    ];
    all_right(cases);
}

#[test]
fn convolutions() {
    let cases = vec![
        convolution("float32", [1, 3, 9, 10], 5, 3, 1),
        convolution("float32", [2, 4, 7, 7], 6, 3, 2),
        convolution("float32", [2, 3, 6, 5], 4, 1, 1),
    ];
    all_right(cases);
}

#[test]
fn few_rows() {
    let cases = vec![
        Matmul::new("float32", 4, 64, 64).transposed(false, true).case(),
        Matmul::new("float16", 3, 37, 50).transposed(false, true).with_epilogue().case(),
        Matmul::new("bfloat16", 16, 20, 33).accumulated("float32").transposed(false, true).case(),
        Matmul::new("float32", 21, 18, 40).transposed(false, true).symbolic().case(),
        Matmul::new("int8", 5, 16, 31).accumulated("int32").transposed(false, true).batched(2).case(),
    ];
    cases.par_iter().for_each(|case| {
        let taken = check(case, &["cpu"]);
        assert!(taken.iter().any(|t| t == "low_batch.cpu"), "{}: {taken:?}", case.name);
    });
}

//! Reductions into several buffers under every rule that takes them: argmax and argmin with each way to
//! decide a tie (the inputs have many), and sums that are kept side by side.

use super::harness::*;
use super::tuple_texts::*;

const FORMS: [Form; 4] = [Form::First, Form::Last, Form::Earlier, Form::Later];

#[test]
fn arg_of_rows() {
    let mut cases = vec![];
    for (i, shape) in [[1, 1], [3, 5], [37, 53], [8, 1024], [5, 1031], [2, 2053]].iter().enumerate() {
        cases.push(arg("max", "float32", shape, "SR", FORMS[i % 4], i % 2 == 0));
        cases.push(arg("min", "float32", shape, "SR", FORMS[(i + 1) % 4], i % 2 == 1));
    }
    cases.push(arg("max", "int32", &[7, 29], "SR", Form::First, true));
    cases.push(arg("min", "float16", &[9, 136], "SR", Form::Last, true));
    cases.push(arg("max", "float32", &[3, 4, 5, 7], "SSRR", Form::First, false));
    check_all(cases, &["reduction.inner", "reduction.cpu"]);
}

#[test]
fn arg_of_everything() {
    let sizes = [2, 31, 1000, 8209];
    let cases = sizes.iter().enumerate().map(|(i, n)| arg("max", "float32", &[*n], "R", FORMS[i % 4], i % 2 == 0));
    check_all(cases.collect(), &["reduction.inner", "reduction.cpu"]);
}

#[test]
fn arg_of_columns() {
    let mut cases = vec![];
    for (i, shape) in [[5, 3], [53, 37], [1024, 8], [96, 64], [1031, 5]].iter().enumerate() {
        cases.push(arg("max", "float32", shape, "RS", FORMS[i % 4], i % 2 == 0));
        cases.push(arg("min", "float32", shape, "RS", FORMS[(i + 2) % 4], i % 2 == 1));
    }
    cases.push(arg("max", "float16", &[3, 17, 20], "SRS", Form::First, true));
    check_all(cases, &["reduction.outer", "reduction.outer_cpu"]);
}

#[test]
fn statistics_of_channels() {
    let mut cases = vec![];
    for shape in [[4, 3, 5, 7], [2, 8, 4, 8], [3, 6, 1, 9], [1, 2, 33, 32]] {
        cases.push(stats("float32", &shape, "RSRR"));
    }
    cases.push(stats("float32", &[7, 53], "SR"));
    cases.push(stats("float32", &[3, 2, 4, 16], "SSRR"));
    check_all(cases, &["reduction.inner", "reduction.cpu"]);
}

#[test]
fn statistics_of_columns() {
    let cases = [[53, 37], [96, 64], [33, 2]].map(|shape| stats("float32", &shape, "RS"));
    check_all(cases.into(), &["reduction.outer", "reduction.outer_cpu"]);
}

#[test]
fn one_of_one_is_a_copy() {
    let cases = vec![
        arg("max", "float32", &[1, 1], "SR", Form::First, true),
        arg("min", "float32", &[1, 1], "SR", Form::First, false),
    ];
    check_all(cases, &["fallback.cuda", "fallback.cpu"]);
}

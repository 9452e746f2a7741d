//! Short windows: pooling, depthwise convolutions, sums over neighbouring rows.

use super::harness::*;
use super::window_texts::*;
use daylight::rules::{Prepared, Spaces, verdicts};

const RULES: [&str; 2] = ["window.cuda", "window.cpu"];

#[test]
fn pooling() {
    let shape = |image, kernel, stride, pad| Shape { image, kernel, stride, pad };
    let cases = vec![
        pool(shape([2, 3, 16, 16], [3, 3], 2, 1), "float32", false),
        pool(shape([1, 5, 13, 11], [3, 2], 1, 1), "float32", false),
        pool(shape([1, 1, 5, 7], [5, 5], 1, 2), "float32", true),
        pool(shape([1, 2, 7, 9], [7, 1], 3, 0), "float32", false),
        pool(shape([1, 1, 1, 1], [3, 3], 1, 1), "float32", false),
    ];
    check_all(cases, &RULES);
}

/// Windows that tile the image are reductions of reshaped axes.
#[test]
fn windows_without_overlap() {
    let shape = Shape { image: [3, 2, 8, 16], kernel: [2, 2], stride: 2, pad: 0 };
    check_all(vec![pool(shape, "float16", true)], &["reduction.inner", "reduction.cpu"]);
}

#[test]
fn depthwise_convolutions() {
    let shape = |image, kernel, stride, pad| Shape { image, kernel, stride, pad };
    let cases = vec![
        depthwise(shape([1, 6, 14, 14], [3, 3], 2, 1)),
        depthwise(shape([2, 3, 9, 17], [5, 5], 1, 2)),
        depthwise(shape([1, 1, 3, 4], [3, 3], 1, 1)),
    ];
    check_all(cases, &RULES);
}

#[test]
fn neighbouring_rows() {
    check_all(vec![rows(9, 5, 16, 3), rows(6, 3, 7, 2), rows(7, 1, 64, 5)], &RULES);
}

#[test]
fn a_long_window_is_declined_by_name() {
    let case = rows(400, 2, 3, 300);
    let input = Prepared::new(&read(&case)).expect("accepted");
    for (id, rule) in [("cuda:sm_90a", RULES[0]), ("cpu", RULES[1])] {
        let all = verdicts(&input, &target(id), &Spaces::built_in());
        let space = all.into_iter().find(|v| v.rule.name() == rule).expect("the rule").space;
        assert_eq!(space.err().map(|d| d.predicate), Some("short_window"));
    }
}

//! Short windows: pooling, depthwise convolutions, sums over neighbouring rows.

use super::harness::*;
use super::window_texts::*;
use crate::common::arm::ask;
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

/// What the rules say of a function: the names of those that take it, and the others' predicates.
fn asked(case: &Case, id: &str) -> Vec<(&'static str, Result<(), &'static str>)> {
    let input = Prepared::new(&read(case)).expect("accepted");
    let all = verdicts(&input, &target(id), &Spaces::built_in());
    all.into_iter().map(|v| (v.rule, v.arm.map(drop).map_err(|d| d.predicate))).collect()
}

/// The rule of the untuned choice.
fn first(case: &Case, id: &str) -> Option<&'static str> {
    asked(case, id).into_iter().find(|(_, v)| v.is_ok()).map(|(name, _)| name)
}

/// Windows that tile the image are reductions of reshaped axes too, but of a few elements each.
#[test]
fn windows_without_overlap() {
    let tiles = |h, kernel, stride| Shape { image: [3, 2, h, 64], kernel, stride, pad: 0 };
    let cases = vec![
        pool(tiles(8, [2, 2], 2), "float16", true),
        pool(tiles(1, [1, 4], 4), "float32", false),
        pool(tiles(8, [4, 4], 4), "float32", false),
    ];
    for (id, rule, other) in [("cuda:sm_90a", RULES[0], "reduction.inner"), ("cpu", RULES[1], "reduction.cpu")] {
        for case in &cases {
            assert_eq!(first(case, id), Some(rule), "{}", case.name);
            assert!(asked(case, id).contains(&(other, Err("no_window"))), "{}", case.name);
        }
        // A group of neighbours is a row.
        assert_eq!(first(&pool(tiles(1, [1, 32], 32), "float32", false), id), Some(other));
    }
    check_all(cases, &RULES);
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
        assert_eq!(ask(rule, &input, &target(id)).err().map(|d| d.predicate), Some("short_window"));
    }
}

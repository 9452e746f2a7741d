//! Rows of 16-bit floats that begin anywhere, read in aligned words out of which vectors are shifted (`vec_shifted`).

use super::harness::*;
use super::texts::{gemv, reduction};
use crate::common::arm::arm;
use daylight::interp::{self, Mode};
use daylight::rules::Prepared;
use rand::prelude::*;

/// Points of a space.
const MOST: usize = 8;

/// Points with vectors of 16 bytes, whose kernels shift.
fn check_shifted(case: &Case, rule: &str) {
    let func = read(case);
    let input =
        Prepared::new(&func).unwrap_or_else(|d| panic!("{}: {}: {}", case.name, d.reason.predicate, d.reason.text));
    let mut rng = StdRng::seed_from_u64(1);
    let args = arguments(&func, case, &mut rng);
    let mut want = args.clone();
    interp::run(&func, &mut want, &Default::default(), Mode::F64).unwrap_or_else(|e| panic!("{}: {e}", case.name));
    let target = target("cuda:sm_90a");
    let arm = arm(rule, &input, &target);
    let mut all = arm.space.points();
    all.retain(|k| k.get("vector") == 16);
    assert!(!all.is_empty(), "{}: no point has vectors", case.name);
    all.shuffle(&mut rng);
    for knobs in all.into_iter().take(MOST) {
        let program = check_point(&arm, case, &input, &target, &knobs, &args, &want).to_string();
        assert!(program.contains("funnel_shift"), "{} {knobs}:\n{program}", case.name);
    }
}

/// Rows of odd, prime and even lengths; tensors of whole and broken words.
const SHAPES: [[i64; 2]; 5] = [[3, 2051], [5, 2777], [8, 2049], [2, 4099], [6, 2054]];

#[test]
fn reductions() {
    for (shape, dtype) in SHAPES.into_iter().flat_map(|s| ["float16", "bfloat16"].map(|d| (s, d))) {
        for op in ["sum", "max"] {
            check_shifted(&reduction(op, dtype, &shape, "SR", false), "reduction.inner");
        }
    }
}

#[test]
fn matrix_vector_products() {
    for dtype in ["float16", "bfloat16"] {
        for (n, k) in [(37, 2051), (5, 2777), (16, 2050)] {
            check_shifted(&gemv(dtype, n, k, false, n % 2 == 1), "gemv.inner");
        }
    }
}

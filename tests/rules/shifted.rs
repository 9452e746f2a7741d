//! Rows of 16-bit floats that begin anywhere, read in aligned words out of which vectors are shifted (`vec_shifted`).

use super::harness::Case;
use super::products::check_points;
use super::texts::{gemv, reduction};
use rand::prelude::*;

/// Points of a space.
const MOST: usize = 8;

/// Points with vectors of 16 bytes, whose kernels shift.
fn check_shifted(case: &Case, rule: &str) {
    let programs = check_points(case, rule, "cuda:sm_90a", |space, rng| {
        let mut all = space.points();
        all.retain(|k| k.get("vector") == 16);
        assert!(!all.is_empty(), "{}: no point has vectors", case.name);
        all.shuffle(rng);
        all.into_iter().take(MOST).collect()
    });
    for program in programs {
        assert!(program.to_string().contains("funnel_shift"), "{}:\n{program}", case.name);
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

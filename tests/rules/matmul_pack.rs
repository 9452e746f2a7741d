//! Products whose factors are packed by launches of their own first, on both kinds of tensor cores.

use super::harness::{Case, kernel_at, refusal};
use super::products::{Matmul, check_points, convolution};
use rand::prelude::*;
use rayon::prelude::*;

const WARPS: &str = "matmul.mma";
const GROUPS: &str = "matmul.wgmma";

/// Checks points that pack.
fn check(cases: Vec<Case>, rule: &str) {
    let all: Vec<(usize, Case)> = cases.into_iter().enumerate().collect();
    all.par_iter().for_each(|(at, case)| {
        check_points(case, rule, "cuda:sm_90a", |space, rng| {
            let points: Vec<_> = space.points().into_iter().filter(|k| k.get("pack") == 1).collect();
            let parts: Vec<_> = points.iter().filter(|k| k.get("split_k") > 1).cloned().collect();
            let of = if at % 2 == 0 && !parts.is_empty() { &parts } else { &points };
            assert!(!points.is_empty(), "{} may be packed", case.name);
            of.sample(rng, 2).cloned().collect()
        });
    });
}

/// Sizes of which no row is a multiple of 16 bytes, or only one factor's.
fn odd(dtype: &'static str, acc: &'static str) -> Vec<Case> {
    let product = |m, n, k| Matmul::new(dtype, m, n, k).accumulated(acc);
    vec![
        product(65, 67, 33).transposed(false, true).case(),
        product(64, 131, 99).with_epilogue().case(),
        product(97, 66, 205).transposed(true, false).case(),
        product(71, 73, 40).transposed(true, true).with_epilogue().case(),
        product(64, 64, 257).batched(2).transposed(false, true).case(),
    ]
}

#[test]
fn odd_rows_by_warpgroups() {
    check(odd("float16", "float32"), GROUPS);
    check(odd("int8", "int32"), GROUPS);
}

#[test]
fn odd_rows_by_warps() {
    check(odd("bfloat16", "float32"), WARPS);
}

#[test]
fn factors_that_copies_take_are_not_packed() {
    let product = |m, n, k| Matmul::new("float16", m, n, k).accumulated("float32").transposed(false, true);
    let why = "copies take both factors as they lie, or packed ones would not be used often enough";
    for rule in [WARPS, GROUPS] {
        assert_eq!(refusal(&product(128, 128, 64).case(), rule, &[("pack", 1)]), why);
        // windows would be written once for each place in them
        assert_eq!(refusal(&convolution("float16", [1, 8, 10, 10], 64, 3, 1), rule, &[("pack", 1)]), why);
        // elements of the columns are used 40 times each, those of the rows 256 times
        let text = kernel_at(&product(40, 256, 65).case(), rule, &[("pack", 1), ("split_k", 1)]);
        assert!(text.contains("workspace b0_left") && !text.contains("workspace b0_right"), "{text}");
    }
}

#[test]
fn large_products_are_packed_by_default() {
    let product = |m, n, k| Matmul::new("float16", m, n, k).accumulated("float32").transposed(false, true);
    let packs = |m, n, k| kernel_at(&product(m, n, k).case(), GROUPS, &[]).contains("workspace b0_left");
    assert!(packs(2048, 2048, 1001) && !packs(2048, 2048, 1000) && !packs(256, 256, 101));
}

#[test]
fn text_of_packed_factors() {
    let case = Matmul::new("float16", 128, 128, 65).accumulated("float32").transposed(false, true).case();
    let text = kernel_at(&case, GROUPS, &[("pack", 1)]);
    assert_eq!(text.matches("launch grid").count(), 2, "{text}");
    let first = text.split("launch grid").nth(1).expect("a launch");
    for factor in ["left", "right"] {
        assert!(first.contains(&format!("copy2 b0_{factor}[")), "one launch, in which a lane writes words:\n{first}");
    }
    let last = text.split("launch grid").last().expect("a launch");
    assert!(last.contains("cp_async16 b0_left_shared") && last.contains("cp_async16 b0_right_shared"), "{last}");
}

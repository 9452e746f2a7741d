//! Matrix products by warpgroups: the rule at its default and random points, interpreted and simulated.

use super::harness::{self, Case};
use super::products::{Matmul, check_all, check_points};
use crate::common::arm::ask;
use daylight::rules::Prepared;
use rand::prelude::*;

const RULE: &str = "matmul.wgmma";
const TARGET: &str = "cuda:sm_90a";

/// Rows, columns, depth: odd, prime, whole tiles and a little more.
const SIZES: [[i64; 3]; 5] = [[33, 5, 3], [64, 64, 96], [130, 36, 72], [65, 130, 136], [257, 67, 40]];

#[test]
fn sums_in_the_type_of_the_factors() {
    let case = |dtype, [m, n, k]: [i64; 3]| Matmul::new(dtype, m, n, k).transposed(false, true);
    let cases = vec![
        case("float16", [40, 24, 64]).case(),
        case("bfloat16", [40, 24, 33]).with_epilogue().case(),
        case("float16", [37, 72, 48]).batched(3).case(),
    ];
    check_all(cases, RULE, TARGET);
}

#[test]
fn whole_numbers() {
    let mut cases = vec![];
    for (i, [m, n, k]) in SIZES.into_iter().enumerate() {
        let case = Matmul::new("int8", m, n, k).accumulated("int32");
        cases.push(case.transposed(i % 2 == 1, i / 2 % 2 == 1).case());
    }
    check_all(cases, RULE, TARGET);
}

#[test]
fn several_blocks_share_the_reduced_axis() {
    let product = |dtype, m, n, k| Matmul::new(dtype, m, n, k).transposed(false, true);
    let cases = vec![
        product("float16", 40, 40, 600).accumulated("float32").case(),
        product("float16", 66, 72, 512).accumulated("float32").with_epilogue().case(),
        product("int8", 48, 16, 640).accumulated("int32").with_epilogue().case(),
        product("float16", 9, 24, 256).accumulated("float32").symbolic().case(),
    ];
    for case in &cases {
        check_points(case, RULE, TARGET, |space, rng| {
            let points: Vec<_> = space.points().into_iter().filter(|k| k.get("split_k") > 1).collect();
            points.sample(rng, 2).cloned().collect()
        });
    }
}

/// The predicate by which the rule declines a function.
fn declined(case: Case, target: &str) -> &'static str {
    let input = Prepared::new(&harness::read(&case)).unwrap_or_else(|d| panic!("{}: {}", case.name, d.reason));
    match ask(RULE, &input, &harness::target(target)) {
        Ok(_) => panic!("{} was taken", case.name),
        Err(d) => d.predicate,
    }
}

#[test]
fn what_it_declines() {
    let wide = |m| Matmul::new("float16", m, 64, 64).accumulated("float32");
    for target in ["cuda:sm_80", "cuda:sm_100a", "cuda:sm_120a"] {
        assert_eq!(declined(wide(64).case(), target), "warpgroup_products", "{target}");
    }
    assert_eq!(declined(wide(32).case(), TARGET), "few_rows");
    assert_eq!(declined(Matmul::new("float32", 64, 64, 64).case(), TARGET), "operand_dtype");
}

//! Matrix products by warpgroups: the rule at its default and random points, interpreted and simulated.

use super::harness::{self, Case};
use super::products::{Matmul, check_all, check_points, convolution};
use crate::common::arm::{arm, ask};
use daylight::rules::Prepared;
use rand::prelude::*;

const RULE: &str = "matmul.wgmma";
const TARGET: &str = "cuda:sm_90a";

/// Rows, columns, depth: odd, prime, whole tiles and a little more.
const SIZES: [[i64; 3]; 5] = [[33, 5, 3], [64, 64, 96], [130, 36, 72], [65, 130, 136], [257, 67, 40]];

#[test]
fn products_of_any_layout() {
    let mut cases = vec![];
    for (i, [m, n, k]) in SIZES.into_iter().enumerate() {
        let dtype = if i % 2 == 0 { "float16" } else { "bfloat16" };
        let wide = Matmul::new(dtype, m, n, k).accumulated("float32");
        cases.push(wide.clone().transposed(i % 2 == 1, i / 2 % 2 == 1).case());
        cases.push(wide.transposed(i % 2 == 0, i / 2 % 2 == 0).with_epilogue().case());
    }
    check_all(cases, RULE, TARGET);
}

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

/// Sums of float8 are kept in two levels where the result is of 16 bits, and made of float16 where it is wider; in either way
/// products of two types are of the one that has the values of both.
#[test]
fn eight_bit_floats_and_weights_of_other_types() {
    let case = |dtype, [m, n, k]: [i64; 3]| Matmul::new(dtype, m, n, k).accumulated("float32").transposed(false, true);
    let cases = vec![
        case("float8_e4m3fn", [70, 40, 304]).rounded("bfloat16").case(),
        case("float8_e5m2", [65, 36, 77]).with_epilogue().rounded("float16").case(),
        case("float8_e4m3fn", [40, 24, 128]).transposed(true, false).rounded("float16").case(),
        case("float8_e4m3fn", [50, 40, 130]).case(),
        case("float8_e4m3fn", [40, 40, 72]).weights("float8_e5m2").rounded("float16").batched(2).case(),
        case("bfloat16", [66, 72, 96]).weights("float8_e4m3fn").rounded("bfloat16").case(),
        case("float16", [33, 50, 64]).weights("int8").transposed(false, false).with_epilogue().case(),
        case("uint8", [40, 40, 72]).weights("int8").case(),
    ];
    check_all(cases, RULE, TARGET);
}

/// Which type float8 is multiplied in, by the result and by what the function allows.
#[test]
fn float8_is_multiplied_as_it_is_where_that_does_not_show() {
    let wide = || Matmul::new("float8_e4m3fn", 64, 64, 256).accumulated("float32").transposed(false, true);
    let cases =
        [(wide().rounded("bfloat16"), false, false), (wide().rounded("bfloat16"), true, true), (wide(), false, true)];
    for (case, strict, converted) in cases {
        let func = harness::read(&case.case());
        let func = if strict { func.strict() } else { func };
        let input = Prepared::new(&func).unwrap_or_else(|d| panic!("{}", d.reason));
        let arm = arm(RULE, &input, &harness::target(TARGET));
        let s = arm.schedule(&arm.space.default().expect("a legal point")).unwrap_or_else(|e| panic!("{e}"));
        let set = s.trace().iter().any(|step| step.to_string().starts_with("set_dtype"));
        assert_eq!(set, converted, "strict: {strict}");
    }
}

#[test]
fn batches_and_symbolic_rows() {
    let mut cases = vec![
        Matmul::new("float16", 40, 40, 24).accumulated("float32").batched(3).case(),
        Matmul::new("bfloat16", 33, 16, 40).accumulated("float32").batched(2).transposed(false, true).case(),
    ];
    for m in [1, 5, 150] {
        let case = Matmul::new("float16", m, 24, 40).accumulated("float32").symbolic();
        cases.push(case.transposed(false, true).case());
    }
    check_all(cases, RULE, TARGET);
}

#[test]
fn convolutions() {
    let cases = vec![convolution("bfloat16", [1, 8, 6, 6], 36, 3, 1), convolution("float16", [1, 3, 12, 12], 40, 4, 4)];
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

/// Products of drawn sizes, types and layouts, each at one drawn point.
#[test]
fn random_products() {
    use rayon::prelude::*;
    let mut rng = StdRng::seed_from_u64(11);
    let mut size = |most: i64| rng.random_range(1..=most);
    let draw = |_| {
        let (dtype, acc) = [("float16", "float32"), ("bfloat16", "float32"), ("int8", "int32")][size(3) as usize - 1];
        let p = Matmul::new(dtype, 32 + size(60), 1 + size(90), size(90)).accumulated(acc);
        let p = p.transposed(size(2) == 1, size(2) == 1);
        let p = if size(3) == 1 { p.with_epilogue() } else { p };
        if size(4) == 1 { p.batched(2) } else { p }
    };
    let cases: Vec<Case> = (0..16).map(draw).map(Matmul::case).collect();
    cases.par_iter().for_each(|case| {
        check_points(case, RULE, TARGET, |space, rng| space.points().sample(rng, 1).cloned().collect());
    });
}

/// The predicate by which the rule declines a function.
fn declined(case: Case, target: &str) -> String {
    let input = Prepared::new(&harness::read(&case)).unwrap_or_else(|d| panic!("{}: {}", case.name, d.reason));
    match ask(RULE, &input, &harness::target(target)) {
        Ok(_) => panic!("{} was taken", case.name),
        Err(d) => d.reason.predicate.to_string(),
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
    let mixed = Matmul::new("float16", 64, 64, 64).accumulated("float32").weights("bfloat16");
    assert_eq!(declined(mixed.case(), TARGET), "operand_dtype");
    let sums = Matmul::new("int8", 64, 64, 64).accumulated("int32").weights("uint8");
    assert_eq!(declined(sums.case(), TARGET), "operand_dtype");
}

/// A tile that the threads of a block do not fill in whole steps is no longer than its operand: pieces of columns lie
/// at whole periods of their permutation, without which an H200 multiplies something else.
#[test]
fn tiles_that_threads_fill_in_part() {
    let case = || Matmul::new("float16", 130, 100, 77).accumulated("float32").batched(2).case();
    let knobs = [
        ("block_m", 128),
        ("block_n", 96),
        ("groups_m", 2),
        ("block_k_bytes", 64),
        ("roles", 0),
        ("stages", 2),
        ("raster", 1),
    ];
    let text = harness::kernel_at(&case(), RULE, &[&knobs[..], &[("split_k", 1)]].concat());
    assert!(text.contains("as mn64(2048, 512)"), "{text}");
    let target = harness::target(TARGET);
    let func = harness::read(&case());
    let input = Prepared::new(&func).unwrap_or_else(|d| panic!("{}", d.reason.text));
    let arm = arm(RULE, &input, &target);
    let point = knobs.iter().fold(arm.space.default().expect("a legal point"), |p, (k, v)| p.with(k, *v));
    harness::check_at(&case(), RULE, TARGET, point);
}

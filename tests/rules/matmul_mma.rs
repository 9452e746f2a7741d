//! Matrix products on tensor cores: the rule at its default and random points, interpreted and simulated.

use super::harness::{self, Case, kernel_at};
use super::matvec::{Layout, Shape, packed};
use super::products::{Matmul, check_all, check_points, convolution};
use crate::common::arm::arm;
use daylight::interp::{self, Mode};
use daylight::ir::Param;
use daylight::lower::overlapping;
use daylight::rules::Prepared;
use daylight::sim;
use rand::prelude::*;
use std::collections::BTreeSet;

const RULE: &str = "matmul.mma";
const TARGET: &str = "cuda:sm_90a";

/// Rows, columns, depth: tiny, odd, prime, whole tiles and a little more.
const SIZES: [[i64; 3]; 7] =
    [[2, 3, 2], [5, 7, 3], [16, 32, 32], [64, 64, 96], [37, 53, 29], [130, 36, 72], [65, 130, 136]];

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
        case("float16", [17, 72, 48]).batched(3).case(),
    ];
    check_all(cases, RULE, TARGET);
}

/// The loops over registers have names of their own beside the value that has one because it is used twice.
#[test]
fn what_follows_uses_a_value_twice() {
    let case = |m, n, k| Matmul::new("float16", m, n, k).accumulated("float32").transposed(false, true).gated().case();
    check_all(vec![case(130, 36, 72), case(33, 64, 40)], RULE, TARGET);
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

/// float8 as it is where the target multiplies it and the result is of 16 bits, elsewhere of float16.
#[test]
fn eight_bit_floats_and_weights_of_other_types() {
    let case = |dtype, [m, n, k]: [i64; 3]| Matmul::new(dtype, m, n, k).accumulated("float32").transposed(false, true);
    let cases = || {
        vec![
            case("float8_e4m3fn", [20, 40, 80]).rounded("bfloat16").case(),
            case("float8_e5m2", [17, 36, 77]).with_epilogue().rounded("float16").case(),
            case("float8_e4m3fn", [33, 24, 64]).case(),
            case("bfloat16", [18, 72, 96]).weights("float8_e4m3fn").rounded("bfloat16").case(),
            case("float16", [5, 50, 64]).weights("int8").transposed(false, false).case(),
        ]
    };
    check_all(cases(), RULE, "cuda:sm_89");
    check_all(cases(), RULE, "cuda:sm_80");
}

#[test]
fn batches_and_symbolic_rows() {
    let mut cases = vec![
        Matmul::new("float16", 20, 40, 24).accumulated("float32").batched(3).case(),
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
    let cases = vec![
        convolution("float16", [1, 3, 5, 6], 4, 3, 1),
        convolution("float16", [2, 4, 9, 7], 5, 3, 2),
        convolution("bfloat16", [1, 8, 6, 6], 8, 3, 1),
    ];
    check_all(cases, RULE, TARGET);
}

#[test]
fn several_blocks_share_the_reduced_axis() {
    let product = |dtype, m, n, k| Matmul::new(dtype, m, n, k).transposed(false, true);
    let cases = vec![
        product("float16", 20, 40, 600).accumulated("float32").case(),
        product("float16", 16, 72, 512).accumulated("float32").with_epilogue().case(),
        product("bfloat16", 5, 33, 301).accumulated("float32").batched(2).case(),
        product("int8", 24, 16, 640).accumulated("int32").with_epilogue().case(),
        product("float16", 9, 24, 256).accumulated("float32").symbolic().case(),
    ];
    for case in &cases {
        check_points(case, RULE, TARGET, |space, rng| {
            let points: Vec<_> = space.points().into_iter().filter(|k| k.get("split_k") > 1).collect();
            points.sample(rng, 2).cloned().collect()
        });
    }
}

/// Words in float16 and, made one by one, in bfloat16, whose tiles leave the matrix.
#[test]
fn weights_packed_in_words() {
    let mut cases = vec![];
    for (i, [m, n, k]) in
        [[16, 64, 256], [37, 53, 264], [33, 130, 72], [-20, 24, 128], [65, 40, 41]].into_iter().enumerate()
    {
        let shape = Shape { m, n, k };
        cases.push(packed(4, 32, shape, Layout::Nk, if i % 2 == 0 { "float16" } else { "float32" }, i % 2 == 1));
        // sums of large values in 16 bits would differ by their order alone
        cases.push(packed([8, 3][i % 2], 40, shape, Layout::Nk, "float32", false));
        cases.push(packed(4, 4, shape, Layout::Kn, "float16", false));
    }
    for n in [53, 64] {
        let case = packed(4, 32, Shape { m: 20, n, k: 256 }, Layout::Nk, "float32", false);
        cases.push(Case {
            name: format!("{}-bf16", case.name),
            text: case.text.replace("float16", "bfloat16"),
            ..case
        });
    }
    check_all(cases, RULE, TARGET);
}

/// Every word gives four pairs, under the condition that the tile lies in the matrix, and no integer is converted.
#[test]
fn weights_are_decoded_in_pairs() {
    for n in [64, 53] {
        let case = packed(4, 32, Shape { m: 16, n, k: 256 }, Layout::Nk, "float16", false);
        let kernel =
            kernel_at(&case, RULE, &[("block_m", 16), ("block_n", 64), ("block_k_bytes", 128), ("warps_m", 1)]);
        let count = |what: &str| kernel.matches(what).count();
        // once ahead of the loop and once in it
        assert_eq!(
            (count("halves "), count("= fma.rn.x2"), count("= mul.rn.x2"), count(" >> uint32")),
            (8, 8, 8, 0),
            "{kernel}"
        );
    }
}

/// Rows of words that whole copies take come into shared memory as they are, stages ahead; the values of a step
/// are made of them one step earlier.
#[test]
fn words_are_copied_ahead() {
    let kernel = |k, stages| {
        let case = packed(4, 32, Shape { m: 16, n: 53, k }, Layout::Nk, "float16", false);
        let knobs = [("block_m", 16), ("block_n", 64), ("block_k_bytes", 128), ("warps_m", 1), ("stages", stages)];
        kernel_at(&case, RULE, &knobs)
    };
    let ahead = kernel(256, 3);
    assert!(ahead.contains("cp_async16 p0_shared[") && ahead.contains("cp_async_wait 0\n    barrier"), "{ahead}");
    for other in [kernel(264, 3), kernel(256, 2)] {
        assert!(!other.contains("p0_shared"), "{other}");
    }
}

/// Weights that a launch copies to shared memory while the one before it ends are those that it multiplies.
#[test]
fn what_is_copied_before_the_wait_is_multiplied() {
    let case = Matmul::new("float16", 70, 136, 520).accumulated("float32").transposed(false, true).with_epilogue();
    let (case, id) = (case.case(), "cuda:sm_120a");
    let (func, target) = (harness::read(&case), harness::target(id));
    let input = Prepared::new(&func).expect("a function");
    let point = arm(RULE, &input, &target).space.default().expect("a legal point");
    let point = [("stages", 4), ("split_k", 1)].iter().fold(point, |point, (name, value)| point.with(name, *value));
    let program = harness::check_at(&case, RULE, id, point);
    let Param::Buffer(weights) = program.params[1].clone() else { panic!("B is a tensor") };
    let early = overlapping(&program, &target, &BTreeSet::from([weights]));
    let text = early.to_string();
    let before = text.split("grid_wait").next().expect("a wait").matches("cp_async16 b0_right").count();
    assert_eq!(before, 3, "of the steps ahead of the loop: {text}");
    let args = harness::arguments(&func, &case, &mut StdRng::seed_from_u64(1));
    let mut want = args.clone();
    interp::run(&func, &mut want, &Default::default(), Mode::F64).expect("the function runs");
    for seed in [1, 2, 3] {
        let mut got = args.clone();
        let options = sim::SimOptions { seed, ..Default::default() };
        sim::run(&early, &mut got, &Default::default(), &options).unwrap_or_else(|e| panic!("{e}\n{text}"));
        harness::compare(&case.name, &input, &got, &want);
    }
}

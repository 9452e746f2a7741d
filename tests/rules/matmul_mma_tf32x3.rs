//! Matrix products of float32 on tensor cores, three products of tf32 for each: the rules at their default and random points,
//! interpreted and simulated; how exact they are, and what infinities and NaNs give.

use super::harness::{self, Case};
use super::products::{Matmul, check_all, check_points, convolution};
use crate::common::arm::arm;
use daylight::interp::{self, Mode, Tensor};
use daylight::ir::DType;
use daylight::lower::lower;
use daylight::rules::Prepared;
use daylight::sim;
use rand::prelude::*;

const RULE: &str = "matmul.mma_tf32x3";
const BY_WARPGROUPS: &str = "matmul.wgmma_tf32x3";
const TARGET: &str = "cuda:sm_90a";

fn product(m: i64, n: i64, k: i64) -> Matmul {
    Matmul::new("float32", m, n, k).transposed(false, true)
}

#[test]
fn products_of_any_layout() {
    let sizes = [[2, 3, 2], [5, 7, 3], [16, 32, 32], [64, 64, 96], [37, 53, 29], [130, 36, 72], [65, 130, 136]];
    let mut cases = vec![];
    for (i, [m, n, k]) in sizes.into_iter().enumerate() {
        let case = Matmul::new("float32", m, n, k);
        cases.push(case.clone().transposed(i % 2 == 1, i / 2 % 2 == 1).case());
        cases.push(case.transposed(i % 2 == 0, i / 2 % 2 == 0).with_epilogue().case());
    }
    check_all(cases, RULE, TARGET);
}

#[test]
fn batches_symbolic_rows_weights_of_16_bits_and_older_targets() {
    let cases = || {
        vec![
            Matmul::new("float32", 20, 40, 24).batched(3).case(),
            product(33, 16, 40).batched(2).gated().case(),
            product(1, 24, 40).symbolic().case(),
            product(150, 24, 40).symbolic().case(),
            product(18, 72, 96).weights("float16").case(),
            convolution("float32", [1, 3, 5, 6], 4, 3, 1),
        ]
    };
    check_all(cases(), RULE, TARGET);
    check_all(cases(), RULE, "cuda:sm_80");
}

#[test]
fn rows_that_a_parameter_counts() {
    for rule in [RULE, BY_WARPGROUPS] {
        let case = Matmul::new("float32", harness::COUNT, 72, 40).symbolic().case();
        let text = case.text.replace("m = TypeVar(\"m\")\n", "").replace("main(", "main(m: T.int64, ");
        check_all(vec![Case { text, ..case }], rule, TARGET);
    }
}

#[test]
fn products_by_warpgroups_of_any_layout() {
    // of both factors in turn, rows or columns are what instructions have 64 of
    let sizes = [[64, 64, 96], [37, 53, 29], [130, 36, 72], [65, 130, 136], [40, 70, 3]];
    let layouts = [[false, true], [false, false], [true, true]];
    let mut cases = vec![];
    for (i, [m, n, k]) in sizes.into_iter().enumerate() {
        let case = |i: usize| {
            let [a, b] = layouts[i % 3];
            Matmul::new("float32", m, n, k).transposed(a, b)
        };
        cases.extend([case(i).case(), case(i + 1).with_epilogue().case()]);
    }
    cases.extend([
        Matmul::new("float32", 40, 40, 24).batched(3).case(),
        product(72, 16, 40).batched(2).gated().case(),
        product(1, 24, 40).symbolic().case(),
        product(150, 24, 40).symbolic().case(),
        product(48, 72, 96).weights("float16").case(),
        convolution("float32", [1, 3, 9, 9], 40, 3, 1),
    ]);
    check_all(cases, BY_WARPGROUPS, TARGET);
}

#[test]
fn several_blocks_share_the_reduced_axis() {
    let of_warps = [product(20, 40, 600).case(), product(5, 33, 301).with_epilogue().case()].map(|c| (c, RULE));
    let of_groups = [product(70, 40, 600).case(), product(40, 33, 301).with_epilogue().case()];
    for (case, rule) in of_warps.into_iter().chain(of_groups.map(|c| (c, BY_WARPGROUPS))) {
        check_points(&case, rule, TARGET, |space, rng| {
            let points: Vec<_> = space.points().into_iter().filter(|k| k.get("split_k") > 1).collect();
            points.sample(rng, 2).cloned().collect()
        });
    }
}

/// What the default point gives for these factors, and what the function is in float64.
fn results(rule: &str, case: &Case, factors: impl Fn(&mut StdRng, usize, usize) -> f32) -> [Vec<f64>; 2] {
    let (func, target) = (harness::read(case), harness::target(TARGET));
    let input = Prepared::new(&func).expect("a function");
    let mut rng = StdRng::seed_from_u64(5);
    let mut args = harness::arguments(&func, case, &mut rng);
    for (side, b) in args.iter_mut().take(2).enumerate() {
        *b = Tensor::from_f64(
            DType::F32,
            &b.shape.clone(),
            &(0..b.len()).map(|i| f64::from(factors(&mut rng, side, i))).collect::<Vec<_>>(),
        );
    }
    let mut want = args.clone();
    interp::run(&func, &mut want, &Default::default(), Mode::F64).expect("the function runs");
    let arm = arm(rule, &input, &target);
    let s = arm.schedule(&arm.space.default().expect("a point")).expect("a schedule");
    let program = lower(s.func(), &target, &[]).expect("a kernel");
    sim::run(&program, &mut args, &Default::default(), &sim::SimOptions::default()).expect("it runs");
    [args, want].map(|all| all.last().expect("a result").to_f64())
}

/// As exact as sums in float32 are: with tf32 alone the error is 3e-4.
#[test]
fn errors_are_those_of_float32() {
    for (k, rule) in [24, 520].into_iter().flat_map(|k| [(k, RULE), (k, BY_WARPGROUPS)]) {
        let normal = |rng: &mut StdRng, _, _| (0..12).map(|_| rng.random::<f32>()).sum::<f32>() - 6.0;
        let [got, want] = results(rule, &product(48, 40, k).case(), normal);
        let norm = |of: &dyn Fn(usize) -> f64| (0..want.len()).map(|i| of(i).powi(2)).sum::<f64>().sqrt();
        let error = norm(&|i| got[i] - want[i]) / norm(&|i| want[i]);
        assert!((1e-9..3e-7).contains(&error), "{rule}: {error} of {k} terms");
    }
}

/// An infinite or unknown factor gives what IEEE 754 says, and spoils no other result.
#[test]
fn factors_that_are_not_finite() {
    [RULE, BY_WARPGROUPS].into_iter().for_each(not_finite);
}

fn not_finite(rule: &str) {
    let (n, k) = (24usize, 40usize);
    let special = [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::from_bits(0x7fff_ffff), 0.0, 1e-41];
    // row i of A holds one of them, and so do the last rows of B
    let factors = |rng: &mut StdRng, side, i: usize| {
        let (row, at) = (i / k, i % k);
        let usual = [1.0, -0.5, 0.0, rng.random_range(-2.0..2.0f32)][i * 7 % 4];
        match side {
            0 if row < 12 && at == row * 3 => special[row % 6],
            1 if row >= n - 6 && at == 37 => special[row - (n - 6)],
            _ => usual,
        }
    };
    let [got, want] = results(rule, &product(40, n as i64, k as i64).case(), factors);
    for (i, (g, w)) in got.iter().zip(&want).enumerate() {
        let same = g == w || g.is_nan() && w.is_nan() || (g - w).abs() <= 1e-5 * w.abs().max(1.0);
        assert!(same, "{rule}: row {}, column {}: {g}, expected {w}", i / n, i % n);
    }
    assert!(want.iter().any(|w| w.is_infinite()) && want.iter().any(|w| w.is_nan()));
}

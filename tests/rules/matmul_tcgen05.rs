//! Matrix products in tensor memory: the rule at its default and drawn points, interpreted and simulated.

use super::harness::{self, Case};
use super::products::{Matmul, check_points};
use crate::common::arm::{arm, ask};
use daylight::interp::{self, Mode};
use daylight::ir;
use daylight::lower::lower;
use daylight::rules::Prepared;
use daylight::sim;
use rand::prelude::*;

const RULE: &str = "matmul.tcgen05";
const TARGET: &str = "cuda:sm_100a";

/// Each case at its default point and some drawn ones whose blocks take one tile.
fn check(cases: Vec<Case>, points: usize) {
    use rayon::prelude::*;
    cases.par_iter().for_each(|case| {
        check_points(case, RULE, TARGET, |space, rng| {
            let all = space.points().into_iter().filter(|k| k.get("roles") == 1);
            all.collect::<Vec<_>>().sample(rng, points).cloned().collect()
        });
    });
}

#[test]
fn factors_of_any_order_in_memory() {
    let mut cases = vec![];
    for (a, b) in [(false, false), (false, true), (true, false), (true, true)] {
        cases.push(Matmul::new("bfloat16", 136, 72, 136).accumulated("float32").transposed(a, b).case());
    }
    check(cases, 1);
}

#[test]
fn types_batches_and_what_follows() {
    let wide = |m, n, k| Matmul::new("float16", m, n, k).accumulated("float32").transposed(false, true);
    check(
        vec![
            wide(67, 35, 152).with_epilogue().case(),
            wide(131, 40, 136).gated().case(),
            wide(70, 20, 136).batched(3).case(),
            Matmul::new("float16", 80, 24, 136).batched(2).with_epilogue().case(),
            Matmul::new("int8", 70, 40, 304).accumulated("int32").transposed(false, true).case(),
        ],
        1,
    );
}

#[test]
fn several_blocks_share_the_reduced_axis() {
    let case =
        Matmul::new("float16", 66, 72, 1032).accumulated("float32").transposed(false, true).with_epilogue().case();
    check_points(&case, RULE, TARGET, |space, rng| {
        let all = space.points().into_iter().filter(|k| k.get("roles") == 1 && k.get("split_k") > 1);
        all.collect::<Vec<_>>().sample(rng, 2).cloned().collect()
    });
}

/// Simulates a point of the rule with another number of blocks that take all tiles.
fn persistent(case: &Case, blocks: i64, knobs: &[(&str, i64)]) {
    let func = harness::read(case);
    let input = Prepared::new(&func).unwrap_or_else(|d| panic!("{}: {}", case.name, d.reason.text));
    let args = harness::arguments(&func, case, &mut StdRng::seed_from_u64(1));
    let mut want = args.clone();
    interp::run(&func, &mut want, &Default::default(), Mode::F64).expect("the function runs");
    let target = harness::target(TARGET);
    let arm = arm(RULE, &input, &target);
    let mut point = arm.space.default().expect("a legal point");
    for (name, value) in [("roles", 2), ("split_k", 1), ("raster", 1)].iter().chain(knobs) {
        point = point.with(name, *value);
    }
    arm.space.possible(&point).unwrap_or_else(|e| panic!("{}: {}", case.name, e.text));
    let text = arm.schedule(&point).expect("a schedule").func().to_string();
    let text = text.replace(&format!("\"persistent\": {}", target.sms), &format!("\"persistent\": {blocks}"));
    let at = format!("{} {blocks} blocks {point}", case.name);
    let scheduled = ir::read(&text, "persistent").unwrap_or_else(|e| panic!("{at}: {e}\n{text}")).remove(0);
    let program = lower(&scheduled, &target, &[]).unwrap_or_else(|e| panic!("{at}: {e}\n{text}"));
    assert!(program.to_string().contains(&format!("grid({blocks}, 1, 1)")), "{at}: {program}");
    for seed in [3, 8] {
        let mut got = args.clone();
        let options = sim::SimOptions { seed, ..Default::default() };
        sim::run(&program, &mut got, &Default::default(), &options).unwrap_or_else(|e| panic!("{at}: {e}\n{program}"));
        harness::compare(&at, &input, &got, &want);
    }
}

/// With two sets of sums, and, where these would be too many columns, with one.
#[test]
fn blocks_take_one_tile_after_the_other() {
    let case = Matmul::new("bfloat16", 200, 200, 136).accumulated("float32").transposed(false, true).with_epilogue();
    persistent(&case.clone().case(), 1, &[("block_n", 64), ("groups_n", 1), ("stages", 3)]);
    persistent(&case.clone().case(), 3, &[("block_n", 96), ("groups_n", 2), ("stages", 4)]);
    let wide = Matmul::new("float16", 144, 304, 136).accumulated("float32").transposed(true, false);
    persistent(&wide.case(), 1, &[("block_n", 256), ("groups_n", 2), ("stages", 3)]);
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
    let wide = |m, k| Matmul::new("float16", m, 64, k).accumulated("float32").transposed(false, true);
    for target in ["cuda:sm_80", "cuda:sm_90a", "cuda:sm_120a"] {
        assert_eq!(declined(wide(256, 64).case(), target), "tensor_memory", "{target}");
    }
    assert_eq!(declined(wide(64, 64).case(), TARGET), "few_rows");
    assert_eq!(declined(wide(256, 65).case(), TARGET), "boxed_factors");
    let int8 = Matmul::new("int8", 256, 64, 64).accumulated("int32").transposed(false, true).case();
    assert_eq!(declined(int8, "cuda:sm_103a"), "int8_in_tensor_memory");
}

/// The untuned choice of a large product.
#[test]
fn it_takes_large_products_on_data_centre_gpus() {
    let case = Matmul::new("bfloat16", 4096, 4096, 4096).accumulated("float32").transposed(false, true).case();
    let input = Prepared::new(&harness::read(&case)).unwrap_or_else(|d| panic!("{}", d.reason));
    for target in ["cuda:sm_100a", "cuda:sm_103a"] {
        let first = daylight::rules::verdicts(&input, &harness::target(target), &daylight::rules::Spaces::built_in())
            .into_iter()
            .find(|v| v.arm.is_ok());
        assert_eq!(first.map(|v| v.rule), Some(RULE), "{target}");
    }
}

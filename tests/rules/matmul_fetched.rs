//! Products in tensor memory whose blocks are given the tiles of others that have not started: interpreted and simulated.

use super::harness::{self, Case};
use super::matmul_block_scale::product;
use super::products::Matmul;
use crate::common::arm::arm;
use daylight::interp::{self, Mode, Tensor};
use daylight::ir::kernel::{KStmt, Program};
use daylight::lower::lower;
use daylight::rules::{Knobs, Prepared, Spaces};
use daylight::sim::{self, SimOptions};
use rand::prelude::*;

const RULE: &str = "matmul.tcgen05";
const SCALED: &str = "matmul.tcgen05_block_scale";
const TARGET: &str = "cuda:sm_100a";

/// A case at a point, given by its knobs, with several orders of events.
fn check(rule: &str, case: &Case, knobs: &[(&str, i64)]) {
    let (func, target) = (harness::read(case), harness::target(TARGET));
    let input = Prepared::new(&func).unwrap_or_else(|d| panic!("{}: {}", case.name, d.reason.text));
    let default = arm(rule, &input, &target).space.default().expect("a legal point").with("split_k", 1);
    let own = [("roles", 4), ("raster", 1)];
    let point = own.iter().chain(knobs).fold(default, |point: Knobs, (name, value)| point.with(name, *value));
    let program = harness::check_at(case, rule, TARGET, point);
    let args = harness::arguments(&func, case, &mut StdRng::seed_from_u64(1));
    let mut want = args.clone();
    interp::run(&func, &mut want, &Default::default(), Mode::F64).expect("the function runs");
    for seed in [1, 2] {
        let (mut got, at) = (args.clone(), format!("{} seed {seed}", case.name));
        let options = SimOptions { seed, ..SimOptions::default() };
        let report = sim::run(&program, &mut got, &Default::default(), &options);
        let report = report.unwrap_or_else(|e| panic!("{at}: {e}\n{program}"));
        assert!(report.started < report.blocks, "{at}: no block is given another tile");
        harness::compare(&at, &input, &got, &want);
    }
}

fn bfloat16(m: i64, n: i64, k: i64) -> Matmul {
    Matmul::new("bfloat16", m, n, k).accumulated("float32").transposed(false, true)
}

/// With two sets of sums, and, where these would be too many columns, with one.
#[test]
fn blocks_are_given_tiles() {
    check(RULE, &bfloat16(200, 200, 136).with_epilogue().case(), &[("block_n", 64), ("groups_n", 1), ("stages", 3)]);
    check(RULE, &bfloat16(300, 200, 136).case(), &[("block_n", 96), ("groups_n", 2), ("stages", 4)]);
    let wide = Matmul::new("float16", 144, 304, 136).accumulated("float32").transposed(true, false);
    check(RULE, &wide.case(), &[("block_n", 256), ("groups_n", 2), ("stages", 3)]);
}

#[test]
fn batches_parts_and_what_follows() {
    let tile = [("block_n", 64), ("groups_n", 1), ("stages", 3)];
    check(RULE, &bfloat16(70, 130, 136).batched(3).case(), &tile);
    let parts = [&tile[..], &[("split_k", 2)]].concat();
    check(RULE, &bfloat16(131, 72, 1032).with_epilogue().case(), &parts);
    let float8 = Matmul::new("float8_e4m3fn", 140, 140, 304).accumulated("float32").transposed(false, true);
    check(RULE, &float8.gated().case(), &tile);
}

#[test]
fn pairs_are_given_tiles() {
    let pair =
        |n: i64, groups: i64, stages: i64| [("block_n", n), ("groups_n", groups), ("stages", stages), ("cta_group", 2)];
    check(RULE, &bfloat16(520, 200, 136).with_epilogue().case(), &pair(64, 1, 3));
    check(RULE, &bfloat16(300, 200, 136).batched(2).case(), &pair(96, 2, 4));
    let wide = Matmul::new("float16", 304, 520, 136).accumulated("float32").transposed(true, false);
    check(RULE, &wide.case(), &pair(256, 2, 3));
    let parts = [&pair(64, 1, 3)[..], &[("split_k", 2)]].concat();
    check(RULE, &bfloat16(300, 72, 1032).case(), &parts);
}

#[test]
fn blocks_with_scales_are_given_tiles() {
    let case = product("nvfp4", [200, 300, 512], &[("out-dtype", "float32")]);
    check(SCALED, &case, &[("block_n", 128), ("groups_n", 1), ("stages", 3)]);
    check(SCALED, &case, &[("block_n", 256), ("groups_n", 2), ("stages", 3)]);
    let parts = [("block_n", 128), ("groups_n", 1), ("stages", 3), ("split_k", 2)];
    check(SCALED, &product("mxfp8", [200, 260, 1024], &[("out-dtype", "float32")]), &parts);
}

#[test]
fn pairs_with_scales_are_given_tiles() {
    let pair =
        |n: i64, groups: i64, stages: i64| [("block_n", n), ("groups_n", groups), ("stages", stages), ("cta_group", 2)];
    let case = product("nvfp4", [520, 300, 512], &[("out-dtype", "float32")]);
    check(SCALED, &case, &pair(128, 1, 3));
    check(SCALED, &case, &pair(256, 2, 3));
}

/// The kernel of a small product, blocks or pairs of which are given tiles.
fn program(cta_group: i64) -> (Program, Vec<Tensor>) {
    let case = bfloat16(600, 200, 136).case();
    let func = harness::read(&case);
    let target = harness::target(TARGET);
    let arm = arm(RULE, &Prepared::new(&func).expect("a function"), &target);
    let point = arm.space.default().expect("a legal point");
    let tile = [("block_n", 64), ("groups_n", 1), ("stages", 3), ("raster", 1), ("split_k", 1), ("roles", 4)];
    let point = tile.iter().fold(point, |point, (name, value)| point.with(name, *value)).with("cta_group", cta_group);
    let s = arm.schedule(&point).expect("a schedule");
    let program = lower(s.func(), &target, &[]).expect("a kernel");
    (program, harness::arguments(&func, &case, &mut StdRng::seed_from_u64(1)))
}

/// Loops over tiles: those that end by what the block is told.
fn loops<'k>(body: &'k mut [KStmt], out: &mut Vec<&'k mut KStmt>) {
    for s in body {
        match s {
            KStmt::For { live: Some(_), .. } => out.push(s),
            KStmt::For { body, .. } => loops(body, out),
            KStmt::If { then, otherwise, .. } => {
                loops(then, out);
                loops(otherwise, out);
            }
            _ => {}
        }
    }
}

/// Three roles take tiles: threads that store, the one that copies, the one that issues products. A kernel in which one of them
/// takes its own tile alone is found out by every seed.
#[test]
fn every_role_goes_on_with_what_the_block_is_given() {
    for cta_group in [1, 2] {
        let (right, args) = program(cta_group);
        for role in 0..3 {
            let mut wrong = right.clone();
            let mut found = vec![];
            loops(&mut wrong.launches[0].kernel.body, &mut found);
            assert_eq!(found.len(), 3, "{right}");
            let KStmt::For { extent, .. } = &mut *found[role] else { panic!("a loop") };
            *extent = daylight::ir::Expr::i32(1);
            for seed in 0..4 {
                let run = |program: &Program| {
                    let (options, mut got) = (SimOptions { seed, ..SimOptions::default() }, args.clone());
                    sim::run(program, &mut got, &Default::default(), &options).map(|_| got.pop().map(|t| t.data))
                };
                // a tile that is stored by nobody is no fault of any statement
                assert!(run(&wrong).ok() != run(&right).ok(), "{cta_group} {role} {seed}: nothing is found in {wrong}");
            }
        }
    }
}

/// The grid has a block for each tile, all roles read each answer, and one thread asks.
#[test]
fn a_block_asks_for_the_next_tile_while_it_computes_one() {
    for (cta_group, asks, readers) in [(1, "try_cancel answer[", 6), (2, ", all blocks", 11)] {
        let (program, _) = program(cta_group);
        let text = program.to_string();
        let grid = if cta_group == 1 { "grid(20, 1, 1)" } else { "grid(24, 1, 1)" };
        let init = format!("mbarrier_init answer_read[2], {readers}\n");
        for part in [grid, asks, &init, "while 0 <= next[0]", "mbarrier_init read["] {
            assert!(text.contains(part), "{cta_group}: no {part} in {text}");
        }
        assert_eq!((text.matches("try_cancel").count(), text.matches("query_cancel").count()), (1, 3), "{text}");
        let at = |what: &str| text.find(what).unwrap_or_else(|| panic!("no {what} in {text}"));
        assert!(at("try_cancel") < at("tensor_load"), "it asks before it copies: {text}");
    }
}

/// Nothing measured says that this is faster, so that it is the default of no product.
#[test]
fn such_blocks_are_ranked_behind_those_that_stride() {
    let case = bfloat16(4096, 4096, 4096).case();
    let input = Prepared::new(&harness::read(&case)).expect("a function");
    for id in [TARGET, "cuda:sm_103a"] {
        let target = harness::target(id);
        let arm = arm(RULE, &input, &target);
        let points: Vec<Knobs> = arm.space.points().into_iter().filter(|k| k.get("roles") == 2).collect();
        assert!(points.len() > 20);
        for strided in points.iter().step_by(17) {
            let ns = |k: &Knobs| daylight::rules::prior::ns(&arm.outline(k).expect("sizes are known"), &target);
            let fetched = strided.with("roles", 4);
            assert!(ns(&fetched) > ns(strided) && ns(&fetched) < 1.01 * ns(strided), "{strided}");
        }
        let all = daylight::rules::verdicts(&input, &target, &Spaces::built_in());
        let first = daylight::rules::untuned(&all).expect("a rule");
        let default = first.arm.as_ref().expect("it takes the function").default().expect("a point");
        assert_eq!(default.get("roles"), 2, "{id}: {default}");
    }
}

#[test]
fn the_outline_has_a_block_for_each_tile() {
    let input = Prepared::new(&harness::read(&bfloat16(4096, 4096, 1024).case())).expect("a function");
    let target = harness::target(TARGET);
    let arm = arm(RULE, &input, &target);
    for cta_group in [1, 2] {
        let tile = [("block_n", 128), ("groups_n", 1), ("raster", 1), ("roles", 4), ("cta_group", cta_group)];
        let default = arm.space.default().expect("a legal point").with("split_k", 1);
        let point = tile.iter().fold(default, |point, (name, value)| point.with(name, *value));
        let outline = arm.outline(&point).expect("all sizes are known");
        let program = lower(arm.schedule(&point).expect("a schedule").func(), &target, &[]).expect("a kernel");
        let (launch, made) = (&outline.launches[0], &program.launches[0]);
        let grid = made.grid.iter().map(|n| n.as_int().expect("a constant")).product::<i64>();
        assert_eq!((launch.blocks, launch.threads, grid), (1024, i64::from(made.threads()), 1024));
    }
}

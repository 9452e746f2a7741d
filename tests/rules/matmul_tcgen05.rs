//! Matrix products in tensor memory: the rule at its default and drawn points, interpreted and simulated.

use super::harness::{self, Case};
use super::products::{Matmul, check_points};
use crate::common::arm::{arm, ask};
use daylight::interp::{self, Mode};
use daylight::ir;
use daylight::ir::kernel::KStmt;
use daylight::lower::lower;
use daylight::rules::{Knobs, Prepared};
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

/// Numbers of 8 bits lie along the reduced axis; what follows their sums is that of any others.
#[test]
fn products_of_float8() {
    let wide = |dtype, m, n, k| Matmul::new(dtype, m, n, k).accumulated("float32").transposed(false, true);
    check(
        vec![
            wide("float8_e4m3fn", 70, 40, 304).with_epilogue().case(),
            wide("float8_e5m2", 131, 20, 272).case(),
            wide("float8_e4m3fn", 66, 24, 144).batched(2).case(),
        ],
        1,
    );
    check_pairs(vec![wide("float8_e4m3fn", 140, 40, 304), wide("float8_e5m2", 200, 68, 272).with_epilogue()], 1);
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

/// Points at which products are of pairs of blocks with one tile each.
fn check_pairs(cases: Vec<Matmul>, points: usize) {
    use rayon::prelude::*;
    cases.into_par_iter().for_each(|case| {
        check_points(&case.case(), RULE, TARGET, |space, rng: &mut StdRng| {
            let all = space.points().into_iter().filter(|k| k.get("roles") == 1);
            // tiles of so few rows are searched with few columns only, of which half may be no box
            let wide = |k: Knobs| [k.with("block_n", 128), k];
            let pairs = all.flat_map(wide).map(|k| k.with("raster", 1).with("cta_group", 2));
            let found: Vec<_> = pairs.filter(|k| space.possible(k).is_ok()).collect();
            assert!(!found.is_empty(), "no point has pairs");
            found.sample(rng, points).cloned().collect()
        });
    });
}

#[test]
fn pairs_of_blocks_take_factors_of_any_order() {
    let orders = [(false, false), (false, true), (true, false), (true, true)];
    check_pairs(
        orders.map(|(a, b)| Matmul::new("bfloat16", 200, 136, 136).accumulated("float32").transposed(a, b)).to_vec(),
        2,
    );
}

#[test]
fn pairs_of_blocks_with_what_follows_and_tiles_that_there_are_not() {
    let wide = |m, n, k| Matmul::new("float16", m, n, k).accumulated("float32").transposed(false, true);
    check_pairs(
        vec![
            wide(131, 35, 152).with_epilogue(),
            wide(300, 40, 136).gated(),
            wide(200, 68, 136).batched(3),
            Matmul::new("float16", 140, 136, 136).accumulated("float32").batched(2).with_epilogue(),
            Matmul::new("int8", 140, 40, 304).accumulated("int32").transposed(false, true),
        ],
        1,
    );
}

#[test]
fn pairs_of_blocks_share_the_reduced_axis() {
    let case = Matmul::new("float16", 136, 72, 1032).accumulated("float32").transposed(false, true).with_epilogue();
    check_points(&case.case(), RULE, TARGET, |space, rng| {
        let parts = space.points().into_iter().filter(|k| k.get("roles") == 1 && k.get("split_k") > 1);
        let pairs = parts.map(|k| k.with("raster", 1).with("cta_group", 2));
        pairs.filter(|k| space.possible(k).is_ok()).collect::<Vec<_>>().sample(rng, 2).cloned().collect()
    });
}

/// Each pair takes one tile after the other: with two sets of sums, and with one.
#[test]
fn pairs_of_blocks_take_one_tile_after_the_other() {
    let case = Matmul::new("bfloat16", 600, 200, 328).accumulated("float32").transposed(false, true).with_epilogue();
    let pair =
        |n: i64, groups: i64, stages: i64| [("block_n", n), ("groups_n", groups), ("stages", stages), ("cta_group", 2)];
    persistent(RULE, &case.clone().case(), 2, &pair(64, 1, 3));
    persistent(RULE, &case.case(), 4, &pair(96, 2, 4));
    let wide = Matmul::new("float16", 144, 520, 136).accumulated("float32").transposed(true, false);
    persistent(RULE, &wide.case(), 2, &pair(256, 2, 3));
}

/// The kernel at a point, as it is lowered.
fn kernel_at(case: &Case, knobs: &[(&str, i64)]) -> String {
    let input = Prepared::new(&harness::read(case)).unwrap_or_else(|d| panic!("{}: {}", case.name, d.reason.text));
    let target = harness::target(TARGET);
    let arm = arm(RULE, &input, &target);
    let default = arm.space.default().expect("a legal point");
    let point = knobs.iter().fold(default, |point, (name, value)| point.with(name, *value));
    arm.space.possible(&point).unwrap_or_else(|e| panic!("{}: {}", case.name, e.text));
    let s = arm.schedule(&point).expect("a schedule");
    lower(s.func(), &target, &[]).unwrap_or_else(|e| panic!("{}: {e}", case.name)).to_string()
}

/// Each block copies its rows and half of the columns; the first one counts both, issues all products, and commits to both.
#[test]
fn a_pair_shares_columns_and_products() {
    for transposed in [true, false] {
        let case = Matmul::new("float16", 1024, 1024, 1024).accumulated("float32").transposed(false, transposed).case();
        let tile = [("block_n", 256), ("groups_n", 2), ("stages", 6), ("split_k", 1), ("raster", 1), ("cta_group", 2)];
        for roles in [1, 2] {
            let text = kernel_at(&case, &[&tile[..], &[("roles", roles)]].concat());
            for part in [
                "tensor_load b0_left",
                "of the pair",
                "tcgen05_mma.m256n256k16.float16",
                "tcgen05_commit.pair empty[slot",
                "of blocks 0, 1",
                "tcgen05_alloc.pair",
                "tcgen05_dealloc.pair",
                // 128 rows and half of 256 columns of each block, of 128 bytes
                "mbarrier_expect full[slot], 65536 bytes",
            ] {
                assert!(text.contains(part), "{transposed} {roles}: no {part} in {text}");
            }
            assert!(!text.contains("m128n256k16"), "{text}");
            let arrives = text.contains("mbarrier_init read[0], 512") && text.contains("mbarrier_arrive read[");
            assert_eq!(arrives, roles == 2, "two groups of two blocks: {text}");
        }
    }
}

#[test]
fn the_outline_of_a_pair_has_half_of_the_columns() {
    let case = Matmul::new("float16", 1024, 1024, 1024).accumulated("float32").transposed(false, true).case();
    let input = Prepared::new(&harness::read(&case)).expect("a function");
    let (target, tile) = (harness::target(TARGET), [("block_n", 256), ("stages", 4), ("split_k", 1), ("raster", 1)]);
    let arm = arm(RULE, &input, &target);
    let default = arm.space.default().expect("a legal point").with("roles", 1).with("groups_n", 2);
    let point = tile.iter().fold(default, |point, (name, value)| point.with(name, *value));
    // rows and columns of 128 bytes that a step of a block fills
    for (blocks, lines) in [(1, 128 + 256), (2, 128 + 128)] {
        let point = point.with("cta_group", blocks);
        let outline = arm.outline(&point).expect("all sizes are known");
        let [launch] = outline.launches.as_slice() else { panic!("one launch") };
        let filled = launch.tiles.as_ref().map(|t| t.filled);
        assert_eq!((filled, launch.smem, launch.cluster), (Some(128 * lines), 4 * 128 * lines, blocks));
        let program = lower(arm.schedule(&point).expect("a schedule").func(), &target, &[]).expect("a kernel");
        let made = &program.launches[0];
        let grid = made.grid.iter().map(|n| n.as_int().expect("a constant")).product::<i64>();
        assert_eq!((launch.blocks, launch.threads), (grid, i64::from(made.threads())));
        assert_eq!(i64::from(made.cluster), blocks);
    }
}

/// Without the statements that begin so.
fn without(body: &[KStmt], head: &str) -> Vec<KStmt> {
    let kept = body.iter().filter(|s| !s.head().contains(head)).cloned();
    let inside = kept.map(|s| match s {
        KStmt::If { cond, then, otherwise } => {
            KStmt::If { cond, then: without(&then, head), otherwise: without(&otherwise, head) }
        }
        s => s,
    });
    inside.collect()
}

/// The thread that copies waits for all slots once more: the last commits of the first block arrive in the second too.
#[test]
fn the_second_block_of_a_pair_ends_after_the_last_commit() {
    let case = Matmul::new("float16", 140, 40, 136).accumulated("float32").transposed(false, true).case();
    let func = harness::read(&case);
    let args = harness::arguments(&func, &case, &mut StdRng::seed_from_u64(1));
    let (arm, target) = (arm(RULE, &Prepared::new(&func).expect("a function"), &harness::target(TARGET)), TARGET);
    let point = arm.space.default().expect("a legal point").with("roles", 1).with("raster", 1).with("cta_group", 2);
    let s = arm.schedule(&point).expect("a schedule");
    let mut program = lower(s.func(), &harness::target(target), &[]).expect("a kernel");
    let mut run = |drained: bool| {
        let body = &mut program.launches[0].kernel.body;
        *body = if drained { body.clone() } else { without(body, "for int32 each") };
        sim::run(&program, &mut args.clone(), &Default::default(), &Default::default()).map(drop)
    };
    assert_eq!(run(true), Ok(()));
    let why = run(false).expect_err("a block that may have ended").to_string();
    assert!(why.contains("of another block, no thread of which waits for it"), "{why}");
}

/// Simulates a point of the rule with another number of blocks that take all tiles.
pub fn persistent(rule: &str, case: &Case, blocks: i64, knobs: &[(&str, i64)]) {
    let func = harness::read(case);
    let input = Prepared::new(&func).unwrap_or_else(|d| panic!("{}: {}", case.name, d.reason.text));
    let args = harness::arguments(&func, case, &mut StdRng::seed_from_u64(1));
    let mut want = args.clone();
    interp::run(&func, &mut want, &Default::default(), Mode::F64).expect("the function runs");
    let target = harness::target(TARGET);
    let arm = arm(rule, &input, &target);
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
    persistent(RULE, &case.clone().case(), 1, &[("block_n", 64), ("groups_n", 1), ("stages", 3)]);
    persistent(RULE, &case.clone().case(), 3, &[("block_n", 96), ("groups_n", 2), ("stages", 4)]);
    let wide = Matmul::new("float16", 144, 304, 136).accumulated("float32").transposed(true, false);
    persistent(RULE, &wide.case(), 1, &[("block_n", 256), ("groups_n", 2), ("stages", 3)]);
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
    let float8 = |columns_apart: bool| {
        let case = Matmul::new("float8_e4m3fn", 256, 64, 256).accumulated("float32").transposed(false, !columns_apart);
        declined(case.case(), TARGET)
    };
    assert_eq!(float8(true), "boxed_factors");
    assert_eq!(declined(Matmul::new("float32", 256, 64, 64).case(), TARGET), "operand_dtype");
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

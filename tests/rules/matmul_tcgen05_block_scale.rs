//! Products of numbers with scales of blocks in tensor memory: the rule at drawn points, interpreted and simulated.

use super::harness::{self, Case, target};
use super::matmul_block_scale::product;
use super::matmul_tcgen05::persistent;
use super::products::check_points;
use crate::common::arm::arm;
use daylight::lower::lower;
use daylight::rules::Prepared;
use rand::prelude::*;

const RULE: &str = "matmul.tcgen05_block_scale";
const TARGETS: [&str; 2] = ["cuda:sm_100a", "cuda:sm_103a"];
const OUT: [(&str, &str); 1] = [("out-dtype", "float32")];

/// Each case at some drawn points whose blocks, or pairs of them, take one tile.
fn check(cases: Vec<Case>, points: usize) {
    check_group(cases, points, 1);
}

fn check_group(cases: Vec<Case>, points: usize, blocks: i64) {
    use rayon::prelude::*;
    cases.par_iter().enumerate().for_each(|(nth, case)| {
        check_points(case, RULE, TARGETS[nth % 2], |space, rng| {
            let all = space.points().into_iter().filter(|k| k.get("roles") == 1);
            let all = all.map(|k| k.with("cta_group", blocks)).filter(|k| space.possible(k).is_ok());
            let found: Vec<_> = all.collect::<Vec<_>>().sample(rng, points).cloned().collect();
            assert!(!found.is_empty(), "no point of {blocks} blocks");
            found
        });
    });
}

#[test]
fn odd_rows_and_columns_of_every_format() {
    check(
        vec![
            product("mxfp8", [130, 133, 256], &OUT),
            product("mxfp8_e5m2", [131, 150, 384], &[("activation", "silu")]),
            product("mxfp4", [128, 260, 512], &OUT),
            product("nvfp4", [150, 129, 384], &[("bias", ""), ("residual", "")]),
        ],
        2,
    );
}

/// Whose second block has fewer rows, or none.
#[test]
fn pairs_of_blocks_take_every_format() {
    check_group(
        vec![
            product("mxfp8", [200, 133, 256], &OUT),
            product("mxfp8_e5m2", [256, 290, 384], &[("activation", "silu")]),
            product("mxfp4", [300, 260, 512], &OUT),
            product("nvfp4", [150, 129, 384], &[("bias", ""), ("residual", "")]),
        ],
        2,
        2,
    );
}

#[test]
fn pairs_of_blocks_share_the_reduced_axis() {
    let case = product("mxfp8", [200, 136, 1024], &OUT);
    check_points(&case, RULE, TARGETS[0], |space, rng| {
        let all = space.points().into_iter().filter(|k| k.get("roles") == 1 && k.get("split_k") > 1);
        let pairs = all.map(|k| k.with("raster", 1).with("cta_group", 2)).filter(|k| space.possible(k).is_ok());
        pairs.collect::<Vec<_>>().sample(rng, 1).cloned().collect()
    });
}

/// A thread of the first block has the scales of both copied, and both blocks' warps say to it that they are there.
#[test]
fn a_pair_has_its_scales_copied_together() {
    let case = product("nvfp4", [1024, 1024, 2048], &[]);
    let target = target(TARGETS[0]);
    let arm = arm(RULE, &Prepared::new(&harness::read(&case)).expect("a function"), &target);
    let point = arm.space.default().expect("a legal point").with("raster", 1).with("cta_group", 2).with("block_n", 128);
    let text = lower(arm.schedule(&point).expect("a schedule").func(), &target, &[]).expect("a program").to_string();
    for part in [
        "tcgen05_copy_scales.pair scales[",
        "tcgen05_mma.m256n128k64.e2m1.e2m1(",
        "tcgen05_commit.pair empty[slot",
        "tcgen05_alloc.pair",
        // the thread that copies numbers, and two warps of each block that bring scales
        "mbarrier_init full[0], 5",
        "of block 0",
    ] {
        assert!(text.contains(part), "no {part} in {text}");
    }
    assert!(!text.contains("tcgen05_copy_scales scales"), "{text}");
}

#[test]
fn several_blocks_share_the_reduced_axis() {
    let case = product("mxfp8", [131, 136, 1024], &OUT);
    check_points(&case, RULE, TARGETS[0], |space, rng| {
        let all = space.points().into_iter().filter(|k| k.get("roles") == 1 && k.get("split_k") > 1);
        all.collect::<Vec<_>>().sample(rng, 1).cloned().collect()
    });
}

/// With two sets of sums, and, where these and the scales would be too many columns, with one.
#[test]
fn blocks_take_one_tile_after_the_other() {
    let case = product("nvfp4", [200, 300, 512], &OUT);
    persistent(RULE, &case, 2, &[("block_n", 128), ("groups_n", 1), ("stages", 3)]);
    persistent(RULE, &case, 1, &[("block_n", 256), ("groups_n", 2), ("stages", 3)]);
}

#[test]
fn pairs_of_blocks_take_one_tile_after_the_other() {
    let case = product("nvfp4", [520, 300, 512], &OUT);
    let pair =
        |n: i64, groups: i64, stages: i64| [("block_n", n), ("groups_n", groups), ("stages", stages), ("cta_group", 2)];
    persistent(RULE, &case, 2, &pair(128, 1, 3));
    persistent(RULE, &case, 4, &pair(256, 2, 3));
}

/// Numbers come by boxes, scales by threads into the order of the copies, and each step has columns of its own for them.
#[test]
fn numbers_and_scales_come_as_they_are() {
    let case = product("mxfp4", [1024, 1024, 2048], &[]);
    let target = target(TARGETS[0]);
    let arm = arm(RULE, &Prepared::new(&harness::read(&case)).expect("a function"), &target);
    let point = arm.space.default().expect("a legal point");
    let s = arm.schedule(&point).expect("a schedule");
    let text = lower(s.func(), &target, &[]).expect("a program").to_string();
    for part in [
        "tensor_load p0_shared",
        "cp_async4 p1_shared",
        "tcgen05_copy_scales scales[",
        "k64.e2m1.e2m1(",
        "mbarrier_init full[0], 3",
    ] {
        assert!(text.contains(part), "no {part} in {text}");
    }
    assert!(!text.contains("b4_left") && !text.contains("16384.0"), "{text}");
}

#[test]
fn the_outline_has_numbers_and_scales() {
    let case = product("nvfp4", [1024, 1024, 1024], &[]);
    let target = target(TARGETS[0]);
    let arm = arm(RULE, &Prepared::new(&harness::read(&case)).expect("a function"), &target);
    let tile = [("block_n", 256), ("groups_n", 2), ("block_k_bytes", 128), ("stages", 4), ("split_k", 1), ("roles", 1)];
    let default = arm.space.default().expect("a legal point");
    let point = tile.iter().fold(default, |point, (name, value)| point.with(name, *value));
    let outline = arm.outline(&point).expect("all sizes are known");
    let [launch] = outline.launches.as_slice() else { panic!("one launch") };
    // rows and columns of 128 bytes of numbers and 16 scales that a step fills
    let filled = (128 + 256) * (128 + 16);
    assert_eq!((launch.tiles.as_ref().map(|t| t.filled), launch.smem), (Some(filled), 4 * filled));
    let program = lower(arm.schedule(&point).expect("a schedule").func(), &target, &[]).expect("a kernel");
    let made = &program.launches[0];
    let grid = made.grid.iter().map(|n| n.as_int().expect("a constant")).product::<i64>();
    assert_eq!((launch.blocks, launch.threads), (grid, i64::from(made.threads())));
    // of a pair each block has the numbers of half of the columns, and scales of all
    let pair = arm.outline(&point.with("cta_group", 2)).expect("all sizes are known");
    let own = (128 + 128) * 128 + (128 + 256) * 16;
    assert_eq!(pair.launches[0].tiles.as_ref().map(|t| t.filled), Some(own));
}

/// The untuned choice of a large product of every format.
#[test]
fn it_takes_large_products_on_data_centre_gpus() {
    for format in ["mxfp8", "mxfp8_e5m2", "mxfp4", "nvfp4"] {
        let case = product(format, [4096, 4096, 4096], &[]);
        let input = Prepared::new(&harness::read(&case)).unwrap_or_else(|d| panic!("{}", d.reason));
        for id in TARGETS {
            let all = daylight::rules::verdicts(&input, &target(id), &daylight::rules::Spaces::built_in());
            assert_eq!(daylight::rules::untuned(&all).map(|v| v.rule), Some(RULE), "{format} on {id}");
        }
    }
}

//! Products whose blocks are clusters that copy for each other: simulated, in which each block has its own memory, its own
//! barriers, and copies that land when they like.

use super::harness::kernel_at;
use super::matmul_wgmma_roles::persistent;
use super::products::{Matmul, check_points};
use daylight::rules::Knobs;
use rand::prelude::*;

const RULE: &str = "matmul.wgmma";
const TARGET: &str = "cuda:sm_90a";
const SHAPES: [(i64, &str); 2] = [(1, "column"), (2, "row")];

fn wide(dtype: &'static str, m: i64, n: i64, k: i64) -> Matmul {
    Matmul::new(dtype, m, n, k).accumulated("float32").transposed(false, true)
}

/// A point of either shape of cluster at which blocks have one tile.
fn check(cases: Vec<Matmul>) {
    use rayon::prelude::*;
    cases.into_par_iter().for_each(|case| {
        check_points(&case.case(), RULE, TARGET, |space, rng: &mut StdRng| {
            // clusters are searched for large products only
            let of = |shape: i64| -> Vec<Knobs> {
                let small = |k: &Knobs| k.get("roles") == 1 && k.get("block_m") * k.get("block_n") <= 64 * 128;
                let all = space.points().into_iter().filter(small);
                let clustered = all.map(|k| k.with("add_parts", 0).with("raster", 1).with("multicast", shape));
                clustered.filter(|k| space.possible(k).is_ok()).collect()
            };
            let found: Vec<Knobs> = SHAPES.iter().filter_map(|(shape, _)| of(*shape).choose(rng).cloned()).collect();
            assert!(!found.is_empty(), "no point has clusters of tiles");
            found
        });
    });
}

#[test]
fn factors_of_any_order_in_memory() {
    check(
        [(false, false), (false, true), (true, false), (true, true)]
            .map(|(a, b)| Matmul::new("bfloat16", 136, 136, 136).accumulated("float32").transposed(a, b))
            .to_vec(),
    );
}

#[test]
fn tiles_that_there_are_not_and_what_follows() {
    check(vec![
        wide("float16", 130, 200, 152).with_epilogue(),
        wide("float16", 200, 136, 136).gated(),
        wide("float16", 72, 66, 328).batched(3),
        Matmul::new("int8", 136, 136, 304).accumulated("int32").transposed(false, true),
    ]);
}

#[test]
fn clusters_take_one_tile_after_the_other_and_in_turn() {
    let case = wide("bfloat16", 330, 200, 328).with_epilogue().case();
    let tile = [("block_m", 64), ("block_n", 64), ("groups_m", 1), ("stages", 3), ("add_parts", 0)];
    for (shape, _) in SHAPES {
        for (blocks, roles) in [(4, 2), (2, 3), (4, 3)] {
            persistent(&case, blocks, &[&tile[..], &[("multicast", shape), ("roles", roles)]].concat());
        }
    }
}

/// Each block loads its own tile of one factor, and half of what both need of the other, and gives slots back to both.
#[test]
fn a_box_is_copied_in_parts() {
    let case = wide("float16", 1024, 1024, 1024).case();
    let tile = [("block_m", 128), ("block_n", 128), ("add_parts", 0), ("split_k", 1), ("raster", 1)];
    for ((shape, name), [left, right]) in SHAPES.iter().zip([[128, 64], [64, 128]]) {
        let text = kernel_at(&case, RULE, &[&tile[..], &[("multicast", *shape)]].concat());
        for (map, rows) in [("p0_map", left), ("p1_map", right)] {
            assert!(text.contains(&format!("box [64, {rows}]")), "{name}: {text}");
            let load = text.lines().find(|l| l.contains(&format!("<- {map}["))).expect("a load");
            assert_eq!(load.contains(", 2 blocks"), rows == 64, "{name}: {load}");
        }
        assert!(text.contains("mbarrier_init empty[0], 4"), "{name}: two groups of two blocks: {text}");
        assert!(text.contains("mbarrier_arrive empty[prev] of block"), "{name}: {text}");
        // who copies waits for each fresh slot, and before the end for the last arrivals at all
        assert_eq!(text.matches("mbarrier_wait empty").count(), 2, "{name}: {text}");
    }
}

//! Parts of the reduced axis that the blocks of a tile add themselves, as a cluster.

use super::harness::{Case, kernel_at};
use super::matmul_quant::{product, scaled};
use super::products::{Matmul, check_points, grouped_scores};
use daylight::rules::Knobs;
use rand::prelude::*;

const TARGET: &str = "cuda:sm_90a";

fn clustered(k: &Knobs) -> bool {
    k.find("add_parts") == Some(1)
}

/// So many points at which clusters add parts, of those that `wanted` takes.
fn check(case: &Case, rule: &str, n: usize, wanted: impl Fn(&Knobs) -> bool) {
    check_points(case, rule, TARGET, |space, rng: &mut StdRng| {
        let points: Vec<Knobs> = space.points().into_iter().filter(|k| clustered(k) && wanted(k)).collect();
        assert!(!points.is_empty(), "{}: no such point of {rule}", case.name);
        points.sample(rng, n).cloned().collect()
    });
}

fn small(k: &Knobs) -> bool {
    k.get("block_m") * k.get("block_n") <= 64 * 64
}

#[test]
fn on_cuda_cores() {
    let plain = Matmul::new("float32", 37, 20, 70);
    for case in [plain.clone().case(), plain.batched(2).with_epilogue().case()] {
        check(&case, "matmul.fma", 2, small);
    }
    check(&Matmul::new("float32", 33, 52, 130).transposed(false, true).with_epilogue().case(), "matmul.fma", 2, small);
    check(&grouped_scores(6, 2, 33, 80), "matmul.fma", 2, small);
}

#[test]
fn by_warps() {
    let of = |dtype, m, n, k| Matmul::new(dtype, m, n, k).transposed(false, true);
    for case in [
        of("float16", 20, 40, 600).accumulated("float32").case(),
        of("float16", 16, 72, 512).accumulated("float32").with_epilogue().case(),
        of("bfloat16", 5, 33, 301).accumulated("float32").batched(2).case(),
        of("int8", 24, 16, 640).accumulated("int32").with_epilogue().case(),
        of("float16", 9, 24, 256).accumulated("float32").case(),
        Matmul::new("float16", 17, 66, 520).accumulated("float32").case(),
    ] {
        check(&case, "matmul.mma", 2, small);
    }
}

/// Blocks whose tile is inside have statements of their own, around what follows the meeting and not around it.
#[test]
fn rows_of_results_that_vectors_do_not_divide() {
    let case = Matmul::new("bfloat16", 60, 122, 844).accumulated("float32").case();
    check(&case, "matmul.mma", 2, |k| k.get("block_m") == 16 && k.get("block_n") == 32 && k.get("split_k") == 2);
}

#[test]
fn by_warpgroups_whose_copies_have_threads_of_their_own_or_not() {
    let of = |m, n, k| Matmul::new("float16", m, n, k).accumulated("float32").transposed(false, true);
    let wanted = |roles| move |k: &Knobs| small(k) && k.get("roles") == roles;
    check(&of(66, 72, 1032).with_epilogue().case(), "matmul.wgmma", 2, wanted(1));
    check(&of(33, 129, 1024).case(), "matmul.wgmma", 1, wanted(1));
    check(&of(65, 40, 513).with_epilogue().case(), "matmul.wgmma", 1, wanted(0));
}

#[test]
fn with_packed_words() {
    for (rule, m) in [("matmul.quant", 17), ("matmul.wgmma_quant", 36)] {
        let case = product(m, false, [128, 1024, 128], &scaled());
        check(&case, rule, 2, |k| k.get("block_m") <= 64 && k.get("block_n") <= 64);
    }
}

#[test]
fn one_launch_whose_blocks_meet_once() {
    let case = Matmul::new("float16", 64, 128, 1024).accumulated("float32").transposed(false, true).case();
    for (rule, more) in [("matmul.mma", None), ("matmul.wgmma", Some(("roles", 1)))] {
        let knobs: Vec<(&str, i64)> = [("add_parts", 1), ("split_k", 4)].into_iter().chain(more).collect();
        let text = kernel_at(&case, rule, &knobs);
        assert_eq!(text.matches("\nkernel ").count(), 1, "{text}");
        // before loads, and before blocks end that others load from; threads that copy wait too
        assert_eq!(text.matches("cluster wait").count(), 2 * (1 + more.iter().count()), "{text}");
    }
}

//! Products of tens to hundreds of rows with packed weights, which warpgroups decode into the registers of their first
//! operand.

use super::harness::{Case, kernel_at};
use super::matmul_quant::{product, scaled};
use super::products::check_points;
use daylight::rules::{Knobs, Space};
use rand::prelude::*;

const RULE: &str = "matmul.wgmma_quant";
const TARGET: &str = "cuda:sm_90a";

fn check(case: &Case, wanted: impl Fn(&Knobs) -> bool, n: usize) {
    check_points(case, RULE, TARGET, |space: &Space, rng: &mut StdRng| {
        let all: Vec<Knobs> = space.points().into_iter().filter(&wanted).collect();
        assert!(!all.is_empty(), "{}: no such point", case.name);
        all.sample(rng, n).cloned().collect()
    });
}

fn of(m: i64, n: i64, k: i64, group: i64) -> Case {
    product(m, false, [n, k, group], &scaled())
}

#[test]
fn odd_rows() {
    for (m, group) in [(17, 64), (29, 128), (33, 32), (41, 64), (70, 128)] {
        check(&of(m, 64, 256, group), |k| k.get("block_m") <= 96, 2);
    }
}

#[test]
fn groups_of_columns_and_parts() {
    check(&of(40, 256, 512, 64), |k| k.get("groups_n") == 2 && k.get("block_n") == 256, 1);
    check(&of(40, 192, 512, 32), |k| k.get("groups_n") == 3, 1);
    check(&of(36, 128, 1024, 128), |k| k.get("split_k") > 1 && k.get("block_k_bytes") == 256, 1);
}

/// The last tile leaves the weights: words are filled with zeros, and scales are those of the last column.
#[test]
fn odd_columns() {
    check(&of(34, 72, 256, 64), |k| k.get("block_m") <= 48, 2);
    check(&of(33, 200, 256, 32), |k| k.get("block_n") == 128 && k.get("block_m") <= 48, 1);
    check(&of(33, 104, 256, 16), |k| k.get("block_m") <= 48, 1);
}

/// More steps than slots, so that each is filled again.
#[test]
fn many_steps() {
    check(
        &of(35, 64, 1024, 128),
        |k| k.get("split_k") == 1 && k.get("stages") == 3 && k.get("block_k_bytes") == 128,
        1,
    );
}

#[test]
fn values_without_scale_or_zero() {
    let bits = r#"T.Cast("float16", W[vj, vk // 8] >> T.Cast("uint32", vk % 8 * 4) & T.uint32(15))"#;
    for value in [format!("({bits} - T.float16(8.0))"), format!("({bits} * S[vj, vk // GROUP])")] {
        check(&product(34, false, [64, 256, 64], &value), |k| k.get("block_m") <= 48, 1);
    }
}

/// Scales that change within a load of words are read where they are used.
#[test]
fn scales_of_few_values() {
    check(&of(34, 64, 256, 16), |k| k.get("block_m") <= 48, 1);
}

/// No value of a word is ever stored to memory; lanes load four words at a time, and both values of a byte are one
/// register, made of four instructions.
#[test]
fn values_stay_in_registers() {
    let case = of(64, 4096, 4096, 128);
    let text = kernel_at(&case, RULE, &[("split_k", 1)]);
    let has = |what: &str| assert!(text.contains(what), "no `{what}` in\n{text}");
    has("register float16 b0_right[");
    has("copy4 b0_right_words[0] <- ");
    has("prmt(");
    has("b0_right_scales_next");
    has("wgmma.m64n64k16.f16(b0_right[");
    assert!(!text.contains("shared float16 b0_right"), "{text}");
}

/// Loads under conditions are waited for one by one: scales of columns past the last are read as those of the last.
#[test]
fn scales_are_loaded_without_conditions() {
    let text = kernel_at(&of(64, 4104, 4096, 128), RULE, &[("split_k", 1)]);
    let loads: Vec<&str> =
        text.lines().filter(|l| l.contains("b0_right_scales_next[") && l.contains("= p2[")).collect();
    assert!(loads.len() == 2 && loads.iter().all(|l| l.contains("= p2[min(")), "{text}");
}

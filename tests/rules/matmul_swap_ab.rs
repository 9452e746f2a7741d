//! Matrix products by warpgroups with factors exchanged: the rule at its default and random points, interpreted and simulated.

use super::harness::kernel_at;
use super::matmul_quads::{with_residual, with_value};
use super::products::{Matmul, check_all, check_points};
use daylight::rules::Knobs;
use rand::prelude::*;

const RULE: &str = "matmul.wgmma_swap_ab";
const TARGET: &str = "cuda:sm_90a";

fn wide(dtype: &'static str, m: i64, n: i64, k: i64) -> Matmul {
    Matmul::new(dtype, m, n, k).accumulated("float32").transposed(false, true)
}

/// Results of 16 bits.
fn narrow(m: i64, n: i64, k: i64) -> Matmul {
    Matmul::new("float16", m, n, k).transposed(false, true)
}

/// Rows, columns, depth: whole tiles and a little more, in multiples of 16 bytes, wherever rows of factors begin.
const SIZES: [[i64; 3]; 5] = [[40, 8, 136], [64, 64, 96], [136, 40, 72], [72, 136, 136], [104, 72, 40]];

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
fn other_types_batches_and_what_follows() {
    check_all(
        vec![
            Matmul::new("int8", 67, 66, 304).accumulated("int32").transposed(false, true).case(),
            Matmul::new("float16", 40, 24, 64).case(),
            wide("float16", 41, 71, 136).batched(3).case(),
            wide("bfloat16", 70, 133, 136).gated().case(),
        ],
        RULE,
        TARGET,
    );
}

/// Rows and columns of whole tiles, of whole
/// groups of eight, and odd ones, under a cluster of either shape, and parts.
#[test]
fn tiles_that_rows_and_columns_leave() {
    use rayon::prelude::*;
    let copied = |k: &Knobs| k.get("roles") == 1 && k.get("block_m") <= 64 && k.get("block_n") < 128;
    let forms: [&[(&str, i64)]; 4] = [
        &[("multicast", 0), ("split_k", 1)],
        &[("multicast", 1), ("split_k", 1)],
        &[("multicast", 2), ("split_k", 1)],
        &[("multicast", 0), ("split_k", 2), ("add_parts", 1)],
    ];
    let sizes = [[80, 128, 264], [88, 200, 264], [104, 152, 264], [83, 133, 264]];
    let cases = sizes.into_iter().flat_map(|[m, n, k]| {
        let of = wide("float16", m, n, k);
        forms.iter().flat_map(move |f| [(of.clone().case(), *f), (of.clone().with_epilogue().case(), *f)])
    });
    cases.collect::<Vec<_>>().into_par_iter().for_each(|(case, form)| {
        check_points(&case, RULE, TARGET, |space, rng: &mut StdRng| {
            let of_form = |k: Knobs| form.iter().fold(k.with("add_parts", 0), |k, (name, v)| k.with(name, *v));
            let all = space.points().into_iter().filter(copied).map(of_form);
            let all: Vec<Knobs> = all.filter(|k| space.possible(k).is_ok()).collect();
            assert!(!all.is_empty(), "{}: no such point", case.name);
            all.sample(rng, 1).cloned().collect()
        });
    });
}

/// Results of 16 bits pass through shared memory in lines of sixteen, and values that read more are computed of neighbours: whole
/// tiles, tiles that rows or columns leave in the middle, rows that are not aligned.
#[test]
fn results_of_16_bits_pass_in_lines_of_sixteen() {
    let sizes = [[64, 128, 64], [130, 72, 40], [70, 200, 64], [100, 77, 48], [67, 201, 64]];
    let cases = sizes.iter().zip(["float16", "bfloat16"].into_iter().cycle());
    check_all(cases.map(|(s, dtype)| with_residual(dtype, *s, s[0] == 70)).collect(), RULE, TARGET);
    let values = [
        ("plain", "C[vi, vj]"),
        ("bias", "T.max(C[vi, vj] + V[vj], T.float32(0.0))"),
        ("mask", "T.if_then_else(vj <= vi + 3, C[vi, vj] + V[vj], T.Cast(\"float32\", R[vi, vj]))"),
        ("place", "C[vi, vj] * T.Cast(\"float32\", vj - vi) + T.Cast(\"float32\", R[vi, vj])"),
    ];
    let sizes = [[65, 37, 48], [72, 136, 64]];
    let cases = sizes.iter().flat_map(|s| values.iter().map(|(name, v)| with_value(name, "float16", *s, v)));
    check_all(cases.collect(), RULE, TARGET);
}

/// Rows of 16 bits leave 16 bytes at a time wherever rows begin at such, whether all of a tile are there or not.
#[test]
fn stores_are_wide() {
    let set = [("block_m", 48), ("block_n", 64), ("groups_n", 1), ("split_k", 1), ("add_parts", 0), ("multicast", 0)];
    for (m, n, wide_store) in [(96, 4096, true), (88, 4088, true), (90, 4104, true), (96, 4099, false)] {
        let text = kernel_at(&narrow(m, n, 512).case(), RULE, &set);
        assert!(text.contains("barrier warp"), "{m} x {n}: {text}");
        assert_eq!(text.contains("copy8 p3["), wide_store, "{m} x {n}: {text}");
    }
}

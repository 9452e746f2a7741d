//! Results of 16 bits that leave fragments as rows of 16 bytes, residuals that come in so, and rows that are not
//! aligned and pass through shared memory.

use super::harness::{Case, kernel_at};
use super::products::check_all;

const RULES: [&str; 2] = ["matmul.mma", "matmul.wgmma"];
const TARGET: &str = "cuda:sm_90a";

/// `O = A B^T + R`, added in float32, of `dtype`; `half` takes the residual in every other row alone.
pub fn with_residual(dtype: &str, size: [i64; 3], half: bool) -> Case {
    let at = if half { "vi * 2" } else { "vi" };
    with_value("residual", dtype, size, &format!("C[vi, vj] + T.Cast(\"float32\", R[{at}, vj])"))
}

/// `O` of `C = A B^T`, of rows `R` of `dtype`, as many as twice the result's, and of a vector `V` of float32: a value for each `vi` and `vj`.
pub fn with_value(name: &str, dtype: &str, [m, n, k]: [i64; 3], value: &str) -> Case {
    let text = format!(
        "@T.prim_func(s_tir=True)
def main(A: T.Buffer(({m}, {k}), \"{dtype}\"), B: T.Buffer(({n}, {k}), \"{dtype}\"), R: T.Buffer(({}, {n}), \"{dtype}\"), V: T.Buffer(({n},), \"float32\"), O: T.Buffer(({m}, {n}), \"{dtype}\")):
    C = T.sblock_alloc_buffer(({m}, {n}), \"float32\")
    for i, j, k in T.grid({m}, {n}, {k}):
        with T.sblock(\"product\"):
            vi, vj, vk = T.axis.remap(\"SSR\", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0.0)
            C[vi, vj] = C[vi, vj] + T.Cast(\"float32\", A[vi, vk]) * T.Cast(\"float32\", B[vj, vk])
    for i, j in T.grid({m}, {n}):
        with T.sblock(\"value\"):
            vi, vj = T.axis.remap(\"SS\", [i, j])
            O[vi, vj] = T.Cast(\"{dtype}\", {value})
",
        2 * m
    );
    Case { name: format!("{name}-{m}x{n}x{k}-{dtype}"), text, extents: vec![], length: k }
}

/// Whole tiles, tiles that rows or columns leave in the middle, rows that are not aligned.
#[test]
fn residuals_and_results_in_rows() {
    let sizes =
        [[64, 128, 64], [130, 72, 40], [70, 200, 64], [65, 36, 32], [100, 77, 48], [67, 201, 64], [33, 110, 16]];
    for rule in RULES {
        let cases = sizes.iter().zip(["float16", "bfloat16"].into_iter().cycle());
        check_all(cases.map(|(s, dtype)| with_residual(dtype, *s, s[0] == 70)).collect(), rule, TARGET);
    }
}

/// Both ways in rows of 16 bytes, unless these begin elsewhere.
#[test]
fn rows_are_exchanged_where_they_are_aligned() {
    let exchanges = |rule, size| {
        let text = kernel_at(&with_residual("bfloat16", size, false), rule, &[("split_k", 1)]);
        text.matches("quad_transpose").count()
    };
    for rule in RULES {
        assert_eq!(exchanges(rule, [128, 1024, 128]), 2, "{rule}");
        assert_eq!(exchanges(rule, [130, 1096, 128]), 2, "{rule}");
        assert_eq!(exchanges(rule, [128, 1028, 128]), 0, "{rule}");
    }
}

/// Rows that begin anywhere leave in stores of a row's neighbours: one element, two or four at a time.
#[test]
fn rows_that_are_not_aligned_pass_through_shared_memory() {
    let text = |rule, size| kernel_at(&with_residual("bfloat16", size, false), rule, &[("split_k", 1)]);
    for rule in RULES {
        for (columns, store) in [(1027, "p4["), (1026, "copy2 p4["), (1028, "copy4 p4[")] {
            let text = text(rule, [130, columns, 128]);
            let stored: Vec<&str> = text.lines().map(str::trim).filter(|l| l.starts_with(store)).collect();
            assert_eq!(stored.len(), 1, "{rule} {columns}: {text}");
            assert!(text.contains("p4_rows["), "{rule} {columns}: {text}");
        }
        assert!(!text(rule, [130, 1096, 128]).contains("p4_rows"), "{rule}");
    }
}

/// Values that read a vector, rows, or either under a condition of the place, computed of neighbours.
#[test]
fn values_that_read_more_are_computed_of_neighbours() {
    let (vector, rows) = ("V[vj]", "T.Cast(\"float32\", R[vi, vj])");
    let values = [
        ("bias", format!("T.max(C[vi, vj] + {vector}, T.float32(0.0))")),
        ("both", format!("(C[vi, vj] + {vector}) * {rows} + C[vi, vj]")),
        ("mask", format!("T.if_then_else(vj <= vi + 3, C[vi, vj] + {vector}, {rows})")),
        ("place", format!("C[vi, vj] * T.Cast(\"float32\", vj - vi) + {rows}")),
    ];
    for rule in RULES {
        // of few rows, whole tiles lie where the mask leaves nothing
        let few = if rule == "matmul.mma" { 9 } else { 33 };
        let sizes = [[65, 37, 32], [100, 77, 48], [few, 131, 64], [33, 110, 16], [70, 68, 64]];
        let cases = sizes.iter().flat_map(|s| values.iter().map(|(name, v)| with_value(name, "float16", *s, v)));
        check_all(cases.collect(), rule, TARGET);
        // a row of the warp at a time, what all rows share once for all of them, and no load of single pairs
        let case = with_value("both", "float16", [130, 1027, 128], &values[1].1);
        let text = kernel_at(&case, rule, &[("split_k", 1)]);
        let read = |from: &str| -> Vec<&str> { text.lines().map(str::trim).filter(|l| l.contains(from)).collect() };
        let [vector] = read("= p3[")[..] else { panic!("{text}") };
        assert!(vector.starts_with("early[g_1] =") && vector.ends_with("threadIdx.x % 32]"), "{vector}");
        let [rows] = read("= p2[")[..] else { panic!("{text}") };
        assert!(rows.starts_with("early_1[r") && rows.ends_with("threadIdx.x % 32]"), "{rows}");
    }
}

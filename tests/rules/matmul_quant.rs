//! Products of few rows with packed weights that warps decode in registers.

use super::harness::{Case, kernel_at};
use super::products::{check_all, check_points};

const RULE: &str = "matmul.quant";

/// `m` rows, or a symbol with that value, times `n` columns of weights, groups of so many of which share a scale.
pub fn product(m: i64, symbolic: bool, [n, k, group]: [i64; 3], value: &str) -> Case {
    let size = |n: i64| if symbolic { format!("T.int64({n})") } else { n.to_string() };
    let (head, rows) = if symbolic { ("m = TypeVar(\"m\")\n", "m".to_string()) } else { ("", m.to_string()) };
    let (columns, depth, words, groups) = (size(n), size(k), size(k / 8), size(k / group));
    let value = value.replace("GROUP", &group.to_string());
    let text = format!(
        r#"{head}@T.prim_func(s_tir=True)
def main(X: T.Buffer(({rows}, {depth}), "float16"), W: T.Buffer(({columns}, {words}), "uint32"), S: T.Buffer(({columns}, {groups}), "float16"), O: T.Buffer(({rows}, {columns}), "float32")):
    for i, j, k in T.grid({rows}, {columns}, {depth}):
        with T.sblock("O"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                O[vi, vj] = T.float32(0.0)
            O[vi, vj] = O[vi, vj] + T.Cast("float32", X[vi, vk]) * T.Cast("float32", {value})
"#
    );
    let extents = if symbolic { vec![("m", m)] } else { vec![] };
    Case { name: format!("{rows} x {n} x {k} by {group}"), text, extents, length: k }
}

const BITS: &str = r#"T.Cast("float16", W[vj, vk // 8] >> T.Cast("uint32", vk % 8 * 4) & T.uint32(15))"#;

pub fn scaled() -> String {
    format!("(({BITS} - T.float16(7.0)) * S[vj, vk // GROUP])")
}

#[test]
fn odd_rows_and_columns() {
    let of = |m, n, k, group| product(m, false, [n, k, group], &scaled());
    check_all(
        vec![
            of(5, 33, 256, 64),
            of(8, 67, 128, 128),
            of(16, 130, 256, 64),
            of(17, 101, 512, 32),
            of(33, 71, 512, 128),
            of(70, 64, 1024, 64),
        ],
        RULE,
        "cuda:sm_90a",
    );
}

#[test]
fn symbolic_rows_and_other_targets() {
    for target in ["cuda:sm_80", "cuda:sm_90a", "cuda:sm_100a"] {
        check_all(vec![product(19, true, [67, 256, 64], &scaled())], RULE, target);
    }
}

#[test]
fn values_without_scale_or_zero() {
    for value in [format!("({BITS} - T.float16(8.0))"), format!("({BITS} * S[vj, vk // GROUP])")] {
        check_all(vec![product(9, false, [35, 128, 32], &value)], RULE, "cuda:sm_90a");
    }
}

/// The last tile leaves the weights, and fewer threads than there are fill words and scales.
#[test]
fn tiles_of_few_columns_by_many_threads() {
    for n in [64, 65] {
        check_points(&product(16, false, [n, 128, 64], &scaled()), RULE, "cuda:sm_90a", |space, _| {
            let all = space.points().into_iter();
            let wide: Vec<_> = all.filter(|k| k.get("warps_n") == 8 && k.get("block_n") == 64).take(2).collect();
            assert!(!wide.is_empty(), "eight warps share 64 columns");
            wide
        });
    }
}

/// Columns in whole eights that are no whole tiles: rows of a fill are in the tensor or not eight at a time, and zero where they are
/// not.
#[test]
fn columns_in_eights() {
    check_points(&product(2, false, [136, 512, 128], &scaled()), RULE, "cuda:sm_90a", |space, _| {
        let all = space.points().into_iter();
        let cut: Vec<_> = all.filter(|k| k.get("block_n") == 32 && k.get("block_k_bytes") == 512).take(2).collect();
        assert!(!cut.is_empty(), "tiles of 32 columns");
        cut
    });
}

/// No value of a word is ever stored to memory, and every lane loads two words at a time.
#[test]
fn values_stay_in_registers() {
    let case = product(16, false, [4096, 1024, 64], &scaled());
    let text = kernel_at(&case, RULE, &[("split_k", 1), ("block_n", 32), ("block_m", 16)]);
    assert!(text.contains("register float16 b0_right[") && !text.contains("shared float16 b0_right"), "{text}");
    assert!(text.contains("copy2 b0_right_words[0] <- W_shared[") || text.contains("copy2 b0_right_words[0] <- p1_"));
    assert!(!text.contains("ldmatrix"), "{text}");
}

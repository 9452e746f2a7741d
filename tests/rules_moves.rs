//! Functions that only move and convert data: transposes of any rank, with fused neighbours.

#[path = "rules/harness.rs"]
mod harness;

use harness::{Case, check_all};

const TRANSPOSES: &[&str] = &["transpose.cuda", "transpose.cpu", "fallback.cuda", "fallback.cpu"];

fn list(items: &[String]) -> String {
    format!("({}{})", items.join(", "), if items.len() == 1 { "," } else { "" })
}

/// `O[v0, v1, ...] = value`, where `A` has the axes of `O` in the order `perm`: axis `perm[k]` of the
/// output is axis `k` of the input. `IN` in `value` is the element read. `params` are further ones.
fn permuted(from: &str, to: &str, shape: &[i64], perm: &[usize], value: &str, params: &str) -> Case {
    let dims: Vec<String> = shape.iter().map(|n| n.to_string()).collect();
    let pick = |names: &str| -> Vec<String> { perm.iter().map(|p| format!("{names}{p}")).collect() };
    let own = |names: &str| -> Vec<String> { (0..shape.len()).map(|p| format!("{names}{p}")).collect() };
    let from_shape: Vec<String> = perm.iter().map(|p| dims[*p].clone()).collect();
    let value = value.replace("IN", &format!("A[{}]", pick("v").join(", ")));
    let text = format!(
        "@T.prim_func(s_tir=True)
def main(A: T.Buffer({}, \"{from}\"){params}, O: T.Buffer({}, \"{to}\")):
    for {} in T.grid({}):
        with T.sblock(\"O\"):
            {} = T.axis.remap(\"{}\", [{}])
            O[{}] = {value}
",
        list(&from_shape),
        list(&dims),
        own("i").join(", "),
        dims.join(", "),
        own("v").join(", "),
        "S".repeat(shape.len()),
        own("i").join(", "),
        own("v").join(", "),
    );
    let order: String = perm.iter().map(|p| p.to_string()).collect();
    Case { name: format!("permute-{}-{order}-{from}-{to}-{value}", dims.join("x")), text, extents: vec![], length: 0 }
}

fn plain(dtype: &str, shape: &[i64], perm: &[usize]) -> Case {
    permuted(dtype, dtype, shape, perm, "IN", "")
}

#[test]
fn matrices() {
    let mut cases = vec![];
    for [m, n] in [[2, 2], [3, 5], [37, 53], [64, 128], [8, 1031], [96, 40], [1, 7]] {
        cases.push(plain("float32", &[m, n], &[1, 0]));
    }
    let (transposes, rest): (Vec<Case>, Vec<Case>) = cases.into_iter().partition(|c| !c.name.contains("-1x7-"));
    check_all(transposes, TRANSPOSES);
    check_all(rest, &["fallback.cuda", "fallback.cpu"]);
}

#[test]
fn element_types() {
    let mut cases = vec![];
    for dtype in ["float16", "bfloat16", "int8", "float64", "int64"] {
        for [m, n] in [[64, 96], [33, 80], [7, 29]] {
            cases.push(plain(dtype, &[m, n], &[1, 0]));
        }
    }
    check_all(cases, TRANSPOSES);
}

#[test]
fn higher_ranks() {
    let cases = vec![
        plain("float16", &[2, 6, 7, 16], &[0, 3, 1, 2]),
        plain("float32", &[2, 16, 5, 5], &[0, 2, 3, 1]),
        plain("float32", &[4, 9, 6], &[2, 1, 0]),
        plain("float16", &[3, 8, 2, 40], &[3, 0, 2, 1]),
    ];
    check_all(cases, TRANSPOSES);
}

#[test]
fn kept_innermost_axes_are_no_transposes() {
    let cases = vec![
        plain("float32", &[2, 3, 8, 16], &[0, 2, 1, 3]),
        plain("float16", &[3, 16, 8], &[1, 0, 2]),
        plain("float32", &[5, 7, 9], &[1, 0, 2]),
    ];
    check_all(cases, &["fallback.cuda", "fallback.cpu"]);
}

#[test]
fn fused_neighbours() {
    let half = "T.Cast(\"float16\", IN)";
    let mut cases = vec![];
    for [m, n] in [[64, 48], [17, 40], [9, 13]] {
        let bias = format!(", B: T.Buffer(({n},), \"float32\")");
        let both = format!(", B: T.Buffer(({m}, {n}), \"float32\"), C: T.Buffer(({m},), \"float32\")");
        let twice = format!(", B: T.Buffer(({n}, {m}), \"float32\")");
        cases.push(permuted("float32", "float16", &[m, n], &[1, 0], half, ""));
        cases.push(permuted("int8", "float32", &[m, n], &[1, 0], "T.Cast(\"float32\", IN) * T.float32(0.5)", ""));
        cases.push(permuted("float32", "float32", &[m, n], &[1, 0], "IN + B[v1]", &bias));
        cases.push(permuted("float32", "float32", &[m, n], &[1, 0], "IN * C[v0] + B[v0, v1]", &both));
        cases.push(permuted("float32", "float32", &[m, n], &[1, 0], "IN - B[v1, v0]", &twice));
    }
    check_all(cases, TRANSPOSES);
}

#[test]
fn symbolic_extents() {
    let text = "n = TypeVar(\"n\")
@T.prim_func(s_tir=True)
def main(A: T.Buffer((T.int64(2), n, T.int64(24)), \"float32\"), O: T.Buffer((T.int64(2), T.int64(24), n), \"float32\")):
    for i, j, k in T.grid(T.int64(2), T.int64(24), n):
        with T.sblock(\"O\"):
            vi, vj, vk = T.axis.remap(\"SSS\", [i, j, k])
            O[vi, vj, vk] = A[vi, vk, vj]
";
    let case = |n: i64| Case { name: format!("symbolic-{n}"), text: text.into(), extents: vec![("n", n)], length: 0 };
    check_all([1, 5, 37, 64].map(case).into(), TRANSPOSES);
}

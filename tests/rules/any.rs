//! Reductions that only the last resort takes, and others of which no rule made a kernel once.

use super::harness::{Case, check_all, read, target};
use daylight::rules::{Prepared, Spaces, verdicts};

/// `O[spatial] op= term` over all axes.
fn reduction(name: &str, params: &str, [spatial, reduced]: [&[&str]; 2], [init, update]: [&str; 2]) -> Case {
    let extents: Vec<&str> = spatial.iter().chain(reduced).copied().collect();
    let axes = |prefix: &str| (0..extents.len()).map(|i| format!("{prefix}{i}")).collect::<Vec<_>>().join(", ");
    let kinds = "S".repeat(spatial.len()) + &"R".repeat(reduced.len());
    let at: Vec<String> = (0..spatial.len()).map(|i| format!("v{i}")).collect();
    let at = if at.is_empty() { "()".to_string() } else { at.join(", ") };
    let text = format!(
        "from typing import TypeVar
n = TypeVar(\"n\")
m = TypeVar(\"m\")
@T.prim_func(s_tir=True)
def main({params}):
    for {}, _ in T.grid({}, 1):
        with T.sblock(\"O\"):
            {}, _v = T.axis.remap(\"{kinds}S\", [{}, _])
            with T.init():
                O[{at}] = {init}
            O[{at}] = {}
",
        axes("i"),
        extents.join(", "),
        axes("v"),
        axes("i"),
        update.replace("O[]", &format!("O[{at}]")),
    );
    Case { name: name.into(), text, extents: vec![("n", 7), ("m", 21)], length: 0 }
}

/// Where windows are longer than one thread is given.
const ANY: [&str; 2] = ["reduction.any", "reduction.any_cpu"];

/// Indices that are read from tensors, that are no sums of axes, and of symbolic sizes; values packed along
/// another axis than the one that is reduced.
#[test]
fn any_index_expression() {
    let experts = "W: T.Buffer((17, 6, 300), \"float32\"), X: T.Buffer((5, 300), \"float32\"), E: T.Buffer((5,), \"int32\"), O: T.Buffer((5, 6), \"float32\")";
    let packed = "Q: T.Buffer((2, 270), \"uint32\"), X: T.Buffer((3, 270), \"float32\"), E: T.Buffer((270,), \"int32\"), O: T.Buffer((3, 16), \"float32\")";
    let unpacked = "O[] + T.max(T.Cast(\"float32\", T.bitwise_and(T.shift_right(Q[v1 // 8, v2], T.Cast(\"uint32\", v1 % 8 * 4)), T.uint32(15))), X[v0, E[v2]])";
    let gather = "A: T.Buffer((n, 17), \"float32\"), E: T.Buffer((n, m), \"int32\"), O: T.Buffer((n,), \"float32\")";
    let squares = "A: T.Buffer((100,), \"float32\"), O: T.Buffer((3,), \"float32\")";
    check_all(
        vec![
            reduction(
                "experts",
                experts,
                [&["5", "6"], &["300"]],
                ["T.float32(0)", "O[] + T.max(W[E[v0], v1, v2], X[v0, v2])"],
            ),
            reduction("packed", packed, [&["3", "16"], &["270"]], ["T.float32(0)", unpacked]),
            reduction("gather", gather, [&["n"], &["m"]], ["T.float32(-1e30)", "T.max(O[], A[v0, E[v0, v1]])"]),
            reduction("squares", squares, [&["3"], &["300"]], ["T.float32(0)", "O[] + A[(v0 * 37 + v1 * v1) % 100]"]),
        ],
        &ANY,
    );
}

/// An update that no operator of partial results puts together runs step by step.
#[test]
fn any_reducer() {
    let rows = "A: T.Buffer((19, 33), \"float32\"), O: T.Buffer((19,), \"float32\")";
    let all = "A: T.Buffer((19, 33), \"float32\"), O: T.Buffer((), \"float32\")";
    check_all(
        vec![
            reduction("decay", rows, [&["19"], &["33"]], ["T.float32(0)", "O[] * T.float32(0.5) + A[v0, v1]"]),
            reduction("difference", all, [&[], &["19", "33"]], ["T.float32(1)", "A[v0, v1] - O[]"]),
        ],
        &ANY,
    );
}

#[test]
fn truth_values() {
    let rows = "A: T.Buffer((19, 96), \"bool\"), O: T.Buffer((19,), \"bool\")";
    let large = "A: T.Buffer((19, 96), \"float32\"), O: T.Buffer((), \"bool\")";
    check_all(
        vec![
            reduction("all", rows, [&["19"], &["96"]], ["T.bool(True)", "O[] and A[v0, v1]"]),
            reduction("any", large, [&[], &["19", "96"]], ["T.bool(False)", "A[v0, v1] > T.float32(1.9) or O[]"]),
        ],
        &["reduction.inner", "reduction.cpu"],
    );
}

/// Vectors that begin in one row and end in the next.
#[test]
fn all_elements_of_odd_rows() {
    let whole = |m: i64, n: i64| {
        let params = format!("A: T.Buffer(({m}, {n}), \"float32\"), O: T.Buffer((), \"float32\")");
        let axes: [&[&str]; 2] = [&[], &[&m.to_string(), &n.to_string()]];
        reduction(&format!("sum-{m}x{n}"), &params, axes, ["T.float32(0)", "O[] + A[v0, v1]"])
    };
    check_all(vec![whole(100, 77), whole(64, 30), whole(12, 7)], &["reduction.inner", "reduction.cpu"]);
}

/// A product of symbolic batches and columns: the loops over both are one.
#[test]
fn a_vector_times_matrices_of_symbolic_sizes() {
    let params = "X: T.Buffer((n, T.int64(4), T.int64(16)), \"float32\"), W: T.Buffer((n, T.int64(4), T.int64(16), m), \"float32\"), O: T.Buffer((n, T.int64(4), m), \"float32\")";
    let update = "O[] + X[v0, v1, v3] * W[v0, v1, v3, v2]";
    let case = reduction("vectors", params, [&["n", "T.int64(4)", "m"], &["T.int64(16)"]], ["T.float32(0)", update]);
    check_all(vec![case], &["reduction.outer", "reduction.outer_cpu"]);
}

/// A symbolic extent that is not the outermost, under vectors.
#[test]
fn elements_of_symbolic_middle_axes() {
    let text = "from typing import TypeVar
n = TypeVar(\"n\")
m = TypeVar(\"m\")
@T.prim_func(s_tir=True)
def main(A: T.Buffer((m, n, 64), \"float16\"), O: T.Buffer((m, n, 64), \"float16\")):
    for i, j, k in T.grid(m, n, 64):
        with T.sblock(\"O\"):
            vi, vj, vk = T.axis.remap(\"SSS\", [i, j, k])
            O[vi, vj, vk] = A[vi, vj, vk] + T.float16(1)
";
    let case = |text: String| Case { name: "middle".into(), text, extents: vec![("n", 7), ("m", 3)], length: 0 };
    check_all(vec![case(text.into()), case(text.replace("m, n, 64", "8, n, 64"))], &["fallback.cuda", "fallback.cpu"]);
}

/// The last resort leaves to every other rule what that takes.
#[test]
fn what_another_rule_takes_is_left_to_it() {
    let params = "A: T.Buffer((64, 256), \"float32\"), O: T.Buffer((64,), \"float32\")";
    let case = reduction("sum", params, [&["64"], &["256"]], ["T.float32(0)", "O[] + A[v0, v1]"]);
    let input = Prepared::new(&read(&case)).expect("a function that is taken");
    for id in ["cuda:sm_90a", "cpu"] {
        let all = verdicts(&input, &target(id), &Spaces::built_in());
        assert!(all.iter().all(|v| v.arm.is_err() || !ANY.contains(&v.rule)), "{id}");
    }
}

#[test]
fn products_of_integers_of_any_width() {
    let product = |dtype: &str| {
        let tensor = |name: &str, m: i64, n: i64| format!("{name}: T.Buffer(({m}, {n}), \"{dtype}\")");
        let params = format!("{}, {}, {}", tensor("A", 70, 33), tensor("B", 33, 50), tensor("O", 70, 50));
        let (start, update) = (format!("T.{dtype}(0)"), "O[] + A[v0, v2] * B[v2, v1]");
        reduction(&format!("product-{dtype}"), &params, [&["70", "50"], &["33"]], [&start, update])
    };
    check_all(["int64", "int16", "uint8"].map(product).into(), &["matmul.fma", "matmul.cpu"]);
}

/// Windows of several sizes in one function: a reduction in a block.
#[test]
fn adaptive_pools() {
    let text = "@T.prim_func(s_tir=True)
def main(A: T.Buffer((3, 13), \"float32\"), O: T.Buffer((3, 5), \"float32\")):
    for c, i in T.grid(3, 5):
        with T.sblock(\"outer\"):
            vc, vi = T.axis.remap(\"SS\", [c, i])
            for k in range((vi * 13 + 17) // 5 - vi * 13 // 5):
                with T.sblock(\"sum\"):
                    wc = T.axis.spatial((vc, vc + 1), vc)
                    w = T.axis.spatial((vi, vi + 1), vi)
                    r = T.axis.reduce((vi * 13 + 17) // 5 - vi * 13 // 5, k)
                    with T.init():
                        O[wc, w] = T.float32(0)
                    O[wc, w] = O[wc, w] + A[wc, w * 13 // 5 + r]
";
    let case = Case { name: "pool-13-5".into(), text: text.into(), extents: vec![], length: 4 };
    check_all(vec![case], &["window.cuda", "window.cpu"]);
}

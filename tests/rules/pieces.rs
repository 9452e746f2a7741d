//! Functions that no rule takes whole become several kernels.

use super::harness::{Case, check_all, read, target};
use super::piece_texts::{Block, ZERO, block, function, softmax};
use crate::common::arm::arm;
use daylight::rules::{Arm, Prepared};

/// Column sums, then row sums weighted by them: two reductions along different axes.
fn columns_then_rows(m: i64, n: i64) -> Case {
    let text = format!(
        "@T.prim_func(s_tir=True)
def main(A: T.Buffer(({m}, {n}), \"float32\"), O: T.Buffer(({m},), \"float32\")):
    C = T.sblock_alloc_buffer(({n},))
    R = T.sblock_alloc_buffer(({m},))
    for j, k in T.grid({n}, {m}):
        with T.sblock(\"columns\"):
            vj, vk = T.axis.remap(\"SR\", [j, k])
            with T.init():
                C[vj] = T.float32(0.0)
            C[vj] = C[vj] + A[vk, vj]
    for i, k in T.grid({m}, {n}):
        with T.sblock(\"rows\"):
            vi, vk = T.axis.remap(\"SR\", [i, k])
            with T.init():
                R[vi] = T.float32(0.0)
            R[vi] = R[vi] + A[vi, vk] * C[vk]
    for i in range({m}):
        with T.sblock(\"scale\"):
            vi = T.axis.spatial({m}, i)
            O[vi] = R[vi] * T.float32(0.25)
"
    );
    Case { name: format!("columns_then_rows-{m}x{n}"), text, extents: vec![], length: 0 }
}

#[test]
fn two_reductions_along_different_axes() {
    let cases = [(3, 5), (16, 64), (37, 53), (8, 264)].map(|(m, n)| columns_then_rows(m, n)).into();
    check_all(cases, &["pieces.cuda", "pieces.cpu"]);
}

/// Who applies a record asks anew: the pieces are found again, and are the same.
#[test]
fn pieces_do_not_depend_on_who_asked() {
    let func = read(&columns_then_rows(37, 53));
    for (id, name) in [("cuda:sm_90a", "pieces.cuda"), ("cpu", "pieces.cpu")] {
        let asked = || {
            let input = Prepared::new(&func).unwrap_or_else(|d| panic!("{}: {}", d.reason.predicate, d.reason.text));
            arm(name, &input, &target(id))
        };
        let (first, again) = (asked(), asked());
        assert_eq!(first.space.size(), again.space.size(), "{name}");
        let knobs = first.space.default().expect("a legal point");
        let trace = |arm: &Arm| {
            let s = arm.schedule(&knobs).unwrap_or_else(|e| panic!("{name}: {e}"));
            s.trace().iter().map(|step| step.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(trace(&first), trace(&again), "{name}");
    }
}

/// Logits of `m` vectors, and what is made of each row of them.
fn logits([m, n, k]: [i64; 3]) -> Block {
    block("product", &[("i", m), ("j", n)], "X[i, j]", "X[i, j] + A[i, r] * W[j, r]").over("r", k, ZERO)
}

fn rows_of_logits(name: &str, size: [i64; 3], params: &[&str], rest: Vec<Block>) -> Case {
    let [m, n, k] = size;
    let matrix = |name: &'static str| (name, vec![m, n]);
    let row = |name: &'static str| (name, vec![m]);
    let all = [("A", vec![m, k]), ("W", vec![n, k]), ("G", vec![n]), ("C", vec![n])].into_iter();
    let all: Vec<_> = all.chain(["X", "P", "Q"].map(matrix)).chain(["M", "E"].map(row)).collect();
    let used = |b: &&str| params.contains(b) || rest.iter().any(|r| r.uses(b)) || *b == "X";
    let all: Vec<(&str, &[i64])> = all.iter().filter(|b| used(&b.0)).map(|(b, s)| (*b, &s[..])).collect();
    let blocks: Vec<Block> = [logits(size)].into_iter().chain(rest).collect();
    function(format!("{name}-{m}x{n}x{k}"), params, &all, &blocks)
}

fn norm(name: &'static str, [m, n, _]: [i64; 3]) -> Vec<Block> {
    let (i, all) = ([("i", m)], [("i", m), ("j", n)]);
    let sum = |name, to: &str, what: &str| block(name, &i, to, &format!("{to} + {what}")).over("j", n, ZERO);
    let mean = format!("(X[i, j] - M[i] / T.float32({n}.0))");
    match name {
        "rms_norm" => vec![
            sum("squares", "E[i]", "X[i, j] * X[i, j]"),
            block("out", &all, "P[i, j]", "X[i, j] * T.rsqrt(E[i] + T.float32(1.0)) * G[j]"),
        ],
        _ => vec![
            sum("mean", "M[i]", "X[i, j]"),
            sum("squares", "E[i]", &format!("{mean} * {mean}")),
            block("out", &all, "P[i, j]", &format!("{mean} * T.rsqrt(E[i] + T.float32(1.0)) * G[j]")),
        ],
    }
}

const SIZES: [[i64; 3]; 5] = [[1, 300, 64], [3, 7, 5], [24, 64, 40], [40, 33, 17], [2, 2, 2]];

/// Pieces of which the later ones work by rows used to be found anew among the blocks of the earlier ones.
#[test]
fn rows_of_products() {
    let softmax =
        |[m, n, k]: [i64; 3]| rows_of_logits("softmax", [m, n, k], &["A", "W", "P"], softmax(&[("i", m)], ("j", n)));
    check_all(SIZES.map(softmax).into(), &["pieces.cuda", "pieces.cpu"]);
    for name in ["rms_norm", "layer_norm"] {
        let cases = SIZES.map(|size| rows_of_logits(name, size, &["A", "W", "G", "P"], norm(name, size)));
        check_all(cases.into(), &["pieces.cuda", "pieces.cpu"]);
    }
}

/// What later pieces read stays in memory: the product beside an epilogue of its own, sums of rows.
#[test]
fn results_that_several_kernels_want() {
    let mut cases = vec![];
    for size in SIZES {
        let [m, n, _] = size;
        let rows = || softmax(&[("i", m)], ("j", n));
        cases.push(rows_of_logits("kept", size, &["A", "W", "X", "P"], rows()));
        let double = block("double", &[("i", m), ("j", n)], "Q[i, j]", "X[i, j] * T.float32(2.0)");
        let rest = [double].into_iter().chain(rows()).collect();
        cases.push(rows_of_logits("double", size, &["A", "W", "Q", "P"], rest));
        let columns = block("columns", &[("j", n)], "C[j]", "C[j] + X[i, j] * E[i]").over("i", m, ZERO);
        let rest = rows().into_iter().chain([columns]).collect();
        cases.push(rows_of_logits("columns", size, &["A", "W", "P", "C"], rest));
    }
    check_all(cases, &[]);
}

fn attention([b, i, j, h, d]: [i64; 5], whole: bool) -> Case {
    let rows = [("b", b), ("h", h), ("i", i)];
    let all = [("b", b), ("h", h), ("i", i), ("j", j)];
    let product = "S[b, h, i, j] + Q[b, i, h, d] * K[b, j, h, d]";
    let mut blocks = vec![block("product", &all, "S[b, h, i, j]", product).over("d", d, ZERO)];
    blocks.push(block("scale", &all, "X[b, h, i, j]", "S[b, h, i, j] * T.float32(0.125)"));
    blocks.extend(softmax(&rows, ("j", j)));
    let (query, key, logits) = ([b, i, h, d], [b, j, h, d], [b, h, i, j]);
    let mut buffers: Vec<(&str, &[i64])> = vec![("Q", &query), ("K", &key), ("S", &logits), ("X", &logits)];
    buffers.extend([("P", &logits[..]), ("M", &logits[..3]), ("E", &logits[..3])]);
    let name = format!("attention-{b}x{i}x{j}x{h}x{d}");
    if !whole {
        return function(format!("{name}-weights"), &["Q", "K", "P"], &buffers, &blocks);
    }
    let out = [("b", b), ("i", i), ("h", h), ("d", d)];
    let product = "O[b, i, h, d] + P[b, h, i, j] * V[b, j, h, d]";
    blocks.push(block("values", &out, "O[b, i, h, d]", product).over("j", j, ZERO));
    buffers.extend([("V", &key[..]), ("O", &query[..])]);
    function(name, &["Q", "K", "V", "O"], &buffers, &blocks)
}

#[test]
fn attention_is_several_kernels() {
    let sizes = [[2, 1, 200, 8, 64], [1, 5, 37, 2, 16], [1, 24, 24, 2, 16], [1, 1, 3, 1, 2]];
    let cases = sizes.into_iter().flat_map(|size| [true, false].map(|whole| attention(size, whole)));
    check_all(cases.collect(), &["pieces.cuda", "pieces.cpu"]);
}

/// A few tiles of 16 bits, for which the first rule is slow, then sums that no rule takes with them.
const FEW_TILES: &str = "@T.prim_func(s_tir=True)
def main(X: T.Buffer((107, 128), \"float16\"), W: T.Buffer((352, 128), \"float16\"), C: T.Buffer((107, 352), \"float32\"), S: T.Buffer((352,), \"float32\")):
    for i, j, k in T.grid(107, 352, 128):
        with T.sblock(\"product\"):
            vi, vj, vk = T.axis.remap(\"SSR\", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0.0)
            C[vi, vj] = C[vi, vj] + T.Cast(\"float32\", X[vi, vk]) * T.Cast(\"float32\", W[vj, vk])
    for i, k in T.grid(352, 107):
        with T.sblock(\"sums\"):
            vi, vk = T.axis.remap(\"SR\", [i, k])
            with T.init():
                S[vi] = T.float32(0.0)
            S[vi] = S[vi] + C[vk, vi]
";

/// A piece is scheduled by the rule that stands untuned for it alone.
#[test]
fn a_piece_is_a_product_in_tiles_where_that_promises_much_more() {
    let case = Case { name: "few_tiles".into(), text: FEW_TILES.into(), extents: vec![], length: 0 };
    let input = Prepared::new(&read(&case)).unwrap_or_else(|d| panic!("{}", d.reason.text));
    let pieces = arm("pieces.cuda", &input, &target("cuda:sm_90a"));
    assert!(pieces.space.knob("part0.warps_n").is_some(), "matmul.mma has it, matmul.wgmma has not");
}

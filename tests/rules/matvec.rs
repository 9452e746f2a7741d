//! Products of a matrix with one or few vectors: packed matrices with scales per group, plain ones, both
//! layouts, on odd, prime, tiny and symbolic sizes.

use super::harness::{Case, check_all, kernel_at, refusal};
use super::products::check_points;

/// A product of `m` vectors (one where it is 1, symbolic where negative) with a matrix.
#[derive(Clone, Copy)]
pub struct Shape {
    pub m: i64,
    pub n: i64,
    pub k: i64,
}

/// How a matrix is stored.
#[derive(Clone, Copy, PartialEq)]
pub enum Layout {
    /// Rows are contiguous along the reduction.
    Nk,
    /// Rows lie side by side.
    Kn,
}

impl Layout {
    fn at(self, n: &str, k: &str) -> String {
        match self {
            Layout::Nk => format!("{n}, {k}"),
            Layout::Kn => format!("{k}, {n}"),
        }
    }
}

fn shapes(s: Shape) -> (String, String, Vec<(&'static str, i64)>) {
    if s.m < 0 {
        let head = "from typing import TypeVar\nm = TypeVar(\"m\")\n".to_string();
        return (head, "m".into(), vec![("m", -s.m)]);
    }
    (String::new(), s.m.to_string(), vec![])
}

/// `y = x (w - zero) scale` with `bits` per value, packed in uint32; `epilogue` adds a bias.
pub fn packed(bits: i64, group: i64, s: Shape, layout: Layout, acc: &str, epilogue: bool) -> Case {
    let pack = 32 / bits;
    let (words, groups) = ((s.k + pack - 1) / pack, (s.k + group - 1) / group);
    let (head, m, extents) = shapes(s);
    let (n, k) = (s.n, s.k);
    let size = |count: i64| layout.at(&n.to_string(), &count.to_string());
    let (word, scale) = (layout.at("v0", &format!("v1 // {pack}")), layout.at("v0", &format!("v1 // {group}")));
    let (mask, zero) = ((1 << bits) - 1, 1);
    let wide = |e: &str| if acc == "float16" { e.to_string() } else { format!("T.Cast(\"{acc}\", {e})") };
    let (x, w) = (wide("x[vm, vk]"), wide("d[vn, vk]"));
    let result = if epilogue || acc != "float16" { "r" } else { "o" };
    let intermediate =
        if result == "r" { format!("    r = T.sblock_alloc_buffer(({m}, {n}), \"{acc}\")\n") } else { String::new() };
    let bias = if epilogue { "b: T.Buffer((NN,), \"float16\"), ".replace("NN", &n.to_string()) } else { String::new() };
    let add = if epilogue { " + b[vn]" } else { "" };
    let tail = match result {
        "r" => format!(
            "    for i, j in T.grid({m}, {n}):
        with T.sblock(\"tail\"):
            vm, vn = T.axis.remap(\"SS\", [i, j])
            o[vm, vn] = T.Cast(\"float16\", r[vm, vn]){add}
"
        ),
        _ => String::new(),
    };
    let text = format!(
        "{head}@T.prim_func(s_tir=True)
def main(w: T.Buffer(({}), \"uint32\"), s: T.Buffer(({}), \"float16\"), x: T.Buffer(({m}, {k}), \"float16\"), {bias}o: T.Buffer(({m}, {n}), \"float16\")):
    d = T.sblock_alloc_buffer(({n}, {k}), \"float16\")
{intermediate}    for i, j in T.grid({n}, {k}):
        with T.sblock(\"dequantize\"):
            v0, v1 = T.axis.remap(\"SS\", [i, j])
            d[v0, v1] = (T.Cast(\"float16\", T.bitwise_and(T.shift_right(w[{word}], T.Cast(\"uint32\", v1 % {pack} * {bits})), T.uint32({mask}))) - T.float16({zero}.0)) * s[{scale}]
    for h, i, j in T.grid({m}, {n}, {k}):
        with T.sblock(\"product\"):
            vm, vn, vk = T.axis.remap(\"SSR\", [h, i, j])
            with T.init():
                {result}[vm, vn] = T.{acc}(0.0)
            {result}[vm, vn] = {result}[vm, vn] + {x} * {w}
{tail}",
        size(words),
        size(groups),
    );
    let name = format!("int{bits}g{group}-{}x{n}x{k}-{}-{acc}", s.m, if layout == Layout::Nk { "nk" } else { "kn" });
    Case { name, text, extents, length: k }
}

/// `y = x w` of one type.
fn plain(dtype: &str, s: Shape, layout: Layout) -> Case {
    let (head, m, extents) = shapes(s);
    let (n, k) = (s.n, s.k);
    let size = layout.at(&n.to_string(), &k.to_string());
    let at = layout.at("vn", "vk");
    let text = format!(
        "{head}@T.prim_func(s_tir=True)
def main(x: T.Buffer(({m}, {k}), \"{dtype}\"), w: T.Buffer(({size}), \"{dtype}\"), o: T.Buffer(({m}, {n}), \"{dtype}\")):
    for h, i, j in T.grid({m}, {n}, {k}):
        with T.sblock(\"product\"):
            vm, vn, vk = T.axis.remap(\"SSR\", [h, i, j])
            with T.init():
                o[vm, vn] = T.{dtype}(0.0)
            o[vm, vn] = o[vm, vn] + x[vm, vk] * w[{at}]
"
    );
    let name = format!("{dtype}-{}x{n}x{k}-{}", s.m, if layout == Layout::Nk { "nk" } else { "kn" });
    Case { name, text, extents, length: k }
}

#[test]
fn one_vector_and_an_int4_matrix() {
    let sizes = [(1, 32), (3, 64), (37, 96), (16, 256), (5, 264)];
    let cases = sizes.map(|(n, k)| packed(4, 32, Shape { m: 1, n, k }, Layout::Nk, "float16", n % 2 == 1));
    check_all(cases.into(), &["gemv.quant", "gemv.quant_cpu"]);
}

#[test]
fn one_vector_and_an_int4_matrix_of_other_groups_and_types() {
    let mut cases = vec![
        packed(4, 16, Shape { m: 1, n: 9, k: 128 }, Layout::Nk, "float16", false),
        packed(4, 8, Shape { m: 1, n: 8, k: 264 }, Layout::Nk, "float32", false),
        packed(4, 128, Shape { m: 1, n: 8, k: 2048 }, Layout::Nk, "float32", true),
        packed(8, 32, Shape { m: 1, n: 12, k: 96 }, Layout::Nk, "float16", false),
    ];
    for (n, k) in [(7, 1), (5, 13), (11, 101), (4, 40)] {
        cases.push(packed(4, 32, Shape { m: 1, n, k }, Layout::Nk, "float32", false));
    }
    cases.retain(|c| c.length > 1);
    check_all(cases, &["gemv.quant", "gemv.quant_cpu"]);
}

/// Products in pairs: every word gives four pairs, and nothing is converted on the way.
#[test]
fn pairs_of_an_int4_matrix() {
    let case = packed(4, 32, Shape { m: 1, n: 16, k: 256 }, Layout::Nk, "float16", false);
    let kernel = kernel_at(&case, "gemv.quant", &[("threads", 8), ("vector", 4), ("rows", 1), ("products", 1)]);
    let count = |what: &str| kernel.matches(what).count();
    assert_eq!(
        (count("halves "), count("= fma.rn.x2"), count("= mul.rn.x2"), count("0x4b000000")),
        (4, 7, 1, 0),
        "{kernel}"
    );
    // a row that is no whole number of steps, and threads that have nothing in the last one
    let tail = packed(4, 32, Shape { m: 1, n: 16, k: 416 }, Layout::Nk, "float16", false);
    let knobs = [("threads", 8), ("vector", 4), ("rows", 1), ("products", 1), ("unroll", 4), ("stage", 0)];
    let kernel = kernel_at(&tail, "gemv.quant", &knobs);
    assert!(kernel.contains("if ") && kernel.contains("halves ") && !kernel.contains("& 15)"), "{kernel}");
    let wide = packed(4, 32, Shape { m: 1, n: 16, k: 256 }, Layout::Nk, "float32", false);
    let why = refusal(&wide, "gemv.quant", &[("products", 1)]);
    assert!(why.contains("wider than float16"), "{why}");
}

/// The same of few vectors: words are decoded once for all of them, sizes are whole and odd.
#[test]
fn pairs_of_few_vectors() {
    for (m, n, k) in [(2, 37, 96), (2, 16, 256), (2, 9, 264), (-5, 12, 416), (2, 24, 1376)] {
        let case = packed(4, 32, Shape { m, n, k }, Layout::Nk, "float16", n % 2 == 1);
        check_points(&case, "low_batch_gemv.inner", "cuda:sm_90a", |space, _| {
            let pairs: Vec<_> = space.points().into_iter().filter(|k| k.get("products") == 1).collect();
            assert!(pairs.len() > 2, "{} points", pairs.len());
            [0, pairs.len() / 2, pairs.len() - 1].map(|i| pairs[i].clone()).into()
        });
    }
    let why = refusal(
        &plain("float16", Shape { m: 2, n: 16, k: 256 }, Layout::Nk),
        "low_batch_gemv.inner",
        &[("products", 1)],
    );
    assert!(why.contains("no packed values"), "{why}");
}

#[test]
fn one_vector_and_an_int3_matrix() {
    let sizes = [(3, 40), (8, 200), (5, 41)];
    let cases = sizes.map(|(n, k)| packed(3, 40, Shape { m: 1, n, k }, Layout::Nk, "float16", false));
    check_all(cases.into(), &["gemv.quant", "gemv.quant_cpu"]);
}

#[test]
fn few_vectors() {
    let mut cases = vec![];
    for (m, n, k) in [(2, 16, 64), (3, 7, 41), (4, 33, 256), (5, 8, 512), (16, 20, 96), (13, 1, 17), (-5, 24, 128)] {
        cases.push(plain("float32", Shape { m, n, k }, Layout::Nk));
        cases.push(plain("float16", Shape { m, n, k: k + k % 2 }, Layout::Nk));
    }
    cases.push(plain("bfloat16", Shape { m: 8, n: 32, k: 64 }, Layout::Nk));
    cases.retain(|c| !c.name.contains("x1x"));
    check_all(cases, &["low_batch_gemv.inner"]);
}

/// Vectors along two axes, with the rows between or behind them in the result: all of them are taken at a time, as
/// one fused loop, whose digits are those axes.
#[test]
fn few_vectors_along_two_axes() {
    let cases =
        [("va, vb, vc", "24, 3, 2"), ("vb, va, vc", "3, 24, 2"), ("vb, vc, va", "3, 2, 24")].map(|(at, shape)| {
            let text = format!(
                "# from tvm.script import tirx as T

@T.prim_func(private=True, s_tir=True)
def main(x: T.Buffer((2, 3, 64), \"float32\"), w: T.Buffer((24, 64), \"float32\"), o: T.Buffer(({shape}), \"float32\")):
    for a, b, c, k in T.grid(24, 3, 2, 64):
        with T.sblock(\"sum\"):
            va, vb, vc, vk = T.axis.remap(\"SSSR\", [a, b, c, k])
            with T.init():
                o[{at}] = T.float32(0.0)
            o[{at}] = o[{at}] + x[vc, vb, vk] * w[va, vk]
"
            );
            Case { name: format!("two-axes-{shape}"), text, extents: vec![], length: 64 }
        });
    check_all(cases.into(), &["low_batch_gemv.inner"]);
}

#[test]
fn few_vectors_and_an_int4_matrix() {
    let sizes = [(2, 16, 64), (4, 33, 256), (7, 8, 160), (16, 12, 96), (-3, 24, 128)];
    let cases = sizes.map(|(m, n, k)| packed(4, 32, Shape { m, n, k }, Layout::Nk, "float16", m == 4));
    check_all(cases.into(), &["low_batch_gemv.inner"]);
}

#[test]
fn one_vector_and_an_int4_matrix_by_columns() {
    let sizes = [(8, 32), (3, 64), (37, 96), (64, 128), (40, 104)];
    let cases = sizes.map(|(n, k)| packed(4, 32, Shape { m: 1, n, k }, Layout::Kn, "float16", n % 2 == 1));
    check_all(cases.into(), &["gemv.quant_outer", "gemv.quant_outer_cpu"]);
}

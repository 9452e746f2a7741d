//! Which functions are plain products, as a library computes them, and that the product found is what the function means.

use crate::common::{golden, scripts};
use daylight::interp::{Mode, Scalars, Tensor, run};
use daylight::ir::{self, DType, Param, PrimFunc};
use daylight::rules::{Gemm, Matrix, Prepared, Spaces};
use daylight::target::{HostCpu, Target};
use std::path::Path;

fn found(text: &str) -> (PrimFunc, Result<Gemm, String>) {
    let func = ir::read(text, "f.py").expect("it reads").remove(0);
    let target = Target::parse("cuda:sm_90a", &HostCpu::default()).expect("a known target");
    let prepared = Prepared::new(&func).expect("it is accepted");
    let gemm = Gemm::of(&prepared, &target, &Spaces::built_in()).map_err(|why| why.predicate.to_string());
    (prepared.func, gemm)
}

#[test]
fn the_corpus() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/workloads");
    let mut lines = String::new();
    for path in scripts(&root) {
        let name = path.strip_prefix(&root).expect("below the corpus").with_extension("").display().to_string();
        if name.starts_with("refused") {
            continue;
        }
        let (_, gemm) = found(&std::fs::read_to_string(&path).expect("a text file"));
        let text = gemm.map_or_else(|why| format!("no: {why}"), |g| shown(&g));
        lines += &format!("{name}\n    {text}\n");
    }
    golden("golden/plain_products.txt", &lines);
}

fn shown(g: &Gemm) -> String {
    let matrix = |m: &Matrix| format!("{} {}:{}:{}", m.dtype, m.batch, m.row, m.column);
    let [a, b, c] = [&g.a, &g.b, &g.c].map(matrix);
    format!("{} x {} x {} x {}: {a}, {b}, {c}", g.batch, g.m, g.n, g.k)
}

/// `C = A B` with the shapes of A, B and C, the indices of the factors and the type in which C is stored.
fn product([a, b, c]: [&str; 3], iters: &str, [x, y]: [&str; 2], grid: &str, out: &str) -> String {
    let cast = if out == "float32" { "S[INDEX]".to_string() } else { format!("T.Cast(\"{out}\", S[INDEX])") };
    let spatial: Vec<&str> = iters.split(", ").filter(|i| *i != "vk").collect();
    let names: Vec<String> = iters.split(", ").map(|v| v[1..].to_string()).collect();
    let kinds: String = iters.split(", ").map(|v| if v == "vk" { 'R' } else { 'S' }).collect();
    let index = spatial.join(", ");
    let loops: Vec<&str> = spatial.iter().map(|v| &v[1..]).collect();
    let outer: Vec<&str> = grid.split(", ").take(spatial.len()).collect();
    let text = format!(
        r#"
from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def f(A: T.Buffer({a}, "float16"), B: T.Buffer({b}, "float16"), C: T.Buffer({c}, "{out}")):
    S = T.sblock_alloc_buffer({c})
    for {loops_in} in T.grid({grid}):
        with T.sblock("S"):
            {iters} = T.axis.remap("{kinds}", [{loops_in}])
            with T.init():
                S[INDEX] = T.float32(0)
            S[INDEX] = S[INDEX] + T.Cast("float32", A[{x}]) * T.Cast("float32", B[{y}])
    for {own} in T.grid({outer}):
        with T.sblock("C"):
            {index} = T.axis.remap("{all}", [{own}])
            C[INDEX] = {cast}
"#,
        loops_in = names.join(", "),
        own = loops.join(", "),
        outer = outer.join(", "),
        all = "S".repeat(spatial.len()),
    );
    text.replace("INDEX", &index)
}

/// The function as the interpreter runs it and as the strides of its product say must agree.
fn agrees(text: &str) {
    let (func, gemm) = found(text);
    let g = gemm.unwrap_or_else(|why| panic!("{why}: {text}"));
    let buffers: Vec<_> = func.buffer_params().collect();
    let shape = |i: usize| buffers[i].shape.iter().filter_map(|e| e.as_int()).collect::<Vec<i64>>();
    let small = |i: usize, step: i64| -> Vec<f64> {
        (0..shape(i).iter().product::<i64>()).map(|n| (n * step % 7 - 3) as f64).collect()
    };
    let mut args = vec![
        Tensor::from_f64(DType::F16, &shape(0), &small(0, 5)),
        Tensor::from_f64(DType::F16, &shape(1), &small(1, 3)),
        Tensor::zeros(buffers[2].dtype, &shape(2)),
    ];
    run(&func, &mut args, &Scalars::default(), Mode::F64).expect("it runs");
    let position = |m: &Matrix| {
        func.params.iter().position(|p| matches!(p, Param::Buffer(b) if *b == m.buffer)).expect("a parameter")
    };
    let (a, b) = (args[position(&g.a)].to_f64(), args[position(&g.b)].to_f64());
    let mut got = vec![f64::NAN; args[2].len()];
    let at = |m: &Matrix, p: i64, i: i64, j: i64| (p * m.batch + i * m.row + j * m.column) as usize;
    for (p, i, j) in (0..g.batch).flat_map(|p| (0..g.m).flat_map(move |i| (0..g.n).map(move |j| (p, i, j)))) {
        let term = |k| a[at(&g.a, p, i, k)] * b[at(&g.b, p, k, j)];
        got[at(&g.c, p, i, j)] = (0..g.k).map(term).sum();
    }
    assert_eq!(position(&g.c), 2);
    assert_eq!(got, args[2].to_f64(), "{}: {text}", shown(&g));
}

#[test]
fn the_product_found_is_what_the_function_means() {
    let plain = ("(5, 4)", "(4, 6)", "(5, 6)");
    agrees(&product([plain.0, plain.1, plain.2], "vi, vj, vk", ["vi, vk", "vk, vj"], "5, 6, 4", "float32"));
    agrees(&product(["(4, 5)", "(6, 4)", "(5, 6)"], "vi, vj, vk", ["vk, vi", "vj, vk"], "5, 6, 4", "float16"));
    // The result is the transpose of what its factors say in their order.
    agrees(&product(["(5, 4)", "(4, 6)", "(6, 5)"], "vj, vi, vk", ["vi, vk", "vk, vj"], "6, 5, 4", "float16"));
    // Heads between rows and columns, and weights that all of a batch share.
    agrees(&product(
        ["(5, 3, 4)", "(3, 6, 4)", "(5, 3, 6)"],
        "vi, vb, vj, vk",
        ["vi, vb, vk", "vb, vj, vk"],
        "5, 3, 6, 4",
        "float32",
    ));
    agrees(&product(
        ["(3, 5, 4)", "(6, 4)", "(3, 5, 6)"],
        "vb, vi, vj, vk",
        ["vb, vi, vk", "vj, vk"],
        "3, 5, 6, 4",
        "float16",
    ));
}

#[test]
fn what_is_no_plain_product_is_refused_by_name() {
    let predicate = |text: &str| found(text).1.expect_err("no product");
    let good = product(["(5, 4)", "(4, 6)", "(5, 6)"], "vi, vj, vk", ["vi, vk", "vk, vj"], "5, 6, 4", "float16");
    let epilogue =
        good.replace("T.Cast(\"float16\", S[vi, vj])", "T.Cast(\"float16\", T.max(S[vi, vj], T.float32(0)))");
    assert_eq!(predicate(&epilogue), "no_epilogue");
    let scaled = good.replace("T.Cast(\"float32\", A[vi, vk])", "(T.Cast(\"float32\", A[vi, vk]) + T.float32(1))");
    assert_eq!(predicate(&scaled), "plain_factors");
    let beside = product(["(5, 5)", "(4, 6)", "(5, 6)"], "vi, vj, vk", ["vi, vk + 1", "vk, vj"], "5, 6, 4", "float16");
    assert_eq!(predicate(&beside), "known_strides");
    let every_second =
        product(["(5, 8)", "(4, 6)", "(5, 6)"], "vi, vj, vk", ["vi, vk * 2", "vk, vj"], "5, 6, 4", "float16");
    assert_eq!(predicate(&every_second), "leading_dimension");
    let windows = product(["(8,)", "(4, 6)", "(5, 6)"], "vi, vj, vk", ["vi + vk", "vk, vj"], "5, 6, 4", "float16");
    assert_eq!(predicate(&windows), "leading_dimension");
}

//! Reductions into several buffers are taken apart where they are independent, and only there.

use daylight::analysis::{Facts, normalize};
use daylight::interp::{self, Mode, Tensor};
use daylight::ir::{self, PrimFunc};

const HEADER: &str = "from tvm.script import tirx as T\n";

fn read(text: &str) -> PrimFunc {
    ir::read(&format!("{HEADER}{text}"), "main").unwrap_or_else(|e| panic!("{e}\n{text}")).remove(0)
}

/// A function that keeps `n` results over rows of `x`; `body` are the statements after the init.
fn rows(n: usize, inits: &str, body: &str) -> PrimFunc {
    let outs: Vec<String> = (0..n).map(|i| format!("s{i}: T.Buffer((5,), \"float32\")")).collect();
    let lines = |text: &str, indent: usize| -> String {
        text.lines().map(|l| format!("{}{}\n", " ".repeat(indent), l.trim())).collect()
    };
    let text = format!(
        "@T.prim_func(private=True, s_tir=True)\ndef main(x: T.Buffer((5, 7), \"float32\"), {}):\n    for i, k in T.grid(5, 7):\n        with T.sblock(\"s\"):\n            v, w = T.axis.remap(\"SR\", [i, k])\n            with T.init():\n{}{}",
        outs.join(", "),
        lines(inits, 16),
        lines(body, 12),
    );
    read(&text)
}

fn same_results(f: &PrimFunc, g: &PrimFunc) {
    let values = |n: i64| (0..n).map(|i| ((i * 37 % 19) as f64 - 9.0) / 4.0).collect::<Vec<_>>();
    let make = |b: &ir::Buffer| {
        let shape: Vec<i64> = b.shape.iter().filter_map(|e| e.as_int()).collect();
        Tensor::from_f64(b.dtype, &shape, &values(shape.iter().product()))
    };
    let args: Vec<Tensor> = f.buffer_params().map(make).collect();
    let run = |f: &PrimFunc| {
        let mut args = args.clone();
        interp::run(f, &mut args, &Default::default(), Mode::Exact).expect("runs");
        args.iter().map(|t| t.to_f64()).collect::<Vec<_>>()
    };
    assert_eq!(run(f), run(g));
}

/// Blocks and plain reductions after normalising.
fn counts(f: &PrimFunc) -> (usize, usize) {
    let g = normalize(f).expect("accepted");
    ir::verify(&g).expect("well formed");
    same_results(f, &g);
    let facts = Facts::of(&g);
    (facts.blocks.len(), facts.blocks.iter().filter(|b| b.is_reduction && b.reducer.is_some()).count())
}

const ZERO2: &str = "s0[v] = T.float32(0.0)\ns1[v] = T.float32(0.0)";
const ZERO3: &str = "s0[v] = T.float32(0.0)\ns1[v] = T.float32(0.0)\ns2[v] = T.float32(0.0)";

#[test]
fn sum_and_sum_of_squares_are_two_reductions() {
    let f = rows(
        2,
        ZERO2,
        "a: T.let[T.float32] = s0[v] + x[v, w]\nb: T.let[T.float32] = s1[v] + x[v, w] * x[v, w]\ns0[v] = a\ns1[v] = b",
    );
    assert_eq!(counts(&f), (2, 2));
    assert_eq!(counts(&rows(2, ZERO2, "s0[v] = s0[v] + x[v, w]\ns1[v] = T.max(s1[v], x[v, w])")), (2, 2));
}

#[test]
fn one_update_through_lets_is_one_store() {
    let f = rows(
        1,
        "s0[v] = T.float32(0.0)",
        "t: T.let[T.float32] = x[v, w] * x[v, w]\na: T.let[T.float32] = s0[v] + t\ns0[v] = a",
    );
    assert_eq!(counts(&f), (1, 1));
}

#[test]
fn updates_that_read_each_other_stay_together() {
    let body = "a: T.let[T.float32] = s0[v] + s1[v]\nb: T.let[T.float32] = s1[v] + x[v, w]\ns0[v] = a\ns1[v] = b";
    assert_eq!(counts(&rows(2, ZERO2, body)), (1, 0));
}

#[test]
fn a_group_leaves_the_others_alone() {
    let body = "t: T.let[T.float32] = x[v, w] * T.float32(2.0)\na: T.let[T.float32] = s0[v] + s2[v] * t\nb: T.let[T.float32] = s1[v] + t\nc: T.let[T.float32] = s2[v] + t\ns0[v] = a\ns1[v] = b\ns2[v] = c";
    assert_eq!(counts(&rows(3, ZERO3, body)), (2, 1));
}

#[test]
fn a_value_read_after_its_store_stays() {
    assert_eq!(counts(&rows(2, ZERO2, "s0[v] = s0[v] + x[v, w]\ns1[v] = s1[v] + s0[v]")), (1, 0));
}

#[test]
fn lets_that_double_are_not_repeated() {
    let mut body = "t0: T.let[T.float32] = x[v, w]\n".to_string();
    for i in 1..40 {
        body += &format!("t{i}: T.let[T.float32] = t{} + t{}\n", i - 1, i - 1);
    }
    body += "s0[v] = s0[v] + t39\ns1[v] = s1[v] + t39";
    assert_eq!(counts(&rows(2, ZERO2, &body)), (1, 0));
}

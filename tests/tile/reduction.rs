//! Reductions: `local`, `shared`, `sm100_packed`, `cross_warp`, `staged`.

use super::case::{Case, Says, buffer, close_to_reference, cuda, lowered, tile_program};
use crate::common;
use daylight::ir::device::DeviceFunc;
use daylight::ir::{DType, ExecScope, Name, Scope, Tile, TileArg, TileCall, TileOp};
use daylight::tile::Active;

/// A reduction of all of `a` to all of `d`, both in registers with these layouts.
struct Regs {
    scope: ExecScope,
    src: (&'static [i64], &'static str),
    dst: (&'static [i64], &'static str),
    axes: &'static [usize],
    threads: u32,
}

impl Regs {
    fn case(&self, name: &str, says: Says) -> Case {
        let a = buffer("a", DType::F32, self.src.0, Scope::Local, self.src.1);
        let d = buffer("d", DType::F32, self.dst.0, Scope::Local, self.dst.1);
        let call = call(TileOp::Sum, self.scope, ("d", self.dst.0), ("a", self.src.0), self.axes);
        Case::new(name, "cuda:sm_90a", self.threads, &[a, d], call, says)
    }
}

fn call(op: TileOp, scope: ExecScope, dst: (&str, &[i64]), src: (&str, &[i64]), axes: &[usize]) -> TileCall {
    let tile = |(name, shape): (&str, &[i64])| Tile::whole(&Name::new(name), shape);
    TileCall { axes: axes.to_vec(), ..TileCall::new(op, scope, tile(dst), vec![TileArg::Tile(tile(src))]) }
}

const THREAD: Regs = Regs { scope: ExecScope::Thread, src: (&[4], ""), dst: (&[1], ""), axes: &[0], threads: 1 };
const WARP: Regs = Regs {
    scope: ExecScope::Warp,
    src: (&[32, 8], "S[(32, 8) : (1@laneid, 1)]"),
    dst: (&[1, 8], "S[(1, 8) : (1, 1)] + R[32 : 1@laneid]"),
    axes: &[0],
    threads: 64,
};

pub fn cases() -> Vec<Case> {
    let mut all = local_cases();
    all.extend(block_cases("cross_warp", &NEIGHBOURS));
    all.extend(block_cases("staged", &COLUMNS));
    let lanes = Regs { dst: (&[1, 8], "S[(1, 8) : (1, 1)] + R[32 : 1@laneid]"), scope: ExecScope::Cta, ..WARP };
    all.push(lanes.case("cross_warp: lanes of one warp", Says::Declines("cross_warp", "reduced_warps")));
    let own = Regs { scope: ExecScope::Cta, ..THREAD };
    all.push(own.case("staged: nothing to exchange", Says::Declines("staged", "reduced_threads")));
    all.extend(shared_cases());
    all.extend(packed_cases());
    all
}

fn shared_cases() -> Vec<Case> {
    let case = |name: &str, says| {
        let a = buffer("a", DType::F32, &[4, 8], Scope::Shared, "");
        let d = buffer("d", DType::F32, &[4], Scope::SharedDyn, "");
        let call = call(TileOp::Max, ExecScope::Cta, ("d", &[4]), ("a", &[4, 8]), &[1]);
        Case::new(&format!("shared: {name}"), "cuda:sm_90a", 32, &[a, d], call, says)
    };
    let declines = |predicate| Says::Declines("shared", predicate);
    let mut local = case("registers", declines("storage_scope"));
    local.buffers[1].scope = Scope::Local;
    let mut mixed = case("bool", declines("dtype"));
    mixed.call.op = TileOp::Sum;
    mixed.buffers.iter_mut().for_each(|b| b.dtype = DType::Bool);
    let mut truth = case("truth values", Says::Takes("shared"));
    truth.buffers.iter_mut().for_each(|b| b.dtype = DType::Bool);
    let mut some = case("some threads", declines("all_threads"));
    some.active = Active::Some;
    let mut warpgroups = case("one of two warpgroups", declines("barrier"));
    warpgroups.block = [256, 1, 1];
    warpgroups.active = Active::WholeWarpgroups;
    warpgroups.call.scope = ExecScope::Warpgroup;
    let mut axis = case("the other axis", declines("shape"));
    axis.call.axes = vec![0];
    let mut tall = case("threads along y", Says::Takes("shared"));
    tall.block = [8, 3, 1];
    vec![case("rows of 8", Says::Takes("shared")), local, mixed, truth, some, warpgroups, axis, tall]
}

fn packed_cases() -> Vec<Case> {
    let case = |name: &str, n: i64, says| {
        let a = buffer("a", DType::F32, &[n], Scope::Local, "");
        let d = buffer("d", DType::F32, &[1], Scope::Local, "");
        let call = call(TileOp::Sum, ExecScope::Thread, ("d", &[1]), ("a", &[n]), &[0]);
        Case::new(&format!("sm100_packed: {name}"), "cuda:sm_100a", 1, &[a, d], call, says)
    };
    let declines = |predicate| Says::Declines("sm100_packed", predicate);
    let takes = Says::Takes("sm100_packed");
    let mut warp = case("a warp", 8, declines("exec_scope"));
    (warp.call.scope, warp.block) = (ExecScope::Warp, [32, 1, 1]);
    let mut shared = case("shared memory", 8, declines("local_scope"));
    shared.buffers[0].scope = Scope::Shared;
    let mut two = case("two results", 8, declines("dst_len"));
    (two.buffers[1], two.call.dst) =
        (buffer("d", DType::F32, &[2], Scope::Local, ""), Tile::whole(&Name::new("d"), &[2]));
    let mut matrix = case("a matrix", 8, declines("src_ndim"));
    matrix.buffers[0] = buffer("a", DType::F32, &[2, 8], Scope::Local, "");
    matrix.call.args = vec![TileArg::Tile(Tile::whole(&Name::new("a"), &[2, 8]))];
    let mut half = case("float16", 8, declines("dtype"));
    half.buffers.iter_mut().for_each(|b| b.dtype = DType::F16);
    let mut hopper = case("sm_90", 8, declines("sm_version"));
    hopper.target = "cuda:sm_90a";
    let mut max = case("max on sm_120", 11, takes);
    (max.target, max.call.op, max.call.accum) = ("cuda:sm_120a", TileOp::Max, true);
    let mut prod = case("no packed product", 8, Says::Takes("local"));
    prod.call.op = TileOp::Prod;
    let seven = case("7 elements", 7, declines("reduction_len"));
    let left = case("7 elements are left to local", 7, Says::Takes("local"));
    vec![case("32 elements", 32, takes), warp, shared, two, matrix, half, hopper, max, prod, seven, left]
}

/// Sums over 64 neighbouring threads, twice.
const NEIGHBOURS: Regs = Regs {
    scope: ExecScope::Cta,
    src: (&[2, 64], "S[(2, 64) : (64@tx, 1@tx)]"),
    dst: (&[2, 1], "S[(2, 1) : (64@tx, 1)] + R[64 : 1@tx]"),
    axes: &[1],
    threads: 128,
};
/// Sums over 4 threads that are 64 apart; the first of them has the result.
const COLUMNS: Regs = Regs {
    scope: ExecScope::Cta,
    src: (&[4, 64], "S[(4, 64) : (64@tx, 1@tx)]"),
    dst: (&[1, 64], "S[(1, 64) : (1, 1@tx)]"),
    axes: &[0],
    threads: 256,
};

/// Cases of the variants that exchange through shared memory.
fn block_cases(variant: &'static str, good: &Regs) -> Vec<Case> {
    let declines = |predicate| Says::Declines(variant, predicate);
    let mut shared = good.case(&format!("{variant}: shared memory"), declines("storage_scope"));
    shared.buffers[1].scope = Scope::Shared;
    let mut mixed = good.case(&format!("{variant}: two types"), declines("dtype"));
    mixed.buffers[1].dtype = DType::F64;
    let mut warp = good.case(&format!("{variant}: a warp"), declines("exec_scope"));
    warp.call.scope = ExecScope::Warp;
    let mut some = good.case(&format!("{variant}: some threads"), declines("all_threads"));
    some.active = Active::WholeWarps;
    let mut axes = good.case(&format!("{variant}: the other axis"), declines("layout"));
    axes.call.axes = vec![2];
    let wide = Regs {
        src: (&[1024, 4096], "S[(1024, 4096) : (1@tx, 1)]"),
        dst: (&[1, 4096], "S[(1, 4096) : (1, 1)] + R[1024 : 1@tx]"),
        axes: &[0],
        threads: 1024,
        ..COLUMNS
    };
    let wide = wide.case(&format!("{variant}: much to stage"), declines("scratch"));
    vec![good.case(variant, Says::Takes(variant)), shared, mixed, warp, some, axes, wide]
}

fn local_cases() -> Vec<Case> {
    use Says::{Declines, Takes};
    let mut shared = THREAD.case("local: a source in shared memory", Declines("local", "storage_scope"));
    shared.buffers[0].scope = Scope::Shared;
    let mut mixed = THREAD.case("local: two types", Declines("local", "dtype"));
    mixed.buffers[0].dtype = DType::F16;
    let mut some = WARP.case("local: some lanes only", Declines("local", "all_threads"));
    some.active = Active::Some;
    let columns = Regs {
        src: (&[4, 64], "S[(4, 64) : (64@tx, 1@tx)]"),
        dst: (&[1, 64], "S[(1, 64) : (1, 1@tx)] + R[4 : 64@tx]"),
        scope: ExecScope::Cta,
        threads: 256,
        axes: &[0],
    };
    let half = Regs { dst: (&[1, 8], "S[(1, 8) : (1, 1)] + R[16 : 1@laneid]"), ..WARP };
    vec![
        THREAD.case("local: four registers of a thread", Takes("local")),
        WARP.case("local: rows among lanes", Takes("local")),
        shared,
        mixed,
        some,
        half.case("local: half of the lanes hold the result", Declines("local", "layout")),
        columns.case("local: over warps", Declines("local", "lanes")),
    ]
}

/// What is done in text, with the names that it uses and a tolerance.
pub fn programs() -> Vec<(String, DeviceFunc, f64)> {
    let mut all = vec![];
    for op in ["sum", "prod", "max", "min"] {
        for accum in ["False", "True"] {
            all.extend(register_programs(op, accum));
            all.extend(block_programs(op, accum));
            all.extend(shared_programs(op, accum));
            all.extend(vector_programs(op, accum));
        }
    }
    all
}

fn register_programs(op: &str, accum: &str) -> Vec<(String, DeviceFunc, f64)> {
    let exact = |dtype: &str| if dtype == "float32" { 1e-5 } else { 8e-3 };
    let thread = |n: i64, dtype: &str| {
        let body = format!(
            "a = T.alloc_local(({n},), \"{dtype}\")\nd = T.alloc_local((1,), \"{dtype}\")\nfor i in T.serial({n}):\n    \
             a[i] = A[tx, i]\nd[0] = C[tx]\nTx.{op}(d, a, accum={accum})\nB[tx] = d[0]"
        );
        let p = tile_program(&[("A", &[3, n], dtype), ("C", &[3], dtype), ("B", &[3], dtype)], 3, &body);
        (format!("{op}_thread_{n}_{dtype}_{accum}"), p, exact(dtype))
    };
    let rows = {
        let body = format!(
            "a = T.alloc_local((5, 6, 7), \"float32\")\nd = T.alloc_local((5, 7), \"float32\")\n\
             for i, j, k in T.grid(5, 6, 7):\n    a[i, j, k] = A[i, j, k]\nfor i, k in T.grid(5, 7):\n    \
             d[i, k] = C[i, k]\nfor r in T.serial(2):\n    \
             Tx.{op}(d[2 * r:2 * r + 2, 0:7], a[2 * r:2 * r + 2, 2:6, 0:7], axes=1, accum={accum})\n\
             for i, k in T.grid(5, 7):\n    B[i, k] = d[i, k]"
        );
        let matrix: &[i64] = &[5, 7];
        let params = [("A", &[5, 6, 7][..], "float32"), ("C", matrix, "float32"), ("B", matrix, "float32")];
        (format!("{op}_thread_middle_{accum}"), tile_program(&params, 1, &body), 1e-5)
    };
    // each thread has 2 x 3 values; the rows are spread over threads and reduced with the middle axis
    let spread = |scope: &str, threads: i64, src: &str, dst: &str, groups: &str, row: &str, dtype: &str| {
        let body = format!(
            "a = T.alloc_local(({threads}, 2, 3), \"{dtype}\", layout=TileLayout({src}))\n\
             d = T.alloc_local(({groups}, 3), \"{dtype}\", layout=TileLayout({dst}))\n\
             for i, j in T.grid(2, 3):\n    a[tx, i, j] = A[tx, i, j]\nfor j in T.serial(3):\n    d[{row}, j] = C[{row}, j]\n\
             Tx.{scope}.{op}(d, a, axes=(0, 1), accum={accum})\nfor j in T.serial(3):\n    B[tx, j] = d[{row}, j]"
        );
        let out: &[i64] = &[threads, 3];
        let params = [("A", &[threads, 2, 3][..], dtype), ("C", out, dtype), ("B", out, dtype)];
        let p = tile_program(&params, threads as u32, &body);
        (format!("{op}_{scope}_{threads}_{dtype}_{accum}"), p, exact(dtype))
    };
    let lanes = "S[(1, 3) : (1, 1)] + R[32 : 1@laneid]";
    let warp = spread("warp", 32, "S[(32, 2, 3) : (1@laneid, 3, 1)]", lanes, "1", "0", "float32");
    let cta =
        spread("cta", 32, "S[(32, 2, 3) : (1@tx, 3, 1)]", "S[(1, 3) : (1, 1)] + R[32 : 1@tx]", "1", "0", "bfloat16");
    vec![thread(1, "float32"), thread(7, "float32"), thread(5, "float16"), rows, warp, cta]
}

/// Reductions of `[outer, n, inner, values]`, with `values` in registers and the rest threads, over
/// `n`; done twice on different data, because scratch is used again.
fn block_programs(op: &str, accum: &str) -> Vec<(String, DeviceFunc, f64)> {
    let program = |[outer, n, inner, values]: [i64; 4], dtype: &str, to_all: bool| {
        let threads = outer * n * inner;
        let shape = format!("({outer}, {n}, {inner}, {values})");
        let strides = format!("{}@tx, {inner}@tx, 1@tx, 1", n * inner);
        let kept = format!("({outer}, 1, {inner}, {values}) : ({}@tx, 1, 1@tx, 1)", n * inner);
        let replica = if to_all { format!(" + R[{n} : {inner}@tx]") } else { String::new() };
        let at = |i: &str| format!("tx // {}, {i}, tx % {inner}, v", n * inner);
        let (own, kept_at) = (at(&format!("tx // {inner} % {n}")), at("0"));
        let out = if to_all { &own } else { &kept_at };
        let indent = if to_all { "" } else { "    " };
        let first = if to_all { String::new() } else { format!("    if tx // {inner} % {n} == 0:\n") };
        let body = format!(
            "a = T.alloc_local({shape}, \"{dtype}\", layout=TileLayout(S[{shape} : ({strides})]))\n\
             d = T.alloc_local(({outer}, 1, {inner}, {values}), \"{dtype}\", layout=TileLayout(S[{kept}]{replica}))\n\
             for r in T.serial(2):\n    for v in T.serial({values}):\n        a[{own}] = A[r, {own}]\n\
             {first}{indent}    for v in T.serial({values}):\n        {indent}d[{kept_at}] = C[r, {kept_at}]\n    \
             Tx.cta.{op}(d, a, axes=1, accum={accum})\n\
             {first}{indent}    for v in T.serial({values}):\n        {indent}B[r, {out}] = d[{kept_at}]"
        );
        let all: &[i64] = &[2, outer, n, inner, values];
        let left: &[i64] = &[2, outer, 1, inner, values];
        let params = [("A", all, dtype), ("C", left, dtype), ("B", if to_all { all } else { left }, dtype)];
        let p = tile_program(&params, threads as u32, &body);
        let who = if to_all { "all" } else { "first" };
        (
            format!("{op}_block_{outer}x{n}x{inner}x{values}_{who}_{accum}"),
            p,
            if dtype == "float32" { 1e-5 } else { 1e-2 },
        )
    };
    vec![
        program([2, 64, 1, 2], "float32", true),
        program([1, 96, 1, 1], "float32", false),
        program([1, 4, 32, 2], "float32", true),
        program([2, 3, 5, 2], "float32", false),
        program([1, 40, 2, 1], "float16", true),
        program([3, 8, 2, 1], "float32", false),
    ]
}

/// Reductions from shared memory to shared memory.
fn shared_programs(op: &str, accum: &str) -> Vec<(String, DeviceFunc, f64)> {
    let program = |threads: i64, src: &[i64], dst: &[i64], call: &str, layout: &str, dtype: &str| {
        let fill = |to: &str, from: &str, shape: &[i64]| {
            let (n, at) = (shape.iter().product::<i64>(), index_text(shape, threads));
            format!(
                "for i in T.serial({}):\n    if i * {threads} + tx < {n}:\n        {to}[{at}] = {from}[{at}]\n",
                (n + threads - 1) / threads
            )
        };
        let layout = if layout.is_empty() { String::new() } else { format!(", layout={layout}") };
        let body = format!(
            "a = T.alloc_shared({src:?}, \"{dtype}\"{layout})\nd = T.alloc_shared({dst:?}, \"{dtype}\")\n{}{}\
             T.cuda.cta_sync()\n{}\nT.cuda.cta_sync()\n{}",
            fill("a", "A", src),
            fill("d", "C", dst),
            call.replace("OP", op).replace("ACCUM", &format!("accum={accum}")),
            fill("B", "d", dst)
        );
        let p = tile_program(&[("A", src, dtype), ("C", dst, dtype), ("B", dst, dtype)], threads as u32, &body);
        let name =
            format!("{op}_shared_{threads}_{src:?}_{dtype}_{accum}").replace(['[', ']', ' '], "").replace(',', "x");
        (name, p, if dtype == "float32" { 1e-5 } else { 1e-2 })
    };
    let f32 = "float32";
    let swizzled = "T.ComposeLayout(T.SwizzleLayout(3, 3, 3), T.TileLayout(T.S[(16, 64)]))";
    vec![
        program(32, &[4, 8], &[4], "Tx.cta.OP(d, a, axes=-1, ACCUM)", "", f32),
        program(48, &[5, 7, 11], &[5, 11], "Tx.cta.OP(d, a, axes=1, ACCUM)", "", f32),
        program(33, &[3, 13], &[3, 1], "Tx.cta.OP(d, a, axes=1, ACCUM)", "", f32),
        program(24, &[2, 3, 37], &[3], "Tx.cta.OP(d, a, axes=(0, 2), ACCUM)", "", f32),
        program(128, &[16, 64], &[16], "Tx.warpgroup.OP(d, a, axes=1, ACCUM)", swizzled, "float16"),
        program(
            64,
            &[8, 20],
            &[8],
            "w = tx // 32\nTx.warp.OP(d[w * 4:w * 4 + 4], a[w * 4:w * 4 + 4, 2:19], axes=1, ACCUM)",
            "",
            f32,
        ),
        program(1, &[3, 5], &[5], "Tx.thread.OP(d, a, axes=0, ACCUM)", "", f32),
        program(32, &[2, 700], &[2], "Tx.cta.OP(d, a, axes=1, ACCUM)", "", f32),
    ]
}

/// The index of element `i * threads + tx` of a row-major shape.
fn index_text(shape: &[i64], threads: i64) -> String {
    let mut inside: i64 = shape.iter().product();
    let dims = shape.iter().map(|n| {
        inside /= n;
        format!("(i * {threads} + tx) // {inside} % {n}")
    });
    dims.collect::<Vec<_>>().join(", ")
}

/// Reductions of a vector of one thread: packed on sm_100.
fn vector_programs(op: &str, accum: &str) -> Vec<(String, DeviceFunc, f64)> {
    let program = |n: i64, first: i64| {
        let body = format!(
            "a = T.alloc_local(({},), \"float32\")\nd = T.alloc_local((1,), \"float32\")\nfor i in T.serial({n}):\n    \
             a[i + {first}] = A[i]\nd[0] = C[0]\nTx.{op}(d, a[{first}:{}], accum={accum})\nB[0] = d[0]",
            n + first,
            n + first
        );
        let p = tile_program(&[("A", &[n], "float32"), ("C", &[1], "float32"), ("B", &[1], "float32")], 1, &body);
        (format!("{op}_vector_{n}_from_{first}_{accum}"), p, 1e-5)
    };
    vec![program(8, 0), program(32, 0), program(45, 0), program(27, 1)]
}

#[test]
fn packed_reductions_agree_with_the_reference() {
    for op in ["sum", "max", "min"] {
        for (name, p, tolerance) in [vector_programs(op, "False"), vector_programs(op, "True")].concat() {
            assert_eq!(lowered(&p, "cuda:sm_100a").variants[0].variant, "sm100_packed", "{name}");
            close_to_reference(&name, &p, "cuda:sm_100a", tolerance);
        }
    }
}

#[test]
fn cuda_text_of_packed_reductions() {
    let mut text = String::new();
    for (name, p, _) in ["sum", "max"].into_iter().flat_map(|op| vector_programs(op, "True")) {
        text.push_str(&format!("// {name}\n{}\n", kernel(&cuda(&p, "cuda:sm_100a"))));
    }
    common::golden("golden/tile/reduction_sm100.cu", &text);
}

#[test]
fn simulated_programs_agree_with_the_reference() {
    for (name, p, tolerance) in programs() {
        close_to_reference(&name, &p, "cuda:sm_90a", tolerance);
    }
}

/// Programs whose text is kept.
const SHOWN: [&str; 8] = [
    "sum_thread_7_float32_False",
    "max_thread_5_float16_True",
    "sum_warp_32_float32_True",
    "sum_block_2x64x1x2_all_False",
    "sum_block_1x4x32x2_all_True",
    "sum_block_2x3x5x2_first_False",
    "sum_shared_32_4x8_float32_False",
    "min_shared_32_2x700_float32_True",
];

#[test]
fn cuda_text_of_reductions() {
    let mut text = String::new();
    for (name, p, _) in programs() {
        if SHOWN.iter().any(|shown| name == *shown) {
            text.push_str(&format!("// {name}\n{}\n", kernel(&cuda(&p, "cuda:sm_90a"))));
        }
    }
    common::golden("golden/tile/reduction.cu", &text);
}

/// The kernel without header and prelude.
fn kernel(text: &str) -> &str {
    text.find("extern \"C\"").map_or(text, |at| &text[at..])
}

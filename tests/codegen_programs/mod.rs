//! Kernels built by hand: what lowering makes of simple schedules, and a small language to say it.
#![allow(dead_code)] // each test binary uses its own part

pub mod native;

use daylight::ir::kernel::*;
use daylight::ir::{BinOp, DType, Expr, ExprKind, Intrin, Name, Param, UnOp};

pub fn v(name: &str) -> Expr {
    Expr::var(name, DType::I32)
}

pub fn c(value: i64) -> Expr {
    Expr::i32(value)
}

pub fn f(value: f64) -> Expr {
    Expr::float(value, DType::F32)
}

pub fn fv(name: &str) -> Expr {
    Expr::var(name, DType::F32)
}

pub fn ld(array: &str, index: Expr) -> Expr {
    Expr::load(array, vec![index], DType::F32)
}

pub fn ldt(array: &str, index: Expr, dtype: DType) -> Expr {
    Expr::load(array, vec![index], dtype)
}

pub fn op(o: BinOp, a: Expr, b: Expr) -> Expr {
    Expr::binary(o, a, b)
}

pub fn lt(a: Expr, b: Expr) -> Expr {
    op(BinOp::Lt, a, b)
}

pub fn store(array: &str, index: Expr, value: Expr) -> KStmt {
    KStmt::Store { array: array.into(), index, value }
}

pub fn let_(var: &str, value: Expr) -> KStmt {
    KStmt::Let { var: var.into(), value }
}

pub fn var(name: &str, dtype: DType, init: Option<Expr>) -> KStmt {
    KStmt::Var { var: name.into(), dtype, init }
}

pub fn assign(name: &str, value: Expr) -> KStmt {
    KStmt::Assign { var: name.into(), value }
}

pub fn looped(var: &str, extent: i64, kind: LoopKind, body: Vec<KStmt>) -> KStmt {
    KStmt::For { var: var.into(), extent: c(extent), kind, body }
}

pub fn unrolled(var: &str, extent: i64, body: Vec<KStmt>) -> KStmt {
    looped(var, extent, LoopKind::Unrolled, body)
}

pub fn serial(var: &str, extent: i64, body: Vec<KStmt>) -> KStmt {
    looped(var, extent, LoopKind::Serial, body)
}

pub fn vector(var: &str, extent: i64, body: Vec<KStmt>) -> KStmt {
    looped(var, extent, LoopKind::Vectorized, body)
}

pub fn if_(cond: Expr, then: Vec<KStmt>) -> KStmt {
    KStmt::If { cond, then, otherwise: vec![] }
}

pub fn copy(dst: (&str, Expr), src: (&str, Expr), lanes: u32, hint: CacheHint) -> KStmt {
    KStmt::Copy { dst: dst.0.into(), dst_index: dst.1, src: src.0.into(), src_index: src.1, lanes, hint }
}

pub fn shuffle_xor(dst: &str, mask: u32, value: Expr) -> KStmt {
    KStmt::Shuffle { dst: dst.into(), mode: ShuffleMode::Xor(mask), value, width: 32 }
}

pub fn block_barrier() -> KStmt {
    KStmt::Barrier(Barrier::Block)
}

pub fn input(name: &str, dtype: DType, len: i64) -> KernelParam {
    KernelParam::Pointer { name: name.into(), dtype, written: false, len: c(len) }
}

pub fn output(name: &str, dtype: DType, len: i64) -> KernelParam {
    KernelParam::Pointer { name: name.into(), dtype, written: true, len: c(len) }
}

pub fn registers(name: &str, dtype: DType, len: u32, align: u32) -> Array {
    Array { name: name.into(), dtype, len, scope: ArrayScope::Register, align }
}

pub fn shared(name: &str, dtype: DType, len: u32) -> Array {
    Array { name: name.into(), dtype, len, scope: ArrayScope::Shared, align: 16 }
}

/// A program of one launch whose tensor parameters are the kernel's pointers.
pub fn program(name: &str, kernel: Kernel, grid: i64, threads: u32, min_blocks: Option<u32>) -> Program {
    let params = kernel
        .params
        .iter()
        .filter_map(|p| match p {
            KernelParam::Pointer { name, .. } => Some(Param::Buffer(name.clone())),
            KernelParam::Scalar { name, dtype } => Some(Param::Scalar { name: name.clone(), dtype: *dtype }),
            KernelParam::TensorMap(_) => None,
        })
        .collect();
    let launch = Launch { kernel, grid: [c(grid), c(1), c(1)], block: [threads, 1, 1], min_blocks };
    Program {
        name: name.into(),
        params,
        extents: vec![],
        workspaces: vec![],
        launches: vec![launch],
        trace: vec![],
        variants: vec![],
    }
}

pub fn kernel(symbol: &str, params: Vec<KernelParam>, arrays: Vec<Array>, body: Vec<KStmt>) -> Kernel {
    Kernel { symbol: symbol.into(), params, arrays, body }
}

/// The statements that add `name` up over the 32 lanes of a warp.
pub fn warp_sum(name: &str) -> Vec<KStmt> {
    let steps = [16u32, 8, 4, 2, 1];
    let step = |m: u32| [shuffle_xor("x_other", m, fv(name)), assign(name, fv(name) + fv("x_other"))];
    std::iter::once(var("x_other", DType::F32, None)).chain(steps.into_iter().flat_map(step)).collect()
}

/// Row sum of float32 `[rows, cols]`: `threads` per row, `unroll` loads of 16 bytes in one batch,
/// warp shuffles, one shared word per warp.
pub fn row_sum(rows: i64, cols: i64, threads: i64, unroll: i64, min_blocks: Option<u32>) -> Program {
    let step = threads * 4 * unroll;
    assert_eq!(cols % step, 0);
    let base = v("blockIdx.x") * c(cols) + v("i0") * c(step) + v("i1") * c(threads * 4) + v("threadIdx.x") * c(4);
    let batch = vec![
        unrolled("i1", unroll, vec![copy(("p0_local", v("i1") * c(4)), ("p0", base), 4, CacheHint::NoAllocate)]),
        unrolled(
            "i2",
            unroll,
            vec![unrolled(
                "i3",
                4,
                vec![store(
                    "acc",
                    v("i2") * c(4) + v("i3"),
                    ld("acc", v("i2") * c(4) + v("i3")) + ld("p0_local", v("i2") * c(4) + v("i3")),
                )],
            )],
        ),
    ];
    let mut body = vec![
        KStmt::Comment("sums of this thread, one per register of a batch".into()),
        unrolled("i4", unroll * 4, vec![store("acc", v("i4"), f(0.0))]),
        serial("i0", cols / step, batch),
        var("sum", DType::F32, Some(f(0.0))),
        unrolled("i5", unroll * 4, vec![assign("sum", fv("sum") + ld("acc", v("i5")))]),
    ];
    body.extend(warp_sum("sum"));
    let warps = threads / 32;
    let lane = op(BinOp::FloorMod, v("threadIdx.x"), c(32));
    let warp = op(BinOp::FloorDiv, v("threadIdx.x"), c(32));
    body.push(if_(op(BinOp::Eq, lane, c(0)), vec![store("red", warp, fv("sum"))]));
    body.push(block_barrier());
    body.push(if_(
        op(BinOp::Eq, v("threadIdx.x"), c(0)),
        vec![
            var("total", DType::F32, Some(f(0.0))),
            unrolled("i6", warps, vec![assign("total", fv("total") + ld("red", v("i6")))]),
            store("p1", v("blockIdx.x"), fv("total")),
        ],
    ));
    let arrays = vec![
        registers("acc", DType::F32, (unroll * 4) as u32, 4),
        registers("p0_local", DType::F32, (unroll * 4) as u32, 16),
        shared("red", DType::F32, warps as u32),
    ];
    let params = vec![input("p0", DType::F32, rows * cols), output("p1", DType::F32, rows)];
    let mut p = program("row_sum", kernel("row_sum", params, arrays, body), rows, threads as u32, min_blocks);
    p.trace = vec!["split i1 [None, 256, 4]".into(), "bind i0 blockIdx.x".into(), "bind i1_1 threadIdx.x".into()];
    p
}

/// GEMV of bfloat16 weights `[n, k]`: one warp per `rows` rows, lanes stride k by 16 bytes, x once
/// per batch in float32 registers, float32 accumulation.
pub fn gemv_bf16(n: i64, k: i64, warps: i64, rows: i64, min_blocks: Option<u32>) -> Program {
    let bf = DType::BF16;
    let lane = op(BinOp::FloorMod, v("threadIdx.x"), c(32));
    let row0 = (v("blockIdx.x") * c(warps) + op(BinOp::FloorDiv, v("threadIdx.x"), c(32))) * c(rows);
    let column = v("i0") * c(256) + v("lane") * c(8);
    let batch = vec![
        copy(("p1_local", c(0)), ("p1", column.clone()), 8, CacheHint::Plain),
        unrolled(
            "i1",
            rows,
            vec![copy(
                ("p0_local", v("i1") * c(8)),
                ("p0", (v("row") + v("i1")) * c(k) + column),
                8,
                CacheHint::NoAllocate,
            )],
        ),
        unrolled("i2", 8, vec![store("x", v("i2"), Expr::cast(DType::F32, ldt("p1_local", v("i2"), bf)))]),
        unrolled(
            "i3",
            rows,
            vec![unrolled(
                "i4",
                8,
                vec![store(
                    "acc",
                    v("i3"),
                    ld("acc", v("i3"))
                        + Expr::cast(DType::F32, ldt("p0_local", v("i3") * c(8) + v("i4"), bf)) * ld("x", v("i4")),
                )],
            )],
        ),
    ];
    let mut finish = vec![var("sum", DType::F32, Some(ld("acc", v("i6"))))];
    finish.extend(warp_sum("sum"));
    finish.push(if_(op(BinOp::Eq, v("lane"), c(0)), vec![store("p2", v("row") + v("i6"), Expr::cast(bf, fv("sum")))]));
    let body = vec![
        let_("lane", lane),
        let_("row", row0),
        unrolled("i5", rows, vec![store("acc", v("i5"), f(0.0))]),
        looped("i0", k / 256, LoopKind::Unrolled, batch),
        unrolled("i6", rows, finish),
    ];
    let arrays = vec![
        registers("acc", DType::F32, rows as u32, 4),
        registers("x", DType::F32, 8, 4),
        registers("p0_local", bf, 8 * rows as u32, 16),
        registers("p1_local", bf, 8, 16),
    ];
    let params = vec![input("p0", bf, n * k), input("p1", bf, k), output("p2", bf, n)];
    program("gemv", kernel("gemv", params, arrays, body), n / (warps * rows), 32 * warps as u32, min_blocks)
}

/// Column sum of float32 `[rows, cols]`: 32 threads own 4 columns each, 8 groups split the rows and
/// meet in shared memory.
pub fn column_sum(rows: i64, cols: i64) -> Program {
    let (tx, ty) = (v("threadIdx.x"), v("threadIdx.y"));
    let index = (v("i0") * c(8) + ty.clone()) * c(cols) + v("blockIdx.x") * c(128) + tx.clone() * c(4);
    let add = |l: &str| store("acc", v(l), ld("acc", v(l)) + ld("p0_local", v(l)));
    let body = vec![
        unrolled("i1", 4, vec![store("acc", v("i1"), f(0.0))]),
        serial(
            "i0",
            rows / 8,
            vec![copy(("p0_local", c(0)), ("p0", index), 4, CacheHint::Streaming), unrolled("i2", 4, vec![add("i2")])],
        ),
        copy(("red", (ty.clone() * c(32) + tx.clone()) * c(4)), ("acc", c(0)), 4, CacheHint::Plain),
        block_barrier(),
        if_(
            op(BinOp::Eq, ty, c(0)),
            vec![
                serial(
                    "i3",
                    7,
                    vec![unrolled(
                        "i4",
                        4,
                        vec![store(
                            "acc",
                            v("i4"),
                            ld("acc", v("i4")) + ld("red", ((v("i3") + c(1)) * c(32) + tx.clone()) * c(4) + v("i4")),
                        )],
                    )],
                ),
                copy(("p1", v("blockIdx.x") * c(128) + tx * c(4)), ("acc", c(0)), 4, CacheHint::Streaming),
            ],
        ),
    ];
    let arrays = vec![
        registers("acc", DType::F32, 4, 16),
        registers("p0_local", DType::F32, 4, 16),
        shared("red", DType::F32, 1024),
    ];
    let params = vec![input("p0", DType::F32, rows * cols), output("p1", DType::F32, cols)];
    let mut p = program("column_sum", kernel("column_sum", params, arrays, body), cols / 128, 1, None);
    p.launches[0].block = [32, 8, 1];
    p
}

/// `silu(a) * b` on float16 with vectors of 8 and a tail guard.
pub fn silu_mul_f16(n: i64) -> Program {
    let h = DType::F16;
    let at = |l: &str| Expr::cast(DType::F32, ldt(l, v("i1"), h));
    let sigmoid = Expr::call(daylight::ir::Intrin::Sigmoid, vec![at("p0_local")], DType::F32);
    let value = Expr::cast(h, at("p0_local") * sigmoid * at("p1_local"));
    let base = v("base");
    let body = vec![
        let_("base", (v("blockIdx.x") * c(256) + v("threadIdx.x")) * c(8)),
        if_(
            lt(base.clone(), c(n)),
            vec![
                copy(("p0_local", c(0)), ("p0", base.clone()), 8, CacheHint::Streaming),
                copy(("p1_local", c(0)), ("p1", base.clone()), 8, CacheHint::Streaming),
                unrolled("i1", 8, vec![store("p2_local", v("i1"), value)]),
                copy(("p2", base), ("p2_local", c(0)), 8, CacheHint::Streaming),
            ],
        ),
    ];
    let arrays = ["p0_local", "p1_local", "p2_local"].map(|n| registers(n, h, 8, 16)).to_vec();
    let params = vec![input("p0", h, n), input("p1", h, n), output("p2", h, n)];
    let blocks = (n + 2047) / 2048;
    program("silu_mul", kernel("silu_mul", params, arrays, body), blocks, 256, None)
}

/// A copy of `dtype` in accesses of `lanes` elements, with a hint.
pub fn copy_kernel(dtype: DType, lanes: u32, n: i64, hint: CacheHint) -> Program {
    let index = (v("blockIdx.x") * c(64) + v("threadIdx.x")) * c(lanes as i64);
    let body =
        vec![copy(("r", c(0)), ("p0", index.clone()), lanes, hint), copy(("p1", index), ("r", c(0)), lanes, hint)];
    let bytes = lanes * dtype.bytes() as u32;
    let arrays = vec![registers("r", dtype, lanes, bytes)];
    let params = vec![input("p0", dtype, n), output("p1", dtype, n)];
    let name = format!("copy_{dtype}_{lanes}");
    program(&name, kernel(&name, params, arrays, body), n / (64 * lanes as i64), 64, None)
}

/// Widens `n` numbers to float32 by way of registers, 16 bytes a thread.
pub fn widen_kernel(dtype: DType, n: i64) -> Program {
    let lanes = 16 / dtype.bytes() as i64;
    let index = (v("blockIdx.x") * c(64) + v("threadIdx.x")) * c(lanes);
    let value = Expr::cast(DType::F32, ldt("r", v("i"), dtype));
    let body = vec![
        copy(("r", c(0)), ("p0", index.clone()), lanes as u32, CacheHint::Plain),
        unrolled("i", lanes, vec![store("p1", index + v("i"), value)]),
    ];
    let arrays = vec![registers("r", dtype, lanes as u32, 16)];
    let params = vec![input("p0", dtype, n), output("p1", DType::F32, n)];
    let name = format!("widen_{dtype}");
    program(&name, kernel(&name, params, arrays, body), n / (64 * lanes), 64, None)
}

/// Takes 32-bit words apart into eight 4-bit numbers and scales them, as quantised weights are.
pub fn nibbles(n: i64) -> Program {
    let word = ldt("p0", v("t"), DType::U32);
    let shift = Expr::cast(DType::U32, v("i") * c(4));
    let nibble = op(BinOp::BitAnd, op(BinOp::Shr, word, shift), Expr::int(15, DType::U32));
    let value = (Expr::cast(DType::F16, nibble) - Expr::float(7.0, DType::F16)) * Expr::float(0.375, DType::F16);
    let body = vec![
        let_("t", v("blockIdx.x") * c(64) + v("threadIdx.x")),
        unrolled("i", 8, vec![store("p1", v("t") * c(8) + v("i"), value)]),
    ];
    let params = vec![input("p0", DType::U32, n), output("p1", DType::F16, 8 * n)];
    program("nibbles", kernel("nibbles", params, vec![], body), n / 64, 64, None)
}

/// Applies `value` (of loads from `p0`, `p1`, ...) to each of `n` elements.
pub fn map_kernel(name: &str, inputs: &[DType], out: DType, n: i64, value: Expr) -> Program {
    let mut params: Vec<KernelParam> = inputs.iter().enumerate().map(|(i, d)| input(&format!("p{i}"), *d, n)).collect();
    let result = format!("p{}", inputs.len());
    params.push(output(&result, out, n));
    let i = v("blockIdx.x") * c(64) + v("threadIdx.x");
    let body = vec![let_("i", i), if_(lt(v("i"), c(n)), vec![store(&result, v("i"), value)])];
    program(name, kernel(name, params, vec![], body), (n + 63) / 64, 64, None)
}

pub fn name(text: &str) -> Name {
    text.into()
}

/// Statements over 256 elements `i` in 8 blocks: by 32 threads, or (`cpu`) by a vector loop.
fn over_256(name: &str, params: Vec<KernelParam>, cpu: bool, body: Vec<KStmt>) -> Program {
    if cpu {
        let i = v("blockIdx.x") * c(32) + v("i1");
        let body = body.iter().map(|s| s.map_exprs(&mut |e| e.subst(&|n| (n.as_str() == "i").then(|| i.clone()))));
        let body = vec![vector("i1", 32, body.collect())];
        return program(name, kernel(name, params, vec![], body), 8, 1, None);
    }
    let mut all = vec![let_("i", v("blockIdx.x") * c(32) + v("threadIdx.x"))];
    all.extend(body);
    program(name, kernel(name, params, vec![], all), 8, 32, None)
}

/// Every operator that `dtype` has, one store each.
pub fn operators(dtype: DType, cpu: bool) -> Program {
    let (a, b) = (ldt("p0", v("i"), dtype), ldt("p1", v("i"), dtype));
    let mut values = Vec::new();
    for o in [BinOp::Add, BinOp::Sub, BinOp::Mul, BinOp::Min, BinOp::Max] {
        values.push(op(o, a.clone(), b.clone()));
    }
    for o in [BinOp::FloorDiv, BinOp::FloorMod, BinOp::TruncDiv, BinOp::TruncMod] {
        values.push(op(o, a.clone(), b.clone()));
    }
    if dtype.is_float() {
        values.push(op(BinOp::Div, a.clone(), b.clone()));
    } else {
        for o in [BinOp::BitAnd, BinOp::BitOr, BinOp::BitXor] {
            values.push(op(o, a.clone(), b.clone()));
        }
        values.push(op(BinOp::Shl, a.clone(), Expr::int(3, dtype)));
        values.push(op(BinOp::Shr, a.clone(), Expr::int(2, dtype)));
        values.push(op(BinOp::FloorDiv, a.clone(), Expr::int(4, dtype)));
        values.push(op(BinOp::FloorMod, a.clone(), Expr::int(4, dtype)));
        values.push(Expr::unary(UnOp::BitNot, a.clone()));
    }
    values.push(Expr::unary(UnOp::Neg, Expr::unary(UnOp::Neg, a.clone())));
    for o in [BinOp::Eq, BinOp::Ne, BinOp::Lt, BinOp::Le, BinOp::Gt, BinOp::Ge] {
        let cond = op(o, a.clone(), b.clone());
        let both = op(BinOp::And, cond.clone(), op(BinOp::Or, cond.clone(), Expr::unary(UnOp::Not, cond)));
        values.push(Expr::new(ExprKind::Select { cond: both, then: a.clone(), otherwise: b.clone() }));
    }
    let guard = lt(v("i"), c(200));
    values.push(Expr::new(ExprKind::IfThenElse {
        cond: guard,
        then: a.clone(),
        otherwise: Expr::constant(7.0, dtype),
    }));
    let late = Expr::new(ExprKind::Let {
        var: "x9".into(),
        value: a + b,
        body: Expr::var("x9", dtype) * Expr::var("x9", dtype),
    });
    values.push(late);
    let store = |(row, value)| store("p2", v("i") + c(256 * row as i64), value);
    let body = values.into_iter().enumerate().map(store).collect();
    let params = vec![input("p0", dtype, 256), input("p1", dtype, 256), output("p2", dtype, 256 * OPERATOR_ROWS)];
    over_256(&format!("operators_{dtype}"), params, cpu, body)
}

/// Rows that [`operators`] leaves room for.
pub const OPERATOR_ROWS: i64 = 32;

/// Every mathematical function, one store each.
pub fn functions(dtype: DType, cpu: bool) -> Program {
    let x = ldt("p0", v("i"), dtype);
    let mut body = vec![];
    for (row, (f, _, arity)) in Intrin::ALL.into_iter().enumerate() {
        let is_test = matches!(f, Intrin::IsNan | Intrin::IsInf);
        if matches!(f, Intrin::PopCount | Intrin::Clz) && dtype.is_float() {
            continue;
        }
        let call = Expr::call(f, vec![x.clone(); arity], if is_test { DType::Bool } else { dtype });
        body.push(store("p1", v("i") + c(256 * row as i64), Expr::cast(dtype, call)));
    }
    let params = vec![input("p0", dtype, 256), output("p1", dtype, 256 * 36)];
    over_256(&format!("functions_{dtype}"), params, cpu, body)
}

/// Every type that has values.
pub fn value_types() -> Vec<DType> {
    DType::ALL.into_iter().map(|(d, _)| d).filter(|d| *d != DType::Handle).collect()
}

/// A cast from `from` to every type: `p0` to `p1`, `p2`, ...
pub fn casts(from: DType, cpu: bool) -> Program {
    let mut params = vec![input("p0", from, 256)];
    let mut body = vec![];
    for (k, to) in value_types().into_iter().enumerate() {
        let name = format!("p{}", k + 1);
        params.push(output(&name, to, 256));
        body.push(store(&name, v("i"), Expr::cast(to, ldt("p0", v("i"), from))));
    }
    over_256(&format!("casts_{from}"), params, cpu, body)
}

/// Row sum for one core: `vectors` accumulators of 16 lanes, added up by lane at the end.
pub fn cpu_row_sum(rows: i64, cols: i64, vectors: i64) -> Program {
    let step = vectors * 16;
    let acc = |i: &str, l: &str| v(i) * c(16) + v(l);
    let from = v("blockIdx.x") * c(cols) + v("i0") * c(step) + v("i1") * c(16) + v("i2");
    let body = vec![
        unrolled("i3", vectors, vec![vector("i4", 16, vec![store("acc", acc("i3", "i4"), f(0.0))])]),
        serial(
            "i0",
            cols / step,
            vec![unrolled(
                "i1",
                vectors,
                vec![vector(
                    "i2",
                    16,
                    vec![store("acc", acc("i1", "i2"), ld("acc", acc("i1", "i2")) + ld("p0", from))],
                )],
            )],
        ),
        unrolled(
            "i5",
            vectors - 1,
            vec![vector(
                "i6",
                16,
                vec![store("acc", v("i6"), ld("acc", v("i6")) + ld("acc", (v("i5") + c(1)) * c(16) + v("i6")))],
            )],
        ),
        var("sum", DType::F32, Some(f(0.0))),
        unrolled("i7", 16, vec![assign("sum", fv("sum") + ld("acc", v("i7")))]),
        store("p1", v("blockIdx.x"), fv("sum")),
    ];
    let arrays = vec![registers("acc", DType::F32, step as u32, 64)];
    let params = vec![input("p0", DType::F32, rows * cols), output("p1", DType::F32, rows)];
    program("cpu_row_sum", kernel("cpu_row_sum", params, arrays, body), rows, 1, None)
}

/// GEMV of 16-bit weights `[n, k]` for one core: `rows` rows at a time, 16 lanes along k.
pub fn cpu_gemv(dtype: DType, n: i64, k: i64, rows: i64) -> Program {
    let wide = |name: &str, index: Expr| Expr::cast(DType::F32, ldt(name, index, dtype));
    let at = |r: &str, l: &str| v(r) * c(16) + v(l);
    let weight = (v("blockIdx.x") * c(rows) + v("i1")) * c(k) + v("i0") * c(16) + v("i3");
    let product = wide("p0", weight) * ld("x", v("i3"));
    let body = vec![
        unrolled("i4", rows, vec![vector("i5", 16, vec![store("acc", at("i4", "i5"), f(0.0))])]),
        serial(
            "i0",
            k / 16,
            vec![
                vector("i2", 16, vec![store("x", v("i2"), wide("p1", v("i0") * c(16) + v("i2")))]),
                unrolled(
                    "i1",
                    rows,
                    vec![vector("i3", 16, vec![store("acc", at("i1", "i3"), ld("acc", at("i1", "i3")) + product)])],
                ),
            ],
        ),
        unrolled(
            "i6",
            rows,
            vec![
                var("sum", DType::F32, Some(f(0.0))),
                unrolled("i7", 16, vec![assign("sum", fv("sum") + ld("acc", at("i6", "i7")))]),
                store("p2", v("blockIdx.x") * c(rows) + v("i6"), Expr::cast(dtype, fv("sum"))),
            ],
        ),
    ];
    let arrays = vec![registers("acc", DType::F32, 16 * rows as u32, 64), registers("x", DType::F32, 16, 64)];
    let params = vec![input("p0", dtype, n * k), input("p1", dtype, k), output("p2", dtype, n)];
    let name = format!("cpu_gemv_{dtype}");
    program(&name, kernel(&name, params, arrays, body), n / rows, 1, None)
}

/// `silu(a) * b` for one core, 32 lanes a step, with a scalar tail.
pub fn cpu_silu_mul(dtype: DType, n: i64) -> Program {
    let sigmoid = |x: Expr| Expr::call(Intrin::Sigmoid, vec![x], DType::F32);
    let value = |index: Expr| {
        let a = Expr::cast(DType::F32, ldt("p0", index.clone(), dtype));
        let b = Expr::cast(DType::F32, ldt("p1", index, dtype));
        Expr::cast(dtype, a.clone() * sigmoid(a) * b)
    };
    let index = v("blockIdx.x") * c(1024) + v("i0") * c(32) + v("i1");
    let tail = v("blockIdx.x") * c(1024) + v("i0") * c(32) + v("i2");
    let body = vec![serial(
        "i0",
        32,
        vec![KStmt::If {
            cond: op(BinOp::Le, v("blockIdx.x") * c(1024) + v("i0") * c(32) + c(32), c(n)),
            then: vec![vector("i1", 32, vec![store("p2", index.clone(), value(index))])],
            otherwise: vec![serial(
                "i2",
                32,
                vec![if_(lt(tail.clone(), c(n)), vec![store("p2", tail.clone(), value(tail))])],
            )],
        }],
    )];
    let params = vec![input("p0", dtype, n), input("p1", dtype, n), output("p2", dtype, n)];
    let name = format!("cpu_silu_mul_{dtype}");
    program(&name, kernel(&name, params, vec![], body), (n + 1023) / 1024, 1, None)
}

/// A matmul tile for one core: 6 rows by 32 columns of accumulators, `[m, k] x [k, n]`.
pub fn cpu_matmul(m: i64, n: i64, k: i64) -> Program {
    let (rows, row, col) =
        (c(6), op(BinOp::FloorDiv, v("blockIdx.x"), c(n / 32)), op(BinOp::FloorMod, v("blockIdx.x"), c(n / 32)));
    let acc = |r: &str, l: &str| v(r) * c(32) + v(l);
    let a = ld("p0", (v("row") + v("i1")) * c(k) + v("i0"));
    let b = ld("p1", v("i0") * c(n) + v("col") + v("i2"));
    let body = vec![
        let_("row", row * rows),
        let_("col", col * c(32)),
        unrolled("i3", 6, vec![vector("i4", 32, vec![store("acc", acc("i3", "i4"), f(0.0))])]),
        serial(
            "i0",
            k,
            vec![unrolled(
                "i1",
                6,
                vec![vector("i2", 32, vec![store("acc", acc("i1", "i2"), ld("acc", acc("i1", "i2")) + a * b)])],
            )],
        ),
        unrolled(
            "i5",
            6,
            vec![vector(
                "i6",
                32,
                vec![store("p2", (v("row") + v("i5")) * c(n) + v("col") + v("i6"), ld("acc", acc("i5", "i6")))],
            )],
        ),
    ];
    let arrays = vec![registers("acc", DType::F32, 192, 64)];
    let params = vec![input("p0", DType::F32, m * k), input("p1", DType::F32, k * n), output("p2", DType::F32, m * n)];
    program("cpu_matmul", kernel("cpu_matmul", params, arrays, body), m / 6 * (n / 32), 1, None)
}

//! Kernels built by hand: what lowering makes of simple schedules, and a small language to say it.
#![allow(dead_code)] // each test binary uses its own part

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
        .map(|p| match p {
            KernelParam::Pointer { name, .. } => Param::Buffer(name.clone()),
            KernelParam::Scalar { name, dtype } => Param::Scalar { name: name.clone(), dtype: *dtype },
        })
        .collect();
    let launch = Launch { kernel, grid: [c(grid), c(1), c(1)], block: [threads, 1, 1], min_blocks };
    Program { name: name.into(), params, extents: vec![], workspaces: vec![], launches: vec![launch], trace: vec![] }
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

/// Every binary operator that `dtype` has, one store each.
pub fn operators(dtype: DType) -> Program {
    let (a, b) = (ldt("p0", v("i"), dtype), ldt("p1", v("i"), dtype));
    let arithmetic =
        [BinOp::Add, BinOp::Sub, BinOp::Mul, BinOp::FloorDiv, BinOp::FloorMod, BinOp::TruncDiv, BinOp::TruncMod];
    let order = [BinOp::Min, BinOp::Max];
    let bits = [BinOp::BitAnd, BinOp::BitOr, BinOp::BitXor];
    let compare = [BinOp::Eq, BinOp::Ne, BinOp::Lt, BinOp::Le, BinOp::Gt, BinOp::Ge];
    let mut body = vec![let_("i", v("blockIdx.x") * c(32) + v("threadIdx.x"))];
    let mut row = 0;
    let mut put = |value: Expr| {
        body.push(store("p2", v("i") + c(256 * row), value));
        row += 1;
    };
    for o in arithmetic.into_iter().chain(order) {
        put(op(o, a.clone(), b.clone()));
    }
    if dtype.is_float() {
        put(op(BinOp::Div, a.clone(), b.clone()));
    } else {
        for o in bits {
            put(op(o, a.clone(), b.clone()));
        }
        put(op(BinOp::Shl, a.clone(), Expr::int(3, dtype)));
        put(op(BinOp::Shr, a.clone(), Expr::int(2, dtype)));
        put(op(BinOp::FloorDiv, a.clone(), Expr::int(4, dtype)));
        put(op(BinOp::FloorMod, a.clone(), Expr::int(4, dtype)));
        put(Expr::unary(UnOp::BitNot, a.clone()));
    }
    put(Expr::unary(UnOp::Neg, Expr::unary(UnOp::Neg, a.clone())));
    for o in compare {
        let cond = op(o, a.clone(), b.clone());
        let both = op(BinOp::And, cond.clone(), op(BinOp::Or, cond.clone(), Expr::unary(UnOp::Not, cond)));
        put(Expr::new(ExprKind::Select { cond: both, then: a.clone(), otherwise: b.clone() }));
    }
    let params = vec![input("p0", dtype, 256), input("p1", dtype, 256), output("p2", dtype, 256 * 32)];
    let name = format!("operators_{dtype}");
    program(&name, kernel(&name, params, vec![], body), 8, 32, None)
}

/// Every mathematical function, one store each.
pub fn functions(dtype: DType) -> Program {
    let x = ldt("p0", v("i"), dtype);
    let mut body = vec![let_("i", v("blockIdx.x") * c(32) + v("threadIdx.x"))];
    for (row, (f, _, arity)) in Intrin::ALL.into_iter().enumerate() {
        let is_test = matches!(f, Intrin::IsNan | Intrin::IsInf);
        if matches!(f, Intrin::PopCount | Intrin::Clz) && dtype.is_float() {
            continue;
        }
        let call = Expr::call(f, vec![x.clone(); arity], if is_test { DType::Bool } else { dtype });
        body.push(store("p1", v("i") + c(256 * row as i64), Expr::cast(dtype, call)));
    }
    let params = vec![input("p0", dtype, 256), output("p1", dtype, 256 * 36)];
    let name = format!("functions_{dtype}");
    program(&name, kernel(&name, params, vec![], body), 8, 32, None)
}

/// A cast from every type to every type, by way of one array per type.
pub fn casts() -> Program {
    let types: Vec<DType> = DType::ALL.into_iter().map(|(d, _)| d).filter(|d| *d != DType::Handle).collect();
    let mut body = vec![let_("i", v("blockIdx.x") * c(32) + v("threadIdx.x"))];
    let mut params = Vec::new();
    for (k, to) in types.iter().enumerate() {
        params.push(output(&format!("p{k}"), *to, 256 * 16));
        for (j, from) in types.iter().enumerate() {
            let value = Expr::cast(*to, ldt(&format!("p{j}"), v("i"), *from));
            body.push(store(&format!("p{k}"), v("i") + c(256 * (j as i64 + 1)), value));
        }
    }
    program("casts", kernel("casts", params, vec![], body), 8, 32, None)
}

//! Kernels for GPUs.

use super::*;

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

/// Elements below a limit, zero above it: kept in registers as they are, read of memory and of registers as float32. Then the
/// smaller of two.
pub fn guarded_kernel(dtype: DType, n: i64) -> Program {
    let index = v("blockIdx.x") * c(64) + v("threadIdx.x");
    let or_zero = |array: &str, at: Expr| {
        let (cond, then) = (lt(index.clone(), c(n - 5)), ldt(array, at, dtype));
        Expr::new(ExprKind::IfThenElse { cond, then, otherwise: Expr::float(0.0, dtype) })
    };
    let [first, second] = [0, 1].map(|i| ldt("r", c(i), dtype));
    let smaller =
        Expr::new(ExprKind::Select { cond: lt(first.clone(), second.clone()), then: first.clone(), otherwise: second });
    let widened = |e: Expr| Expr::cast(DType::F32, e);
    let sum = widened(or_zero("p0", index.clone())) + widened(or_zero("r", c(1)));
    let body = vec![
        store("r", c(0), or_zero("p0", index.clone())),
        store("r", c(1), or_zero("p0", index.clone())),
        store("r", c(0), smaller),
        store("p1", index.clone(), sum + widened(first)),
    ];
    let params = vec![input("p0", dtype, n), output("p1", DType::F32, n)];
    let name = format!("guarded_{dtype}");
    program(&name, kernel(&name, params, vec![registers("r", dtype, 2, 4)], body), n / 64, 64, None)
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

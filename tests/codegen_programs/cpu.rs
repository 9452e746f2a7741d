//! Kernels for one core of a CPU.

use super::*;

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

/// Rows of 64 doubled, each `shift` elements further in the output than in the input, past the caches and
/// with the next row asked for.
pub fn cpu_stream(dtype: DType, rows: i64, shift: i64) -> Program {
    let index = v("blockIdx.x") * c(64) + v("i0");
    let x = ldt("p0", index.clone(), dtype);
    let value = op(BinOp::Add, x.clone(), x);
    let store = KStmt::Store { array: "p1".into(), index: index + c(shift), value, hint: CacheHint::Streaming };
    let next = KStmt::Prefetch { array: "p0".into(), index: (v("blockIdx.x") + c(1)) * c(64) };
    let params = vec![input("p0", dtype, 64 * rows), output("p1", dtype, 64 * rows + shift)];
    let name = format!("cpu_stream_{dtype}");
    program(&name, kernel(&name, params, vec![], vec![next, vector("i0", 64, vec![store])]), rows, 1, None)
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

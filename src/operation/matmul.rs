//! Products of matrices.

use super::steps::{ACTIVATION, BIAS, RESIDUAL, SCALE, Steps};
use super::values::{OUT_DTYPE, SIZE, accumulator, default, optional, required};
use super::{Operation, Values};
use crate::ir::{Expr, PrimFuncBuilder, Reducer};

pub(super) const MATMUL: Operation = Operation {
    name: "matmul",
    about: "A product of matrices, or of many pairs of them; with --m 1 of a matrix and a vector",
    detail: "C[m, n] = A[m, k] B[k, n], scaled, with bias, activation and residual in this order. Sums are kept in float32, of \
             8-bit integers in int32.",
    options: &[
        required("m", SIZE, "Rows of A and C: a number, or a name for a size known at run time"),
        required("n", SIZE, "Columns of B and C"),
        required("k", SIZE, "What is summed over"),
        optional("batch", SIZE, "So many products of pairs"),
        default("layout", "AB", "How A and B lie: n for A[m, k] and B[k, n], t for A[k, m] and B[n, k]", "nn"),
        default("dtype", "TYPE", "Type of the inputs, such as float32, float16, bfloat16 or int8", "float32"),
        OUT_DTYPE,
        SCALE,
        BIAS,
        ACTIVATION,
        RESIDUAL,
    ],
    example: "matmul --m n --n 4096 --k 4096 --layout nt --dtype bfloat16 --activation silu",
    make,
};

fn make(values: &Values, f: &mut PrimFuncBuilder) -> Result<(), String> {
    let (m, n, k) = (values.size("m", f)?, values.size("n", f)?, values.size("k", f)?);
    let batch: Vec<Expr> = if values.has("batch") { vec![values.size("batch", f)?] } else { vec![] };
    let dtype = values.dtype("dtype")?;
    let sum = accumulator(dtype);
    let out = values.out_dtype(if dtype.is_float() { dtype } else { sum })?;
    let (turned_a, turned_b) = layout(values.text("layout").unwrap_or_default())?;
    let shaped = |dims: [&Expr; 2], turned: bool| [batch.clone(), pair(dims, turned)].concat();
    let a = f.param("A", dtype, shaped([&m, &k], turned_a));
    let b = f.param("B", dtype, shaped([&k, &n], turned_b));
    let shape = [batch.clone(), vec![m, n]].concat();
    let steps = Steps::of(values, f, dtype, &shape, sum)?;
    steps.finish(f, ("C", out), ("product", sum), &shape, |f, to| {
        f.reduce("matmul", to, &[k], Reducer::Sum, |at, over| {
            let (outer, [i, j]) = (&at[..at.len() - 2], [&at[at.len() - 2], &at[at.len() - 1]]);
            let index = |dims: [&Expr; 2], turned: bool| [outer.to_vec(), pair(dims, turned)].concat();
            let (a, b) = (a.at(index([i, &over[0]], turned_a)), b.at(index([&over[0], j], turned_b)));
            Expr::cast(sum, a) * Expr::cast(sum, b)
        });
    });
    Ok(())
}

/// Two dimensions, the other way round where they are `turned`.
fn pair([a, b]: [&Expr; 2], turned: bool) -> Vec<Expr> {
    if turned { vec![b.clone(), a.clone()] } else { vec![a.clone(), b.clone()] }
}

/// Which of A and B is transposed.
fn layout(text: &str) -> Result<(bool, bool), String> {
    match text.to_ascii_lowercase().as_str() {
        "nn" => Ok((false, false)),
        "nt" => Ok((false, true)),
        "tn" => Ok((true, false)),
        "tt" => Ok((true, true)),
        _ => Err(format!("--layout {text}: the layouts are nn, nt, tn and tt")),
    }
}

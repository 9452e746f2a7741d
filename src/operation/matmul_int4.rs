//! Products with weights of 4 bits.

use super::steps::{ACTIVATION, BIAS, RESIDUAL, SCALE, Steps};
use super::values::{OUT_DTYPE, SIZE, default, required};
use super::{Operation, Values};
use crate::ir::{BinOp, DType, Expr, PrimFuncBuilder, Reducer};

/// Weights in a word.
const PACKED: i64 = 8;

pub(super) const MATMUL_INT4: Operation = Operation {
    name: "matmul_int4",
    about: "A product with a matrix of 4-bit weights that has a scale per group",
    detail: "C[m, n] = A[m, k] B[n, k]^T with B[j, l] = (4 bits of `weights`[j, l / 8] - zero) * `scales`[j, l / group]; the first \
             weight of a word is in its lowest bits. B has the type of the scales, as in MLC's `q4f16`.",
    options: &[
        required("m", SIZE, "Rows of A and C: a number, or a name for a size known at run time"),
        required("n", SIZE, "Columns of C: rows of the weights"),
        required("k", "NUMBER", "What is summed over, a multiple of --group"),
        default("group", "NUMBER", "Weights that have one scale, a multiple of 8", "32"),
        default("zero", "X", "What is taken from each weight", "7"),
        default("dtype", "TYPE", "Type of A and the scales: float16, bfloat16, float32", "float16"),
        OUT_DTYPE,
        SCALE,
        BIAS,
        ACTIVATION,
        RESIDUAL,
    ],
    example: "matmul_int4 --m 1 --n 4096 --k 14336 --residual",
    make,
};

fn make(values: &Values, f: &mut PrimFuncBuilder) -> Result<(), String> {
    let (m, n) = (values.size("m", f)?, values.size("n", f)?);
    let (k, group, zero) = (values.count("k")?, values.count("group")?, values.number("zero")?);
    if group % PACKED != 0 || k % group != 0 {
        return Err(format!("--k {k} --group {group}: k has to be a multiple of the group, and the group of {PACKED}"));
    }
    let dtype = values.float("dtype")?;
    let out = values.out_dtype(dtype)?;
    let sum = super::values::accumulator(dtype);
    let weights = f.param("weights", DType::U32, [n.clone(), (k / PACKED).into()]);
    let scales = f.param("scales", dtype, [n.clone(), (k / group).into()]);
    let k = Expr::i64(k);
    let a = f.param("A", dtype, [m.clone(), k.clone()]);
    let shape = [m, n.clone()];
    let steps = Steps::of(values, f, dtype, &shape, sum)?;
    let unpacked = f.intermediate("unpacked", dtype, [n.clone(), k.clone()]);
    let b = f.intermediate("B", dtype, [n, k.clone()]);
    f.compute("unpack", &unpacked, |at| {
        let shift = Expr::cast(DType::U32, at[1].clone() % PACKED * 4);
        let word = weights.at([at[0].clone(), at[1].clone() / PACKED]);
        let bits = Expr::binary(BinOp::BitAnd, Expr::binary(BinOp::Shr, word, shift), Expr::int(15, DType::U32));
        Expr::cast(dtype, bits)
    });
    f.compute("dequantize", &b, |at| (unpacked.at(at) - zero) * scales.at([at[0].clone(), at[1].clone() / group]));
    steps.finish(f, ("C", out), ("product", sum), &shape, |f, to| {
        f.reduce("matmul", to, &[k], Reducer::Sum, |at, over| {
            Expr::cast(sum, a.at([&at[0], &over[0]])) * Expr::cast(sum, b.at([&at[1], &over[0]]))
        });
    });
    Ok(())
}

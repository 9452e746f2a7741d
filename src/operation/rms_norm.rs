//! Root mean square norm.

use super::values::{DTYPE, OUT_DTYPE, SHAPE, accumulator, count_of, default};
use super::{Operation, Values};
use crate::ir::{Expr, Intrin, PrimFuncBuilder, Reducer};

pub(super) const RMS_NORM: Operation = Operation {
    name: "rms_norm",
    about: "Root mean square norm along the last dimension, with weights",
    detail: "y = x / sqrt(mean(x^2) + eps) * weight, computed in float32.",
    options: &[SHAPE, default("eps", "X", "What is added to the mean", "1e-5"), DTYPE, OUT_DTYPE],
    example: "rms_norm --shape n,4096 --dtype bfloat16",
    make,
};

fn make(values: &Values, f: &mut PrimFuncBuilder) -> Result<(), String> {
    let shape = values.sizes("shape", f)?;
    let eps = values.number("eps")?;
    let dtype = values.float("dtype")?;
    let (out, sum) = (values.out_dtype(dtype)?, accumulator(dtype));
    let mut rows = shape.clone();
    let along: Vec<Expr> = rows.pop().into_iter().collect();
    let x = f.param("x", dtype, shape.clone());
    let weight = f.param("weight", dtype, along.clone());
    let y = f.param("y", out, shape);
    let squares = f.intermediate("squares", sum, rows);
    f.reduce("sum", &squares, &along, Reducer::Sum, |at, k| {
        let value = Expr::cast(sum, x.at([at, k].concat()));
        value.clone() * value
    });
    let length = count_of(&along, sum);
    f.compute("rms_norm", &y, |at| {
        let (row, column) = (&at[..at.len() - 1], at.last());
        let factor = (squares.at(row) / length + eps).math(Intrin::Rsqrt);
        Expr::cast(out, Expr::cast(sum, x.at(at)) * factor * Expr::cast(sum, weight.at(column)))
    });
    Ok(())
}

//! Layer norm.

use super::values::{DTYPE, OUT_DTYPE, SHAPE, accumulator, count_of, default};
use super::{Operation, Values};
use crate::ir::{Expr, Intrin, PrimFuncBuilder, Reducer};

pub(super) const LAYER_NORM: Operation = Operation {
    name: "layer_norm",
    about: "Layer norm along the last dimension, with weights and bias",
    detail: "y = (x - mean(x)) / sqrt(variance(x) + eps) * weight + bias, computed in float32.",
    options: &[SHAPE, default("eps", "X", "What is added to the variance", "1e-5"), DTYPE, OUT_DTYPE],
    example: "layer_norm --shape n,768 --dtype float16",
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
    let [weight, bias] = ["weight", "bias"].map(|name| f.param(name, dtype, along.clone()));
    let y = f.param("y", out, shape);
    let [total, mean, squares] = ["total", "mean", "squares"].map(|name| f.intermediate(name, sum, rows.clone()));
    let length = count_of(&along, sum);
    let wide = |at: &[Expr]| Expr::cast(sum, x.at(at));
    f.reduce("sum", &total, &along, Reducer::Sum, |at, k| wide(&[at, k].concat()));
    f.compute("mean", &mean, |at| total.at(at) / length.clone());
    f.reduce("squares", &squares, &along, Reducer::Sum, |at, k| {
        let apart = wide(&[at, k].concat()) - mean.at(at);
        apart.clone() * apart
    });
    f.compute("layer_norm", &y, |at| {
        let (row, column) = (&at[..at.len() - 1], at.last());
        let factor = (squares.at(row) / length + eps).math(Intrin::Rsqrt);
        let normal = (wide(at) - mean.at(row)) * factor;
        Expr::cast(out, normal * Expr::cast(sum, weight.at(column)) + Expr::cast(sum, bias.at(column)))
    });
    Ok(())
}

//! Softmax.

use super::values::{DTYPE, OUT_DTYPE, SHAPE, accumulator, default, flag};
use super::{Operation, Values};
use crate::ir::{Expr, Intrin, PrimFuncBuilder, Reducer};

pub(super) const SOFTMAX: Operation = Operation {
    name: "softmax",
    about: "Softmax along a dimension, or its logarithm",
    detail: "y = exp(x - max x) / sum exp(x - max x), computed in float32.",
    options: &[
        SHAPE,
        default("axis", "D", "Dimension along which values add up to 1, from 0, or from the end as -1", "-1"),
        flag("log", "The logarithm of it"),
        DTYPE,
        OUT_DTYPE,
    ],
    example: "softmax --shape 32,n,n --dtype float16",
    make,
};

fn make(values: &Values, f: &mut PrimFuncBuilder) -> Result<(), String> {
    let shape = values.sizes("shape", f)?;
    let [axis] = values.axes("axis", shape.len())?[..] else {
        return Err("--axis: expected one dimension".into());
    };
    let dtype = values.float("dtype")?;
    let (out, sum) = (values.out_dtype(dtype)?, accumulator(dtype));
    let mut rows = shape.clone();
    let along = [rows.remove(axis)];
    // The indices of a row with one along it.
    let whole = |at: &[Expr], k: &Expr| [&at[..axis], std::slice::from_ref(k), &at[axis..]].concat();
    let row = |at: &[Expr]| [&at[..axis], &at[axis + 1..]].concat();
    let x = f.param("x", dtype, shape.clone());
    let y = f.param("y", out, shape.clone());
    let [most, total] = ["most", "total"].map(|name| f.intermediate(name, sum, rows.clone()));
    let wide = |at: &[Expr]| Expr::cast(sum, x.at(at));
    f.reduce("max", &most, &along, Reducer::Max, |at, k| wide(&whole(at, &k[0])));
    if values.has("log") {
        f.reduce("sum", &total, &along, Reducer::Sum, |at, k| {
            (wide(&whole(at, &k[0])) - most.at(at)).math(Intrin::Exp)
        });
        f.compute("log_softmax", &y, |at| {
            Expr::cast(out, wide(at) - most.at(row(at)) - total.at(row(at)).math(Intrin::Log))
        });
        return Ok(());
    }
    let powers = f.intermediate("powers", sum, shape);
    f.compute("exp", &powers, |at| (wide(at) - most.at(row(at))).math(Intrin::Exp));
    f.reduce("sum", &total, &along, Reducer::Sum, |at, k| powers.at(whole(at, &k[0])));
    f.compute("softmax", &y, |at| Expr::cast(out, powers.at(at) / total.at(row(at))));
    Ok(())
}

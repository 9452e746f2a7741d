//! Dimensions in another order.

use super::values::{OUT_DTYPE, SHAPE, default, optional};
use super::{Operation, Values};
use crate::ir::{Expr, PrimFuncBuilder};

pub(super) const TRANSPOSE: Operation = Operation {
    name: "transpose",
    about: "A tensor with its dimensions in another order",
    detail: "Dimension i of y is dimension axes[i] of x.",
    options: &[
        SHAPE,
        optional("axes", "D,...", "The order, all dimensions from 0 [default: the last two change places]"),
        default("dtype", "TYPE", "Type of the input: float32, float16, bfloat16, int8, ...", "float32"),
        OUT_DTYPE,
    ],
    example: "transpose --shape n,32,128 --axes 1,0,2 --dtype float16",
    make,
};

fn make(values: &Values, f: &mut PrimFuncBuilder) -> Result<(), String> {
    let shape = values.sizes("shape", f)?;
    let rank = shape.len();
    let axes = order(values, rank)?;
    let dtype = values.dtype("dtype")?;
    let out = values.out_dtype(dtype)?;
    let x = f.param("x", dtype, shape.clone());
    let y = f.param("y", out, axes.iter().map(|axis| shape[*axis].clone()));
    f.compute("transpose", &y, |at| {
        let from = |dim: usize| axes.iter().position(|axis| *axis == dim).map(|k| &at[k]);
        Expr::cast(out, x.at((0..rank).filter_map(from)))
    });
    Ok(())
}

fn order(values: &Values, rank: usize) -> Result<Vec<usize>, String> {
    if values.has("axes") {
        let axes = values.axes("axes", rank)?;
        let all = axes.len() == rank;
        return all.then_some(axes).ok_or_else(|| format!("--axes: expected all {rank} dimensions"));
    }
    let mut axes: Vec<usize> = (0..rank).collect();
    match rank {
        1 => Err("--shape: a tensor of one dimension has no other order".into()),
        _ => {
            axes.swap(rank - 1, rank - 2);
            Ok(axes)
        }
    }
}

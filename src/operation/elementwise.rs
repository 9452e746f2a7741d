//! Chains of elementwise operations.

use super::activation::activation;
use super::steps::Steps;
use super::values::{OUT_DTYPE, SHAPE, accumulator, default};
use super::{Operation, Values};
use crate::ir::{BinOp, DType, Expr, PrimFuncBuilder};

/// Those with a second tensor.
const BINARY: [(&str, BinOp); 6] = [
    ("add", BinOp::Add),
    ("sub", BinOp::Sub),
    ("mul", BinOp::Mul),
    ("div", BinOp::Div),
    ("max", BinOp::Max),
    ("min", BinOp::Min),
];

pub(super) const ELEMENTWISE: Operation = Operation {
    name: "elementwise",
    about: "Elementwise operations, one after the other: activations, sums and products, casts",
    detail: "y = the steps of --ops, of x: a function of one value (relu, gelu, gelu_tanh, silu, sigmoid, tanh, exp, sqrt, rsqrt, \
             square, abs, neg); add, sub, mul, div, max or min with one more tensor; bias or scale, which add or multiply by a vector \
             along the last dimension. Without steps it copies and casts. 16-bit floats are computed in float32.",
    options: &[
        SHAPE,
        default("ops", "NAME,...", "Steps, as in silu,mul for silu(x) * b", ""),
        default("dtype", "TYPE", "Type of the inputs: float32, float16, bfloat16, float64, int32, int8", "float32"),
        OUT_DTYPE,
    ],
    example: "elementwise --shape n,14336 --ops silu,mul --dtype bfloat16",
    make,
};

fn make(values: &Values, f: &mut PrimFuncBuilder) -> Result<(), String> {
    let shape = values.sizes("shape", f)?;
    let dtype = values.dtype("dtype")?;
    let out = values.out_dtype(dtype)?;
    let text = values.text("ops").unwrap_or_default();
    let ops: Vec<&str> = text.split(',').map(str::trim).filter(|op| !op.is_empty()).collect();
    // A copy and a cast are exact in the type itself.
    let wide = if ops.is_empty() { dtype } else { accumulator(dtype) };
    let x = f.param("x", dtype, shape.clone());
    let mut steps = Steps::default();
    for (k, op) in ops.iter().enumerate() {
        step(&mut steps, f, (op, k), (dtype, wide), &shape).map_err(|e| format!("--ops {text}: {e}"))?;
    }
    let y = f.param("y", out, shape);
    f.compute("elementwise", &y, |at| Expr::cast(out, steps.applied(Expr::cast(wide, x.at(at)), at)));
    Ok(())
}

/// Adds one step, with its parameter.
fn step(
    steps: &mut Steps,
    f: &mut PrimFuncBuilder,
    (op, k): (&str, usize),
    (dtype, wide): (DType, DType),
    shape: &[Expr],
) -> Result<(), String> {
    let name = format!("b{k}");
    if let Some((_, op)) = BINARY.into_iter().find(|(n, _)| *n == op) {
        if op == BinOp::Div && !dtype.is_float() {
            return Err(format!("`div` is for floats, not for {dtype}"));
        }
        let other = f.param(&name, dtype, shape.to_vec());
        steps.then(&name, move |x, at| Expr::binary(op, x, Expr::cast(wide, other.at(at))));
        return Ok(());
    }
    if let "bias" | "scale" = op {
        let (other, adds) = (f.param(&name, dtype, shape.last().cloned()), op == "bias");
        steps.then(&name, move |x, at| {
            let value = Expr::cast(wide, other.at(at.last()));
            if adds { x + value } else { x * value }
        });
        return Ok(());
    }
    activation(op, Expr::constant(0.0, wide))?;
    let op = op.to_string();
    steps.then(&name, move |x, _| activation(&op, x.clone()).unwrap_or(x));
    Ok(())
}

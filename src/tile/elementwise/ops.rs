//! The operations on elements: types that they take, and the value that they give.

use crate::ir::{BinOp, DType, Expr, Intrin, TileOp};
use crate::tile::predicates::is_arithmetic;

/// Every operation of the family.
pub(super) const ALL: &[TileOp] = &[
    TileOp::Zero,
    TileOp::Fill,
    TileOp::Cast,
    TileOp::Reciprocal,
    TileOp::Sqrt,
    TileOp::Exp,
    TileOp::Exp2,
    TileOp::Log2,
    TileOp::Silu,
    TileOp::Add,
    TileOp::Sub,
    TileOp::Mul,
    TileOp::Fdiv,
    TileOp::Maximum,
    TileOp::Minimum,
    TileOp::Fma,
];

/// That an operation gives elements of `dst` from tiles of these types: one type for all, except that
/// `cast` converts; floats where a function or a quotient is taken.
pub(super) fn takes(op: TileOp, dst: DType, tiles: &[DType]) -> Result<(), String> {
    tiles.iter().chain([&dst]).try_for_each(|d| is_arithmetic(*d))?;
    if let Some(other) = tiles.iter().find(|d| **d != dst && op != TileOp::Cast) {
        return Err(format!("an operand of `{}` has type {other}, the destination {dst}", op.name()));
    }
    match float_only(op) && !dst.is_float() {
        true => Err(format!("`{}` is a function of floats, the destination has type {dst}", op.name())),
        false => Ok(()),
    }
}

fn float_only(op: TileOp) -> bool {
    use TileOp::{Exp, Exp2, Fdiv, Log2, Reciprocal, Silu, Sqrt};
    matches!(op, Reciprocal | Sqrt | Exp | Exp2 | Log2 | Silu | Fdiv)
}

/// The value of an operation on operands, which are converted to `dtype` first. Rounded once: 16-bit
/// floats are computed in float32 inside `silu`, as everywhere in one operation. Missing operands
/// count as 0, which `operands` rules out.
pub(super) fn value(op: TileOp, dtype: DType, operands: &[Expr]) -> Expr {
    let x = |k: usize| operands.get(k).map_or_else(|| Expr::constant(0.0, dtype), |e| Expr::cast(dtype, e.clone()));
    let call = |f: Intrin| Expr::call(f, vec![x(0)], dtype);
    let binary = |op: BinOp| Expr::binary(op, x(0), x(1));
    match op {
        TileOp::Fill | TileOp::Cast => x(0),
        TileOp::Reciprocal => Expr::binary(BinOp::Div, Expr::constant(1.0, dtype), x(0)),
        TileOp::Sqrt => call(Intrin::Sqrt),
        TileOp::Exp => call(Intrin::Exp),
        TileOp::Exp2 => call(Intrin::Exp2),
        TileOp::Log2 => call(Intrin::Log2),
        TileOp::Silu => silu(dtype, x(0)),
        TileOp::Add => binary(BinOp::Add),
        TileOp::Sub => binary(BinOp::Sub),
        TileOp::Mul => binary(BinOp::Mul),
        TileOp::Fdiv => binary(BinOp::Div),
        TileOp::Maximum => binary(BinOp::Max),
        TileOp::Minimum => binary(BinOp::Min),
        TileOp::Fma if dtype.is_float() => Expr::call(Intrin::Fma, vec![x(0), x(1), x(2)], dtype),
        TileOp::Fma => binary(BinOp::Mul) + x(2),
        TileOp::Zero
        | TileOp::Copy
        | TileOp::CopyAsync
        | TileOp::PermuteLayout
        | TileOp::Sum
        | TileOp::Prod
        | TileOp::Max
        | TileOp::Min
        | TileOp::Gemm => Expr::constant(0.0, dtype),
    }
}

/// `x / (1 + exp(-x))`.
fn silu(dtype: DType, x: Expr) -> Expr {
    let wide = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
    let x = Expr::cast(wide, x);
    let negative = Expr::binary(BinOp::Sub, Expr::constant(0.0, wide), x.clone());
    let below = Expr::constant(1.0, wide) + Expr::call(Intrin::Exp, vec![negative], wide);
    Expr::cast(dtype, Expr::binary(BinOp::Div, x, below))
}

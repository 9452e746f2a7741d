//! Calls that are read as what TVM lowers them to: `T.ldexp`, `T.q_multiply_shift`.

use super::error::{Problem, Span, problem};
use crate::ir::{BinOp, DType, Expr, Intrin};

/// `x * 2^e`, in two factors so that neither overflows where the result does not.
pub(super) fn ldexp(x: Expr, e: Expr, at: Span) -> Result<Expr, Problem> {
    let dtype = x.dtype();
    if !dtype.is_float() || !e.dtype().is_int() {
        let text = format!("T.ldexp takes a float and an integer, not {dtype} and {}", e.dtype());
        return problem(at, text);
    }
    let power = |e: Expr| Expr::call(Intrin::Exp2, vec![Expr::cast(dtype, e)], dtype);
    let half = Expr::binary(BinOp::FloorDiv, e.clone(), Expr::int(2, e.dtype()));
    Ok(x * power(half.clone()) * power(e - half))
}

/// `x * y * 2^(s - q)` of `int32` values, rounded to the nearest integer, halves upwards.
pub(super) fn q_multiply_shift([x, y, q, s]: [Expr; 4], at: Span) -> Result<Expr, Problem> {
    if [&x, &y].iter().any(|e| e.dtype() != DType::I32) {
        return problem(at, "T.q_multiply_shift takes int32 values");
    }
    let (Some(q), Some(s)) = (q.as_int(), s.as_int()) else {
        return problem(at, "T.q_multiply_shift takes constants as its third and fourth argument");
    };
    let (left, right) = (s.max(0), q - s.min(0));
    if !(0..32).contains(&left) || !(1..63).contains(&right) {
        return problem(
            at,
            format!("T.q_multiply_shift shifts left by 0 to 31 and right by 1 to 62, not {left}, {right}"),
        );
    }
    let wide = |e: Expr| e.as_int().map_or_else(|| Expr::cast(DType::I64, e.clone()), Expr::i64);
    let shifted = |op, e: Expr, n: i64| Expr::binary(op, e, Expr::i64(n));
    let x = if left == 0 { wide(x) } else { shifted(BinOp::Shl, wide(x), left) };
    let half = Expr::i64(1 << (right - 1));
    Ok(Expr::cast(DType::I32, shifted(BinOp::Shr, x * wide(y) + half, right)))
}

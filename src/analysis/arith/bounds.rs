//! Constant bounds of integer expressions by interval arithmetic.

use crate::analysis::{Interval, Ranges};
use crate::ir::{BinOp, DType, Expr, ExprKind, UnOp};

/// The interval that an integer expression lies in. Sound: every value that the expression takes
/// under `ranges` lies in it, as long as `int32` and `int64` arithmetic does not overflow.
pub fn interval(e: &Expr, r: &Ranges) -> Interval {
    match e.kind() {
        ExprKind::Int { value, dtype: DType::U64 } if *value < 0 => Interval::of_dtype(DType::U64),
        ExprKind::Int { value, .. } => Interval::point(*value),
        ExprKind::Var { name, dtype } => r.get(name).unwrap_or(Interval::of_dtype(*dtype)),
        ExprKind::Float { .. } | ExprKind::Str(_) => Interval::ALL,
        ExprKind::Load { dtype, .. }
        | ExprKind::Call { dtype, .. }
        | ExprKind::Extern { dtype, .. }
        | ExprKind::Reinterpret { dtype, .. } => Interval::of_dtype(*dtype),
        ExprKind::Unary { op, arg } => unary(*op, arg, r),
        ExprKind::Binary { op, a, b } => binary(*op, a, b, r),
        ExprKind::Select { then, otherwise, .. } | ExprKind::IfThenElse { then, otherwise, .. } => {
            interval(then, r).join(interval(otherwise, r))
        }
        ExprKind::Cast { dtype, arg } => cast(*dtype, arg, r),
        ExprKind::Let { var, value, body } => {
            let mut inner = r.clone();
            inner.set_interval(var.clone(), interval(value, r));
            interval(body, &inner)
        }
    }
}

fn cast(dtype: DType, arg: &Expr, r: &Ranges) -> Interval {
    let all = Interval::of_dtype(dtype);
    if arg.dtype().is_float() || dtype.is_float() {
        return all;
    }
    let inner = interval(arg, r);
    if inner.within(all) { inner } else { all }
}

fn unary(op: UnOp, arg: &Expr, r: &Ranges) -> Interval {
    let dtype = arg.dtype();
    if dtype.is_float() {
        return Interval::ALL;
    }
    match op {
        UnOp::Neg => (-interval(arg, r)).wrapped(dtype),
        UnOp::Not => Interval::BOOL,
        UnOp::BitNot if dtype.is_signed() => -interval(arg, r) - Interval::point(1),
        UnOp::BitNot => Interval::of_dtype(dtype),
    }
}

fn binary(op: BinOp, a: &Expr, b: &Expr, r: &Ranges) -> Interval {
    let dtype = a.dtype();
    if op.is_compare() || matches!(op, BinOp::And | BinOp::Or) {
        return Interval::BOOL;
    }
    if dtype.is_float() {
        return Interval::ALL;
    }
    let (x, y) = (interval(a, r), interval(b, r));
    let exact = match op {
        BinOp::Add => x + y,
        BinOp::Sub => x - y,
        BinOp::Mul => x * y,
        BinOp::FloorDiv => x.floor_div(y),
        BinOp::FloorMod => x.floor_mod(y),
        BinOp::TruncDiv | BinOp::Div if x.lo >= 0 => x.floor_div(y),
        BinOp::TruncMod if x.lo >= 0 => x.floor_mod(y),
        BinOp::Min => x.min(y),
        BinOp::Max => x.max(y),
        BinOp::BitAnd if x.lo >= 0 || y.lo >= 0 => bit_and(x, y),
        BinOp::BitOr | BinOp::BitXor if x.lo >= 0 && y.lo >= 0 => Interval::new(0, ones(x.hi | y.hi)),
        BinOp::Shl => shift(y, |f| x * f),
        BinOp::Shr => shift(y, |f| x.floor_div(f)),
        BinOp::TruncDiv
        | BinOp::Div
        | BinOp::TruncMod
        | BinOp::BitAnd
        | BinOp::BitOr
        | BinOp::BitXor
        | BinOp::Eq
        | BinOp::Ne
        | BinOp::Lt
        | BinOp::Le
        | BinOp::Gt
        | BinOp::Ge
        | BinOp::And
        | BinOp::Or => Interval::of_dtype(dtype),
    };
    exact.wrapped(dtype)
}

fn bit_and(x: Interval, y: Interval) -> Interval {
    let top = |v: Interval| if v.lo >= 0 { v.hi } else { i64::MAX };
    Interval::new(0, top(x).min(top(y)))
}

/// The smallest `2^k - 1` that is at least `v`.
fn ones(v: i64) -> i64 {
    if v <= 0 { 0 } else { (u64::MAX >> (v as u64).leading_zeros()) as i64 }
}

/// Applies `f` to the powers of two that the shift counts stand for.
fn shift(count: Interval, f: impl Fn(Interval) -> Interval) -> Interval {
    match count.finite() {
        Some((lo, hi)) if lo >= 0 && hi < 62 => f(Interval::new(1 << lo, 1 << hi)),
        _ => Interval::ALL,
    }
}

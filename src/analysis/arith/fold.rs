//! Constant folding of integers and `bool`. Signed results that do not fit are not folded,
//! unsigned ones wrap.

use crate::analysis::Interval;
use crate::ir::{BinOp, DType, Expr, ExprKind, UnOp};

/// The value as a constant of `dtype`: itself where it fits, wrapped for unsigned types.
pub fn fit(v: i64, dtype: DType) -> Option<i64> {
    match dtype {
        DType::Bool => Some((v != 0) as i64),
        DType::U8 => Some(v as u8 as i64),
        DType::U16 => Some(v as u16 as i64),
        DType::U32 => Some(v as u32 as i64),
        DType::U64 => Some(v),
        DType::I8 | DType::I16 | DType::I32 | DType::I64 => {
            Interval::point(v).within(Interval::of_dtype(dtype)).then_some(v)
        }
        DType::F16
        | DType::BF16
        | DType::F32
        | DType::F64
        | DType::E4M3
        | DType::E5M2
        | DType::E8M0
        | DType::Handle => None,
    }
}

/// Negation or bitwise complement of a constant.
pub fn unary(op: UnOp, a: &Expr) -> Option<Expr> {
    let v = a.as_int()?;
    let result = match op {
        UnOp::Neg => v.checked_neg()?,
        UnOp::BitNot => !v,
        UnOp::Not => (v == 0) as i64,
    };
    Some(Expr::int(fit(result, a.dtype())?, a.dtype()))
}

/// Logical not: of a constant, of a not, and of an integer comparison.
pub fn not(a: &Expr) -> Option<Expr> {
    match a.kind() {
        ExprKind::Int { value, .. } => Some(Expr::bool(*value == 0)),
        ExprKind::Unary { op: UnOp::Not, arg } => Some(arg.clone()),
        ExprKind::Binary { op, a, b } if !a.dtype().is_float() => {
            let flipped = match op {
                BinOp::Eq => BinOp::Ne,
                BinOp::Ne => BinOp::Eq,
                BinOp::Lt => BinOp::Ge,
                BinOp::Ge => BinOp::Lt,
                BinOp::Gt => BinOp::Le,
                BinOp::Le => BinOp::Gt,
                _ => return None,
            };
            Some(Expr::binary(flipped, a.clone(), b.clone()))
        }
        _ => None,
    }
}

/// A binary operation of two integer constants, where it has a value.
pub fn binary(op: BinOp, a: &Expr, b: &Expr) -> Option<Expr> {
    let (dtype, x, y) = (a.dtype(), a.as_int()?, b.as_int()?);
    let unsigned = dtype == DType::U64;
    if let Some(truth) = compare(op, x, y, unsigned) {
        return Some(Expr::bool(truth));
    }
    let v = if unsigned { unsigned_op(op, x as u64, y as u64)? as i64 } else { signed_op(op, x, y, dtype)? };
    Some(Expr::int(fit(v, dtype)?, dtype))
}

fn compare(op: BinOp, x: i64, y: i64, unsigned: bool) -> Option<bool> {
    let order = if unsigned { (x as u64).cmp(&(y as u64)) } else { x.cmp(&y) };
    match op {
        BinOp::Eq => Some(order.is_eq()),
        BinOp::Ne => Some(order.is_ne()),
        BinOp::Lt => Some(order.is_lt()),
        BinOp::Le => Some(order.is_le()),
        BinOp::Gt => Some(order.is_gt()),
        BinOp::Ge => Some(order.is_ge()),
        BinOp::And => Some(x != 0 && y != 0),
        BinOp::Or => Some(x != 0 || y != 0),
        _ => None,
    }
}

/// Exact in `i64`: every other type but `uint64` fits it.
fn signed_op(op: BinOp, x: i64, y: i64, dtype: DType) -> Option<i64> {
    let bits = 8 * dtype.bytes() as i64;
    let count = || u32::try_from(y).ok().filter(|c| (*c as i64) < bits);
    match op {
        BinOp::Add => x.checked_add(y),
        BinOp::Sub => x.checked_sub(y),
        BinOp::Mul => x.checked_mul(y),
        BinOp::FloorDiv => {
            let q = x.checked_div(y)?;
            Some(if x % y != 0 && (x < 0) != (y < 0) { q - 1 } else { q })
        }
        BinOp::FloorMod => {
            let m = x.checked_rem(y)?;
            Some(if m != 0 && (m < 0) != (y < 0) { m + y } else { m })
        }
        BinOp::TruncDiv | BinOp::Div => x.checked_div(y),
        BinOp::TruncMod => x.checked_rem(y),
        BinOp::Min => Some(x.min(y)),
        BinOp::Max => Some(x.max(y)),
        BinOp::BitAnd => Some(x & y),
        BinOp::BitOr => Some(x | y),
        BinOp::BitXor => Some(x ^ y),
        BinOp::Shl => x.checked_mul(1i64.checked_shl(count()?)?),
        BinOp::Shr => Some(x >> count()?),
        BinOp::Eq | BinOp::Ne | BinOp::Lt | BinOp::Le | BinOp::Gt | BinOp::Ge | BinOp::And | BinOp::Or => None,
    }
}

fn unsigned_op(op: BinOp, x: u64, y: u64) -> Option<u64> {
    let count = || u32::try_from(y).ok().filter(|c| *c < 64);
    match op {
        BinOp::Add => Some(x.wrapping_add(y)),
        BinOp::Sub => Some(x.wrapping_sub(y)),
        BinOp::Mul => Some(x.wrapping_mul(y)),
        BinOp::FloorDiv | BinOp::TruncDiv | BinOp::Div => x.checked_div(y),
        BinOp::FloorMod | BinOp::TruncMod => x.checked_rem(y),
        BinOp::Min => Some(x.min(y)),
        BinOp::Max => Some(x.max(y)),
        BinOp::BitAnd => Some(x & y),
        BinOp::BitOr => Some(x | y),
        BinOp::BitXor => Some(x ^ y),
        BinOp::Shl => Some(x << count()?),
        BinOp::Shr => Some(x >> count()?),
        BinOp::Eq | BinOp::Ne | BinOp::Lt | BinOp::Le | BinOp::Gt | BinOp::Ge | BinOp::And | BinOp::Or => None,
    }
}

//! Recognises reduction updates: `B[i] = B[i] op term`.

use crate::ir::device::DStmt;
use crate::ir::{BinOp, DType, Expr, ExprKind, Name};

/// The parts of a reduction update.
pub(super) struct Update {
    pub op: BinOp,
    pub buffer: Name,
    pub indices: Vec<Expr>,
    pub term: Expr,
}

/// The parts of a store that reduces into its own element, if it does.
pub(super) fn update(buffer: &Name, indices: &[Expr], value: &Expr) -> Option<Update> {
    let ExprKind::Binary { op, a, b } = value.kind() else { return None };
    if !matches!(op, BinOp::Add | BinOp::Mul | BinOp::Max | BinOp::Min) {
        return None;
    }
    let own =
        |e: &Expr| matches!(e.kind(), ExprKind::Load { buffer: n, indices: i, .. } if n == buffer && i == indices);
    let term = if own(a) {
        b
    } else if own(b) {
        a
    } else {
        return None;
    };
    let whole = Update { op: *op, buffer: buffer.clone(), indices: indices.to_vec(), term: term.clone() };
    (!term.loads(buffer)).then_some(whole)
}

/// The same of a lowered statement.
pub(super) fn update_of(s: &DStmt) -> Option<Update> {
    match s {
        DStmt::Store { buffer, indices, value, .. } => update(buffer, indices, value),
        DStmt::For(_)
        | DStmt::If { .. }
        | DStmt::Copy { .. }
        | DStmt::Let { .. }
        | DStmt::Var { .. }
        | DStmt::Assign { .. }
        | DStmt::Shuffle { .. }
        | DStmt::Barrier(_)
        | DStmt::Intrinsic(_)
        | DStmt::Tile(_)
        | DStmt::Reduce(_) => None,
    }
}

/// The value that changes nothing.
pub(super) fn identity(op: BinOp, dtype: DType) -> Option<Expr> {
    match op {
        BinOp::Add => Some(Expr::constant(0.0, dtype)),
        BinOp::Mul => Some(Expr::constant(1.0, dtype)),
        BinOp::Max if dtype == DType::F32 || dtype == DType::F64 || dtype == DType::F16 || dtype == DType::BF16 => {
            Some(Expr::float(f64::NEG_INFINITY, dtype))
        }
        BinOp::Min if dtype == DType::F32 || dtype == DType::F64 || dtype == DType::F16 || dtype == DType::BF16 => {
            Some(Expr::float(f64::INFINITY, dtype))
        }
        BinOp::Max => int_limits(dtype).map(|(lo, _)| Expr::int(lo, dtype)),
        BinOp::Min => int_limits(dtype).map(|(_, hi)| Expr::int(hi, dtype)),
        BinOp::Sub
        | BinOp::Div
        | BinOp::FloorDiv
        | BinOp::FloorMod
        | BinOp::TruncDiv
        | BinOp::TruncMod
        | BinOp::Eq
        | BinOp::Ne
        | BinOp::Lt
        | BinOp::Le
        | BinOp::Gt
        | BinOp::Ge
        | BinOp::And
        | BinOp::Or
        | BinOp::BitAnd
        | BinOp::BitOr
        | BinOp::BitXor
        | BinOp::Shl
        | BinOp::Shr => None,
    }
}

/// Smallest and largest value of an integer type (`uint64` as its bits).
fn int_limits(dtype: DType) -> Option<(i64, i64)> {
    match dtype {
        DType::Bool => Some((0, 1)),
        DType::I8 => Some((i8::MIN as i64, i8::MAX as i64)),
        DType::I16 => Some((i16::MIN as i64, i16::MAX as i64)),
        DType::I32 => Some((i32::MIN as i64, i32::MAX as i64)),
        DType::I64 => Some((i64::MIN, i64::MAX)),
        DType::U8 => Some((0, u8::MAX as i64)),
        DType::U16 => Some((0, u16::MAX as i64)),
        DType::U32 => Some((0, u32::MAX as i64)),
        DType::U64 => Some((0, -1)),
        DType::F16 | DType::BF16 | DType::F32 | DType::F64 | DType::E4M3 | DType::E5M2 | DType::Handle => None,
    }
}

/// True when combining a value with itself gives it back.
pub(super) fn idempotent(op: BinOp) -> bool {
    matches!(op, BinOp::Max | BinOp::Min)
}

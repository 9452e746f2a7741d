//! Whether a function rounds: else its results are exact, whatever the schedule.

use crate::ir::{BinOp, Expr, ExprKind, Intrin, PrimFunc};

/// True when the function does arithmetic on floats that rounds.
pub(super) fn rounds(func: &PrimFunc) -> bool {
    let mut found = false;
    let mut look = |e: &Expr| e.visit(&mut |e| found |= is_rounding(e));
    func.visit(&mut |s| s.for_each_expr(&mut look));
    found
}

pub(super) fn is_rounding(e: &Expr) -> bool {
    match e.kind() {
        ExprKind::Binary { op: BinOp::Min | BinOp::Max, .. } => false,
        ExprKind::Binary { .. } => e.dtype().is_float(),
        ExprKind::Call {
            op: Intrin::Fabs | Intrin::CopySign | Intrin::Floor | Intrin::Ceil | Intrin::Trunc, ..
        } => false,
        ExprKind::Call { .. } => e.dtype().is_float(),
        ExprKind::Cast { dtype, arg } => dtype.is_float() && dtype.roundoff() > arg.dtype().roundoff(),
        ExprKind::Int { .. }
        | ExprKind::Float { .. }
        | ExprKind::Str(_)
        | ExprKind::Var { .. }
        | ExprKind::Load { .. }
        | ExprKind::Unary { .. }
        | ExprKind::Select { .. }
        | ExprKind::IfThenElse { .. }
        | ExprKind::Reinterpret { .. }
        | ExprKind::Extern { .. }
        | ExprKind::Let { .. } => false,
    }
}

//! Makes all index arithmetic `int64`.
//!
//! Functions mix `int32` and `int64` loops; one type lets later passes compare, simplify and divide
//! indices without casts. `narrow` gives `int32` back where values fit.
//!
//! before: `A[i0, v1 + 1]` with `i0: int32`; `Cast(float32, i0)`
//! after:  every variable in an index is read as `int64`; `Cast(float32, Cast(int32, i0))`

use crate::ir::{BinOp, DType, Expr, ExprKind, Stmt};

/// Widens every expression of a statement.
pub fn stmt(s: &Stmt) -> Stmt {
    match s {
        Stmt::Store { buffer, indices, value: v } => {
            Stmt::Store { buffer: buffer.clone(), indices: indices.iter().map(index).collect(), value: value(v) }
        }
        Stmt::For(l) => {
            let mut l = l.clone();
            (l.min, l.extent, l.dtype) = (index(&l.min), index(&l.extent), DType::I64);
            l.body = list(&l.body);
            Stmt::For(l)
        }
        Stmt::Block(b) => {
            let mut b = b.clone();
            for it in &mut b.iters {
                (it.min, it.extent, it.binding) = (index(&it.min), index(&it.extent), index(&it.binding));
                it.dtype = DType::I64;
            }
            b.guard = b.guard.as_ref().map(value);
            (b.init, b.body, b.regions) = (list(&b.init), list(&b.body), None);
            Stmt::Block(b)
        }
        Stmt::If { cond, then, otherwise } => {
            Stmt::If { cond: value(cond), then: list(then), otherwise: list(otherwise) }
        }
        Stmt::Let { var, value: v } => Stmt::Let { var: var.clone(), value: value(v) },
        Stmt::While { .. } | Stmt::Evaluate(_) | Stmt::Attr { .. } | Stmt::Alloc { .. } => s.clone(),
    }
}

fn list(stmts: &[Stmt]) -> Vec<Stmt> {
    stmts.iter().map(stmt).collect()
}

/// An index as an `int64` expression.
pub fn index(e: &Expr) -> Expr {
    match e.kind() {
        ExprKind::Int { value, .. } => Expr::i64(*value),
        ExprKind::Var { name, dtype } if is_index(*dtype) => Expr::var(name.clone(), DType::I64),
        ExprKind::Binary { op, a, b } if is_arithmetic(*op) => Expr::binary(*op, index(a), index(b)),
        ExprKind::Cast { dtype, arg } if is_index(*dtype) && is_pure(arg) => index(arg),
        ExprKind::Select { cond, then, otherwise } => {
            Expr::new(ExprKind::Select { cond: value(cond), then: index(then), otherwise: index(otherwise) })
        }
        ExprKind::Float { .. }
        | ExprKind::Str(_)
        | ExprKind::Var { .. }
        | ExprKind::Load { .. }
        | ExprKind::Unary { .. }
        | ExprKind::Binary { .. }
        | ExprKind::IfThenElse { .. }
        | ExprKind::Cast { .. }
        | ExprKind::Reinterpret { .. }
        | ExprKind::Call { .. }
        | ExprKind::Extern { .. }
        | ExprKind::Let { .. } => Expr::cast(DType::I64, value(e)),
    }
}

/// An expression whose value matters: its dtype stays.
pub fn value(e: &Expr) -> Expr {
    match e.kind() {
        ExprKind::Int { .. } => e.clone(),
        ExprKind::Load { buffer, indices, dtype } => {
            Expr::load(buffer.clone(), indices.iter().map(index).collect(), *dtype)
        }
        ExprKind::Binary { op, a, b } if op.is_compare() && is_pure(a) && is_pure(b) => {
            Expr::binary(*op, index(a), index(b))
        }
        ExprKind::Float { .. }
        | ExprKind::Str(_)
        | ExprKind::Var { .. }
        | ExprKind::Unary { .. }
        | ExprKind::Binary { .. }
        | ExprKind::Select { .. }
        | ExprKind::IfThenElse { .. }
        | ExprKind::Cast { .. }
        | ExprKind::Reinterpret { .. }
        | ExprKind::Call { .. }
        | ExprKind::Extern { .. }
        | ExprKind::Let { .. } => {
            if is_pure(e) {
                Expr::cast(e.dtype(), index(e))
            } else {
                e.map_children(value)
            }
        }
    }
}

fn is_index(dtype: DType) -> bool {
    matches!(dtype, DType::I32 | DType::I64)
}

/// Made of variables and constants only, so that it is an index and cannot wrap around.
pub fn is_pure(e: &Expr) -> bool {
    match e.kind() {
        ExprKind::Int { dtype, .. } | ExprKind::Var { dtype, .. } => is_index(*dtype),
        ExprKind::Binary { op, a, b } => is_arithmetic(*op) && is_pure(a) && is_pure(b),
        ExprKind::Cast { dtype, arg } => is_index(*dtype) && is_pure(arg),
        ExprKind::Float { .. }
        | ExprKind::Str(_)
        | ExprKind::Load { .. }
        | ExprKind::Unary { .. }
        | ExprKind::Select { .. }
        | ExprKind::IfThenElse { .. }
        | ExprKind::Reinterpret { .. }
        | ExprKind::Call { .. }
        | ExprKind::Extern { .. }
        | ExprKind::Let { .. } => false,
    }
}

fn is_arithmetic(op: BinOp) -> bool {
    matches!(
        op,
        BinOp::Add
            | BinOp::Sub
            | BinOp::Mul
            | BinOp::FloorDiv
            | BinOp::FloorMod
            | BinOp::BitAnd
            | BinOp::BitOr
            | BinOp::BitXor
            | BinOp::TruncDiv
            | BinOp::TruncMod
            | BinOp::Min
            | BinOp::Max
    )
}

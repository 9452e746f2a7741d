//! Recognises reduction updates: `B[i] = B[i] op term`.

use crate::analysis::Combiner;
use crate::ir::device::DStmt;
use crate::ir::{BinOp, Expr, ExprKind, Name};

/// The parts of a reduction update.
pub struct Update {
    pub op: BinOp,
    pub buffer: Name,
    pub indices: Vec<Expr>,
    pub term: Expr,
}

/// The parts of a store that reduces into its own element, if it does.
pub fn update(buffer: &Name, indices: &[Expr], value: &Expr) -> Option<Update> {
    let ExprKind::Binary { op, a, b } = value.kind() else { return None };
    Combiner::of(*op)?;
    let term = if a.is_element(buffer, indices) {
        b
    } else if b.is_element(buffer, indices) {
        a
    } else {
        return None;
    };
    let whole = Update { op: *op, buffer: buffer.clone(), indices: indices.to_vec(), term: term.clone() };
    (!term.loads(buffer)).then_some(whole)
}

/// The same of a lowered statement.
pub fn update_of(s: &DStmt) -> Option<Update> {
    let DStmt::Store { buffer, indices, value, .. } = s else { return None };
    update(buffer, indices, value)
}

/// True when combining a value with itself gives it back.
pub fn idempotent(op: BinOp) -> bool {
    matches!(op, BinOp::Max | BinOp::Min)
}

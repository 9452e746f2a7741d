//! Which elements does every instance of a block read, whatever its conditions are?
//!
//! ```text
//! o[v] = t[v // 2]                               each: so v // 2 is an index of t for each v
//! o[v] = T.if_then_else(v < 3, t[v // 2], 1)     some: v may be larger than what t has elements for
//! ```

use super::regions;
use crate::ir::{BinOp, Block, Expr, ExprKind, Name, Stmt};

/// The indices of the loads of `buffer` that no condition inside the block can leave out, in terms of
/// its iterators.
pub fn load_indices(block: &Block, buffer: &Name) -> Vec<Vec<Expr>> {
    let mut found = vec![];
    let mut note = |e: &Expr| {
        if let ExprKind::Load { buffer: b, indices, .. } = e.kind()
            && b == buffer
        {
            found.push(regions::expanded(block, indices));
        }
    };
    block.guard.iter().for_each(|e| visit_expr(e, &mut note));
    block.init.iter().chain(&block.body).for_each(|s| visit_stmt(s, &mut note));
    found
}

fn visit_stmt(s: &Stmt, f: &mut impl FnMut(&Expr)) {
    s.for_each_expr(|e| visit_expr(e, f));
    let conditional = match s {
        Stmt::If { .. } | Stmt::While { .. } => true,
        Stmt::Block(inner) => inner.guard.is_some(),
        _ => false,
    };
    if !conditional {
        s.for_each_child(|s| visit_stmt(s, f));
    }
}

fn visit_expr(e: &Expr, f: &mut impl FnMut(&Expr)) {
    f(e);
    match e.kind() {
        ExprKind::IfThenElse { cond: first, .. } | ExprKind::Binary { op: BinOp::And | BinOp::Or, a: first, .. } => {
            visit_expr(first, f);
        }
        _ => e.for_each_child(|c| visit_expr(c, f)),
    }
}

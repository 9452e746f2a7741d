//! How long a run takes, roughly.

use crate::ir::{Block, Expr, PrimFunc, Stmt};

/// An estimate of the scalar operations that [`super::run`] performs: operators, loads and stores,
/// loop by loop. Extents that are not constant count as 1, so bind them first.
pub fn scalar_ops(f: &PrimFunc) -> u64 {
    list(&f.body)
}

fn list(stmts: &[Stmt]) -> u64 {
    stmts.iter().fold(0, |sum, s| sum.saturating_add(stmt(s)))
}

fn stmt(s: &Stmt) -> u64 {
    match s {
        Stmt::For(l) => {
            let trips = l.extent.as_int().map_or(1, |n| n.max(0) as u64);
            list(&l.body).saturating_mul(trips)
        }
        Stmt::Block(b) => block(b),
        Stmt::If { cond, then, otherwise } => list(then).max(list(otherwise)).saturating_add(expr(cond)),
        Stmt::While { cond, body } => list(body).saturating_add(expr(cond)),
        Stmt::Store { indices, value, .. } => 1 + indices.iter().map(expr).sum::<u64>() + expr(value),
        Stmt::Let { value, .. } => expr(value),
        Stmt::Evaluate(e) => expr(e),
        Stmt::Attr { body, .. } => list(body),
        Stmt::Alloc { .. } => 0,
    }
}

/// Inits are left out: they run once per reduction.
fn block(b: &Block) -> u64 {
    let bindings: u64 = b.iters.iter().map(|it| expr(&it.binding)).sum();
    list(&b.body).saturating_add(bindings).saturating_add(b.guard.as_ref().map_or(0, expr))
}

/// Nodes other than variables and constants.
fn expr(e: &Expr) -> u64 {
    let mut children = 0u64;
    let mut leaf = true;
    e.for_each_child(|c| {
        leaf = false;
        children = children.saturating_add(expr(c));
    });
    if leaf { 0 } else { children.saturating_add(1) }
}

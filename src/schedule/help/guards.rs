//! Guards as lists of conditions: taking them apart, putting them together, and writing them in
//! terms of block iterators so that a block can move to other loops.

use super::span::cast;
use crate::analysis::{self, Ranges};
use crate::ir::{BinOp, Block, Expr, ExprKind, Name};
use crate::schedule::Failure;

/// The conditions that a guard joins by `and`.
pub fn conjuncts(guard: Option<&Expr>) -> Vec<Expr> {
    let mut found = vec![];
    guard.iter().for_each(|e| collect(e, &mut found));
    found
}

fn collect(e: &Expr, found: &mut Vec<Expr>) {
    match e.kind() {
        ExprKind::Binary { op: BinOp::And, a, b } => {
            collect(a, found);
            collect(b, found);
        }
        _ => found.push(e.clone()),
    }
}

/// The guard that all conditions hold; `None` where there are none.
pub fn conjoin(conditions: impl IntoIterator<Item = Expr>) -> Option<Expr> {
    conditions.into_iter().reduce(|a, b| Expr::binary(BinOp::And, a, b))
}

/// The conditions that are not proven, simplified, each once.
pub fn unproven(conditions: impl IntoIterator<Item = Expr>, ranges: &Ranges) -> Vec<Expr> {
    let mut kept: Vec<Expr> = vec![];
    for condition in conditions {
        let condition = analysis::simplify(&condition, ranges);
        if !analysis::prove(&condition, ranges) && !kept.contains(&condition) {
            kept.push(condition);
        }
    }
    kept
}

/// `a < b`.
pub fn less(a: &Expr, b: &Expr) -> Expr {
    Expr::binary(BinOp::Lt, a.clone(), cast(a.dtype(), b))
}

/// True when one of `names` occurs in `e`.
pub fn uses_any<'a>(e: &Expr, names: impl IntoIterator<Item = &'a Name>) -> bool {
    names.into_iter().any(|n| e.uses_var(n))
}

/// The conditions of a block's guard in terms of its iterators, without those that only keep an
/// iterator inside its domain. `loops` are the loops around the block.
///
/// Fails with `guard_in_iterators` where a condition needs a loop that no iterator stands for.
pub fn in_iterators(block: &Block, loops: &[Name], ranges: &Ranges) -> Result<Vec<Expr>, Failure> {
    let mut kept = vec![];
    for condition in conjuncts(block.guard.as_ref()) {
        if keeps_domain(&condition, block, ranges) {
            continue;
        }
        let condition = condition.subst(&|name| iterator_of(block, name));
        Failure::unless(!uses_any(&condition, loops), "guard_in_iterators", &block.name, || {
            format!("its guard {condition} depends on loops that are not bound to one iterator each")
        })?;
        kept.push(condition);
    }
    Ok(kept)
}

/// True where the condition says no more than `binding < extent` of one of the iterators.
fn keeps_domain(condition: &Expr, block: &Block, ranges: &Ranges) -> bool {
    let condition = analysis::simplify(condition, ranges);
    block.iters.iter().any(|it| analysis::simplify(&less(&it.binding, &it.extent), ranges) == condition)
}

/// The iterator that stands for a loop alone.
fn iterator_of(block: &Block, name: &Name) -> Option<Expr> {
    block.iters.iter().find(|it| it.binding.as_var() == Some(name)).map(|it| it.var_expr())
}

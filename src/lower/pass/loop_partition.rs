//! Cuts an unrolled loop where its conditions change: the first iteration apart, and the last, those between without conditions.
//!
//! Of a row that begins within a vector only the first vector asks whether an element is one of the row, and only the last
//! whether the row goes on. A compiler that does not know where rows begin asks both of each element.
//!
//! before: `unroll i < 5 { if s <= i * 1024 + threadIdx.x && i * 1024 + threadIdx.x < s + 4099 { ... } }`, `s` at most 7
//! after:  `unroll i < 1 { if s <= threadIdx.x { ... } }; unroll i < 3 { ... }; unroll i < 1 { if threadIdx.x < s + 3 { ... } }`

use super::guards::{for_all, uniform};
use crate::analysis::prove;
use crate::ir::device::{DFor, DKind, DStmt, all_of, conjuncts, index_var, map_stmts};
use crate::ir::{Expr, ExprKind};
use crate::lower::nest::Nest;

/// Cuts outer loops before those in them.
pub fn run(nest: &mut Nest, body: Vec<DStmt>) -> Vec<DStmt> {
    let cut = |nest: &mut Nest, s: DStmt| match s {
        DStmt::For(l) => parts(nest, &l).unwrap_or_else(|| vec![DStmt::For(l)]),
        s => vec![s],
    };
    let parts: Vec<DStmt> = body.into_iter().flat_map(|s| cut(nest, s)).collect();
    parts.into_iter().map(|s| s.map_lists(|inner| run(nest, inner))).collect()
}

/// The parts of a loop, where the first iteration needs a condition that the others do not.
fn parts(nest: &mut Nest, l: &DFor) -> Option<Vec<DStmt>> {
    let n = l.extent.as_int().filter(|n| *n > 1 && l.kind == DKind::Unrolled && l.live.is_none())?;
    let conds = conditions(&l.body, &|c| c.uses_var(&l.var));
    let known = |from: i64, last: i64| {
        let mut ranges = nest.ranges.clone();
        ranges.set(l.var.clone(), from, last);
        conds.iter().filter(|c| prove(c, &ranges)).count()
    };
    let later = known(1, n - 1);
    (later > known(0, n - 1)).then_some(())?;
    let end = if n > 2 && known(1, n - 2) > later { n - 1 } else { n };
    let parts = [0, 1, end, n];
    Some(parts.windows(2).filter(|p| p[0] < p[1]).map(|p| part(nest, l, p[0], p[1] - p[0])).collect())
}

/// So many iterations of a loop, from one on.
fn part(nest: &mut Nest, l: &DFor, from: i64, n: i64) -> DStmt {
    let var = nest.loop_var(l.var.as_str(), n);
    let body = nest.with_value(&l.body, &l.var, &(index_var(&var) + Expr::i64(from)));
    let body = uniform(nest, body);
    let body = if n == 1 { whole_apart(nest, body) } else { body };
    DStmt::For(DFor { var, extent: Expr::i64(n), ..l.with_body(body) })
}

/// Statements without conditions on the elements of a vector where these hold for all of them, as for most threads; and as they
/// were. Copies alone ask for their vectors themselves.
fn whole_apart(nest: &mut Nest, body: Vec<DStmt>) -> Vec<DStmt> {
    let mut lanes = vec![];
    let mut computes = false;
    body.iter().for_each(|s| {
        s.visit(&mut |s| {
            if let DStmt::For(l) = s {
                lanes.extend(l.extent.as_int().map(|n| (l.var.clone(), n)));
                computes |= l.kind != DKind::Vectorized;
            }
        });
    });
    let asked = |c: &Expr| lanes.iter().any(|(var, _)| c.uses_var(var));
    let each: Vec<Expr> = conditions(&body, &asked);
    let all: Option<Vec<Expr>> = each.iter().map(|c| for_all(&nest.ranges, c, &lanes)).collect();
    let Some(all) = all.filter(|_| computes && !each.is_empty()) else { return body };
    let then = map_stmts(body.clone(), &mut |s| without(s, &each));
    let then = uniform(nest, then);
    match all_of(all.into_iter().filter(|c| !prove(c, &nest.ranges))) {
        Some(cond) => vec![DStmt::If { cond, then, otherwise: body }],
        None => then,
    }
}

/// A statement without these conditions.
fn without(s: DStmt, conds: &[Expr]) -> DStmt {
    match s {
        DStmt::If { cond, then, otherwise } if otherwise.is_empty() => {
            DStmt::If { cond: left(&cond, conds).unwrap_or_else(|| Expr::bool(true)), then, otherwise }
        }
        s => s.map_own_exprs(&mut |e| chosen(e, conds)),
    }
}

/// A value as it is where these conditions hold.
fn chosen(e: &Expr, conds: &[Expr]) -> Expr {
    match e.kind() {
        ExprKind::IfThenElse { cond, then, .. } | ExprKind::Select { cond, then, .. }
            if left(cond, conds).is_none() =>
        {
            chosen(then, conds)
        }
        _ => e.map_children(|e| chosen(e, conds)),
    }
}

/// What is left of a condition.
fn left(cond: &Expr, conds: &[Expr]) -> Option<Expr> {
    all_of(conjuncts(cond).into_iter().filter(|c| !conds.contains(c)))
}

/// Those conditions of statements and of values that are asked for.
fn conditions(body: &[DStmt], asked: &dyn Fn(&Expr) -> bool) -> Vec<Expr> {
    let mut found = vec![];
    let mut note = |cond: &Expr| {
        for c in conjuncts(cond).into_iter().filter(|c| asked(c)) {
            if !found.contains(&c) {
                found.push(c);
            }
        }
    };
    for s in body {
        s.visit(&mut |s| {
            if let DStmt::If { cond, .. } = s {
                note(cond);
            }
            s.for_each_expr(|e| {
                e.visit(&mut |e| {
                    if let ExprKind::IfThenElse { cond, .. } | ExprKind::Select { cond, .. } = e.kind() {
                        note(cond);
                    }
                });
            });
        });
    }
    found
}

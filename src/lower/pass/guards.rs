//! Moves conditions out of loops that they do not depend on.
//!
//! `uniform` makes a condition free of a loop variable where its truth is the same for all values
//! of it: `base + v < limit` for `v` in `[0, 8)` is `base < limit` when 8 divides both. `hoist`
//! then takes a condition that is a loop's whole body around the loop, and joins neighbours under
//! one condition. `hoist` runs after barriers are placed, so no barrier gets under a condition.
//!
//! before: `for v in 8 { if base + v < n { f(v) } }`
//! after:  `if base < n { for v in 8 { f(v) } }`

use crate::analysis::{Ranges, bounds, linear, multiple_of, prove, simplify};
use crate::ir::device::{DStmt, all_of, conjuncts, guarded, only_guarded};
use crate::ir::{BinOp, Expr, ExprKind, Name};
use crate::lower::fact::replicated::loads;
use crate::lower::nest::Nest;
use std::collections::BTreeSet;

/// Frees conditions from loop variables they do not really depend on, and drops those that hold.
pub fn uniform(nest: &mut Nest, body: Vec<DStmt>) -> Vec<DStmt> {
    uniform_list(&nest.ranges, body, &mut vec![])
}

fn uniform_list(ranges: &Ranges, body: Vec<DStmt>, loops: &mut Vec<(Name, i64)>) -> Vec<DStmt> {
    let mut out = vec![];
    for s in body {
        let known = loops.len();
        if let DStmt::For(l) = &s {
            loops.extend(l.extent.as_int().map(|n| (l.var.clone(), n)));
        }
        let s = s.map_lists(|inner| uniform_list(ranges, inner, loops));
        loops.truncate(known);
        let DStmt::If { cond, then, otherwise } = s else {
            out.push(s);
            continue;
        };
        let parts = conjuncts(&simplify(&cond, ranges)).into_iter().map(|c| free_of(ranges, c, loops));
        let cond = all_of(parts.filter(|c| !prove(c, ranges)));
        match cond {
            Some(cond) if !otherwise.is_empty() => out.push(DStmt::If { cond, then, otherwise }),
            cond => out.extend(guarded(cond, then)),
        }
    }
    out
}

/// A condition free of the variables of constant loops that do not change its truth.
pub fn free_of(ranges: &Ranges, cond: Expr, loops: &[(Name, i64)]) -> Expr {
    loops.iter().rev().fold(cond, |cond, (var, n)| {
        if is_uniform(ranges, &cond, var, *n) {
            simplify(&cond.subst(&|name| (name == var).then(|| Expr::i64(0))), ranges)
        } else {
            cond
        }
    })
}

/// Conditions free of the variables of constant loops, together; `None` where one of them is not.
pub fn all_free_of(ranges: &Ranges, conds: Vec<Expr>, loops: &[(Name, i64)]) -> Option<Option<Expr>> {
    let cond = all_of(conds.into_iter().map(|c| free_of(ranges, c, loops)));
    let bound = cond.as_ref().is_some_and(|c| loops.iter().any(|(var, _)| c.uses_var(var)));
    (!bound).then_some(cond)
}

/// True when `cond` says `base + c*v < 0` with `c*n` dividing `base`: then `c*v < c*n` never
/// changes the sign.
fn is_uniform(ranges: &Ranges, cond: &Expr, var: &Name, n: i64) -> bool {
    let Some(below_zero) = strict_difference(cond) else { return false };
    let Some((c, base)) = linear(&below_zero, var, ranges) else { return false };
    c.as_int().is_some_and(|c| c > 0 && multiple_of(&base, ranges) % (c * n) == 0)
}

/// A condition free of the variables of constant loops under which `cond` holds for all their values; `None` where it is
/// not known, or never holds.
pub fn for_all(ranges: &Ranges, cond: &Expr, loops: &[(Name, i64)]) -> Option<Expr> {
    let greatest = |e: Expr, (var, n): &(Name, i64)| {
        let (step, start) = linear(&e, var, ranges)?;
        let most = step.as_int()?.max(0) * (n - 1);
        Some(simplify(&(start + Expr::i64(most)), ranges))
    };
    let used = loops.iter().filter(|(var, _)| cond.uses_var(var));
    let last = used.fold(strict_difference(cond), |e, one| greatest(e?, one))?;
    let possible = bounds(&last, ranges).is_none_or(|(least, _)| least < 0);
    possible.then(|| simplify(&Expr::binary(BinOp::Lt, last, Expr::i64(0)), ranges))
}

/// `e` of an integer comparison that says `e < 0`.
pub fn strict_difference(cond: &Expr) -> Option<Expr> {
    let ExprKind::Binary { op, a, b } = cond.kind() else { return None };
    if a.dtype() != crate::ir::DType::I64 {
        return None;
    }
    let minus = |a: &Expr, b: &Expr| a.clone() - b.clone();
    match op {
        BinOp::Lt => Some(minus(a, b)),
        BinOp::Gt => Some(minus(b, a)),
        BinOp::Le => Some(minus(a, b) - Expr::i64(1)),
        BinOp::Ge => Some(minus(b, a) - Expr::i64(1)),
        _ => None,
    }
}

/// Takes conditions around loops and joins neighbours under the same condition.
pub fn hoist(body: Vec<DStmt>) -> Vec<DStmt> {
    let mut out: Vec<DStmt> = vec![];
    for s in body {
        for s in hoist_one(s) {
            match (out.last_mut(), s) {
                (
                    Some(DStmt::If { cond, then, otherwise }),
                    DStmt::If { cond: c, then: more, otherwise: more_else },
                ) if *cond == c && reads_no_memory(&c) => {
                    for (list, more) in [(then, more), (otherwise, more_else)] {
                        list.extend(more);
                        *list = hoist(std::mem::take(list));
                    }
                }
                (_, s) => out.push(s),
            }
        }
    }
    out
}

fn hoist_one(s: DStmt) -> Vec<DStmt> {
    let s = s.map_lists(hoist);
    let DStmt::For(mut l) = s else { return vec![s] };
    let (outside, inside) = only_guarded(&l.body).map_or((None, None), |(cond, _)| split(cond, &l.var));
    if outside.is_some()
        && let Some(DStmt::If { then, .. }) = l.body.pop()
    {
        l.body = guarded(inside, then);
    }
    guarded(outside, vec![DStmt::For(l)])
}

/// The parts of a condition that may stand outside a loop over `var`, and those that may not.
fn split(cond: &Expr, var: &Name) -> (Option<Expr>, Option<Expr>) {
    let (out, inside): (Vec<Expr>, Vec<Expr>) =
        conjuncts(cond).into_iter().partition(|c| !c.uses_var(var) && reads_no_memory(c));
    (all_of(out), all_of(inside))
}

pub fn reads_no_memory(cond: &Expr) -> bool {
    let mut read = BTreeSet::new();
    loads(cond, &mut read);
    read.is_empty()
}

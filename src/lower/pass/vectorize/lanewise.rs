//! Which vector loops the CPU keeps.
//!
//! A loop stays a vector loop where every index is free of its variable or `base + var` and no statement
//! reads what another one moved; else it is serial. A condition around its body goes around the loop, as
//! far as it is the same for all lanes; so does one inside a value that reads no memory and is the same for
//! all. Where the rest of it holds for the last lane and so for all, the
//! lanes run at once, else one by one.
//!
//! before: `vector v < 8 { t[v] = p0[i * 8 + v] if i * 8 + v < n else 0 }`
//! after:  `if i * 8 + 7 < n { vector v < 8 { t[v] = p0[i * 8 + v] } }
//!         else { for v < 8 { if i * 8 + v < n { t[v] = p0[i * 8 + v] } else { t[v] = 0 } } }`

use crate::analysis::{linear, prove, simplify};
use crate::ir::device::{DFor, DKind, DStmt, all_of, conjuncts};
use crate::ir::{Expr, ExprKind, Name};
use crate::lower::nest::Nest;
use crate::lower::pass::guards;
use std::collections::BTreeMap;

/// A vector loop stays one where its statements are lanewise. Of a condition around its body, or around the
/// value that it stores, the loop keeps what differs between lanes.
pub fn run(nest: &Nest, mut l: DFor) -> Vec<DStmt> {
    let lanes = l.extent.as_int().filter(|n| *n > 1 && (*n as u64).is_power_of_two());
    if let Some(lanes) = lanes
        && let Some((cond, then, otherwise)) = choice(&l.body)
        && guards::reads_no_memory(&cond)
    {
        return chosen(nest, &l, lanes, cond, then, otherwise);
    }
    if lanes.is_some()
        && let Some(cond) = inner_choice(&l)
    {
        let side = |yes: bool| {
            let body = l.body.iter().map(|s| s.map_exprs(&mut |e| decided(e, &cond, yes))).collect();
            run(nest, l.with_body(body))
        };
        return vec![DStmt::If { then: side(true), otherwise: side(false), cond: cond.clone() }];
    }
    if lanes.is_none() || !is_lanewise(nest, &l) {
        l.kind = DKind::Serial;
    }
    vec![DStmt::For(l)]
}

/// Most choices inside values that are made before a loop: each doubles the code.
const MOST_CHOICES: usize = 3;

/// The first condition of an `if_then_else` inside the stored values that all lanes answer alike. One that
/// reads memory stays, since a condition around it may be what keeps it in bounds.
fn inner_choice(l: &DFor) -> Option<Expr> {
    let mut found: Vec<Expr> = vec![];
    let mut note = |e: &Expr| {
        if let ExprKind::IfThenElse { cond, .. } = e.kind()
            && !cond.uses_var(&l.var)
            && guards::reads_no_memory(cond)
            && !found.contains(cond)
        {
            found.push(cond.clone());
        }
    };
    if l.body.iter().all(|s| matches!(s, DStmt::Store { .. })) {
        l.body.iter().for_each(|s| s.for_each_expr(|e| visit_outside_lets(e, &mut note)));
    }
    if found.len() <= MOST_CHOICES { found.into_iter().next() } else { None }
}

/// Every expression that no variable of a let is in scope of.
fn visit_outside_lets(e: &Expr, f: &mut impl FnMut(&Expr)) {
    f(e);
    if !matches!(e.kind(), ExprKind::Let { .. }) {
        e.for_each_child(|c| visit_outside_lets(c, f));
    }
}

/// The expression where `cond` is known to be true or false.
fn decided(e: &Expr, cond: &Expr, yes: bool) -> Expr {
    match e.kind() {
        ExprKind::IfThenElse { cond: own, then, otherwise } if own == cond => {
            decided(if yes { then } else { otherwise }, cond, yes)
        }
        ExprKind::Let { .. } => e.clone(),
        _ => e.map_children(|c| decided(c, cond, yes)),
    }
}

/// A body that is a choice between two lists of statements, or stores one of two values.
fn choice(body: &[DStmt]) -> Option<(Expr, Vec<DStmt>, Vec<DStmt>)> {
    let [only] = body else { return None };
    match only {
        DStmt::If { cond, then, otherwise } => Some((cond.clone(), then.clone(), otherwise.clone())),
        DStmt::Store { buffer, indices, value, hint } => {
            let ExprKind::IfThenElse { cond, then, otherwise } = value.kind() else { return None };
            let store = |value: &Expr| {
                let (buffer, indices, hint) = (buffer.clone(), indices.clone(), *hint);
                vec![DStmt::Store { buffer, indices, value: value.clone(), hint }]
            };
            Some((cond.clone(), store(then), store(otherwise)))
        }
        _ => None,
    }
}

/// The loop under the conditions that all lanes share. Where others hold for the last lane they hold for
/// all; else the lanes run one by one.
fn chosen(nest: &Nest, l: &DFor, lanes: i64, cond: Expr, then: Vec<DStmt>, otherwise: Vec<DStmt>) -> Vec<DStmt> {
    let branch = |body: &[DStmt]| if body.is_empty() { vec![] } else { run(nest, l.with_body(body.to_vec())) };
    let one = [(l.var.clone(), lanes)];
    let all = conjuncts(&simplify(&cond, &nest.ranges)).into_iter().map(|c| guards::free_of(&nest.ranges, c, &one));
    let all = all.filter(|c| !prove(c, &nest.ranges));
    let (shared, own): (Vec<Expr>, Vec<Expr>) = all.partition(|c| !c.uses_var(&l.var));
    let (shared, own) = (all_of(shared), all_of(own));
    let inside = match &own {
        None => branch(&then),
        Some(own) if conjuncts(own).iter().all(|c| falls(nest, c, &l.var)) => {
            let last = |n: &Name| (*n == l.var).then(|| Expr::i64(lanes - 1));
            let body = vec![DStmt::If { cond: own.clone(), then: then.clone(), otherwise: otherwise.clone() }];
            let one_by_one = DStmt::For(DFor { kind: DKind::Serial, ..l.with_body(body) });
            let cond = simplify(&own.subst(&last), &nest.ranges);
            vec![DStmt::If { cond, then: branch(&then), otherwise: vec![one_by_one] }]
        }
        Some(own) => {
            let body = vec![DStmt::If { cond: own.clone(), then: then.clone(), otherwise: otherwise.clone() }];
            vec![DStmt::For(DFor { kind: DKind::Serial, ..l.with_body(body) })]
        }
    };
    match shared {
        None => inside,
        Some(cond) => vec![DStmt::If { cond, then: inside, otherwise: branch(&otherwise) }],
    }
}

/// True for a comparison that, once false, stays so as the variable grows.
fn falls(nest: &Nest, cond: &Expr, var: &Name) -> bool {
    let below_zero = guards::strict_difference(cond);
    let slope = below_zero.and_then(|e| linear(&e, var, &nest.ranges));
    slope.is_some_and(|(c, rest)| c.as_int().is_some_and(|c| c > 0) && !rest.uses_var(var))
}

/// True when the statements of a loop body may each run for all lanes before the next one runs.
fn is_lanewise(nest: &Nest, l: &DFor) -> bool {
    let mut indices: BTreeMap<Name, Vec<Expr>> = BTreeMap::new();
    let mut written: Vec<Name> = vec![];
    for s in &l.body {
        let DStmt::Store { buffer, indices: at, value, .. } = s else { return false };
        if !at.iter().all(|e| stride(nest, e, &l.var) == Some(1)) || branches(value) {
            return false;
        }
        written.push(buffer.clone());
        indices.entry(buffer.clone()).or_default().extend(at.iter().cloned());
        value.visit(&mut |e| {
            if let ExprKind::Load { buffer, indices: at, .. } = e.kind() {
                indices.entry(buffer.clone()).or_default().extend(at.iter().cloned());
            }
        });
    }
    let linear = indices.values().flatten().all(|e| matches!(stride(nest, e, &l.var), Some(0 | 1)));
    linear && written.iter().all(|b| indices[b].iter().all(|e| *e == indices[b][0]))
}

fn stride(nest: &Nest, e: &Expr, var: &Name) -> Option<i64> {
    linear(e, var, &nest.ranges).filter(|(_, rest)| !rest.uses_var(var)).and_then(|(c, _)| c.as_int())
}

fn branches(e: &Expr) -> bool {
    let mut found = false;
    e.visit(&mut |e| found |= matches!(e.kind(), ExprKind::IfThenElse { .. }));
    found
}

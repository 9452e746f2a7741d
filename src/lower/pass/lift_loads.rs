//! Takes loads out of the expressions of a loop that batches its loads, into registers.
//!
//! `batch` moves statements that do nothing but load. A compiler moves the loads of an expression by itself only as
//! far as the next branch: a condition on an element, or a quotient that has a slow path.
//!
//! before: `unroll u < 4, batch { if c(u) { p1[u] = f(p0[u], p0[u + n]) } }`
//! after:  `unroll u < 4, batch { if c(u) { r[0] = p0[u] }; if c(u) { s[0] = p0[u + n] }; if c(u) { p1[u] = f(r[0], s[0]) } }`

use super::batch::{Constants, written};
use crate::ir::device::{DFor, DKind, DStmt, guarded, index_var, only_guarded};
use crate::ir::{BinOp, Expr, ExprKind, Name, Scope};
use crate::lower::nest::Nest;
use std::collections::BTreeSet;

/// Elements that a thread may have in flight so: as many registers, if each has one.
const MAX_LIFTED: i64 = 32;

/// Goes through every marked loop of several steps.
pub fn run(nest: &mut Nest, body: Vec<DStmt>) -> Vec<DStmt> {
    let written = written(&body);
    list(nest, &written, body)
}

fn list(nest: &mut Nest, written: &BTreeSet<Name>, body: Vec<DStmt>) -> Vec<DStmt> {
    body.into_iter().map(|s| one(nest, written, s)).collect()
}

fn one(nest: &mut Nest, written: &BTreeSet<Name>, s: DStmt) -> DStmt {
    match s.map_lists(|inner| list(nest, written, inner)) {
        DStmt::For(mut l) if l.batch && l.kind == DKind::Unrolled => {
            if let Some(steps) = l.extent.as_int().filter(|n| *n > 1) {
                l.body = l.body.into_iter().flat_map(|s| lifted(nest, written, steps, s)).collect();
            }
            DStmt::For(l)
        }
        s => s,
    }
}

/// The loads of a statement, or of a loop of one that is unrolled, and the statement with registers in their place.
fn lifted(nest: &mut Nest, written: &BTreeSet<Name>, steps: i64, s: DStmt) -> Vec<DStmt> {
    let around = match &s {
        DStmt::For(l) if l.kind == DKind::Unrolled => Some(l.clone()),
        _ => None,
    };
    let inside = around.as_ref().map_or(std::slice::from_ref(&s), |l| l.body.as_slice());
    let extent = around.as_ref().map_or(Some(1), |l| l.extent.as_int());
    let (Some((cond, DStmt::Store { buffer, indices, value, hint })), Some(n)) = (only_store(inside), extent) else {
        return vec![s];
    };
    let loads = lifts(&Constants { nest, written }, value);
    if loads.is_empty() || loads.len() as i64 * n * steps > MAX_LIFTED {
        return vec![s];
    }
    let again = |s: DStmt, tile: bool| {
        let under = guarded(cond.cloned(), vec![s]);
        match &around {
            Some(l) => vec![DStmt::For(DFor { tile: l.tile.clone().filter(|_| tile), ..l.with_body(under) })],
            None => under,
        }
    };
    let at = around.as_ref().map_or(Expr::i64(0), |l| index_var(&l.var));
    let mut out = vec![];
    let mut places: Vec<(Expr, Expr)> = vec![];
    for load in loads {
        let ExprKind::Load { buffer, .. } = load.kind() else { continue };
        let array = nest.scratch(&format!("{buffer}_early"), load.dtype(), Expr::i64(n), Scope::Local);
        places.push((load.clone(), Expr::load(array.clone(), vec![at.clone()], load.dtype())));
        out.extend(again(DStmt::store(array, vec![at.clone()], load), false));
    }
    let value = value.replaced_all(&places);
    let store = DStmt::Store { buffer: buffer.clone(), indices: indices.clone(), value, hint: *hint };
    out.extend(again(store, true));
    out
}

/// The store that a list consists of, and the condition that it is under.
fn only_store(list: &[DStmt]) -> Option<(Option<&Expr>, &DStmt)> {
    let (cond, inside) = only_guarded(list).map_or((None, list), |(cond, then)| (Some(cond), then));
    match inside {
        [s @ DStmt::Store { .. }] => Some((cond, s)),
        _ => None,
    }
}

/// The loads of read-only memory that a value always makes, each once; none where the value is no more than that.
fn lifts(known: &Constants, value: &Expr) -> Vec<Expr> {
    let mut out = vec![];
    if !known.is_plain_load(value) {
        collect(known, value, &mut out);
    }
    out
}

fn collect(known: &Constants, e: &Expr, out: &mut Vec<Expr>) {
    match e.kind() {
        ExprKind::Load { .. } if known.is_plain_load(e) => {
            if !out.contains(e) {
                out.push(e.clone());
            }
        }
        // What else they have is not always read, or known where the loop begins.
        ExprKind::IfThenElse { cond: first, .. }
        | ExprKind::Binary { op: BinOp::And | BinOp::Or, a: first, .. }
        | ExprKind::Let { value: first, .. } => collect(known, first, out),
        _ => e.for_each_child(|c| collect(known, c, out)),
    }
}

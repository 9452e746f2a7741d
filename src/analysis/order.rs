//! A total order on expressions, so that canonical forms do not depend on the input's order.

use crate::ir::{Expr, ExprKind, Name};
use std::cmp::Ordering;

/// Compares names with their numbers as numbers: `i2` before `i10`.
pub fn cmp_names(a: &Name, b: &Name) -> Ordering {
    let (mut x, mut y) = (a.as_str(), b.as_str());
    loop {
        let (tx, nx, rx) = chunk(x);
        let (ty, ny, ry) = chunk(y);
        let order = tx.cmp(ty).then(nx.len().cmp(&ny.len())).then(nx.cmp(ny));
        if order.is_ne() || (rx.is_empty() && ry.is_empty()) {
            return order.then_with(|| a.cmp(b));
        }
        (x, y) = (rx, ry);
    }
}

/// The leading text, the number after it without leading zeros, and the rest.
fn chunk(s: &str) -> (&str, &str, &str) {
    let digits = s.find(|c: char| c.is_ascii_digit()).unwrap_or(s.len());
    let (text, rest) = s.split_at(digits);
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (number, rest) = rest.split_at(end);
    (text, number.trim_start_matches('0'), rest)
}

fn rank(e: &Expr) -> u8 {
    match e.kind() {
        ExprKind::Var { .. } => 0,
        ExprKind::Int { .. } => 1,
        ExprKind::Float { .. } => 2,
        ExprKind::Binary { .. } => 3,
        ExprKind::Unary { .. } => 4,
        ExprKind::Cast { .. } => 5,
        ExprKind::Reinterpret { .. } => 6,
        ExprKind::Select { .. } => 7,
        ExprKind::IfThenElse { .. } => 8,
        ExprKind::Load { .. } => 9,
        ExprKind::Call { .. } => 10,
        ExprKind::Extern { .. } => 11,
        ExprKind::Let { .. } => 12,
        ExprKind::Str(_) => 13,
    }
}

/// What the node itself carries besides its operands.
fn cmp_heads(a: &Expr, b: &Expr) -> Ordering {
    use ExprKind as K;
    match (a.kind(), b.kind()) {
        (K::Var { name: x, .. }, K::Var { name: y, .. }) => cmp_names(x, y),
        (K::Int { value: x, .. }, K::Int { value: y, .. }) => x.cmp(y),
        (K::Float { bits: x, .. }, K::Float { bits: y, .. }) => x.cmp(y),
        (K::Binary { op: x, .. }, K::Binary { op: y, .. }) => x.cmp(y),
        (K::Unary { op: x, .. }, K::Unary { op: y, .. }) => x.cmp(y),
        (K::Load { buffer: x, .. }, K::Load { buffer: y, .. }) => cmp_names(x, y),
        (K::Call { op: x, .. }, K::Call { op: y, .. }) => x.cmp(y),
        (K::Extern { callee: x, .. }, K::Extern { callee: y, .. }) => x.cmp(y),
        (K::Let { var: x, .. }, K::Let { var: y, .. }) => cmp_names(x, y),
        (K::Str(x), K::Str(y)) => x.cmp(y),
        _ => rank(a).cmp(&rank(b)),
    }
}

/// Compares expressions: equal only where `==` is.
pub fn cmp_exprs(a: &Expr, b: &Expr) -> Ordering {
    if a.same(b) {
        return Ordering::Equal;
    }
    let order = rank(a).cmp(&rank(b)).then_with(|| cmp_heads(a, b)).then_with(|| a.dtype().cmp(&b.dtype()));
    if order.is_ne() {
        return order;
    }
    let (mut xs, mut ys) = (Vec::new(), Vec::new());
    a.for_each_child(|c| xs.push(c.clone()));
    b.for_each_child(|c| ys.push(c.clone()));
    let pairs = xs.iter().zip(&ys).map(|(x, y)| cmp_exprs(x, y));
    pairs.fold(Ordering::Equal, Ordering::then).then(xs.len().cmp(&ys.len()))
}

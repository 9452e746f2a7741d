//! Comparisons of integer sums: proofs by bounds, also by symbolic limits, and a canonical form
//! with everything positive on one side and everything subtracted on the other.

use super::divmod::{digits, without};
use super::poly::{Atom, Poly, gcd};
use crate::analysis::{Interval, Ranges};
use crate::ir::{BinOp, DType, Expr, ExprKind};

/// How many variables with symbolic limits a proof replaces at most.
const MAX_DEPTH: usize = 6;

/// True when the sum is proven to be at least 0.
pub fn nonnegative(p: &Poly, r: &Ranges) -> bool {
    prove_nonnegative(p, r, MAX_DEPTH)
}

/// Bounds first; then a variable (or remainder, minimum, maximum) whose coefficient has a known
/// sign is replaced by its symbolic limit, which can only make the sum smaller.
fn prove_nonnegative(p: &Poly, r: &Ranges, depth: usize) -> bool {
    if p.interval(r).lo >= 0 {
        return true;
    }
    if depth == 0 {
        return false;
    }
    let mut atoms: Vec<&Atom> = p.terms.keys().flatten().collect();
    atoms.sort();
    atoms.dedup();
    atoms.into_iter().any(|atom| {
        let Some(coeff) = linear_coeff(p, atom) else { return false };
        let sign = coeff.interval(r);
        let limits = match (sign.lo >= 0, sign.hi <= 0) {
            (true, _) => lower_limits(&atom.0),
            (_, true) => upper_limits(&atom.0, r),
            _ => return false,
        };
        limits.into_iter().any(|limit| {
            let replaced = limit.sub(&Poly::atom(atom.0.clone())).and_then(|d| p.add(&d.mul(&coeff)?));
            replaced.is_some_and(|q| prove_nonnegative(&q, r, depth - 1))
        })
    })
}

/// The factor of an atom that occurs only to the first power.
fn linear_coeff(p: &Poly, atom: &Atom) -> Option<Poly> {
    let mut coeff = Poly::default();
    for (mono, c) in &p.terms {
        if let Some(rest) = without(mono, &vec![atom.clone()]) {
            if rest.contains(atom) {
                return None;
            }
            coeff.add_term(rest, *c)?;
        }
    }
    Some(coeff)
}

/// Sums that an atom is never above, other than its constant bound.
fn upper_limits(e: &Expr, r: &Ranges) -> Vec<Poly> {
    let limits = match e.kind() {
        ExprKind::Var { name, .. } => vec![r.below(name).and_then(Poly::of).and_then(|p| p.add_const(-1))],
        ExprKind::Binary { op: BinOp::FloorMod, b, .. } => {
            let d = Poly::of(b).filter(|d| d.interval(r).lo >= 1);
            vec![d.and_then(|d| d.add_const(-1))]
        }
        ExprKind::Binary { op: BinOp::Min, a, b } => vec![Poly::of(a), Poly::of(b)],
        _ => vec![],
    };
    limits.into_iter().flatten().collect()
}

/// Sums that an atom is never below, other than its constant bound.
fn lower_limits(e: &Expr) -> Vec<Poly> {
    match e.kind() {
        ExprKind::Binary { op: BinOp::Max, a, b } => [Poly::of(a), Poly::of(b)].into_iter().flatten().collect(),
        _ => vec![],
    }
}

/// Folds or canonicalises `a op b` of simplified `int32` or `int64` operands. `None` leaves it.
pub fn compare(op: BinOp, a: &Poly, b: &Poly, dtype: DType, r: &Ranges) -> Option<Expr> {
    match op {
        BinOp::Lt => less(&a.sub(b)?, dtype, r, |p, n| Expr::binary(op, p, n)),
        BinOp::Gt => less(&b.sub(a)?, dtype, r, |p, n| Expr::binary(op, n, p)),
        BinOp::Le => at_most(&a.sub(b)?, dtype, r, |p, n| Expr::binary(op, p, n)),
        BinOp::Ge => at_most(&b.sub(a)?, dtype, r, |p, n| Expr::binary(op, n, p)),
        BinOp::Eq => equal(&a.sub(b)?, dtype, r, true),
        BinOp::Ne => equal(&a.sub(b)?, dtype, r, false),
        _ => None,
    }
}

/// `d < 0`.
fn less(d: &Poly, dtype: DType, r: &Ranges, make: impl Fn(Expr, Expr) -> Expr) -> Option<Expr> {
    if nonnegative(d, r) {
        return Some(Expr::bool(false));
    }
    if nonnegative(&d.scale(-1)?.add_const(-1)?, r) {
        return Some(Expr::bool(true));
    }
    let mut d = d.clone();
    // `g*high + low < 0` with `0 <= low < g` is `high < 0`.
    while let Some((_, high, _)) = digits(&d, d.terms.values().fold(0, |l, c| lcm(l, *c)), r) {
        d = high;
    }
    let (positive, negative) = sides(&d)?;
    Some(make(positive.to_expr(dtype)?, negative.to_expr(dtype)?))
}

/// A multiple of both (0 is neutral), or the first where that leaves 32 bits.
fn lcm(a: i64, b: i64) -> i64 {
    if a == 0 || b == 0 {
        return a.max(b).abs();
    }
    let l = (a / gcd(a, b)).checked_mul(b).map(i64::abs);
    l.filter(|v| *v <= i32::MAX as i64).unwrap_or(a.abs())
}

/// `d <= 0`.
fn at_most(d: &Poly, dtype: DType, r: &Ranges, make: impl Fn(Expr, Expr) -> Expr) -> Option<Expr> {
    if nonnegative(&d.scale(-1)?, r) {
        return Some(Expr::bool(true));
    }
    if nonnegative(&d.add_const(-1)?, r) {
        return Some(Expr::bool(false));
    }
    let g = d.content().max(1);
    let base = d.base();
    let rounded = base.checked_add(g - 1)?.div_euclid(g);
    let terms = d.add_const(base.checked_neg()?)?.exact_div(g).add_const(rounded)?;
    let (positive, negative) = sides(&terms)?;
    Some(make(positive.to_expr(dtype)?, negative.to_expr(dtype)?))
}

fn equal(d: &Poly, dtype: DType, r: &Ranges, want: bool) -> Option<Expr> {
    if d.is_zero() {
        return Some(Expr::bool(want));
    }
    let g = d.content();
    let apart = nonnegative(&d.add_const(-1)?, r) || nonnegative(&d.scale(-1)?.add_const(-1)?, r);
    if apart || g == 0 || d.base() % g != 0 {
        return Some(Expr::bool(!want));
    }
    let (mut left, mut right) = sides(&d.exact_div(g))?;
    if left.terms.keys().all(|m| m.is_empty()) {
        (left, right) = (right, left);
    }
    let op = if want { BinOp::Eq } else { BinOp::Ne };
    Some(Expr::binary(op, left.to_expr(dtype)?, right.to_expr(dtype)?))
}

/// `p - n` with positive coefficients in both; constants alone stay on their own side.
fn sides(d: &Poly) -> Option<(Poly, Poly)> {
    let (positive, negative) = d.partition(|_, c| c > 0);
    Some((positive, negative.scale(-1)?))
}

/// The ranges with what a condition says about single variables added.
pub fn assume(cond: &Expr, r: &mut Ranges) {
    let ExprKind::Binary { op, a, b } = cond.kind() else { return };
    let index = |e: &Expr| matches!(e.dtype(), DType::I32 | DType::I64);
    match op {
        BinOp::And => {
            assume(a, r);
            assume(b, r);
        }
        BinOp::Lt | BinOp::Gt | BinOp::Le | BinOp::Ge | BinOp::Eq if index(a) => {
            let difference = || Poly::of(a)?.sub(&Poly::of(b)?);
            let Some(d) = difference() else { return };
            if matches!(op, BinOp::Lt | BinOp::Le | BinOp::Eq) {
                assume_at_most(&d, -((*op == BinOp::Lt) as i64), r);
            }
            if matches!(op, BinOp::Gt | BinOp::Ge | BinOp::Eq)
                && let Some(n) = d.scale(-1)
            {
                assume_at_most(&n, -((*op == BinOp::Gt) as i64), r);
            }
        }
        _ => {}
    }
}

/// `d <= limit` bounds each variable by what the other terms can be at least.
fn assume_at_most(d: &Poly, limit: i64, r: &mut Ranges) {
    for (mono, c) in &d.terms {
        let [Atom(e)] = mono.as_slice() else { continue };
        let Some(name) = e.as_var() else { continue };
        let Some(others) = d.sub(&Poly::term(mono.clone(), *c)) else { continue };
        // c * var <= room
        let room = (Interval::point(limit) - others.interval(r)).hi;
        if room == i64::MAX {
            continue;
        }
        let top = Interval::new(i64::MIN, room.div_euclid(*c));
        let bottom = || Interval::new(room.div_euclid(*c), i64::MAX);
        r.narrow(name, if *c > 0 { top } else { bottom() });
    }
}

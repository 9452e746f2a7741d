//! Comparisons of integer sums, and a canonical form with everything positive on one side and everything
//! subtracted on the other.

use super::divmod::digits;
use super::poly::{Atom, Poly, gcd};
use super::sign::nonnegative;
use crate::analysis::{Interval, Ranges};
use crate::ir::{BinOp, DType, Expr, ExprKind};

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

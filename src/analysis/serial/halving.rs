//! Searches that halve a range until it is empty, as loops that run as often as that takes.
//!
//! before: `lo = 0; hi = 30; while lo < hi: if p(mid): lo = mid + 1 else: hi = mid`, `mid = lo + (hi - lo >> 1)`
//! after:  `lo = 0; hi = 30; for s in 5: if lo < hi: if p(mid): lo = mid + 1 else: hi = mid`
//!
//! Of `d = hi - lo` elements at most `d >> 1` are left after a step, so that `n` steps empty a range of fewer than `2 ** n`.

use crate::analysis::walk::fresh;
use crate::ir::{BinOp, DType, Expr, ExprKind, For, Name, Stmt};
use std::collections::BTreeSet;

/// The statements with such loops bounded; others stay.
pub fn bounded(list: Vec<Stmt>, used: &mut BTreeSet<Name>) -> Vec<Stmt> {
    let mut out: Vec<Stmt> = vec![];
    for s in list {
        let s = match s {
            Stmt::For(l) => Stmt::For(For { body: bounded(l.body, used), ..l }),
            Stmt::If { cond, then, otherwise } => {
                Stmt::If { cond, then: bounded(then, used), otherwise: bounded(otherwise, used) }
            }
            Stmt::While { cond, body } => match steps(&cond, &body, &out) {
                Some(n) => {
                    let step = Stmt::If { cond, then: body, otherwise: vec![] };
                    Stmt::For(For::serial(fresh(used, "s"), Expr::i32(n), vec![step]))
                }
                None => Stmt::While { cond, body },
            },
            s => s,
        };
        out.push(s);
    }
    out
}

/// How many steps empty the range, whatever the data is.
fn steps(cond: &Expr, body: &[Stmt], before: &[Stmt]) -> Option<i64> {
    let ExprKind::Binary { op: BinOp::Lt, a: lo, b: hi } = cond.kind() else { return None };
    let [Stmt::If { then, otherwise, .. }] = body else { return None };
    let ([one], [other]) = (&then[..], &otherwise[..]) else { return None };
    let mid = middle(lo, hi);
    let above = mid.clone() + Expr::int(1, mid.dtype());
    let halves = |a: &Stmt, b: &Stmt| stores(a, lo, &above) && stores(b, hi, &mid);
    if !(is_fixed(lo) && is_fixed(hi) && (halves(one, other) || halves(other, one))) {
        return None;
    }
    let known = first_value(lo, before).zip(first_value(hi, before));
    let most = match lo.dtype() {
        DType::I32 => 32,
        DType::I64 => 64,
        _ => return None,
    };
    Some(known.and_then(|(lo, hi)| hi.checked_sub(lo)).map_or(most, |d| 64 - i64::from(d.max(0).leading_zeros())))
}

/// `lo + (hi - lo >> 1)`, as it is read.
fn middle(lo: &Expr, hi: &Expr) -> Expr {
    let one = Expr::int(1, lo.dtype());
    lo.clone() + Expr::binary(BinOp::Shr, hi.clone() - lo.clone(), one)
}

/// True for an element at a place that is no data.
fn is_fixed(e: &Expr) -> bool {
    matches!(e.kind(), ExprKind::Load { indices, .. } if !indices.iter().any(Expr::has_load))
}

/// True for a store of a value to the element that a load reads.
fn stores(s: &Stmt, to: &Expr, value: &Expr) -> bool {
    matches!(s, Stmt::Store { buffer, indices, value: v } if to.is_element(buffer, indices) && v == value)
}

/// The constant that the element of a load was set to last.
fn first_value(of: &Expr, before: &[Stmt]) -> Option<i64> {
    let last = before.iter().rev().find_map(|s| match s {
        Stmt::Store { buffer, indices, value } if of.is_element(buffer, indices) => Some(value.as_int()),
        Stmt::Store { buffer, .. } if of.loads(buffer) => Some(None),
        Stmt::Store { .. } | Stmt::Alloc { .. } | Stmt::Let { .. } => None,
        Stmt::For(_)
        | Stmt::Block(_)
        | Stmt::If { .. }
        | Stmt::While { .. }
        | Stmt::Evaluate(_)
        | Stmt::Attr { .. } => Some(None),
    });
    last.flatten()
}

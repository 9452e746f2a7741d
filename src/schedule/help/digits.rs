//! Loops whose value is taken apart again: a fused loop `f` of which one index is `f // 2` and another `f % 2`
//! moves both, and yet fills a box, because its digits run on their own.
//!
//! ```text
//! [f // 2, f % 2]    with f in [0, 6) running    ->    [h, l]    with h in [0, 3) and l in [0, 2) running
//! ```

use super::span::{Running, Span};
use crate::analysis::{self, Ranges};
use crate::ir::{BinOp, Expr, ExprKind, Name};

/// The indices with each loop that moves several of them as its digits, where it has whole ones.
pub fn apart(indices: &[Expr], running: &Running, ranges: &Ranges) -> (Vec<Expr>, Running, Ranges) {
    let (mut running, mut ranges) = (running.clone(), ranges.clone());
    let mut indices: Vec<Expr> = indices.iter().map(|e| analysis::simplify(e, &ranges)).collect();
    while let Some((name, by, extent)) = torn(&indices, &running, &ranges) {
        let [high, low] = ["high", "low"].map(|digit| Name::new(format!("{name}.{digit}")));
        let Some(span) = running.remove(&name) else { break };
        let dtype = span.lo.dtype();
        for (digit, n) in [(&high, extent / by), (&low, by)] {
            running.insert(digit.clone(), Span::from_zero(&Expr::int(n, dtype)));
            ranges.set(digit.clone(), 0, n - 1);
        }
        let value = Expr::var(high, dtype) * Expr::int(by, dtype) + Expr::var(low, dtype);
        let digits = |n: &Name| (*n == name).then(|| value.clone());
        indices.iter_mut().for_each(|e| *e = analysis::simplify(&e.subst(&digits), &ranges));
    }
    (indices, running, ranges)
}

/// A loop from 0 that moves several indices, the largest divisor by which one takes a digit of it, and its extent.
fn torn(indices: &[Expr], running: &Running, ranges: &Ranges) -> Option<(Name, i64, i64)> {
    running.iter().find_map(|(name, span)| {
        let several = indices.iter().filter(|e| e.uses_var(name)).count() > 1;
        let extent = span.extent(ranges).as_int().filter(|_| several && span.lo.is_int(0))?;
        let by = indices.iter().filter_map(|e| divisor(e, name)).filter(|by| *by < extent && extent % by == 0).max()?;
        Some((name.clone(), by, extent))
    })
}

/// The largest `c` of a `name // c` or `name % c` in `e`.
fn divisor(e: &Expr, name: &Name) -> Option<i64> {
    let mut found = None;
    e.visit(&mut |e| {
        if let ExprKind::Binary { op: BinOp::FloorDiv | BinOp::FloorMod, a, b } = e.kind()
            && a.as_var() == Some(name)
            && let Some(by) = b.as_int().filter(|by| *by > 1)
        {
            found = found.max(Some(by));
        }
    });
    found
}

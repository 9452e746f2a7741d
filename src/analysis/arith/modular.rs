//! What integer expressions are certain to be multiples of.

use super::poly::{Atom, Poly, gcd};
use crate::analysis::{Ranges, simplify};
use crate::ir::{BinOp, Expr, ExprKind};

/// Largest power of two that is ever reported, for the constant 0.
const MOST: i64 = 1 << 32;

/// A positive number that divides `e` under every assignment; as large as the analysis finds.
/// The constant 0 gives `2^32`.
pub fn multiple_of(e: &Expr, ranges: &Ranges) -> i64 {
    let g = sum_multiple(&simplify(e, ranges));
    if g == 0 { MOST } else { g }
}

/// 0 for a sum that is 0.
fn sum_multiple(e: &Expr) -> i64 {
    let Some(p) = Poly::of(e) else { return 1 };
    let plain = terms_multiple(&p);
    match without_remainders(&p) {
        // Both divide it; what the sum without remainders is a multiple of, it is up to the modulus.
        Some((p, modulus)) => plain.max(gcd(terms_multiple(&p), modulus)),
        None => plain,
    }
}

fn terms_multiple(p: &Poly) -> i64 {
    p.terms.iter().fold(0, |g, (mono, c)| {
        let product = mono.iter().try_fold(*c, |k, a| k.checked_mul(atom_multiple(&a.0)));
        gcd(g, product.unwrap_or(*c))
    })
}

/// The sum with `x` for each `x mod m`, and the modulus up to which that changes nothing: `9 * i - i mod 8` is `8 * i`
/// up to 8. `None` where it has no remainder, or its numbers are too large.
fn without_remainders(p: &Poly) -> Option<(Poly, i64)> {
    let (mut sum, mut modulus) = (Poly::default(), 0);
    for (mono, c) in &p.terms {
        match mono.as_slice() {
            [Atom(rest)] if let Some((x, m)) = remainder(rest) => {
                modulus = gcd(modulus, c.checked_mul(m)?);
                sum = sum.add(&Poly::of(x)?.scale(*c)?)?;
            }
            _ => sum.add_term(mono.clone(), *c)?,
        }
    }
    (modulus != 0).then_some((sum, modulus))
}

fn remainder(e: &Expr) -> Option<(&Expr, i64)> {
    match e.kind() {
        ExprKind::Binary { op: BinOp::FloorMod, a, b } => Some((a, b.as_int().filter(|m| *m > 0)?)),
        _ => None,
    }
}

/// The largest power of two that divides a multiple of `n`.
fn low_bits(n: i64) -> i64 {
    if n == 0 { MOST } else { (n & n.wrapping_neg()).min(MOST) }
}

fn atom_multiple(e: &Expr) -> i64 {
    match e.kind() {
        ExprKind::Int { value, .. } => *value,
        ExprKind::Binary { op, a, b } => {
            let (x, y) = (sum_multiple(a), sum_multiple(b));
            match op {
                BinOp::Add | BinOp::Sub | BinOp::Min | BinOp::Max | BinOp::FloorMod | BinOp::TruncMod => gcd(x, y),
                BinOp::Mul => x.checked_mul(y).unwrap_or(1),
                BinOp::FloorDiv | BinOp::TruncDiv => match b.as_int() {
                    Some(c) if c > 0 && x % c == 0 && x != 0 => x / c,
                    _ => 1,
                },
                // low bits that are 0 on both sides, or on either, stay 0
                BinOp::BitXor | BinOp::BitOr => low_bits(x).min(low_bits(y)),
                BinOp::BitAnd => low_bits(x).max(low_bits(y)),
                _ => 1,
            }
        }
        ExprKind::Cast { arg, .. } if arg.dtype().is_int() && e.dtype().bytes() >= arg.dtype().bytes() => {
            sum_multiple(arg)
        }
        ExprKind::Select { then, otherwise, .. } | ExprKind::IfThenElse { then, otherwise, .. } => {
            gcd(sum_multiple(then), sum_multiple(otherwise))
        }
        _ => 1,
    }
}

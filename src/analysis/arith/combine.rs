//! Puts digits of one number together again: `x//8*8 + x%8 -> x`, `(x//8%4)*8 + x%8 -> x%32`,
//! `(3*y + x//8)%4*8 + x%8 -> (24*y + x)%32`, `x - x//8*8 -> x%8`.

use super::divmod::{floor_div, floor_mod, split_of};
use super::poly::{Atom, Mono, Poly, without};
use crate::analysis::Ranges;
use crate::ir::{BinOp, DType, Expr, ExprKind};

/// One term of a sum, `k * others * atom`, with the sum around it.
struct Term<'a> {
    sum: &'a Poly,
    mono: &'a Mono,
    others: Mono,
    atom: &'a Expr,
    k: i64,
    dtype: DType,
    ranges: &'a Ranges,
}

/// Every round removes a division; this many are never needed.
const MAX_ROUNDS: usize = 64;

/// Joins digits until nothing joins.
pub fn combine(mut p: Poly, dtype: DType, r: &Ranges) -> Poly {
    for _ in 0..MAX_ROUNDS {
        match step(&p, dtype, r) {
            Some(next) => p = next,
            None => break,
        }
    }
    p
}

fn step(sum: &Poly, dtype: DType, ranges: &Ranges) -> Option<Poly> {
    sum.terms.iter().find_map(|(mono, k)| {
        (0..mono.len()).find_map(|i| {
            let atom = &mono[i].0;
            let ExprKind::Binary { op, a, b } = atom.kind() else { return None };
            let mut others = mono.clone();
            others.remove(i);
            let term = Term { sum, mono, others, atom, k: *k, dtype, ranges };
            match op {
                BinOp::FloorMod => term.join_digit().or_else(|| term.join_quotient(a, b)),
                BinOp::FloorDiv => term.join_remainder(a, b),
                _ => None,
            }
        })
    })
}

/// `(y // low) % modulo`, with both constant.
fn digit_of(e: &Expr) -> Option<(Expr, i64, i64)> {
    let (inner, modulo) = split_of(e, BinOp::FloorMod)?;
    Some(match split_of(inner, BinOp::FloorDiv) {
        Some((y, low)) => (y.clone(), low, modulo),
        None => (inner.clone(), 1, modulo),
    })
}

/// `z` of an atom `z//d`, where `z` differs from `x` by a multiple of `d`: remainders have their coefficients reduced,
/// quotients do not.
fn congruent(e: &Expr, x: &Poly, d: i64) -> Option<Poly> {
    let (z, _) = split_of(e, BinOp::FloorDiv).filter(|(_, by)| *by == d)?;
    let z = Poly::of(z)?;
    z.sub(x)?.terms.values().all(|k| k % d == 0).then_some(z)
}

/// `m*z + y` of a sum `z + y//m`, where `y` differs from `x` by a multiple of `m`.
fn with_congruent(sum: &Poly, x: &Poly, m: i64) -> Option<Poly> {
    sum.terms.iter().filter(|(_, c)| **c == 1).find_map(|(mono, _)| {
        let [Atom(e)] = mono.as_slice() else { return None };
        let y = congruent(e, x, m)?;
        let mut rest = sum.clone();
        rest.add_term(mono.clone(), -1)?;
        rest.scale(m)?.add(&y)
    })
}

impl Term<'_> {
    fn scaled(&self, p: &Poly) -> Option<Poly> {
        p.mul(&Poly::term(self.others.clone(), self.k))
    }

    /// The sum with this term and `partner` replaced by `new`.
    fn replaced(&self, partner: (&Mono, i64), new: &Poly) -> Option<Poly> {
        let mut sum = self.sum.clone();
        sum.add_term(self.mono.clone(), self.k.checked_neg()?)?;
        sum.add_term(partner.0.clone(), partner.1.checked_neg()?)?;
        sum.add(new)
    }

    /// `k*(x%m) + k*m*((z + y//m)%n)` is `k*((m*z + y)%(m*n))`, where `x` is `y` or differs from it by a multiple of `m`.
    fn join_digit(&self) -> Option<Poly> {
        let (y, low, modulo) = digit_of(self.atom)?;
        let upper_k = self.k.checked_mul(modulo)?;
        let x = floor_div(&Poly::of(&y)?, &Poly::constant(low), self.dtype, self.ranges)?;
        let (mono, whole, n) =
            self.sum.terms.iter().find_map(|(mono, c)| match without(mono, &self.others)?.as_slice() {
                [Atom(e)] if *c == upper_k => {
                    let (sum, n) = split_of(e, BinOp::FloorMod)?;
                    let sum = Poly::of(sum)?;
                    let whole = self.with_quotient(&sum, &x, modulo).or_else(|| with_congruent(&sum, &x, modulo))?;
                    Some((mono, whole, n))
                }
                _ => None,
            })?;
        let joined = floor_mod(&whole, &Poly::constant(modulo.checked_mul(n)?), self.dtype, self.ranges)?;
        self.replaced((mono, upper_k), &self.scaled(&joined)?)
    }

    /// `m*z + x` of a sum `z + x//m`.
    fn with_quotient(&self, sum: &Poly, x: &Poly, m: i64) -> Option<Poly> {
        let quotient = floor_div(x, &Poly::constant(m), self.dtype, self.ranges)?;
        if quotient.is_zero() || quotient.terms.iter().any(|(mono, c)| sum.terms.get(mono) != Some(c)) {
            return None;
        }
        sum.sub(&quotient)?.scale(m)?.add(x)
    }

    /// `k*(x%d) + k*d*(x//d)` is `k*x`, for any divisor.
    fn join_quotient(&self, x: &Expr, d: &Expr) -> Option<Poly> {
        let (x, d) = (Poly::of(x)?, Poly::of(d)?);
        let quotient = floor_div(&x, &d, self.dtype, self.ranges)?;
        quotient.as_atom()?;
        let partner = self.scaled(&quotient.mul(&d)?)?;
        let (mono, c) = partner.terms.iter().next().filter(|_| partner.terms.len() == 1)?;
        if self.sum.terms.get(mono) != Some(c) {
            return self.join_congruent(&x, d.as_const()?);
        }
        self.replaced((mono, *c), &self.scaled(&x)?)
    }

    /// `k*(x%d) + k*d*(z//d)` is `k*z` where `x` and `z` differ by a multiple of `d`.
    fn join_congruent(&self, x: &Poly, d: i64) -> Option<Poly> {
        let upper = self.k.checked_mul(d)?;
        let (mono, z) = self.sum.terms.iter().find_map(|(mono, c)| match without(mono, &self.others)?.as_slice() {
            [Atom(e)] if *c == upper => Some((mono, congruent(e, x, d)?)),
            _ => None,
        })?;
        self.replaced((mono, upper), &self.scaled(&z)?)
    }

    /// `k*x - k*d*(x//d)` is `k*(x%d)`.
    fn join_remainder(&self, x: &Expr, d: &Expr) -> Option<Poly> {
        let (x, divisor) = (Poly::of(x)?, Poly::of(d)?);
        let (factor, c) = divisor.terms.iter().next().filter(|_| divisor.terms.len() == 1)?;
        let others = without(&self.others, factor)?;
        if self.k % c != 0 {
            return None;
        }
        let scale = Poly::term(others, self.k.checked_div(*c)?.checked_neg()?);
        let dividend = x.mul(&scale)?;
        if dividend.is_zero() || dividend.terms.iter().any(|(m, c)| self.sum.terms.get(m) != Some(c)) {
            return None;
        }
        let mut sum = self.sum.sub(&dividend)?;
        sum.add_term(self.mono.clone(), self.k.checked_neg()?)?;
        sum.add(&floor_mod(&x, &divisor, self.dtype, self.ranges)?.mul(&scale)?)
    }
}

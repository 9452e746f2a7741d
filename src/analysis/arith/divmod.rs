//! Floor division and remainder of sums: terms that the divisor divides leave the division, and
//! mixed-radix digits cancel. `(i*4 + j)//4 -> i` and `(i*4 + j)%4 -> j` for `0 <= j < 4`, and so do those below a
//! symbolic divisor: `(i*4 + j)//(n*8) -> i//(n*2)`.

use super::poly::{Poly, gcd, without};
use super::sign::nonnegative;
use crate::analysis::{Interval, Ranges};
use crate::ir::{BinOp, DType, Expr, ExprKind};

/// `x // d` of simplified operands; `None` leaves the division as it is.
pub fn floor_div(x: &Poly, d: &Poly, dtype: DType, r: &Ranges) -> Option<Poly> {
    match d.as_const() {
        Some(c) if c > 0 => div_const(x, c, dtype, r),
        Some(_) => match (x.as_const(), d.as_const()) {
            (Some(v), Some(c)) if c != 0 => Some(Poly::constant(floor_div_i64(v, c)?)),
            _ => None,
        },
        None if from_data(d, dtype) => None,
        None => {
            let (quotient, rest) = divide_terms(x, d)?;
            let rest_quotient = match symbolic_digits(&rest, d, r) {
                _ if in_digit(&rest, d, r) => Poly::default(),
                Some(Digits { high, upper, .. }) => floor_div(&high, &upper, dtype, r)?,
                None => div_atom(&rest, d, dtype)?,
            };
            quotient.add(&rest_quotient)
        }
    }
}

/// `x % d` (floor) of simplified operands; `None` leaves it as it is.
pub fn floor_mod(x: &Poly, d: &Poly, dtype: DType, r: &Ranges) -> Option<Poly> {
    match d.as_const() {
        Some(c) if c > 0 => mod_const(x, c, dtype, r),
        Some(_) => match (x.as_const(), d.as_const()) {
            (Some(v), Some(c)) if c != 0 => Some(Poly::constant(v.checked_sub(floor_div_i64(v, c)?.checked_mul(c)?)?)),
            _ => None,
        },
        None if from_data(d, dtype) => None,
        None => {
            let (_, rest) = divide_terms(x, d)?;
            match symbolic_digits(&rest, d, r) {
                _ if in_digit(&rest, d, r) => Some(rest),
                Some(Digits { radix, high, low, upper }) => floor_mod(&high, &upper, dtype, r)?.scale(radix)?.add(&low),
                None => mod_atom(&rest, d, dtype),
            }
        }
    }
}

/// True for a divisor that is read from a tensor: it may be 0, by which any quotient is 0, and no term leaves that.
fn from_data(d: &Poly, dtype: DType) -> bool {
    d.to_expr(dtype).is_none_or(|e| e.has_load())
}

fn floor_div_i64(a: i64, b: i64) -> Option<i64> {
    let q = a.checked_div(b)?;
    Some(if a % b != 0 && (a < 0) != (b < 0) { q - 1 } else { q })
}

/// Splits a sum into multiples of a one-term divisor and the rest: `x = d * quotient + rest`.
fn divide_terms(x: &Poly, d: &Poly) -> Option<(Poly, Poly)> {
    let mut it = d.terms.iter();
    let (Some((factor, c)), None) = (it.next(), it.next()) else {
        return Some(if x == d { (Poly::constant(1), Poly::default()) } else { (Poly::default(), x.clone()) });
    };
    let (mut quotient, mut rest) = (Poly::default(), Poly::default());
    for (mono, k) in &x.terms {
        match without(mono, factor) {
            Some(left) if k % c == 0 => quotient.add_term(left, k.checked_div(*c)?)?,
            _ => rest.add_term(mono.clone(), *k)?,
        }
    }
    Some((quotient, rest))
}

/// `0 <= x < d` for certain.
fn in_digit(x: &Poly, d: &Poly, r: &Ranges) -> bool {
    let room = d.sub(x).and_then(|p| p.add_const(-1));
    nonnegative(x, r) && room.is_some_and(|p| nonnegative(&p, r))
}

/// A sum as `radix * high + low`, `0 <= low < radix`, and a divisor as `radix * upper`.
struct Digits {
    radix: i64,
    high: Poly,
    low: Poly,
    upper: Poly,
}

/// The digit below a divisor of one term that is positive and has a constant factor.
fn symbolic_digits(x: &Poly, d: &Poly, r: &Ranges) -> Option<Digits> {
    let mut terms = d.terms.values();
    let (Some(c), None) = (terms.next(), terms.next()) else { return None };
    let (radix, high, low) = digits(x, *c, r)?;
    let upper = d.exact_div(radix);
    (upper.interval(r).lo >= 1).then_some(Digits { radix, high, low, upper })
}

fn binary_atom(op: BinOp, x: &Poly, d: &Poly, dtype: DType) -> Option<Poly> {
    Some(Poly::atom(Expr::binary(op, x.to_expr(dtype)?, d.to_expr(dtype)?)))
}

fn div_atom(x: &Poly, d: &Poly, dtype: DType) -> Option<Poly> {
    if x.is_zero() { Some(Poly::default()) } else { binary_atom(BinOp::FloorDiv, x, d, dtype) }
}

fn mod_atom(x: &Poly, d: &Poly, dtype: DType) -> Option<Poly> {
    if x.is_zero() { Some(Poly::default()) } else { binary_atom(BinOp::FloorMod, x, d, dtype) }
}

/// The atom as `a op b` with a positive constant `b`.
pub fn split_of(e: &Expr, op: BinOp) -> Option<(&Expr, i64)> {
    match e.kind() {
        ExprKind::Binary { op: o, a, b } if *o == op => b.as_int().filter(|c| *c > 0).map(|c| (a, c)),
        _ => None,
    }
}

/// Splits off what `c` divides: `x = c * out + rest`, the rest's constant in `[0, c)`.
fn take_multiples(x: &Poly, c: i64) -> Option<(Poly, Poly)> {
    let (out, mut rest) = x.partition(|m, k| !m.is_empty() && k % c == 0);
    let mut out = out.exact_div(c);
    let base = rest.base();
    rest = rest.add_const(base.rem_euclid(c).checked_sub(base)?)?;
    out = out.add_const(base.div_euclid(c))?;
    Some((out, rest))
}

/// A digit boundary `g` of `c`: the terms that `g` divides, divided by it, and the rest, which
/// lies in `[0, g)`.
pub fn digits(x: &Poly, c: i64, r: &Ranges) -> Option<(i64, Poly, Poly)> {
    let mut candidates: Vec<i64> =
        x.terms.iter().filter(|(m, _)| !m.is_empty()).map(|(_, k)| gcd(*k, c)).filter(|g| *g > 1).collect();
    candidates.sort_unstable();
    candidates.dedup();
    candidates.into_iter().rev().find_map(|g| {
        let (high, low) = take_multiples(x, g)?;
        low.interval(r).within(Interval::new(0, g - 1)).then_some((g, high, low))
    })
}

fn div_const(x: &Poly, c: i64, dtype: DType, r: &Ranges) -> Option<Poly> {
    if c == 1 {
        return Some(x.clone());
    }
    let (out, rest) = take_multiples(x, c)?;
    let range = rest.interval(r);
    if let Some((lo, hi)) = range.finite()
        && lo.div_euclid(c) == hi.div_euclid(c)
    {
        return out.add_const(lo.div_euclid(c));
    }
    if let Some((g, high, _)) = digits(&rest, c, r) {
        return out.add(&div_const(&high, c / g, dtype, r)?);
    }
    out.add(&div_rest(&rest, c, dtype, r)?)
}

/// Nested divisions: `(x//a)//c -> x//(a*c)`, `(x%a)//c -> (x//c)%(a/c)`.
fn div_rest(rest: &Poly, c: i64, dtype: DType, r: &Ranges) -> Option<Poly> {
    if let Some(atom) = rest.as_atom() {
        if let Some((inner, a)) = split_of(atom, BinOp::FloorDiv)
            && let Some(product) = a.checked_mul(c)
            && Interval::point(product).within(Interval::of_dtype(dtype))
        {
            return div_const(&Poly::of(inner)?, product, dtype, r);
        }
        if let Some((inner, a)) = split_of(atom, BinOp::FloorMod)
            && a % c == 0
        {
            return mod_const(&div_const(&Poly::of(inner)?, c, dtype, r)?, a / c, dtype, r);
        }
    }
    div_atom(rest, &Poly::constant(c), dtype)
}

fn mod_const(x: &Poly, c: i64, dtype: DType, r: &Ranges) -> Option<Poly> {
    if c == 1 {
        return Some(Poly::default());
    }
    let rest = reduce(x, c)?;
    let range = rest.interval(r);
    if let Some((lo, hi)) = range.finite()
        && lo.div_euclid(c) == hi.div_euclid(c)
    {
        return rest.add_const(-lo.div_euclid(c).checked_mul(c)?);
    }
    if let Some((g, high, low)) = digits(&rest, c, r) {
        return mod_const(&high, c / g, dtype, r)?.scale(g)?.add(&low);
    }
    let open = open_remainders(&rest, c)?;
    if open != rest {
        return mod_const(&open, c, dtype, r);
    }
    mod_atom(&rest, &Poly::constant(c), dtype)
}

/// Coefficients reduced modulo `c`, toward zero; the constant into `[0, c)`.
fn reduce(x: &Poly, c: i64) -> Option<Poly> {
    let mut rest = Poly::default();
    for (mono, k) in &x.terms {
        rest.add_term(mono.clone(), if mono.is_empty() { k.rem_euclid(c) } else { k % c })?;
    }
    Some(rest)
}

/// `k*(y % a)` is `k*y` under a remainder by `c` when `c` divides `k*a`.
fn open_remainders(x: &Poly, c: i64) -> Option<Poly> {
    let mut sum = Poly::default();
    for (mono, k) in &x.terms {
        let inner = match mono.as_slice() {
            [atom] => split_of(&atom.0, BinOp::FloorMod).filter(|(_, a)| k.checked_mul(*a).is_some_and(|p| p % c == 0)),
            _ => None,
        };
        match inner {
            Some((y, _)) => sum = sum.add(&Poly::of(y)?.scale(*k)?)?,
            None => sum.add_term(mono.clone(), *k)?,
        }
    }
    Some(sum)
}

//! Integer expressions as affine sums over (parts of) variables.

use super::divmod::split_of;
use super::poly::{Atom, Poly, without};
use crate::analysis::{Ranges, simplify};
use crate::ir::{BinOp, DType, Expr, Name};

/// `sum of coeff * ((var // lower) % modulo) + base`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Affine {
    /// The terms, larger coefficients first.
    pub terms: Vec<Term>,
    /// The constant.
    pub base: i64,
}

/// `coeff * ((var // lower) % modulo)`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Term {
    /// The variable.
    pub var: Name,
    /// What the variable is divided by; 1 for none.
    pub lower: i64,
    /// The modulus after the division; `None` for none.
    pub modulo: Option<i64>,
    /// The factor in the sum.
    pub coeff: i64,
}

/// The affine form of an integer expression, or `None` where it has none: products of variables,
/// divisions of sums, minima, loads, symbolic divisors.
pub fn affine(e: &Expr, ranges: &Ranges) -> Option<Affine> {
    let p = Poly::of(&simplify(e, ranges))?;
    let mut sum = Affine { terms: vec![], base: p.base() };
    for (mono, coeff) in &p.terms {
        match mono.as_slice() {
            [] => {}
            [Atom(e)] => sum.terms.push(term(e, *coeff)?),
            _ => return None,
        }
    }
    sum.terms.sort_by_key(|t| std::cmp::Reverse(t.coeff.unsigned_abs()));
    Some(sum)
}

fn term(e: &Expr, coeff: i64) -> Option<Term> {
    let (e, modulo) = match split_of(e, BinOp::FloorMod) {
        Some((inner, m)) => (inner, Some(m)),
        None => (e, None),
    };
    let (e, lower) = split_of(e, BinOp::FloorDiv).unwrap_or((e, 1));
    Some(Term { var: e.as_var()?.clone(), lower, modulo, coeff })
}

impl Affine {
    /// The factor of a variable that occurs whole; 0 where it does not occur, `None` where a part
    /// of it does.
    pub fn coeff_of(&self, var: &Name) -> Option<i64> {
        let mut sum = 0;
        for t in self.terms.iter().filter(|t| t.var == *var) {
            if t.lower != 1 || t.modulo.is_some() {
                return None;
            }
            sum += t.coeff;
        }
        Some(sum)
    }

    /// True when the variable occurs.
    pub fn uses(&self, var: &Name) -> bool {
        self.terms.iter().any(|t| t.var == *var)
    }
}

/// `c` in `e = c*var + rest` where neither `c` nor `rest` holds `var`; `c` may be symbolic.
/// 0 where `var` does not occur, `None` where `e` is not of that form.
pub fn coeff_of(e: &Expr, var: &Name, ranges: &Ranges) -> Option<Expr> {
    linear(e, var, ranges).map(|(c, _)| c)
}

/// `(c, rest)` of [`coeff_of`].
pub fn linear(e: &Expr, var: &Name, ranges: &Ranges) -> Option<(Expr, Expr)> {
    let dtype = e.dtype();
    if !matches!(dtype, DType::I32 | DType::I64) {
        return None;
    }
    let (mut coeff, mut rest) = (Poly::default(), Poly::default());
    for (mono, k) in &Poly::of(&simplify(e, ranges))?.terms {
        let own = vec![Atom(Expr::var(var.clone(), dtype))];
        let (target, mono) = match without(mono, &own) {
            Some(left) => (&mut coeff, left),
            None => (&mut rest, mono.clone()),
        };
        if mono.iter().any(|a| a.0.uses_var(var)) {
            return None;
        }
        target.add_term(mono, *k)?;
    }
    Some((coeff.to_expr(dtype)?, rest.to_expr(dtype)?))
}

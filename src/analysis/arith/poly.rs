//! Integer expressions as sums of products: the canonical form of index arithmetic.

use super::bounds::interval;
use crate::analysis::order::cmp_exprs;
use crate::analysis::{Interval, Ranges};
use crate::ir::{BinOp, DType, Expr, ExprKind, UnOp};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// An operand of a product: a variable, or anything that is no sum and no product.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Atom(pub Expr);

impl PartialOrd for Atom {
    fn partial_cmp(&self, other: &Atom) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Atom {
    fn cmp(&self, other: &Atom) -> Ordering {
        cmp_exprs(&self.0, &other.0)
    }
}

/// A product of atoms in order; empty for the constant 1.
pub type Mono = Vec<Atom>;

/// The product without the factors of `factor`, if it has them all.
pub fn without(mono: &Mono, factor: &Mono) -> Option<Mono> {
    let mut left = mono.clone();
    for atom in factor {
        let at = left.iter().position(|a| a == atom)?;
        left.remove(at);
    }
    Some(left)
}

/// More terms than this are left as they stand.
const MAX_TERMS: usize = 96;

/// A sum of `coefficient * product`, without zero coefficients. Operations give `None` where a
/// coefficient leaves `i64` or the sum grows too long.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Poly {
    pub terms: BTreeMap<Mono, i64>,
}

impl Poly {
    pub fn constant(v: i64) -> Poly {
        Poly::term(Vec::new(), v)
    }

    pub fn atom(e: Expr) -> Poly {
        Poly::term(vec![Atom(e)], 1)
    }

    pub fn term(mono: Mono, coeff: i64) -> Poly {
        let mut p = Poly::default();
        if coeff != 0 {
            p.terms.insert(mono, coeff);
        }
        p
    }

    /// Reads a simplified expression; what is no sum or product becomes one atom.
    pub fn of(e: &Expr) -> Option<Poly> {
        match e.kind() {
            ExprKind::Int { value, .. } => Some(Poly::constant(*value)),
            ExprKind::Unary { op: UnOp::Neg, arg } => Poly::of(arg)?.scale(-1),
            ExprKind::Binary { op: BinOp::Add, a, b } => Poly::of(a)?.add(&Poly::of(b)?),
            ExprKind::Binary { op: BinOp::Sub, a, b } => Poly::of(a)?.sub(&Poly::of(b)?),
            ExprKind::Binary { op: BinOp::Mul, a, b } => Poly::of(a)?.mul(&Poly::of(b)?),
            _ => Some(Poly::atom(e.clone())),
        }
    }

    pub fn is_zero(&self) -> bool {
        self.terms.is_empty()
    }

    /// The constant term.
    pub fn base(&self) -> i64 {
        self.terms.get(&Vec::new()).copied().unwrap_or(0)
    }

    /// The value, when there is nothing but a constant.
    pub fn as_const(&self) -> Option<i64> {
        match self.terms.len() {
            0 => Some(0),
            1 => self.terms.get(&Vec::new()).copied(),
            _ => None,
        }
    }

    /// The only atom, when the sum is that atom once.
    pub fn as_atom(&self) -> Option<&Expr> {
        let (mono, coeff) = self.terms.iter().next()?;
        (self.terms.len() == 1 && *coeff == 1 && mono.len() == 1).then(|| &mono[0].0)
    }

    pub fn add_term(&mut self, mono: Mono, coeff: i64) -> Option<()> {
        let sum = self.terms.get(&mono).copied().unwrap_or(0).checked_add(coeff)?;
        if sum == 0 {
            self.terms.remove(&mono);
        } else {
            self.terms.insert(mono, sum);
        }
        (self.terms.len() <= MAX_TERMS).then_some(())
    }

    pub fn add(&self, other: &Poly) -> Option<Poly> {
        let mut sum = self.clone();
        for (mono, c) in &other.terms {
            sum.add_term(mono.clone(), *c)?;
        }
        Some(sum)
    }

    pub fn sub(&self, other: &Poly) -> Option<Poly> {
        self.add(&other.scale(-1)?)
    }

    pub fn scale(&self, by: i64) -> Option<Poly> {
        self.mul(&Poly::constant(by))
    }

    pub fn add_const(&self, v: i64) -> Option<Poly> {
        self.add(&Poly::constant(v))
    }

    pub fn mul(&self, other: &Poly) -> Option<Poly> {
        let mut product = Poly::default();
        for (m, c) in &self.terms {
            for (n, d) in &other.terms {
                let mut mono: Mono = m.iter().chain(n).cloned().collect();
                mono.sort();
                product.add_term(mono, c.checked_mul(*d)?)?;
            }
        }
        Some(product)
    }

    /// The terms for which `keep` holds, and the others.
    pub fn partition(&self, keep: impl Fn(&Mono, i64) -> bool) -> (Poly, Poly) {
        let (a, b) = self.terms.clone().into_iter().partition(|(m, c)| keep(m, *c));
        (Poly { terms: a }, Poly { terms: b })
    }

    /// Every coefficient divided by `g`, which divides all of them.
    pub fn exact_div(&self, g: i64) -> Poly {
        Poly { terms: self.terms.iter().map(|(m, c)| (m.clone(), c / g)).collect() }
    }

    /// Greatest common divisor of the coefficients other than the constant term; 0 without any.
    pub fn content(&self) -> i64 {
        self.terms.iter().filter(|(m, _)| !m.is_empty()).fold(0, |g, (_, c)| gcd(g, *c))
    }

    pub fn interval(&self, r: &Ranges) -> Interval {
        self.terms.iter().fold(Interval::point(0), |sum, (mono, c)| {
            let product = mono.iter().fold(Interval::point(*c), |p, a| p * interval(&a.0, r));
            sum + product
        })
    }

    /// The expression: higher degrees first, then larger coefficients, then by name; what is
    /// subtracted last. `None` where a coefficient does not fit `dtype`.
    pub fn to_expr(&self, dtype: DType) -> Option<Expr> {
        let limits = Interval::of_dtype(dtype);
        if self.terms.values().any(|c| !Interval::point(*c).within(limits) || *c == i64::MIN) {
            return None;
        }
        let mut terms: Vec<(&Mono, i64)> = self.terms.iter().map(|(m, c)| (m, *c)).collect();
        terms.sort_by(|(m, c), (n, d)| {
            (*c < 0).cmp(&(*d < 0)).then(n.len().cmp(&m.len())).then(d.abs().cmp(&c.abs())).then(m.cmp(n))
        });
        let mut sum: Option<Expr> = None;
        for (mono, c) in terms {
            sum = Some(match sum {
                None => product(mono, c, dtype),
                Some(s) if c < 0 => s - product(mono, -c, dtype),
                Some(s) => s + product(mono, c, dtype),
            });
        }
        Some(sum.unwrap_or_else(|| Expr::int(0, dtype)))
    }
}

fn product(mono: &Mono, c: i64, dtype: DType) -> Expr {
    let Some(atoms) = mono.iter().map(|a| a.0.clone()).reduce(|x, y| x * y) else {
        return Expr::int(c, dtype);
    };
    if c == 1 { atoms } else { atoms * Expr::int(c, dtype) }
}

/// Greatest common divisor, never negative; `gcd(0, x) = |x|`.
pub fn gcd(a: i64, b: i64) -> i64 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    i64::try_from(a).unwrap_or(1)
}

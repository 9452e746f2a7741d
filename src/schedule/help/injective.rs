//! Does every iteration of some loops run another instance of a block? A reduction that ran an
//! instance twice would add it twice, unless the loop that repeats lies outside the whole reduction.
//!
//! ```text
//! v0 = (a*5 + b) // 6, v1 = (a*5 + b) % 6, b < 5    yes: v0, v1 give a*5 + b, which gives a and b
//! v0 = a + b                                        no: 0 + 1 = 1 + 0
//! ```

use super::{checks, tree};
use crate::analysis::{Ranges, bounds, simplify};
use crate::ir::{BinOp, Block, Expr, ExprKind, For, IterKind, Name};
use crate::schedule::Failure;
use std::collections::BTreeSet;

/// `once_each`: a reduction under the loops runs each of its steps once while they run; loops
/// outside of them stand still.
pub fn once_each(block: &Block, loops: &[For], ranges: &Ranges) -> Result<(), Failure> {
    if !reduces(block) {
        return Ok(());
    }
    let names = loops.iter().map(|l| l.var.clone()).collect();
    let bindings: Vec<Expr> = block.iters.iter().map(|it| it.binding.clone()).collect();
    let known = recovered(&bindings, &names, ranges);
    loops.iter().find(|l| !l.extent.is_int(1) && !known.contains(&l.var)).map_or(Ok(()), |l| {
        let why = format!("loop `{}` may repeat steps of the reduction in block `{}`", l.var, block.name);
        Err(Failure::new("once_each", &l.var, why))
    })
}

/// True for blocks that read what they write.
pub fn reduces(block: &Block) -> bool {
    block.iters.iter().any(|it| it.kind == IterKind::Reduce)
        || tree::reads(block).intersection(&tree::writes(block)).next().is_some()
}

/// Those of `loops` whose values follow from the values of `known`; nothing else in it changes.
pub fn recovered(known: &[Expr], loops: &BTreeSet<Name>, ranges: &Ranges) -> BTreeSet<Name> {
    let mut search = Search { loops, ranges, vars: BTreeSet::new(), digits: vec![], whole: vec![] };
    known.iter().for_each(|e| search.learn(&simplify(e, ranges)));
    while let Some(base) = search.next_base() {
        search.whole.push(base.clone());
        search.learn(&base);
    }
    search.vars
}

/// `base // lower % modulo`, whose value is known; no modulo: up to the top.
struct Digit {
    base: Expr,
    lower: Expr,
    modulo: Option<Expr>,
}

struct Search<'a> {
    loops: &'a BTreeSet<Name>,
    ranges: &'a Ranges,
    /// Loops whose values are known.
    vars: BTreeSet<Name>,
    /// Parts of expressions whose values are known.
    digits: Vec<Digit>,
    /// Expressions that were put together from their digits.
    whole: Vec<Expr>,
}

impl Search<'_> {
    /// Takes a known value apart.
    fn learn(&mut self, e: &Expr) {
        let mut terms = vec![];
        if !self.terms(e, 1, &mut terms) || !self.separable(&mut terms) {
            return;
        }
        for (_, term) in terms {
            match term.as_var() {
                Some(v) => {
                    self.vars.insert(v.clone());
                }
                None => self.digits.extend(digit(&term, self.ranges)),
            }
        }
    }

    /// The terms of a sum that change with the loops, with their factors.
    fn terms(&self, e: &Expr, factor: i64, found: &mut Vec<(i64, Expr)>) -> bool {
        if !self.loops.iter().any(|n| e.uses_var(n)) {
            return true;
        }
        match e.kind() {
            ExprKind::Binary { op: BinOp::Add, a, b } => self.terms(a, factor, found) && self.terms(b, factor, found),
            ExprKind::Binary { op: BinOp::Sub, a, b } => self.terms(a, factor, found) && self.terms(b, -factor, found),
            ExprKind::Binary { op: BinOp::Mul, a, b } => match b.as_int().and_then(|c| factor.checked_mul(c)) {
                Some(factor) => self.terms(a, factor, found),
                None => false,
            },
            // Indices fit their types, whichever these are.
            ExprKind::Cast { dtype, arg } if dtype.is_int() && arg.dtype().is_int() => self.terms(arg, factor, found),
            _ => {
                found.push((factor, e.clone()));
                true
            }
        }
    }

    /// True where each factor exceeds what the terms of smaller factors add up to, so that the sum
    /// tells the value of each.
    fn separable(&self, terms: &mut [(i64, Expr)]) -> bool {
        terms.sort_by_key(|(factor, _)| factor.abs());
        let mut reach = Some(0i64);
        terms.iter().all(|(factor, term)| {
            let apart = reach.is_some_and(|r| factor.abs() > r);
            let width = bounds(term, self.ranges).and_then(|(lo, hi)| hi.checked_sub(lo));
            reach = reach.zip(width).and_then(|(r, w)| r.checked_add(factor.abs().checked_mul(w)?));
            apart
        })
    }

    /// An expression all of whose digits are known, not yet taken apart.
    fn next_base(&self) -> Option<Expr> {
        let new = |d: &&Digit| !self.whole.contains(&d.base) && self.complete(&d.base);
        self.digits.iter().find(new).map(|d| d.base.clone())
    }

    /// True for a digit of `base`: `(25 * a + b) % 33` is one of `256 * a + b`.
    fn is_of(&self, d: &Digit, base: &Expr) -> bool {
        let same_remainder = |m: &Expr| {
            let period = d.lower.clone() * m.clone();
            let apart = Expr::binary(BinOp::FloorMod, base.clone() - d.base.clone(), period);
            simplify(&apart, self.ranges).is_int(0)
        };
        d.base == *base || d.base.dtype() == base.dtype() && d.modulo.as_ref().is_some_and(same_remainder)
    }

    fn complete(&self, base: &Expr) -> bool {
        let mut at = Expr::int(1, base.dtype());
        for _ in 0..self.digits.len() {
            let found = self.digits.iter().find(|d| d.lower == at && self.is_of(d, base));
            match found.map(|d| &d.modulo) {
                None => return false,
                Some(None) => return true,
                Some(Some(m)) => at = simplify(&(at * m.clone()), self.ranges),
            }
        }
        false
    }
}

/// A term as a part of another expression, of which it is no quotient: `b // c // d` is `b // (c * d)`.
fn digit(term: &Expr, ranges: &Ranges) -> Option<Digit> {
    let mut digit = nearest_digit(term, ranges)?;
    while let Some((BinOp::FloorDiv, base, c)) = quotient(&digit.base) {
        digit.lower = simplify(&(c.clone() * digit.lower), ranges);
        digit.base = base.clone();
    }
    Some(digit)
}

/// A term as a part of its operand: `b // c`, `b % m`, `b // c % m`, `b % m // c`, `b % m % c`.
fn nearest_digit(term: &Expr, ranges: &Ranges) -> Option<Digit> {
    let one = || Expr::int(1, term.dtype());
    let (op, a, by) = quotient(term)?;
    let inner = quotient(a);
    Some(match (op, inner) {
        (BinOp::FloorMod, Some((BinOp::FloorDiv, base, c))) => {
            Digit { base: base.clone(), lower: c.clone(), modulo: Some(by.clone()) }
        }
        (BinOp::FloorDiv, Some((BinOp::FloorMod, base, m))) => {
            let modulo = simplify(&Expr::binary(BinOp::FloorDiv, m.clone(), by.clone()), ranges);
            divides(by, m, ranges).then(|| Digit { base: base.clone(), lower: by.clone(), modulo: Some(modulo) })?
        }
        (BinOp::FloorMod, Some((BinOp::FloorMod, base, m))) if divides(by, m, ranges) => {
            Digit { base: base.clone(), lower: one(), modulo: Some(by.clone()) }
        }
        (BinOp::FloorMod, _) => Digit { base: a.clone(), lower: one(), modulo: Some(by.clone()) },
        _ => Digit { base: a.clone(), lower: by.clone(), modulo: None },
    })
}

fn divides(by: &Expr, m: &Expr, ranges: &Ranges) -> bool {
    simplify(&Expr::binary(BinOp::FloorMod, m.clone(), by.clone()), ranges).is_int(0)
}

fn quotient(e: &Expr) -> Option<(BinOp, &Expr, &Expr)> {
    match e.kind() {
        ExprKind::Binary { op: op @ (BinOp::FloorDiv | BinOp::FloorMod), a, b } => Some((*op, a, b)),
        _ => None,
    }
}

/// `once_each` for every block under the innermost of the loops.
pub fn once_each_below(inner: &For, loops: &[For], ranges: &Ranges) -> Result<(), Failure> {
    checks::outer_blocks(inner).into_iter().try_for_each(|b| once_each(b, loops, ranges))
}

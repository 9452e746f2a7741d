//! The simplifier of integer expressions.
//!
//! Index arithmetic (`int32`, `int64`) becomes a sum of products in a fixed order; divisions and
//! remainders cancel against known ranges; minima, maxima, comparisons and conditions fold where
//! bounds decide them. `int32` and `int64` arithmetic is taken not to overflow; other integer types
//! are only folded where every value is a constant. Float arithmetic is left exactly as it is.

use super::bounds::interval;
use super::combine::combine;
use super::poly::Poly;
use super::sign::nonnegative;
use super::{compare, divmod, fold};
use crate::analysis::{Interval, Ranges};
use crate::ir::{BinOp, DType, Expr, ExprKind, UnOp};

/// The simplest equal expression this simplifier finds, of the same dtype. Equal means: the same
/// value for every assignment that `ranges` allow for which `e` has a value.
pub fn simplify(e: &Expr, ranges: &Ranges) -> Expr {
    Simplifier { r: ranges.clone() }.run(e)
}

/// True only when `cond` is proven to hold for every assignment that `ranges` allow.
pub fn prove(cond: &Expr, ranges: &Ranges) -> bool {
    simplify(cond, ranges).is_int(1)
}

/// The inclusive constant bounds of an integer expression, when both are known.
pub fn bounds(e: &Expr, ranges: &Ranges) -> Option<(i64, i64)> {
    interval(&simplify(e, ranges), ranges).finite()
}

impl Ranges {
    /// A copy that also knows that `cond` holds, as far as it bounds single variables.
    pub fn assuming(&self, cond: &Expr) -> Ranges {
        let mut r = self.clone();
        compare::assume(&simplify(cond, self), &mut r);
        r
    }
}

struct Simplifier {
    r: Ranges,
}

fn is_index(dtype: DType) -> bool {
    matches!(dtype, DType::I32 | DType::I64)
}

impl Simplifier {
    fn run(&mut self, e: &Expr) -> Expr {
        match e.kind() {
            ExprKind::Int { .. } | ExprKind::Float { .. } | ExprKind::Str(_) => e.clone(),
            ExprKind::Var { name, dtype } => match self.r.get(name).and_then(Interval::single) {
                Some(v) if !dtype.is_float() => Expr::int(v, *dtype),
                _ => e.clone(),
            },
            ExprKind::Load { .. } | ExprKind::Call { .. } | ExprKind::Extern { .. } | ExprKind::Reinterpret { .. } => {
                e.map_children(|c| self.run(c))
            }
            ExprKind::Unary { op, arg } => self.unary(*op, arg, e),
            ExprKind::Binary { op, a, b } => self.binary(*op, a, b, e),
            ExprKind::Select { cond, then, otherwise } => self.choice(cond, then, otherwise, e),
            ExprKind::IfThenElse { cond, then, otherwise } => self.choice(cond, then, otherwise, e),
            ExprKind::Cast { dtype, arg } => self.cast(*dtype, arg, e),
            ExprKind::Let { .. } => self.bind(e),
        }
    }

    fn unary(&mut self, op: UnOp, arg: &Expr, e: &Expr) -> Expr {
        let new = e.map_children(|c| self.run(c));
        let ExprKind::Unary { arg: a, .. } = new.kind() else { return new };
        match op {
            UnOp::Neg if is_index(arg.dtype()) => self.sum(&new),
            UnOp::Not => fold::not(a).unwrap_or(new),
            UnOp::Neg | UnOp::BitNot => fold::unary(op, a).unwrap_or(new),
        }
    }

    fn binary(&mut self, op: BinOp, a: &Expr, b: &Expr, e: &Expr) -> Expr {
        if a.dtype().is_float() {
            return e.map_children(|c| self.run(c));
        }
        if matches!(op, BinOp::And | BinOp::Or) {
            return self.logic(op, a, b);
        }
        let (x, y) = (self.run(a), self.run(b));
        let new = if x.same(a) && y.same(b) { e.clone() } else { Expr::binary(op, x.clone(), y.clone()) };
        if let Some(folded) = fold::binary(op, &x, &y) {
            return folded;
        }
        if is_index(a.dtype()) && x.dtype() == y.dtype() {
            self.index(op, &x, &y).unwrap_or(new)
        } else {
            self.decided(op, &x, &y).unwrap_or(new)
        }
    }

    /// Index arithmetic on simplified operands.
    fn index(&mut self, op: BinOp, x: &Expr, y: &Expr) -> Option<Expr> {
        let dtype = x.dtype();
        let polys = || Some((Poly::of(x)?, Poly::of(y)?));
        let result = match op {
            BinOp::Add | BinOp::Sub | BinOp::Mul => return Some(self.sum(&Expr::binary(op, x.clone(), y.clone()))),
            BinOp::FloorDiv => {
                let (p, d) = polys()?;
                divmod::floor_div(&p, &d, dtype, &self.r)?
            }
            BinOp::FloorMod => {
                let (p, d) = polys()?;
                divmod::floor_mod(&p, &d, dtype, &self.r)?
            }
            BinOp::TruncDiv | BinOp::TruncMod => {
                let (p, d) = polys()?;
                if p.interval(&self.r).lo < 0 || d.interval(&self.r).lo < 1 {
                    return None;
                }
                let floor = if op == BinOp::TruncDiv { BinOp::FloorDiv } else { BinOp::FloorMod };
                return self.index(floor, x, y).or_else(|| Some(Expr::binary(floor, x.clone(), y.clone())));
            }
            BinOp::Min | BinOp::Max => return self.extreme(op, x, y),
            BinOp::Eq | BinOp::Ne | BinOp::Lt | BinOp::Le | BinOp::Gt | BinOp::Ge => {
                let (p, d) = polys()?;
                return compare::compare(op, &p, &d, dtype, &self.r);
            }
            BinOp::Shl => {
                let count = y.as_int().filter(|c| (0..31).contains(c))?;
                return Some(self.sum(&(x.clone() * Expr::int(1 << count, dtype))));
            }
            BinOp::Shr => {
                let count = y.as_int().filter(|c| (0..31).contains(c))?;
                return self.index(BinOp::FloorDiv, x, &Expr::int(1 << count, dtype));
            }
            BinOp::Div | BinOp::And | BinOp::Or | BinOp::BitAnd | BinOp::BitOr | BinOp::BitXor => return None,
        };
        combine(result, dtype, &self.r).to_expr(dtype)
    }

    /// The canonical sum, or the expression itself where it has none.
    fn sum(&self, e: &Expr) -> Expr {
        let dtype = e.dtype();
        let canonical = Poly::of(e).and_then(|p| combine(p, dtype, &self.r).to_expr(dtype));
        canonical.unwrap_or_else(|| e.clone())
    }

    fn extreme(&self, op: BinOp, x: &Expr, y: &Expr) -> Option<Expr> {
        // Nothing lies beyond the last value of the type, which stands for "to the end" in slices.
        let last = if op == BinOp::Min { i64::MAX } else { i64::MIN };
        let is_last = |e: &Expr| e.dtype() == DType::I64 && e.as_int() == Some(last);
        if is_last(x) || is_last(y) {
            return Some(if is_last(x) { y.clone() } else { x.clone() });
        }
        let d = Poly::of(x)?.sub(&Poly::of(y)?)?;
        let larger_first = nonnegative(&d, &self.r);
        if larger_first || nonnegative(&d.scale(-1)?, &self.r) {
            return Some(if larger_first == (op == BinOp::Max) { x.clone() } else { y.clone() });
        }
        match (x.kind(), y.as_int()) {
            (ExprKind::Binary { op: inner, a, b }, Some(c)) if *inner == op && b.as_int().is_some() => {
                let k = b.as_int()?;
                let bound = if op == BinOp::Min { k.min(c) } else { k.max(c) };
                Some(Expr::binary(op, a.clone(), Expr::int(bound, x.dtype())))
            }
            _ if x.as_int().is_some() => Some(Expr::binary(op, y.clone(), x.clone())),
            _ => None,
        }
    }

    /// Comparisons, minima and maxima of other integers and of `bool`, where bounds decide.
    fn decided(&self, op: BinOp, x: &Expr, y: &Expr) -> Option<Expr> {
        if x.dtype().is_float() || x.dtype() == DType::Handle {
            return None;
        }
        let (a, b) = (interval(x, &self.r), interval(y, &self.r));
        let (below, above) = (a.hi < b.lo, a.lo > b.hi);
        let (at_most, at_least) = (a.hi <= b.lo, a.lo >= b.hi);
        let same = x == y;
        let truth = |yes: bool, no: bool| if yes { Some(Expr::bool(true)) } else { no.then(|| Expr::bool(false)) };
        match op {
            BinOp::Lt => truth(below, at_least || same),
            BinOp::Ge => truth(at_least || same, below),
            BinOp::Gt => truth(above, at_most || same),
            BinOp::Le => truth(at_most || same, above),
            BinOp::Eq => truth(same, below || above),
            BinOp::Ne => truth(below || above, same),
            BinOp::Min if at_most || same => Some(x.clone()),
            BinOp::Min if at_least => Some(y.clone()),
            BinOp::Max if at_least || same => Some(x.clone()),
            BinOp::Max if at_most => Some(y.clone()),
            _ => None,
        }
    }

    fn logic(&mut self, op: BinOp, a: &Expr, b: &Expr) -> Expr {
        let x = self.run(a);
        let neutral = (op == BinOp::And) as i64;
        match x.as_int() {
            Some(v) if v == neutral => return self.run(b),
            Some(_) => return x,
            None => {}
        }
        let y = self.run(b);
        match y.as_int() {
            Some(v) if v == neutral => x,
            Some(_) => y,
            None if x == y => x,
            None => Expr::binary(op, x, y),
        }
    }

    fn choice(&mut self, cond: &Expr, then: &Expr, otherwise: &Expr, e: &Expr) -> Expr {
        let cond = self.run(cond);
        match cond.as_int() {
            Some(0) => return self.run(otherwise),
            Some(_) => return self.run(then),
            None => {}
        }
        let inside = self.r.assuming(&cond);
        let (then, otherwise) = (Simplifier { r: inside }.run(then), self.run(otherwise));
        if then == otherwise {
            return then;
        }
        match e.kind() {
            ExprKind::Select { .. } => Expr::new(ExprKind::Select { cond, then, otherwise }),
            _ => Expr::new(ExprKind::IfThenElse { cond, then, otherwise }),
        }
    }

    fn cast(&mut self, dtype: DType, arg: &Expr, e: &Expr) -> Expr {
        let new = e.map_children(|c| self.run(c));
        let ExprKind::Cast { arg: a, .. } = new.kind() else { return new };
        if a.dtype() == dtype {
            return a.clone();
        }
        match a.as_int() {
            Some(v) if !dtype.is_float() && arg.dtype() != DType::U64 => {
                fold::fit(v, dtype).map_or(new.clone(), |v| Expr::int(v, dtype))
            }
            _ => new,
        }
    }

    /// A let whose value is a constant, a variable or used nowhere goes away.
    fn bind(&mut self, e: &Expr) -> Expr {
        let ExprKind::Let { var, value, body } = e.kind() else { return e.clone() };
        let v = self.run(value);
        if matches!(v.kind(), ExprKind::Int { .. } | ExprKind::Float { .. } | ExprKind::Var { .. }) {
            let replaced = body.subst(&|n| (n == var).then(|| v.clone()));
            return self.run(&replaced);
        }
        if !v.dtype().is_float() {
            self.r.set_interval(var.clone(), interval(&v, &self.r));
        }
        let b = self.run(body);
        if b.uses_var(var) { Expr::new(ExprKind::Let { var: var.clone(), value: v, body: b }) } else { b }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_the_type_bounds_nothing() {
        let n = || Expr::var("n", DType::I64);
        let to_end = |op, end| simplify(&(Expr::binary(op, Expr::i64(end), n()) - n()), &Ranges::new());
        assert_eq!(to_end(BinOp::Min, i64::MAX), Expr::i64(0));
        assert_eq!(to_end(BinOp::Max, i64::MIN), Expr::i64(0));
        assert_ne!(to_end(BinOp::Min, i64::MAX - 1), Expr::i64(0), "n may be the last value");
    }

    #[test]
    fn a_divisor_from_a_tensor_may_be_zero() {
        let step = || Expr::load("p", vec![Expr::i64(0)], DType::I64);
        for op in [BinOp::FloorDiv, BinOp::FloorMod] {
            let whole = Expr::binary(op, Expr::var("n", DType::I64) + step(), step());
            assert_eq!(simplify(&whole, &Ranges::new()), whole, "(n + 0) // 0 is 0, and n // 0 + 1 is 1");
        }
    }
}

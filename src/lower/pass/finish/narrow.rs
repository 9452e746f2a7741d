//! Narrows index arithmetic to `int32` where every value provably fits.
//!
//! An expression all of whose parts fit becomes `int32`; of a sum that does not fit, the terms that
//! fit together are added in `int32` and widened once, so that an address is a 64-bit base plus a
//! 32-bit offset. Variables get the type they are declared with.
//!
//! before: `int64 threadIdx.x * 4 + int64 n * 8` (n up to 2^62)
//! after:  `int64(threadIdx.x * 4) + n * 8` with the product in `int32`

use crate::analysis::{Ranges, bounds};
use crate::ir::{BinOp, DType, Expr, ExprKind, Name};
use crate::lower::pass::widen::is_pure;
use std::collections::BTreeMap;

/// Declared types of variables, and what is known about their values.
pub struct Types<'r> {
    pub ranges: &'r Ranges,
    pub vars: BTreeMap<Name, DType>,
}

impl Types<'_> {
    /// The type that a loop over `extent` steps gets.
    pub fn loop_type(&self, extent: &Expr) -> DType {
        if self.fits(extent) { DType::I32 } else { DType::I64 }
    }

    /// An expression with its integer parts narrowed; the dtype of a value stays.
    pub fn value(&self, e: &Expr) -> Expr {
        match e.kind() {
            ExprKind::Int { .. } => e.clone(),
            ExprKind::Load { buffer, indices, dtype } => {
                Expr::load(buffer.clone(), indices.iter().map(|i| self.index(i)).collect(), *dtype)
            }
            ExprKind::Binary { op, a, b } if op.is_compare() && is_pure(a) && is_pure(b) => self.compare(*op, a, b),
            ExprKind::Cast { dtype, arg } if is_pure(arg) => Expr::cast(*dtype, self.index(arg)),
            ExprKind::Var { name, dtype } => self.declared(name, *dtype),
            ExprKind::Float { .. }
            | ExprKind::Str(_)
            | ExprKind::Unary { .. }
            | ExprKind::Binary { .. }
            | ExprKind::Select { .. }
            | ExprKind::IfThenElse { .. }
            | ExprKind::Cast { .. }
            | ExprKind::Reinterpret { .. }
            | ExprKind::Call { .. }
            | ExprKind::Extern { .. }
            | ExprKind::Let { .. } => {
                if is_pure(e) && e.dtype() == DType::I64 {
                    Expr::cast(DType::I64, self.index(e))
                } else {
                    e.map_children(|c| self.value(c))
                }
            }
        }
    }

    /// An index: `int32` where it fits, else `int64`.
    pub fn index(&self, e: &Expr) -> Expr {
        if !is_pure(e) {
            return self.value(e);
        }
        match self.small(e) {
            Some(e) => e,
            None => self.wide(e),
        }
    }

    /// An operand of an instruction: an index where it is an integer, else a value.
    pub fn operand(&self, e: &Expr) -> Expr {
        if matches!(e.dtype(), DType::I32 | DType::I64) { self.index(e) } else { self.value(e) }
    }

    fn compare(&self, op: BinOp, a: &Expr, b: &Expr) -> Expr {
        match (self.small(a), self.small(b)) {
            (Some(a), Some(b)) => Expr::binary(op, a, b),
            _ => Expr::binary(op, Expr::cast(DType::I64, self.index(a)), Expr::cast(DType::I64, self.index(b))),
        }
    }

    fn declared(&self, name: &Name, dtype: DType) -> Expr {
        let own = self.vars.get(name).copied().unwrap_or(dtype);
        Expr::cast(dtype, Expr::var(name.clone(), own))
    }

    fn fits(&self, e: &Expr) -> bool {
        bounds(e, self.ranges).is_some_and(|(lo, hi)| lo >= i32::MIN as i64 && hi <= i32::MAX as i64)
    }

    /// The expression in `int32`, if it and every part of it fits.
    fn small(&self, e: &Expr) -> Option<Expr> {
        if !self.fits(e) {
            return None;
        }
        match e.kind() {
            ExprKind::Int { value, .. } => Some(Expr::i32(*value)),
            ExprKind::Var { name, dtype } => {
                let own = self.vars.get(name).copied().unwrap_or(*dtype);
                Some(Expr::cast(DType::I32, Expr::var(name.clone(), own)))
            }
            ExprKind::Binary { op, a, b } => Some(Expr::binary(*op, self.small(a)?, self.small(b)?)),
            ExprKind::Cast { arg, .. } => self.small(arg),
            ExprKind::Float { .. }
            | ExprKind::Str(_)
            | ExprKind::Load { .. }
            | ExprKind::Unary { .. }
            | ExprKind::Select { .. }
            | ExprKind::IfThenElse { .. }
            | ExprKind::Reinterpret { .. }
            | ExprKind::Call { .. }
            | ExprKind::Extern { .. }
            | ExprKind::Let { .. } => None,
        }
    }

    /// The expression in `int64`, with what fits computed in `int32`.
    fn wide(&self, e: &Expr) -> Expr {
        let mut terms = vec![];
        sum(e, 1, &mut terms);
        if terms.len() > 1 {
            return self.wide_sum(terms);
        }
        match e.kind() {
            ExprKind::Binary { op, a, b } => {
                Expr::binary(*op, Expr::cast(DType::I64, self.index(a)), Expr::cast(DType::I64, self.index(b)))
            }
            ExprKind::Cast { arg, .. } => Expr::cast(DType::I64, self.index(arg)),
            ExprKind::Var { name, dtype } => self.declared(name, *dtype),
            ExprKind::Int { .. }
            | ExprKind::Float { .. }
            | ExprKind::Str(_)
            | ExprKind::Load { .. }
            | ExprKind::Unary { .. }
            | ExprKind::Select { .. }
            | ExprKind::IfThenElse { .. }
            | ExprKind::Reinterpret { .. }
            | ExprKind::Call { .. }
            | ExprKind::Extern { .. }
            | ExprKind::Let { .. } => e.clone(),
        }
    }

    fn wide_sum(&self, terms: Vec<(Expr, i64)>) -> Expr {
        let mut small: Option<Expr> = None;
        let mut wide: Option<Expr> = None;
        for (term, sign) in terms {
            let together = joined(small.as_ref(), &term, sign);
            if self.small(&together).is_some() {
                small = Some(together);
            } else {
                let own = Expr::cast(DType::I64, self.index(&term));
                wide = Some(joined(wide.as_ref(), &own, sign));
            }
        }
        let small = small.map(|e| Expr::cast(DType::I64, self.index(&e)));
        match (wide, small) {
            (Some(w), Some(s)) => w + s,
            (w, s) => w.or(s).unwrap_or(Expr::i64(0)),
        }
    }
}

fn joined(sum: Option<&Expr>, term: &Expr, sign: i64) -> Expr {
    match (sum, sign) {
        (None, 1) => term.clone(),
        (None, _) => Expr::i64(0) - term.clone(),
        (Some(sum), 1) => sum.clone() + term.clone(),
        (Some(sum), _) => sum.clone() - term.clone(),
    }
}

/// The terms of a sum with their signs.
fn sum(e: &Expr, sign: i64, out: &mut Vec<(Expr, i64)>) {
    if let ExprKind::Binary { op: op @ (BinOp::Add | BinOp::Sub), a, b } = e.kind() {
        sum(a, sign, out);
        sum(b, if *op == BinOp::Sub { -sign } else { sign }, out);
    } else {
        out.push((e.clone(), sign));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::device::index_var;

    fn types(ranges: &Ranges) -> Types<'_> {
        let vars = [("threadIdx.x", DType::I32), ("n", DType::I64)];
        Types { ranges, vars: vars.into_iter().map(|(n, d)| (Name::new(n), d)).collect() }
    }

    fn ranges() -> Ranges {
        let mut r = Ranges::new();
        r.set("threadIdx.x", 0, 255);
        r.set_at_least("n", 1);
        r
    }

    #[test]
    fn a_small_index_is_int32() {
        let r = ranges();
        let e = index_var(&"threadIdx.x".into()) * Expr::i64(4) + Expr::i64(3);
        assert_eq!(types(&r).index(&e).dtype(), DType::I32);
    }

    #[test]
    fn a_wide_sum_keeps_its_small_part_in_int32() {
        let r = ranges();
        let small = index_var(&"threadIdx.x".into()) * Expr::i64(4);
        let e = types(&r).index(&(index_var(&"n".into()) * Expr::i64(8) + small));
        assert_eq!(e.dtype(), DType::I64);
        let ExprKind::Binary { op: BinOp::Add, b, .. } = e.kind() else { panic!("not a sum") };
        let ExprKind::Cast { arg, .. } = b.kind() else { panic!("the offset is not widened") };
        assert_eq!(arg.dtype(), DType::I32);
    }

    #[test]
    fn a_product_that_may_overflow_is_int64() {
        let r = ranges();
        let e = index_var(&"threadIdx.x".into()) * Expr::i64(1 << 30);
        assert_eq!(types(&r).index(&e).dtype(), DType::I64);
    }
}

//! What the text writers need to know about integer expressions: sign and divisibility.

use crate::ir::{BinOp, Expr, ExprKind, Name};
use std::collections::{BTreeMap, BTreeSet};

/// Facts about the variables in scope. Names are unique, so nothing is ever removed.
#[derive(Default, Clone)]
pub(super) struct Facts {
    non_negative: BTreeSet<Name>,
    multiple: BTreeMap<Name, u64>,
}

impl Facts {
    /// Records that a variable is never negative.
    pub fn add_non_negative(&mut self, name: &Name) {
        self.non_negative.insert(name.clone());
    }

    /// Records what is known of a variable that equals `value`.
    pub fn add_equal(&mut self, name: &Name, value: &Expr) {
        if self.non_negative(value) {
            self.add_non_negative(name);
        }
        self.multiple.insert(name.clone(), self.multiple_of(value));
    }

    /// True when the value can be shown to be at least zero, assuming that nothing overflows.
    pub fn non_negative(&self, e: &Expr) -> bool {
        if e.dtype().is_unsigned() {
            return true;
        }
        match e.kind() {
            ExprKind::Int { value, .. } => *value >= 0,
            ExprKind::Var { name, .. } => self.non_negative.contains(name) || is_thread_index(name),
            ExprKind::Binary { op, a, b } => self.non_negative_binary(*op, a, b),
            ExprKind::Select { then, otherwise, .. } | ExprKind::IfThenElse { then, otherwise, .. } => {
                self.non_negative(then) && self.non_negative(otherwise)
            }
            ExprKind::Cast { dtype, arg } => {
                dtype.bytes() >= arg.dtype().bytes() && !arg.dtype().is_float() && self.non_negative(arg)
            }
            ExprKind::Let { body, .. } => self.non_negative(body),
            ExprKind::Float { .. }
            | ExprKind::Str(_)
            | ExprKind::Load { .. }
            | ExprKind::Unary { .. }
            | ExprKind::Reinterpret { .. }
            | ExprKind::Call { .. }
            | ExprKind::Extern { .. } => false,
        }
    }

    fn non_negative_binary(&self, op: BinOp, a: &Expr, b: &Expr) -> bool {
        let (x, y) = (self.non_negative(a), self.non_negative(b));
        match op {
            BinOp::Add | BinOp::Mul | BinOp::FloorDiv | BinOp::TruncDiv | BinOp::Min | BinOp::BitOr => x && y,
            // The remainder takes the divisor's sign, and that of the dividend when truncating.
            BinOp::FloorMod => y,
            BinOp::TruncMod | BinOp::Shl | BinOp::Shr => x,
            BinOp::Max | BinOp::BitAnd => x || y,
            BinOp::Sub | BinOp::Div | BinOp::BitXor => false,
            BinOp::Eq | BinOp::Ne | BinOp::Lt | BinOp::Le | BinOp::Gt | BinOp::Ge | BinOp::And | BinOp::Or => true,
        }
    }

    /// A number that surely divides the value; 0 for the constant zero, 1 when nothing is known.
    pub fn multiple_of(&self, e: &Expr) -> u64 {
        match e.kind() {
            ExprKind::Int { value, .. } => value.unsigned_abs(),
            ExprKind::Var { name, .. } => self.multiple.get(name).copied().unwrap_or(1),
            ExprKind::Binary { op: BinOp::Add | BinOp::Sub, a, b } => gcd(self.multiple_of(a), self.multiple_of(b)),
            ExprKind::Binary { op: BinOp::Mul, a, b } => {
                self.multiple_of(a).checked_mul(self.multiple_of(b)).unwrap_or(1)
            }
            ExprKind::Cast { dtype, arg } if dtype.is_int() && arg.dtype().is_int() => self.multiple_of(arg),
            ExprKind::Let { body, .. } => self.multiple_of(body),
            ExprKind::Binary { .. }
            | ExprKind::Cast { .. }
            | ExprKind::Float { .. }
            | ExprKind::Str(_)
            | ExprKind::Load { .. }
            | ExprKind::Unary { .. }
            | ExprKind::Select { .. }
            | ExprKind::IfThenElse { .. }
            | ExprKind::Reinterpret { .. }
            | ExprKind::Call { .. }
            | ExprKind::Extern { .. } => 1,
        }
    }
}

/// True for `blockIdx.*` and `threadIdx.*`.
pub(super) fn is_thread_index(name: &Name) -> bool {
    crate::ir::ThreadTag::by_name(name.as_str()).is_some_and(|t| t.is_block() || t.is_thread())
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::DType;

    fn var(name: &str) -> Expr {
        Expr::var(name, DType::I32)
    }

    #[test]
    fn signs() {
        let mut f = Facts::default();
        f.add_non_negative(&"i".into());
        assert!(f.non_negative(&(var("i") * Expr::i32(4) + var("threadIdx.x"))));
        assert!(!f.non_negative(&(var("i") - Expr::i32(1))));
        assert!(!f.non_negative(&var("x0")));
        assert!(f.non_negative(&Expr::binary(BinOp::FloorMod, var("x0"), Expr::i32(4))));
    }

    #[test]
    fn divisors() {
        let mut f = Facts::default();
        f.add_equal(&"x0".into(), &(var("i") * Expr::i32(8)));
        assert_eq!(f.multiple_of(&(var("x0") * Expr::i32(2) + Expr::i32(48))), 16);
        assert_eq!(f.multiple_of(&Expr::i32(0)), 0);
        assert_eq!(f.multiple_of(&(var("i") + Expr::i32(16))), 1);
    }
}

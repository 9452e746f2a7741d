//! What the text writers need to know about integer expressions: sign and divisibility.

use crate::ir::{BinOp, DType, Expr, ExprKind, Name};
use std::collections::{BTreeMap, BTreeSet};

/// Facts about the variables in scope. Names are unique, so nothing is ever removed.
#[derive(Default, Clone)]
pub(super) struct Facts {
    non_negative: BTreeSet<Name>,
    positive: BTreeSet<Name>,
    most: BTreeMap<Name, u64>,
    multiple: BTreeMap<Name, u64>,
}

impl Facts {
    /// Records that a variable is never negative.
    pub fn add_non_negative(&mut self, name: &Name) {
        self.non_negative.insert(name.clone());
    }

    /// Records that a variable is a size: at least 1.
    pub fn add_extent(&mut self, name: &Name) {
        self.add_non_negative(name);
        self.positive.insert(name.clone());
    }

    /// Records that a variable counts from 0 to below `extent`.
    pub fn add_counter(&mut self, name: &Name, extent: &Expr) {
        self.add_non_negative(name);
        if let Some(most) = self.most(extent) {
            self.most.insert(name.clone(), most.saturating_sub(1));
        }
    }

    /// Records what is known of a variable that equals `value`.
    pub fn add_equal(&mut self, name: &Name, value: &Expr) {
        if self.positive(value) {
            self.positive.insert(name.clone());
        }
        if let Some(most) = self.most(value) {
            self.most.insert(name.clone(), most);
        }
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

    /// True when the value can be shown to be at least 1, likewise.
    pub fn positive(&self, e: &Expr) -> bool {
        match e.kind() {
            ExprKind::Int { value, .. } => *value > 0,
            ExprKind::Var { name, .. } => self.positive.contains(name),
            ExprKind::Binary { op: BinOp::Add, a, b } => {
                self.positive(a) && self.non_negative(b) || self.non_negative(a) && self.positive(b)
            }
            ExprKind::Binary { op: BinOp::Mul | BinOp::Min, a, b } => self.positive(a) && self.positive(b),
            ExprKind::Binary { op: BinOp::Max, a, b } => self.positive(a) || self.positive(b),
            ExprKind::Binary { op: BinOp::FloorDiv | BinOp::TruncDiv, a, b } => self.rounds_up(a, b),
            ExprKind::Cast { dtype, arg } => {
                dtype.bytes() >= arg.dtype().bytes() && !arg.dtype().is_float() && self.positive(arg)
            }
            ExprKind::Binary { .. }
            | ExprKind::Float { .. }
            | ExprKind::Str(_)
            | ExprKind::Load { .. }
            | ExprKind::Unary { .. }
            | ExprKind::Select { .. }
            | ExprKind::IfThenElse { .. }
            | ExprKind::Reinterpret { .. }
            | ExprKind::Call { .. }
            | ExprKind::Extern { .. }
            | ExprKind::Let { .. } => false,
        }
    }

    /// `(x + c) / d` of a positive `x` with `c` at least `d - 1`: a quotient that is rounded up.
    fn rounds_up(&self, a: &Expr, b: &Expr) -> bool {
        let ExprKind::Binary { op: BinOp::Add, a: x, b: c } = a.kind() else { return false };
        self.positive(x) && c.as_int().zip(b.as_int()).is_some_and(|(c, d)| d > 0 && c >= d - 1)
    }

    /// True when a division by the value has a quotient of the type, whatever is divided.
    pub fn divides(&self, e: &Expr) -> bool {
        self.positive(e) || e.as_int().is_some_and(|v| v != 0 && v != -1)
    }

    /// The greatest value of an integer expression that is never negative.
    pub fn most(&self, e: &Expr) -> Option<u64> {
        bound_with(e, &|name| self.most.get(name).copied())
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

/// The greatest value of an integer expression that is never negative, from its operators alone.
pub(super) fn bound(e: &Expr) -> Option<u64> {
    bound_with(e, &|_| None)
}

/// The same where variables have greatest values.
fn bound_with(e: &Expr, known: &dyn Fn(&Name) -> Option<u64>) -> Option<u64> {
    let bound = |e: &Expr| bound_with(e, known);
    let own = match e.dtype() {
        DType::Bool => Some(1),
        DType::U8 => Some(0xff),
        DType::U16 => Some(0xffff),
        DType::U32 => Some(0xffff_ffff),
        _ => None,
    };
    let tighter = match e.kind() {
        ExprKind::Int { value, .. } => u64::try_from(*value).ok(),
        ExprKind::Var { name, .. } => known(name),
        ExprKind::Binary { op, a, b } => binary_bound(*op, (a, b), &bound),
        ExprKind::Cast { dtype, arg } if dtype.is_int() => bound(arg).filter(|b| fits(*b, *dtype)),
        ExprKind::Select { then, otherwise, .. } | ExprKind::IfThenElse { then, otherwise, .. } => {
            Some(bound(then)?.max(bound(otherwise)?))
        }
        ExprKind::Cast { .. }
        | ExprKind::Float { .. }
        | ExprKind::Str(_)
        | ExprKind::Load { .. }
        | ExprKind::Unary { .. }
        | ExprKind::Reinterpret { .. }
        | ExprKind::Call { .. }
        | ExprKind::Extern { .. }
        | ExprKind::Let { .. } => None,
    };
    match (own, tighter) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

fn binary_bound(op: BinOp, (a, b): (&Expr, &Expr), bound: &dyn Fn(&Expr) -> Option<u64>) -> Option<u64> {
    let fit = |v: u64| fits(v, a.dtype()).then_some(v);
    match op {
        // A mask that is not negative bounds the result whatever the other side is.
        BinOp::BitAnd => match (bound(a), bound(b)) {
            (Some(x), Some(y)) => Some(x.min(y)),
            (x, y) => x.or(y),
        },
        BinOp::FloorMod => b.as_int().filter(|m| *m > 0).map(|m| m as u64 - 1),
        BinOp::Shr | BinOp::FloorDiv | BinOp::TruncDiv => bound(a).filter(|_| bound(b).is_some()),
        BinOp::Min => Some(bound(a)?.min(bound(b)?)),
        BinOp::Max => Some(bound(a)?.max(bound(b)?)),
        BinOp::Add => fit(bound(a)?.checked_add(bound(b)?)?),
        BinOp::Mul => fit(bound(a)?.checked_mul(bound(b)?)?),
        BinOp::Sub | BinOp::Div | BinOp::TruncMod | BinOp::BitOr | BinOp::BitXor | BinOp::Shl => None,
        BinOp::Eq | BinOp::Ne | BinOp::Lt | BinOp::Le | BinOp::Gt | BinOp::Ge | BinOp::And | BinOp::Or => Some(1),
    }
}

/// True when a type of integers holds `value`.
fn fits(value: u64, dtype: DType) -> bool {
    let bits = 8 * dtype.bytes() as u32 - u32::from(dtype.is_signed());
    dtype.is_int() && (bits == 64 || value >> bits == 0)
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
    fn bounds() {
        let word = Expr::load("p0", vec![var("i")], DType::U32);
        let nibble = Expr::binary(BinOp::BitAnd, word.clone(), Expr::int(15, DType::U32));
        assert_eq!(bound(&nibble), Some(15));
        assert_eq!(bound(&Expr::cast(DType::I8, nibble.clone())), Some(15));
        assert_eq!(bound(&Expr::cast(DType::I8, word.clone())), None);
        assert_eq!(bound(&Expr::binary(BinOp::Sub, nibble, Expr::int(7, DType::U32))), Some(0xffff_ffff));
        assert_eq!(bound(&Expr::binary(BinOp::BitAnd, var("x"), Expr::i32(255))), Some(255));
        assert_eq!(bound(&var("x")), None);
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

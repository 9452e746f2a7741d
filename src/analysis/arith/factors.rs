//! The two factors of what a sum of products adds.

use crate::ir::{BinOp, DType, Expr, ExprKind};

/// The two factors of a term, conversions of the product pushed into them; `None` for a term that is no
/// product.
pub fn factors(term: &Expr) -> Option<[Expr; 2]> {
    match term.kind() {
        ExprKind::Binary { op: BinOp::Mul, a, b } => Some([a.clone(), b.clone()]),
        ExprKind::Cast { dtype, arg } if dtype.is_float() && keeps(arg.dtype(), *dtype) => {
            factors(arg).map(|f| f.map(|e| Expr::cast(*dtype, e)))
        }
        _ => None,
    }
}

/// The term with one factor (0 or 1) replaced by what `f` makes of it, below the conversions that change no
/// value; `None` for a term that is no product.
pub fn with_factor(term: &Expr, factor: usize, f: &mut dyn FnMut(&Expr) -> Expr) -> Option<Expr> {
    match term.kind() {
        ExprKind::Binary { op: BinOp::Mul, a, b } if factor == 0 => {
            Some(Expr::binary(BinOp::Mul, below(a, f), b.clone()))
        }
        ExprKind::Binary { op: BinOp::Mul, a, b } => Some(Expr::binary(BinOp::Mul, a.clone(), below(b, f))),
        ExprKind::Cast { dtype, arg } if dtype.is_float() && keeps(arg.dtype(), *dtype) => {
            with_factor(arg, factor, f).map(|e| Expr::cast(*dtype, e))
        }
        _ => None,
    }
}

fn below(e: &Expr, f: &mut dyn FnMut(&Expr) -> Expr) -> Expr {
    match e.kind() {
        ExprKind::Cast { dtype, arg } if keeps(arg.dtype(), *dtype) => Expr::cast(*dtype, below(arg, f)),
        _ => f(e),
    }
}

/// An expression without the conversions around it that change no value.
pub fn narrow(e: &Expr) -> Expr {
    stripped(e, keeps)
}

/// An expression without the conversions around it that change no value, those of integers to floats among them.
pub fn source_of(e: &Expr) -> Expr {
    stripped(e, |from, to| has_values_of(to, from))
}

/// An expression without the conversions around it from one type to another that are `same`.
fn stripped(e: &Expr, same: fn(DType, DType) -> bool) -> Expr {
    match e.kind() {
        ExprKind::Cast { dtype, arg } if same(arg.dtype(), *dtype) => stripped(arg, same),
        _ => e.clone(),
    }
}

/// True where a type has every value of another one.
pub fn has_values_of(dtype: DType, other: DType) -> bool {
    // bits of a float's significand
    let digits = match dtype {
        DType::BF16 => 8,
        DType::F16 => 11,
        DType::F32 => 24,
        DType::F64 => 53,
        _ => 0,
    };
    keeps(other, dtype) || other.is_int() && 8 * other.bytes() - u64::from(other.is_signed()) <= digits
}

/// True for conversions between floats, or between integers, that change no value.
fn keeps(from: DType, to: DType) -> bool {
    if from == to {
        return true;
    }
    if from.is_float() && to.is_float() {
        let eight = matches!(from, DType::E4M3 | DType::E5M2);
        return match to {
            DType::F64 => true,
            DType::F32 => from != DType::F64,
            DType::F16 => eight,
            DType::BF16 => eight || from == DType::E8M0,
            _ => false,
        };
    }
    let wider = from.bytes() < to.bytes();
    from.is_int() && to.is_int() && wider && (to.is_signed() || from.is_unsigned())
}

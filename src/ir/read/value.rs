//! Values of expressions while they are read: Python literals have no dtype until they meet one.

use super::error::{Problem, Span, problem};
use crate::ir::{BinOp, DType, Expr, ExprKind, ops};

/// A Python literal or an expression.
#[derive(Clone)]
pub(super) enum Value {
    Int(i64),
    Float(f64),
    Expr(Expr),
}

impl Value {
    /// As an expression: a literal becomes `int32` (`int64` where it must) or `float32`.
    pub fn expr(self) -> Expr {
        match self {
            Value::Int(v) if ops::fits(v, DType::I32) => Expr::i32(v),
            Value::Int(v) => Expr::i64(v),
            Value::Float(v) => Expr::float(v, DType::F32),
            Value::Expr(e) => e,
        }
    }

    /// As an expression of that dtype: constants take it, anything else is cast.
    pub fn to(self, dtype: DType, at: Span) -> Result<Expr, Problem> {
        match self {
            Value::Int(v) if dtype.is_float() => Ok(Expr::float(v as f64, dtype)),
            Value::Int(v) if ops::fits(v, dtype) => Ok(Expr::int(v, dtype)),
            Value::Int(v) => problem(at, format!("{v} does not fit {dtype}")),
            Value::Float(v) if dtype.is_float() => Ok(Expr::float(v, dtype)),
            Value::Float(v) => problem(at, format!("{v} is not a value of {dtype}")),
            Value::Expr(e) => convert(dtype, e, at),
        }
    }
}

/// Conversion as TVM's `cast` does it: constants are converted at once.
pub(super) fn convert(dtype: DType, e: Expr, at: Span) -> Result<Expr, Problem> {
    if e.dtype() == dtype {
        return Ok(e);
    }
    if e.dtype() == DType::Handle || dtype == DType::Handle {
        return problem(at, format!("a value of {dtype} was expected here, not of {}", e.dtype()));
    }
    match e.kind() {
        ExprKind::Int { value, .. } if dtype.is_float() => Ok(Expr::float(*value as f64, dtype)),
        ExprKind::Int { value, .. } if ops::fits(*value, dtype) => Ok(Expr::int(*value, dtype)),
        ExprKind::Float { bits, .. } if dtype.is_float() => Ok(Expr::float(f64::from_bits(*bits), dtype)),
        _ => Ok(Expr::cast(dtype, e)),
    }
}

/// Gives both operands one dtype, as TVM's operators do.
pub(super) fn match_types(a: Value, b: Value, at: Span) -> Result<(Expr, Expr), Problem> {
    let (a, b) = match (a, b) {
        (Value::Int(v), Value::Expr(e)) if !matches!(e.dtype(), DType::Bool) && literal_fits(v, e.dtype()) => {
            (Value::Int(v).to(e.dtype(), at)?, e)
        }
        (Value::Expr(e), Value::Int(v)) if !matches!(e.dtype(), DType::Bool) && literal_fits(v, e.dtype()) => {
            let v = Value::Int(v).to(e.dtype(), at)?;
            (e, v)
        }
        (a, b) => (a.expr(), b.expr()),
    };
    let common = common_type(a.dtype(), b.dtype());
    let Some(dtype) = common else {
        return problem(at, format!("{} and {} have no common type", a.dtype(), b.dtype()));
    };
    Ok((convert(dtype, a, at)?, convert(dtype, b, at)?))
}

fn literal_fits(v: i64, dtype: DType) -> bool {
    dtype.is_float() || ops::fits(v, dtype)
}

/// The wider type; floats win over integers; of two widths alike the unsigned type, or the type of
/// the right operand.
fn common_type(a: DType, b: DType) -> Option<DType> {
    if a == b {
        return Some(a);
    }
    if a == DType::Handle || b == DType::Handle {
        return None;
    }
    Some(match (a.is_float(), b.is_float()) {
        (true, false) => a,
        (false, true) => b,
        (true, true) => {
            if a.bytes() > b.bytes() {
                a
            } else {
                b
            }
        }
        (false, false) if a == DType::Bool => b,
        (false, false) if b == DType::Bool => a,
        (false, false) if a.bytes() != b.bytes() => {
            if a.bytes() > b.bytes() {
                a
            } else {
                b
            }
        }
        (false, false) => {
            if a.is_unsigned() {
                a
            } else {
                b
            }
        }
    })
}

/// `a op b` as Python's operator gives it: literals are computed, types matched, constants folded.
pub(super) fn binary(op: BinOp, a: Value, b: Value, at: Span) -> Result<Value, Problem> {
    if let (Value::Int(x), Value::Int(y)) = (&a, &b)
        && op != BinOp::Div
    {
        return match ops::fold(op, &Expr::i64(*x), &Expr::i64(*y)) {
            Some(e) if e.dtype() == DType::Bool => Ok(Value::Expr(e)),
            Some(e) => Ok(Value::Int(e.as_int().unwrap_or(0))),
            None => problem(at, "this constant overflows int64 or divides by zero"),
        };
    }
    let (a, b) = match_types(a, b, at)?;
    check(op, a.dtype(), at)?;
    if by_zero(op, &b) {
        return problem(at, "division by zero");
    }
    Ok(Value::Expr(ops::fold(op, &a, &b).unwrap_or_else(|| Expr::binary(op, a, b))))
}

/// `T.Add(a, b)`: the node as it is.
pub(super) fn binary_node(op: BinOp, a: Value, b: Value, at: Span) -> Result<Value, Problem> {
    let (a, b) = match_types(a, b, at)?;
    check(op, a.dtype(), at)?;
    if by_zero(op, &b) {
        return problem(at, "division by zero");
    }
    Ok(Value::Expr(Expr::binary(op, a, b)))
}

fn by_zero(op: BinOp, b: &Expr) -> bool {
    op.is_rounded_division() && b.is_int(0)
}

/// Refuses operators on types that have no such operator.
fn check(op: BinOp, dtype: DType, at: Span) -> Result<(), Problem> {
    let symbol = ops::info(op).symbol;
    match op {
        BinOp::And | BinOp::Or if dtype != DType::Bool => {
            problem(at, format!("`{symbol}` takes bool operands, not {dtype}; compare with 0 first"))
        }
        BinOp::Div if !dtype.is_float() => {
            problem(at, "`/` divides floats; on integers write `//` or T.truncdiv(a, b)")
        }
        BinOp::FloorDiv | BinOp::FloorMod if dtype.is_float() => {
            problem(at, format!("`{symbol}` divides integers, not {dtype}; write `/` or T.fmod(a, b)"))
        }
        BinOp::TruncDiv | BinOp::BitAnd | BinOp::BitOr | BinOp::BitXor | BinOp::Shl | BinOp::Shr
            if dtype.is_float() =>
        {
            problem(at, format!("this operator takes integers, not {dtype}"))
        }
        _ if dtype == DType::Handle => problem(at, "a handle has no operators"),
        _ => Ok(()),
    }
}

/// `1 dimension`, `2 dimensions`.
pub(super) fn counted(n: usize, what: &str, several: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {several}") }
}

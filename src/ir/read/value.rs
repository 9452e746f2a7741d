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
    matches!(op, BinOp::FloorDiv | BinOp::FloorMod | BinOp::TruncDiv | BinOp::TruncMod) && b.is_int(0)
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

/// The known word closest to `word`, if any is close.
pub(super) fn nearest<'w>(word: &str, known: impl Iterator<Item = &'w str>) -> Option<&'w str> {
    let limit = (word.len() / 3).clamp(1, 3);
    let scored = known.filter(|k| *k != word && k.len() < 64).map(|k| (distance(word, k), k));
    scored.filter(|(d, _)| *d <= limit).min().map(|(_, k)| k)
}

/// Edit distance; long words are never close.
fn distance(a: &str, b: &str) -> usize {
    if a.len().abs_diff(b.len()) > 3 || a.len() > 64 {
        return usize::MAX;
    }
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let replace = diagonal + usize::from(ca != *cb);
            diagonal = row[j + 1];
            row[j + 1] = replace.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

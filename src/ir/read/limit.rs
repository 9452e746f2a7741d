//! `T.min_value`, `T.max_value`, `T.infinity`.

use super::error::{Problem, Span, problem};
use super::value::Value;
use crate::ir::{DType, Expr};

/// The smallest or largest finite value, or infinity.
pub(super) fn limit(name: &str, dtype: DType, at: Span) -> Result<Value, Problem> {
    let finite = match dtype {
        DType::F16 => 65504.0,
        DType::BF16 => f64::from(f32::from_bits(0x7f7f_0000)),
        DType::F32 => f64::from(f32::MAX),
        DType::F64 => f64::MAX,
        DType::E4M3 => 448.0,
        DType::E5M2 => 57344.0,
        DType::E8M0 if name == "infinity" => return problem(at, format!("{dtype} has no infinity")),
        DType::E8M0 => 2f64.powi(127),
        DType::Handle => return problem(at, "a handle has no limits"),
        _ => return int_limit(name, dtype, at),
    };
    Ok(Value::Expr(Expr::float(
        match name {
            "min_value" if dtype == DType::E8M0 => 1.0 / finite,
            "min_value" => -finite,
            "max_value" => finite,
            _ => f64::INFINITY,
        },
        dtype,
    )))
}

fn int_limit(name: &str, dtype: DType, at: Span) -> Result<Value, Problem> {
    let bits = 8 * dtype.bytes() as u32;
    let value = match (name, dtype.is_signed()) {
        ("infinity", _) => return problem(at, format!("{dtype} has no infinity")),
        ("min_value", true) => i64::MIN >> (64 - bits),
        ("min_value", false) => 0,
        (_, true) => i64::MAX >> (64 - bits),
        (_, false) if dtype == DType::Bool => 1,
        (_, false) => (u64::MAX >> (64 - bits)) as i64,
    };
    Ok(Value::Expr(Expr::int(value, dtype)))
}

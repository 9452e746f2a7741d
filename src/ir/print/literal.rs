//! Text of constants.

use crate::ir::{AttrValue, DType};

/// A constant with its dtype: `3` for `int32`, `T.int64(3)`, `T.float16(7.0)`, `T.bool(True)`.
pub(super) fn int(value: i64, dtype: DType) -> String {
    match dtype {
        DType::I32 => value.to_string(),
        DType::Bool => format!("T.bool({})", python_bool(value != 0)),
        DType::U64 => format!("T.uint64({})", value as u64),
        _ => format!("T.{dtype}({value})"),
    }
}

/// A floating constant, `T.float32(0.5)`; infinities and NaN are quoted.
pub(super) fn float(bits: u64, dtype: DType) -> String {
    let value = f64::from_bits(bits);
    if value.is_nan() {
        return format!("T.{dtype}(\"nan\")");
    }
    if value.is_infinite() {
        return format!("T.{dtype}(\"{}\")", if value > 0.0 { "inf" } else { "-inf" });
    }
    format!("T.{dtype}({})", python_float(value))
}

fn python_bool(value: bool) -> &'static str {
    if value { "True" } else { "False" }
}

/// A finite number as C prints it with 17 significant digits, whole numbers in full with `.0`.
fn python_float(value: f64) -> String {
    if value == value.trunc() {
        return format!("{value:.1}");
    }
    let text = format!("{value:.16e}");
    let (digits, exponent) = text.split_once('e').expect("`e` formatting has an exponent");
    let exponent: i32 = exponent.parse().expect("the exponent is a number");
    let trim = |s: &str| s.trim_end_matches('0').trim_end_matches('.').to_string();
    if exponent < -4 {
        return format!("{}e-{:02}", trim(digits), -exponent);
    }
    // A value that is not whole is below 2^53, so 17 digits always reach its point.
    trim(&format!("{value:.*}", (16 - exponent).max(0) as usize))
}

/// A quoted string with the escapes that Python and TVM agree on.
pub(super) fn string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => out.push_str(&format!("\\x{:02x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// The value of an attribute or annotation.
pub(super) fn attr(value: &AttrValue) -> String {
    match value {
        AttrValue::Bool(b) => python_bool(*b).to_string(),
        AttrValue::Int(v) => v.to_string(),
        AttrValue::Typed(v, dtype) => int_attr(*v, *dtype),
        AttrValue::Float(bits) => plain_float(*bits),
        AttrValue::Str(s) => string(s),
        AttrValue::List(items) => format!("[{}]", items.iter().map(attr).collect::<Vec<_>>().join(", ")),
        AttrValue::Dict(items) => dict(items),
        AttrValue::Raw(text) => text.clone(),
    }
}

fn int_attr(value: i64, dtype: DType) -> String {
    match dtype {
        DType::I32 => format!("T.int32({value})"),
        _ => int(value, dtype),
    }
}

fn plain_float(bits: u64) -> String {
    let value = f64::from_bits(bits);
    if value.is_finite() { python_float(value) } else { format!("float(\"{value}\")") }
}

/// A dictionary of attributes.
pub(super) fn dict(items: &[(String, AttrValue)]) -> String {
    let items: Vec<_> = items.iter().map(|(k, v)| format!("{}: {}", string(k), attr(v))).collect();
    format!("{{{}}}", items.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_print_as_tvm_prints_them() {
        for (value, text) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (7.0, "7.0"),
            (1.5, "1.5"),
            (1e-5, "1.0000000000000001e-05"),
            (1e-7, "9.9999999999999995e-08"),
            (0.7071067690849304, "0.70710676908493042"),
            (0.1, "0.10000000000000001"),
            (0.0001, "0.0001"),
            (f64::from(f32::MIN), "-340282346638528859811704183484516925440.0"),
        ] {
            assert_eq!(python_float(value), text);
        }
    }

    #[test]
    fn strings_are_escaped() {
        assert_eq!(string("a\"b\\c\n"), "\"a\\\"b\\\\c\\n\"");
    }
}

//! Constants as text: every value is reproduced exactly, whatever the reader of the text does.

use super::Lang;
use crate::ir::DType;

/// An integer or `bool` literal.
pub(super) fn int(value: i64, dtype: DType) -> String {
    match dtype {
        DType::Bool if value == 0 => "false".into(),
        DType::Bool => "true".into(),
        DType::I8 | DType::I16 => format!("{value}"),
        DType::I32 if value == i32::MIN as i64 => "(-2147483647 - 1)".into(),
        DType::I32 => format!("{value}"),
        DType::I64 if value == i64::MIN => "(-9223372036854775807LL - 1)".into(),
        DType::I64 => format!("{value}LL"),
        DType::U8 => format!("{}", value as u8),
        DType::U16 => format!("{}", value as u16),
        DType::U32 => format!("{}u", value as u32),
        DType::U64 | DType::Handle => format!("{}ull", value as u64),
        DType::F16 | DType::BF16 | DType::F32 | DType::F64 | DType::E4M3 | DType::E5M2 | DType::E8M0 => {
            panic!("an integer constant has dtype {dtype}")
        }
    }
}

/// A floating literal of the type that values of `dtype` are computed in (float32 for the 16- and
/// 8-bit types, whose rounding of wider constants is the caller's for 8 bits and done here for 16).
pub(super) fn float(value: f64, dtype: DType, lang: Lang) -> String {
    match dtype {
        DType::F64 => f64_text(value, lang),
        DType::F16 => f32_text(round(value as f32, 11, -14, 65520.0), lang),
        DType::BF16 => f32_text(round(value as f32, 8, -126, f32::from_bits(0x7f7f_8000)), lang),
        DType::F32 | DType::E4M3 | DType::E5M2 | DType::E8M0 => f32_text(value as f32, lang),
        DType::Bool
        | DType::I8
        | DType::I16
        | DType::I32
        | DType::I64
        | DType::U8
        | DType::U16
        | DType::U32
        | DType::U64
        | DType::Handle => panic!("a floating constant has dtype {dtype}"),
    }
}

/// The nearest value, ties to even, of a type with so many binary digits and that least exponent, to whose
/// infinity values from `infinite` on are rounded.
fn round(v: f32, digits: i32, least: i32, infinite: f32) -> f32 {
    if v.abs() >= infinite {
        return f32::INFINITY.copysign(v);
    }
    if v == 0.0 || v.is_nan() {
        return v;
    }
    // In float64, which holds the exponent of every float32 as a normal number's.
    let wide = f64::from(v);
    let exponent = ((wide.to_bits() >> 52 & 0x7ff) as i32 - 1023).max(least);
    let step = f64::powi(2.0, exponent + 1 - digits);
    ((wide / step).round_ties_even() * step) as f32
}

fn f32_text(v: f32, lang: Lang) -> String {
    if v.is_nan() || v.is_infinite() {
        return match lang {
            Lang::Cuda => format!("__uint_as_float(0x{:08x}u)", v.to_bits()),
            Lang::C if v.is_nan() => "__builtin_nanf(\"\")".into(),
            Lang::C if v > 0.0 => "__builtin_inff()".into(),
            Lang::C => "-__builtin_inff()".into(),
        };
    }
    let text = format!("{v:?}");
    // A compiler may round decimal text to double first; then both roundings must agree.
    let safe = text.parse::<f64>().is_ok_and(|d| (d as f32).to_bits() == v.to_bits());
    if safe { format!("{text}f") } else { format!("{}f", hex(v as f64)) }
}

fn f64_text(v: f64, lang: Lang) -> String {
    if v.is_nan() || v.is_infinite() {
        return match lang {
            Lang::Cuda => format!("__longlong_as_double(0x{:016x}LL)", v.to_bits()),
            Lang::C if v.is_nan() => "__builtin_nan(\"\")".into(),
            Lang::C if v > 0.0 => "__builtin_inf()".into(),
            Lang::C => "-__builtin_inf()".into(),
        };
    }
    let text = format!("{v:?}");
    if text.len() <= 8 { text } else { hex(v) }
}

/// A finite value as a hexadecimal float.
fn hex(v: f64) -> String {
    let bits = v.to_bits();
    let sign = if bits >> 63 == 1 { "-" } else { "" };
    let (exponent, mantissa) = ((bits >> 52 & 0x7ff) as i64, bits & ((1 << 52) - 1));
    let (lead, exponent) = if exponent == 0 { (0, -1022) } else { (1, exponent - 1023) };
    format!("{sign}0x{lead}.{mantissa:013x}p{exponent}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_carry_their_type() {
        assert_eq!(int(5, DType::I32), "5");
        assert_eq!(int(5, DType::I64), "5LL");
        assert_eq!(int(-1, DType::U32), "4294967295u");
        assert_eq!(int(i32::MIN as i64, DType::I32), "(-2147483647 - 1)");
        assert_eq!(int(1, DType::Bool), "true");
    }

    #[test]
    fn floats_are_exact() {
        assert_eq!(float(0.1, DType::F32, Lang::Cuda), "0.1f");
        assert_eq!(float(1e-5, DType::F32, Lang::C), "1e-5f");
        assert_eq!(float(0.1, DType::F16, Lang::Cuda), "0.099975586f");
        assert_eq!(float(1.0 / 3.0, DType::F64, Lang::C), "0x1.5555555555555p-2");
        assert_eq!(float(2.0, DType::F64, Lang::C), "2.0");
        assert_eq!(float(f64::NEG_INFINITY, DType::F32, Lang::Cuda), "__uint_as_float(0xff800000u)");
        assert_eq!(float(f64::NEG_INFINITY, DType::F32, Lang::C), "-__builtin_inff()");
    }

    #[test]
    fn sixteen_bits_round_as_the_types_do() {
        let mut bits = 1u32;
        let edges = [0.0, -0.0, 65504.0, 65519.9, 65520.0, 6e-8, 2.9e-8, 3e-8, 1e-40, f32::MAX, f32::INFINITY];
        let random = (0..200_000).map(|_| {
            bits = bits.wrapping_mul(1664525).wrapping_add(1013904223);
            f32::from_bits(bits)
        });
        // Of half precision's range and with few digits, so that ties are among them.
        let small = (0..200_000).map(|i| (i as f32 - 1e5) / 4096.0 / 4096.0);
        for v in edges.into_iter().chain(random).chain(small).filter(|v| !v.is_nan()) {
            let wants = [half::f16::from_f32(v).to_f32(), half::bf16::from_f32(v).to_f32()];
            let gets = [round(v, 11, -14, 65520.0), round(v, 8, -126, f32::from_bits(0x7f7f_8000))];
            assert_eq!(gets.map(f32::to_bits), wants.map(f32::to_bits), "{v:e}");
        }
    }

    #[test]
    fn every_f32_text_parses_back() {
        let mut bits = 1u32;
        for _ in 0..20_000 {
            bits = bits.wrapping_mul(1664525).wrapping_add(1013904223);
            let v = f32::from_bits(bits);
            if !v.is_finite() {
                continue;
            }
            let text = f32_text(v, Lang::Cuda);
            let back = text.trim_end_matches('f').parse::<f64>().map(|d| d as f32);
            assert!(text.contains("0x") || back.is_ok_and(|b| b.to_bits() == v.to_bits()), "{text}");
        }
    }
}

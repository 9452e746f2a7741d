//! Rounding of `f64` values to the floating types, to nearest even, and their bits.

use crate::ir::DType;

/// Shape of a small binary floating format.
struct Format {
    /// Significant bits, the hidden one included.
    precision: i32,
    /// Exponent of the smallest normal number.
    min_exp: i32,
    /// Largest finite value.
    max: f64,
    /// Overflow gives `max` (as CUDA's conversions to float8 do) instead of infinity.
    saturates: bool,
}

const F16: Format = Format { precision: 11, min_exp: -14, max: 65504.0, saturates: false };
const BF16: Format = Format { precision: 8, min_exp: -126, max: 3.3895313892515355e38, saturates: false };
const E4M3: Format = Format { precision: 4, min_exp: -6, max: 448.0, saturates: true };
const E5M2: Format = Format { precision: 3, min_exp: -14, max: 57344.0, saturates: true };

impl Format {
    fn round(&self, v: f64) -> f64 {
        if v == 0.0 || v.is_nan() {
            return v;
        }
        if v.is_infinite() {
            return if self.saturates { self.max.copysign(v) } else { v };
        }
        let exp = ((v.to_bits() >> 52) & 0x7ff) as i32 - 1023;
        let quantum = power_of_two(exp.max(self.min_exp) - (self.precision - 1));
        let rounded = (v / quantum).round_ties_even() * quantum;
        if rounded.abs() <= self.max {
            rounded
        } else if self.saturates {
            self.max.copysign(v)
        } else {
            f64::INFINITY.copysign(v)
        }
    }
}

/// `2^e` for normal exponents.
fn power_of_two(e: i32) -> f64 {
    f64::from_bits(((e + 1023) as u64) << 52)
}

/// The power of two that is nearest to the size of `v`, the greater of two, within the range of `float8_e8m0fnu`.
fn power_nearest(v: f64) -> f64 {
    if v.is_nan() {
        return v;
    }
    let half = 1 << 51;
    let exp = ((v.abs().to_bits() + half) >> 52) as i32 - 1023;
    power_of_two(exp.clamp(-127, 127))
}

/// `v` rounded to the nearest value of a floating type, ties to even. Values beyond the largest
/// finite one become infinite, in the float8 types the largest finite value. Other types give `v`.
pub fn round_to(v: f64, dtype: DType) -> f64 {
    match dtype {
        DType::F32 => v as f32 as f64,
        DType::F16 => F16.round(v),
        DType::BF16 => BF16.round(v),
        DType::E4M3 => E4M3.round(v),
        DType::E5M2 => E5M2.round(v),
        DType::E8M0 => power_nearest(v),
        DType::F64
        | DType::Bool
        | DType::I8
        | DType::I16
        | DType::I32
        | DType::I64
        | DType::U8
        | DType::U16
        | DType::U32
        | DType::U64
        | DType::Handle => v,
    }
}

/// The bits of `v` rounded to a floating type, in the low bits of the result. An infinity keeps its code where
/// the type has one: it was there before, as conversions give none to 8 bits.
///
/// # Panics
/// For other types.
pub fn float_bits(v: f64, dtype: DType) -> u64 {
    let r = round_to(v, dtype);
    match dtype {
        DType::F64 => r.to_bits(),
        DType::F32 => (r as f32).to_bits() as u64,
        DType::F16 => half::f16::from_f32(r as f32).to_bits() as u64,
        DType::BF16 => (half::bf16::from_f32(r as f32).to_bits()) as u64,
        DType::E4M3 => small_bits(r, 3, 7, 0x7f),
        DType::E5M2 if v.is_infinite() => 0x7c | u64::from(v < 0.0) << 7,
        DType::E5M2 => small_bits(r, 2, 15, 0x7e),
        DType::E8M0 if r.is_nan() => 0xff,
        DType::E8M0 => (r.to_bits() >> 52) - (1023 - 127),
        DType::Bool
        | DType::I8
        | DType::I16
        | DType::I32
        | DType::I64
        | DType::U8
        | DType::U16
        | DType::U32
        | DType::U64
        | DType::Handle => panic!("{dtype} is no floating type"),
    }
}

/// Packs an exactly representable value into sign, exponent and `mantissa` bits.
fn small_bits(r: f64, mantissa: i32, bias: i32, nan: u64) -> u64 {
    let sign = (r.is_sign_negative() as u64) << 7;
    if r.is_nan() {
        return sign | nan;
    }
    if r == 0.0 {
        return sign;
    }
    let exp = ((r.to_bits() >> 52) & 0x7ff) as i32 - 1023;
    let biased = (exp + bias).max(0);
    let unit = power_of_two(biased.max(1) - bias - mantissa);
    let steps = (r.abs() / unit) as u64;
    let fraction = if biased == 0 { steps } else { steps - (1 << mantissa) };
    sign | (biased as u64) << mantissa | fraction
}

/// The value of a floating type's bits.
///
/// # Panics
/// For other types.
pub fn float_value(bits: u64, dtype: DType) -> f64 {
    match dtype {
        DType::F64 => f64::from_bits(bits),
        DType::F32 => f32::from_bits(bits as u32) as f64,
        DType::F16 => half::f16::from_bits(bits as u16).to_f32() as f64,
        DType::BF16 => f32::from_bits((bits as u32) << 16) as f64,
        DType::E4M3 if bits & 0x7f == 0x7f => f64::NAN,
        DType::E4M3 => small_value(bits, 3, 7),
        DType::E5M2 if bits & 0x7f > 0x7c => f64::NAN,
        DType::E5M2 if bits & 0x7f == 0x7c => f64::INFINITY.copysign(if bits & 0x80 != 0 { -1.0 } else { 1.0 }),
        DType::E5M2 => small_value(bits, 2, 15),
        DType::E8M0 if bits & 0xff == 0xff => f64::NAN,
        DType::E8M0 => power_of_two((bits & 0xff) as i32 - 127),
        DType::Bool
        | DType::I8
        | DType::I16
        | DType::I32
        | DType::I64
        | DType::U8
        | DType::U16
        | DType::U32
        | DType::U64
        | DType::Handle => panic!("{dtype} is no floating type"),
    }
}

fn small_value(bits: u64, mantissa: i32, bias: i32) -> f64 {
    let exp = ((bits & 0x7f) >> mantissa) as i32;
    let fraction = (bits & ((1 << mantissa) - 1)) as f64;
    let hidden = if exp == 0 { 0.0 } else { (1 << mantissa) as f64 };
    let v = (hidden + fraction) * power_of_two(exp.max(1) - bias - mantissa);
    if bits & 0x80 != 0 { -v } else { v }
}

/// `v` wrapped to an integer type's width, as `i64` (`uint64` keeps its bits); `bool` is `v != 0`.
pub fn wrap_int(v: i64, dtype: DType) -> i64 {
    match dtype {
        DType::Bool => (v != 0) as i64,
        DType::I8 => v as i8 as i64,
        DType::I16 => v as i16 as i64,
        DType::I32 => v as i32 as i64,
        DType::U8 => v as u8 as i64,
        DType::U16 => v as u16 as i64,
        DType::U32 => v as u32 as i64,
        DType::I64 | DType::U64 | DType::Handle => v,
        DType::F16 | DType::BF16 | DType::F32 | DType::F64 | DType::E4M3 | DType::E5M2 | DType::E8M0 => v,
    }
}

/// A float converted to an integer type: toward zero, to the nearest end where it is out of range,
/// NaN to 0; to `bool` by `v != 0`.
pub fn float_to_int(v: f64, dtype: DType) -> i64 {
    match dtype {
        DType::Bool => (v != 0.0) as i64,
        DType::I8 => v as i8 as i64,
        DType::I16 => v as i16 as i64,
        DType::I32 => v as i32 as i64,
        DType::U8 => v as u8 as i64,
        DType::U16 => v as u16 as i64,
        DType::U32 => v as u32 as i64,
        DType::U64 => v as u64 as i64,
        DType::I64 | DType::Handle => v as i64,
        DType::F16 | DType::BF16 | DType::F32 | DType::F64 | DType::E4M3 | DType::E5M2 | DType::E8M0 => v as i64,
    }
}

/// An integer of type `from` as the nearest value of a floating type, rounded once.
pub fn int_to_float(v: i64, from: DType, to: DType) -> f64 {
    if to == DType::F64 { int_to_f64(v, from) } else { round_to(int_to_f64(cut_to_53_bits(v, from), from), to) }
}

/// The integer if `f64` holds it, else with one bit in place of the twelve lowest: on the same side of
/// every value of the narrower floating types, and between the same two.
fn cut_to_53_bits(v: i64, from: DType) -> i64 {
    let size = if from == DType::U64 { v as u64 } else { v.unsigned_abs() };
    if size >> 53 == 0 { v } else { v & !0xfff | i64::from(v & 0xfff != 0) << 11 }
}

/// An integer of type `from` as the nearest `f64`.
pub fn int_to_f64(v: i64, from: DType) -> f64 {
    if from == DType::U64 { v as u64 as f64 } else { v as f64 }
}

/// `a << b` of a type of up to 64 bits, before wrapping: 0 for an amount outside of 0 to 63.
pub(super) fn shift_left(a: i64, b: i64) -> i64 {
    u32::try_from(b).ok().and_then(|b| a.checked_shl(b)).unwrap_or(0)
}

/// `a >> b`: copies of the sign for an amount outside of 0 to 63.
pub(super) fn shift_right(a: i64, b: i64) -> i64 {
    a >> u32::try_from(b).map_or(63, |b| b.min(63))
}

/// `a >> b` of `uint64`: 0 for an amount from 64 on.
pub(super) fn shift_right_u64(a: u64, b: u64) -> u64 {
    u32::try_from(b).ok().and_then(|b| a.checked_shr(b)).unwrap_or(0)
}

/// Floor of a quotient; the divisor is not 0.
pub(super) fn floor_div(a: i64, b: i64) -> i64 {
    let q = a.wrapping_div(b);
    if (a ^ b) < 0 && q.wrapping_mul(b) != a { q - 1 } else { q }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_all(dtype: DType, bits: u32) {
        for b in 0..1u64 << bits {
            let v = float_value(b, dtype);
            if v.is_nan() {
                assert!(float_value(float_bits(v, dtype), dtype).is_nan());
            } else {
                assert_eq!(float_bits(v, dtype), b, "{dtype} {b:#x} = {v}");
            }
        }
    }

    #[test]
    fn every_small_float_survives() {
        check_all(DType::E4M3, 8);
        check_all(DType::E5M2, 8);
        check_all(DType::E8M0, 8);
        check_all(DType::F16, 16);
        check_all(DType::BF16, 16);
    }

    #[test]
    fn ties_go_to_even_and_only_once() {
        assert_eq!(round_to(1.0 + 2f64.powi(-11), DType::F16), 1.0);
        assert_eq!(round_to(1.0 + 3.0 * 2f64.powi(-11), DType::F16), 1.0 + 2f64.powi(-9));
        // Rounding through float32 first would lose the last bit and then break the tie wrongly.
        assert_eq!(round_to(1.0 + 2f64.powi(-11) + 2f64.powi(-40), DType::F16), 1.0 + 2f64.powi(-10));
        assert_eq!(round_to(65519.9, DType::F16), 65504.0);
        assert_eq!(round_to(65520.0, DType::F16), f64::INFINITY);
        assert_eq!(round_to(2f64.powi(-25), DType::F16), 0.0);
        assert_eq!(round_to(2f64.powi(-25) * 1.01, DType::F16), 2f64.powi(-24));
        assert_eq!(round_to(1.0 + 2f64.powi(-8), DType::BF16), 1.0);
        assert_eq!(round_to(17.0, DType::E4M3), 16.0);
        assert_eq!(round_to(19.0, DType::E4M3), 20.0);
        assert_eq!(round_to(1e6, DType::E4M3), 448.0);
        assert_eq!(round_to(f64::NEG_INFINITY, DType::E5M2), -57344.0);
        let powers = [0.0, 2f64.powi(-128), -3.0, 2.9, 1e300].map(|v| round_to(v, DType::E8M0));
        assert_eq!(powers, [2f64.powi(-127), 2f64.powi(-127), 4.0, 2.0, 2f64.powi(127)]);
    }
}

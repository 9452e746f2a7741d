//! Elements of every dtype as bytes and as `f64`.

use crate::ir::DType;
use half::{bf16, f16};
use std::sync::OnceLock;

/// Appends `value`, rounded to nearest even to a float type, saturated and truncated to an integer
/// type, as little-endian bytes.
pub fn push(dtype: DType, value: f64, out: &mut Vec<u8>) {
    match dtype {
        DType::Bool => out.push(u8::from(value != 0.0)),
        DType::I8 => out.push(value as i8 as u8),
        DType::U8 => out.push(value as u8),
        DType::I16 => out.extend((value as i16).to_le_bytes()),
        DType::U16 => out.extend((value as u16).to_le_bytes()),
        DType::I32 => out.extend((value as i32).to_le_bytes()),
        DType::U32 => out.extend((value as u32).to_le_bytes()),
        DType::I64 => out.extend((value as i64).to_le_bytes()),
        DType::U64 | DType::Handle => out.extend((value as u64).to_le_bytes()),
        DType::F16 => out.extend(f16::from_f64(value).to_le_bytes()),
        DType::BF16 => out.extend(bf16::from_f64(value).to_le_bytes()),
        DType::F32 => out.extend((value as f32).to_le_bytes()),
        DType::F64 => out.extend(value.to_le_bytes()),
        DType::E4M3 => out.push(e4m3().encode(value)),
        DType::E5M2 => out.push(e5m2().encode(value)),
    }
}

/// The element at index `at` of packed elements.
///
/// # Panics
/// If the element lies outside of `bytes`.
pub fn get(dtype: DType, bytes: &[u8], at: usize) -> f64 {
    match dtype {
        DType::Bool => f64::from(u8::from(bytes[at] != 0)),
        DType::I8 => f64::from(bytes[at] as i8),
        DType::U8 => f64::from(bytes[at]),
        DType::I16 => f64::from(i16::from_le_bytes(word(bytes, at))),
        DType::U16 => f64::from(u16::from_le_bytes(word(bytes, at))),
        DType::I32 => f64::from(i32::from_le_bytes(word(bytes, at))),
        DType::U32 => f64::from(u32::from_le_bytes(word(bytes, at))),
        DType::I64 => i64::from_le_bytes(word(bytes, at)) as f64,
        DType::U64 | DType::Handle => u64::from_le_bytes(word(bytes, at)) as f64,
        DType::F16 => f16::from_le_bytes(word(bytes, at)).to_f64(),
        DType::BF16 => bf16::from_le_bytes(word(bytes, at)).to_f64(),
        DType::F32 => f64::from(f32::from_le_bytes(word(bytes, at))),
        DType::F64 => f64::from_le_bytes(word(bytes, at)),
        DType::E4M3 => e4m3().values[usize::from(bytes[at])],
        DType::E5M2 => e5m2().values[usize::from(bytes[at])],
    }
}

/// `value` as the dtype holds it.
pub fn round(dtype: DType, value: f64) -> f64 {
    let mut bytes = Vec::with_capacity(8);
    push(dtype, value, &mut bytes);
    get(dtype, &bytes, 0)
}

fn word<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut word = [0; N];
    word.copy_from_slice(&bytes[at * N..(at + 1) * N]);
    word
}

/// An 8-bit float as its table of values.
struct Float8 {
    values: [f64; 256],
    /// Codes of the finite values from 0 upward.
    ascending: Vec<u8>,
    /// What a magnitude beyond the greatest finite value becomes.
    overflow: u8,
}

impl Float8 {
    /// Nearest value, ties to the even code.
    fn encode(&self, value: f64) -> u8 {
        let sign = if value.is_sign_negative() { 0x80 } else { 0 };
        if value.is_nan() {
            return 0x7f | sign;
        }
        let magnitude = value.abs();
        let above = self.ascending.partition_point(|c| self.values[usize::from(*c)] < magnitude);
        let Some(&high) = self.ascending.get(above) else { return self.beyond(magnitude) | sign };
        if above == 0 {
            return high | sign;
        }
        let low = self.ascending[above - 1];
        let (down, up) = (magnitude - self.values[usize::from(low)], self.values[usize::from(high)] - magnitude);
        let even = if low % 2 == 0 { low } else { high };
        let nearest = if down < up {
            low
        } else if up < down {
            high
        } else {
            even
        };
        nearest | sign
    }

    /// Magnitudes above the greatest value round to it within half a step, else overflow.
    fn beyond(&self, magnitude: f64) -> u8 {
        let n = self.ascending.len();
        let (last, before) = (self.ascending[n - 1], self.ascending[n - 2]);
        let (greatest, second) = (self.values[usize::from(last)], self.values[usize::from(before)]);
        let half = (greatest - second) / 2.0;
        let odd = last % 2 == 1;
        let stays = if odd { magnitude < greatest + half } else { magnitude <= greatest + half };
        if stays { last } else { self.overflow }
    }
}

fn table(exponent_bits: u32, infinities: bool, overflow: u8) -> Float8 {
    let mantissa_bits = 7 - exponent_bits;
    let bias = (1i32 << (exponent_bits - 1)) - 1;
    let decode = |code: u8| {
        let exponent = i32::from(code & 0x7f) >> mantissa_bits;
        let mantissa = f64::from(code & ((1 << mantissa_bits) - 1)) / f64::from(1 << mantissa_bits);
        let top = exponent == (1 << exponent_bits) - 1;
        let magnitude = match (top, infinities, code & 0x7f) {
            (true, true, _) if mantissa == 0.0 => f64::INFINITY,
            (true, true, _) | (true, false, 0x7f) => f64::NAN,
            _ if exponent == 0 => mantissa * 2f64.powi(1 - bias),
            _ => (1.0 + mantissa) * 2f64.powi(exponent - bias),
        };
        if code & 0x80 == 0 { magnitude } else { -magnitude }
    };
    let mut values = [0.0; 256];
    for code in 0..=255u8 {
        values[usize::from(code)] = decode(code);
    }
    let ascending = (0..0x80u8).filter(|c| values[usize::from(*c)].is_finite()).collect();
    Float8 { values, ascending, overflow }
}

/// No infinities: too large is NaN.
fn e4m3() -> &'static Float8 {
    static TABLE: OnceLock<Float8> = OnceLock::new();
    TABLE.get_or_init(|| table(4, false, 0x7f))
}

fn e5m2() -> &'static Float8 {
    static TABLE: OnceLock<Float8> = OnceLock::new();
    TABLE.get_or_init(|| table(5, true, 0x7c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_of_the_narrow_floats_survives() {
        for (dtype, bytes) in [(DType::E4M3, 1), (DType::E5M2, 1), (DType::F16, 2), (DType::BF16, 2)] {
            for code in 0..(1u32 << (8 * bytes)) {
                let code = &code.to_le_bytes()[..bytes];
                let value = get(dtype, code, 0);
                let mut back = vec![];
                push(dtype, value, &mut back);
                assert!(value.is_nan() || back == code, "{dtype} {code:?} {value}");
            }
        }
    }

    #[test]
    fn eight_bit_floats_round_to_even_and_overflow_as_specified() {
        assert_eq!(round(DType::E4M3, 448.0), 448.0);
        assert_eq!(round(DType::E4M3, 464.0), 448.0);
        assert!(round(DType::E4M3, 465.0).is_nan());
        assert_eq!(round(DType::E4M3, 17.0), 16.0);
        assert_eq!(round(DType::E4M3, 19.0), 20.0);
        assert_eq!(round(DType::E4M3, -0.001), -0.001953125);
        assert_eq!(round(DType::E5M2, 57344.0), 57344.0);
        assert_eq!(round(DType::E5M2, 61439.0), 57344.0);
        assert_eq!(round(DType::E5M2, 61440.0), f64::INFINITY);
    }

    #[test]
    fn integers_saturate() {
        assert_eq!(round(DType::I8, 300.0), 127.0);
        assert_eq!(round(DType::U8, -3.0), 0.0);
        assert_eq!(round(DType::I32, -2.9), -2.0);
    }
}

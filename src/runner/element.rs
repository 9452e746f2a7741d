//! Elements of every dtype as packed little-endian bytes and as `f64`, rounded as the interpreter
//! rounds.

use crate::interp::{float_bits, float_to_int, float_value, int_to_f64, round_to, wrap_int};
use crate::ir::DType;
use std::sync::OnceLock;

/// Appends `value`: rounded to nearest even to a float type, toward zero to an integer type, to the
/// nearest end where it is out of range.
pub fn push(dtype: DType, value: f64, out: &mut Vec<u8>) {
    let bits = if dtype.is_float() { float_bits(value, dtype) } else { float_to_int(value, dtype) as u64 };
    out.extend(&bits.to_le_bytes()[..dtype.bytes() as usize]);
}

/// The element at index `at` of packed elements.
///
/// # Panics
/// If the element lies outside of `bytes`.
pub fn get(dtype: DType, bytes: &[u8], at: usize) -> f64 {
    let size = dtype.bytes() as usize;
    let mut word = [0; 8];
    word[..size].copy_from_slice(&bytes[at * size..(at + 1) * size]);
    let bits = u64::from_le_bytes(word);
    if dtype.is_float() { float_value(bits, dtype) } else { int_to_f64(wrap_int(bits as i64, dtype), dtype) }
}

/// Unpacks as many elements as `out` takes: [`get`] for many, several times faster.
///
/// # Panics
/// If `bytes` has fewer elements.
pub fn unpack(dtype: DType, bytes: &[u8], out: &mut [f64]) {
    fn each<const N: usize>(bytes: &[u8], out: &mut [f64], value: impl Fn([u8; N]) -> f64) {
        for (word, out) in bytes[..out.len() * N].as_chunks::<N>().0.iter().zip(out) {
            *out = value(*word);
        }
    }
    match dtype {
        DType::F32 => each(bytes, out, |w| f64::from(f32::from_le_bytes(w))),
        DType::F64 => each(bytes, out, f64::from_le_bytes),
        DType::BF16 => each(bytes, out, |w| f64::from(f32::from_bits(u32::from(u16::from_le_bytes(w)) << 16))),
        DType::F16 => each(bytes, out, |w| f64::from(half_values()[usize::from(u16::from_le_bytes(w))])),
        DType::I32 => each(bytes, out, |w| f64::from(i32::from_le_bytes(w))),
        DType::Bool
        | DType::I8
        | DType::I16
        | DType::I64
        | DType::U8
        | DType::U16
        | DType::U32
        | DType::U64
        | DType::E4M3
        | DType::E5M2
        | DType::E8M0
        | DType::Handle => out.iter_mut().enumerate().for_each(|(i, out)| *out = get(dtype, bytes, i)),
    }
}

/// The value of every `float16`.
fn half_values() -> &'static [f32] {
    static VALUES: OnceLock<Vec<f32>> = OnceLock::new();
    VALUES.get_or_init(|| (0..=u16::MAX).map(|b| half::f16::from_bits(b).to_f32()).collect())
}

/// `value` as the dtype holds it.
pub fn round(dtype: DType, value: f64) -> f64 {
    if dtype.is_float() { round_to(value, dtype) } else { int_to_f64(float_to_int(value, dtype), dtype) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_of_the_narrow_floats_survives() {
        for (dtype, bytes) in [(DType::E4M3, 1), (DType::E5M2, 1), (DType::E8M0, 1), (DType::F16, 2), (DType::BF16, 2)]
        {
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
    fn unpacking_many_is_getting_each() {
        let bytes: Vec<u8> = (0..4096u32).flat_map(|i| (i.wrapping_mul(0x9e37_79b9)).to_le_bytes()).collect();
        for (dtype, _) in DType::ALL {
            let n = bytes.len() / dtype.bytes() as usize;
            let mut all = vec![0.0; n];
            unpack(dtype, &bytes, &mut all);
            let same = |i: usize| all[i].to_bits() == get(dtype, &bytes, i).to_bits() || all[i].is_nan();
            assert!((0..n).all(same), "{dtype}");
        }
    }

    #[test]
    fn integers_keep_their_sign_and_end_at_their_ends() {
        for (dtype, value, held) in [
            (DType::I8, 300.0, 127.0),
            (DType::U8, -3.0, 0.0),
            (DType::I32, -2.9, -2.0),
            (DType::I16, -5.0, -5.0),
            (DType::U64, 1.8e19, 1.8e19),
            (DType::Bool, 0.5, 1.0),
        ] {
            let mut bytes = vec![];
            push(dtype, value, &mut bytes);
            assert_eq!((get(dtype, &bytes, 0), round(dtype, value)), (held, held), "{dtype}");
        }
    }
}

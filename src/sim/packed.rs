//! Arithmetic that one thread does with more than one value: pairs, three operands.
//!
//! Every result is rounded once from the exact value. With `ftz`, subnormal operands and results
//! (those that are subnormal after rounding) become zeros of their sign. A NaN operand of a
//! three-operand maximum or minimum counts as absent, and +0 is greater than -0.

use super::block::{At, Block};
use super::instr::Instr;
use super::memory::Memory;
use super::scalar;
use crate::ir::DType;
use crate::ir::instr::{Fold, PackedOp, Rounding};

impl Block<'_> {
    /// Makes each element of the first pair of `f` of those of the others.
    pub(super) fn each_of_pair(
        &mut self,
        t: usize,
        i: &Instr,
        memory: &mut [Memory],
        f: impl Fn([u64; 3]) -> u64,
    ) -> Result<(), At> {
        for e in 0..2 {
            let mut x = [0; 3];
            for (x, site) in x.iter_mut().zip(&i.places[1..]) {
                *x = self.get(t, *site, e, memory)?;
            }
            self.put(t, i.places[0], e, f(x), memory)?;
        }
        Ok(())
    }

    pub(super) fn fold3(&mut self, t: usize, i: &Instr, op: Fold, memory: &mut [Memory]) -> Result<(), At> {
        let ([d], values) = i.operands::<1, 3>();
        let [a, b, c] = values.map(|s| scalar::float(self.threads[t].get(s)));
        self.put(t, *d, 0, fold(op, fold(op, a, b), c).to_bits(), memory)
    }

    pub(super) fn halves(&mut self, t: usize, i: &Instr, memory: &mut [Memory]) -> Result<(), At> {
        let ([d], [word]) = i.operands();
        let (word, dtype) = (self.threads[t].get(*word), self.code.arrays[d.array as usize].dtype);
        let half = |e: usize| scalar::apply_reinterpret(DType::U16, dtype, word >> (16 * e) & 0xffff);
        (0..2).try_for_each(|e| self.put(t, *d, e, half(e), memory))
    }

    pub(super) fn pick(&mut self, t: usize, i: &Instr, high: [bool; 2], memory: &mut [Memory]) -> Result<(), At> {
        let [d, from @ ..] = [0, 1, 2].map(|n| i.places[n]);
        let mut picked = [0; 2];
        for (e, (from, high)) in from.into_iter().zip(high).enumerate() {
            picked[e] = self.get(t, from, usize::from(high), memory)?;
        }
        (0..2).try_for_each(|e| self.put(t, d, e, picked[e], memory))
    }

    pub(super) fn funnel_shift(&mut self, t: usize, i: &Instr, memory: &mut [Memory]) -> Result<(), At> {
        let ([to, from], values) = i.operands::<2, 2>();
        let [first, count] = values.map(|s| self.threads[t].get(s) as i64);
        for e in 0..8 {
            let is_wanted = (e as i64) < count;
            let value = if is_wanted { self.get(t, *from, (first & 7) as usize + e, memory)? } else { 0 };
            self.put(t, *to, e, value, memory)?;
        }
        Ok(())
    }

    pub(super) fn prmt(&mut self, t: usize, i: &Instr, memory: &mut [Memory]) -> Result<(), At> {
        let ([d], values) = i.operands::<1, 3>();
        let [a, b, selector] = values.map(|s| self.threads[t].get(s) as u32);
        self.put(t, *d, 0, u64::from(permuted(a, b, selector)), memory)
    }
}

/// Four bytes of eight. What `prmt.b32` does for the highest bit of a selector, `__byte_perm` leaves out.
fn permuted(a: u32, b: u32, selector: u32) -> u32 {
    let bytes = [a.to_le_bytes(), b.to_le_bytes()].concat();
    let byte = |n: usize| bytes[(selector >> (4 * n) & 7) as usize];
    u32::from_le_bytes([0, 1, 2, 3].map(byte))
}

fn flushed(x: f32, ftz: bool) -> f32 {
    if ftz && x.is_subnormal() { 0f32.copysign(x) } else { x }
}

pub(super) fn packed(op: PackedOp, rounding: Rounding, ftz: bool, operands: [f32; 3]) -> f32 {
    let [x, y, z] = operands.map(|v| flushed(v, ftz));
    let (a, b) = (f64::from(x), f64::from(y));
    // The exact value as a float64 and what is missing from it: products are exact in float64.
    let (near, (high, low)) = match op {
        PackedOp::Add => (x + y, two_sum(a, b)),
        PackedOp::Sub => (x - y, two_sum(a, -b)),
        PackedOp::Mul => (x * y, (a * b, 0.0)),
        PackedOp::Fma => (x.mul_add(y, z), two_sum(a * b, f64::from(z))),
    };
    let result = match rounding {
        Rounding::Nearest => near,
        Rounding::Zero => toward_zero(near, high, low),
    };
    flushed(result, ftz)
}

/// Exact in float64 where operands are float16 whose exponents differ by less than thirty, then rounded once.
pub(super) fn packed_f16(op: PackedOp, operands: [u64; 3]) -> u64 {
    let [x, y, z] = operands.map(scalar::float);
    let exact = match op {
        PackedOp::Add => x + y,
        PackedOp::Sub => x - y,
        PackedOp::Mul => x * y,
        PackedOp::Fma => x.mul_add(y, z),
    };
    scalar::apply_cast(DType::F64, DType::F16, exact.to_bits())
}

/// `a + b` and its rounding error.
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let s = a + b;
    let v = s - a;
    (s, (a - (s - v)) + (b - v))
}

/// The nearest float32 of `high + low`, one step back where it lies past the exact value.
fn toward_zero(near: f32, high: f64, low: f64) -> f32 {
    let over = f64::from(near) - high;
    let past = if near > 0.0 { over > low } else { near < 0.0 && over < low };
    if past { f32::from_bits(near.to_bits() - 1) } else { near }
}

fn fold(op: Fold, a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() {
        return if a.is_nan() { b } else { a };
    }
    let first = match op {
        Fold::Max => a > b || a == b && b.is_sign_negative(),
        Fold::Min => a < b || a == b && a.is_sign_negative(),
    };
    if first { a } else { b }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_toward_zero_from_the_exact_value() {
        let tiny = 2f32.powi(-60);
        let add = |rounding, x, y| packed(PackedOp::Add, rounding, false, [x, y, 0.0]);
        assert_eq!(add(Rounding::Nearest, 1.0, -tiny), 1.0);
        assert_eq!(add(Rounding::Zero, 1.0, -tiny), 1.0f32.next_down());
        assert_eq!(add(Rounding::Zero, -1.0, tiny), -1.0f32.next_down());
        assert_eq!(add(Rounding::Zero, 1.0, tiny), 1.0);
        assert_eq!(add(Rounding::Zero, f32::MAX, f32::MAX), f32::MAX);
        assert_eq!(add(Rounding::Zero, f32::INFINITY, 1.0), f32::INFINITY);
    }

    #[test]
    fn bytes_of_two_words() {
        assert_eq!(permuted(0x4433_2211, 0x8877_6655, 0x4142), 0x5522_5533);
        assert_eq!(permuted(0x4433_2211, 0x8877_6655, 0xf8), 0x1111_8811);
    }

    #[test]
    fn products_and_sums_round_once() {
        let x = 1.0 + f32::EPSILON;
        let fma = packed(PackedOp::Fma, Rounding::Nearest, false, [x, x, -x * x]);
        assert_eq!(f64::from(fma), f64::from(x) * f64::from(x) - f64::from(x * x));
    }

    #[test]
    fn subnormal_numbers_are_flushed_on_request() {
        let small = f32::MIN_POSITIVE / 2.0;
        let add = |ftz| packed(PackedOp::Add, Rounding::Nearest, ftz, [small, 0.0, 0.0]);
        assert_eq!((add(false), add(true)), (small, 0.0));
        let product = packed(PackedOp::Mul, Rounding::Nearest, true, [-f32::MIN_POSITIVE, 0.5, 0.0]);
        assert!(product == 0.0 && product.is_sign_negative());
    }

    #[test]
    fn zeros_have_an_order_and_nan_none() {
        assert!(fold(Fold::Max, -0.0, 0.0).is_sign_positive() && fold(Fold::Min, 0.0, -0.0).is_sign_negative());
        assert_eq!(fold(Fold::Max, f64::NAN, -3.0), -3.0);
        assert!(fold(Fold::Min, f64::NAN, f64::NAN).is_nan());
    }
}

//! Arithmetic that one thread does with more than one value: pairs, three operands.
//!
//! Every result is rounded once from the exact value. With `ftz`, subnormal operands and results
//! (those that are subnormal after rounding) become zeros of their sign. A NaN operand of a
//! three-operand maximum or minimum counts as absent, and +0 is greater than -0.

use super::code::{ArrayInfo, Code};
use super::error::Fault;
use super::instr::{Instr, Site};
use super::memory::Memory;
use super::scalar;
use super::shadow::By;
use super::thread::{Thread, in_bounds};
use crate::ir::DType;
use crate::ir::intrinsic::{Fold, PackedOp, Rounding};

impl Thread {
    /// Carries out instruction `n`, which concerns this thread alone.
    pub(super) fn compute(&mut self, n: u32, memory: &mut [Memory], by: By) -> Result<(), Fault> {
        let code = by.code;
        match code.instrs[n as usize] {
            Instr::Packed { op, rounding, ftz, d, a, b, c } => {
                let [x, y, z] = [a, b, c.unwrap_or(b)].map(|s| self.pair(s, memory, by));
                let (x, y, z) = (x?, y?, z?);
                let one = |i: usize| match code.arrays[d.array as usize].dtype {
                    DType::F16 => packed_f16(op, [x[i], y[i], z[i]]),
                    _ => f64::from(packed(op, rounding, ftz, [x[i], y[i], z[i]])).to_bits(),
                };
                self.store_pair(d, [0, 1].map(one), memory, by)
            }
            Instr::Fold3 { op, d, args: [a, b, c] } => {
                let [a, b, c] = [a, b, c].map(|s| scalar::float(self.get(s)));
                let (array, i) = self.place(code, d, 1)?;
                self.store(array, i, fold(op, fold(op, a, b), c).to_bits(), memory, by)
            }
            Instr::CastPair { d, s } => {
                let (from, to) = (code.arrays[s.array as usize].dtype, code.arrays[d.array as usize].dtype);
                let (array, i) = self.place(code, s, 2)?;
                let values = [self.load(array, i, memory, by)?, self.load(array, i + 1, memory, by)?];
                self.store_pair(d, values.map(|v| scalar::apply_cast(from, to, v)), memory, by)
            }
            other => panic!("{other:?} is not for one thread alone"),
        }
    }

    /// The array of a site and its index, with `n` elements from there on in bounds.
    pub(super) fn place<'c>(&self, code: &'c Code, site: Site, n: u32) -> Result<(&'c ArrayInfo, usize), Fault> {
        let array = &code.arrays[site.array as usize];
        Ok((array, in_bounds(array, self.int(site.index), n)?))
    }

    fn pair(&self, site: Site, memory: &mut [Memory], by: By) -> Result<[f32; 2], Fault> {
        let (array, i) = self.place(by.code, site, 2)?;
        let mut one = |i| Ok(scalar::float(self.load(array, i, memory, by)?) as f32);
        Ok([one(i)?, one(i + 1)?])
    }

    fn store_pair(&mut self, site: Site, v: [u64; 2], memory: &mut [Memory], by: By) -> Result<(), Fault> {
        let (array, i) = self.place(by.code, site, 2)?;
        self.store(array, i, v[0], memory, by)?;
        self.store(array, i + 1, v[1], memory, by)
    }
}

fn flushed(x: f32, ftz: bool) -> f32 {
    if ftz && x.is_subnormal() { 0f32.copysign(x) } else { x }
}

fn packed(op: PackedOp, rounding: Rounding, ftz: bool, operands: [f32; 3]) -> f32 {
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
fn packed_f16(op: PackedOp, operands: [f32; 3]) -> u64 {
    let [x, y, z] = operands.map(f64::from);
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

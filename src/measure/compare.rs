//! Comparing an output with its reference.

use crate::ir::DType;
use crate::runner::{Errors, element};
use rayon::prelude::*;

/// Elements unpacked and compared at a time.
const CHUNK: usize = 4096;

/// Reference values in the form that is quick to compare with: packed like the output. They are
/// rounded to the output's dtype, because no output can be nearer to them.
pub struct Reference {
    dtype: DType,
    packed: Vec<u8>,
    /// Sum of squares of the finite values.
    norm: f64,
    /// Root of the mean square.
    rms: f64,
}

/// How an output differs from its reference.
#[derive(Clone, PartialEq, Debug)]
pub struct Comparison {
    /// The errors.
    pub errors: Errors,
    /// The worst of the elements that differ: its index, its value and what was expected.
    pub worst: Option<(usize, f64, f64)>,
}

impl Reference {
    /// Rounds and packs the values.
    pub fn new(dtype: DType, values: &[f64]) -> Reference {
        let pack = |chunk: &[f64]| {
            let mut bytes = Vec::with_capacity(chunk.len() * 8);
            chunk.iter().for_each(|v| element::push(dtype, *v, &mut bytes));
            bytes
        };
        let parts: Vec<Vec<u8>> = values.par_chunks(CHUNK).map(pack).collect();
        let packed = parts.concat();
        let squares = |chunk: &[f64]| chunk.iter().filter(|v| v.is_finite()).map(|v| v * v).sum::<f64>();
        let norm = values.par_chunks(CHUNK).map(squares).sum::<f64>();
        Reference { dtype, packed, norm, rms: (norm / values.len().max(1) as f64).sqrt() }
    }

    /// Measures errors against results of at least this size, as [`super::Tolerance::scale`] says.
    pub fn at_least(mut self, scale: f64) -> Reference {
        if scale > self.rms {
            self.norm = scale * scale * (self.packed.len() as f64 / self.dtype.bytes() as f64);
            self.rms = scale;
        }
        self
    }

    /// Bytes of an output that can be compared.
    pub fn bytes(&self) -> usize {
        self.packed.len()
    }

    /// Compares packed elements, one for each of the reference.
    ///
    /// # Panics
    /// If there are fewer elements than reference values.
    pub fn compare(&self, bytes: &[u8]) -> Comparison {
        let size = CHUNK * self.dtype.bytes() as usize;
        let outputs = bytes[..self.packed.len()].par_chunks(size);
        let parts = outputs.zip(self.packed.par_chunks(size)).enumerate();
        let sums = parts.map(|(i, (o, r))| self.chunk(i * CHUNK, o, r));
        let all = sums.reduce(Sums::default, Sums::join);
        let finite = |v: f64| if v.is_nan() { f64::INFINITY } else { v };
        let l2 = if all.squares == 0.0 { 0.0 } else { finite((all.squares / self.norm).sqrt()) };
        Comparison { errors: Errors { l2, max: all.max }, worst: all.worst }
    }

    /// Compares some elements, the first of which has index `first`.
    fn chunk(&self, first: usize, outputs: &[u8], references: &[u8]) -> Sums {
        let mut sums = Sums::default();
        if outputs == references {
            return sums;
        }
        let n = references.len() / self.dtype.bytes() as usize;
        let (mut outs, mut refs) = ([0.0; CHUNK], [0.0; CHUNK]);
        element::unpack(self.dtype, outputs, &mut outs[..n]);
        element::unpack(self.dtype, references, &mut refs[..n]);
        for (i, (o, r)) in outs[..n].iter().zip(&refs[..n]).enumerate() {
            if o == r || (o.is_nan() && r.is_nan()) {
                continue;
            }
            let difference = (o - r).abs();
            let error = difference / r.abs().max(self.rms);
            let error = if error.is_nan() { f64::INFINITY } else { error };
            sums.squares += difference * difference;
            if sums.worst.is_none() || error > sums.max {
                (sums.max, sums.worst) = (error, Some((first + i, *o, *r)));
            }
        }
        sums
    }
}

/// What is summed over the elements.
#[derive(Clone, Copy, Default)]
struct Sums {
    squares: f64,
    max: f64,
    worst: Option<(usize, f64, f64)>,
}

impl Sums {
    fn join(self, other: Sums) -> Sums {
        let worse = other.worst.is_some() && (self.worst.is_none() || other.max > self.max);
        let (max, worst) = if worse { (other.max, other.worst) } else { (self.max, self.worst) };
        Sums { squares: self.squares + other.squares, max, worst }
    }
}

/// Compares packed elements with their reference values, which they match one by one.
pub fn compare(dtype: DType, bytes: &[u8], values: &[f64]) -> Comparison {
    Reference::new(dtype, values).compare(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(dtype: DType, values: &[f64]) -> Vec<u8> {
        let mut bytes = vec![];
        values.iter().for_each(|v| element::push(dtype, *v, &mut bytes));
        bytes
    }

    #[test]
    fn errors_are_relative_to_the_reference() {
        let values = [1.0, 2.0, 2.0, 4.0];
        let c = compare(DType::F32, &packed(DType::F32, &[1.0, 2.0, 2.5, 4.0]), &values);
        assert_eq!(c.errors, Errors { l2: 0.1, max: 0.5 / 2.5 });
        assert_eq!(c.worst, Some((2, 2.5, 2.0)));
        let c = compare(DType::F32, &packed(DType::F32, &values), &values);
        assert_eq!(c.errors, Errors { l2: 0.0, max: 0.0 });
    }

    #[test]
    fn a_scale_stands_in_for_small_references() {
        let output = packed(DType::F32, &[0.5, 0.0]);
        let c = Reference::new(DType::F32, &[0.0, 0.0]).at_least(2.0).compare(&output);
        assert_eq!(c.errors, Errors { l2: 0.125f64.sqrt() / 2.0, max: 0.25 });
        let c = Reference::new(DType::F32, &[4.0, 4.0]).at_least(2.0);
        assert_eq!(c.compare(&packed(DType::F32, &[4.0, 4.5])).errors.max, 0.125);
        let poison = Reference::new(DType::F32, &[0.0]).at_least(2.0).compare(&[0xff; 4]);
        assert_eq!(poison.errors.max, f64::INFINITY);
    }

    #[test]
    fn poison_is_never_right() {
        let c = compare(DType::F32, &[0xff; 8], &[0.0, 0.0]);
        assert_eq!(c.errors, Errors { l2: f64::INFINITY, max: f64::INFINITY });
        let c = compare(DType::F32, &packed(DType::F32, &[f64::INFINITY]), &[1.0]);
        assert_eq!(c.errors.max, f64::INFINITY);
    }

    #[test]
    fn special_values_and_overflow_match() {
        let inf = f64::INFINITY;
        let c = compare(DType::F16, &packed(DType::F16, &[inf, f64::NAN, -inf, 2.0]), &[1e6, f64::NAN, -inf, 2.0]);
        assert_eq!(c.errors, Errors { l2: 0.0, max: 0.0 });
    }

    #[test]
    fn the_worst_of_many_is_found_wherever_it_lies() {
        let n = 3 * CHUNK + 17;
        let values: Vec<f64> = (0..n).map(|i| 1.0 + (i % 7) as f64).collect();
        for at in [0, CHUNK - 1, CHUNK, n - 1] {
            let mut wrong = values.clone();
            wrong[at] += 0.5;
            wrong[(at + 5000) % n] += 0.001;
            let c = compare(DType::F32, &packed(DType::F32, &wrong), &values);
            assert_eq!(c.worst.unwrap().0, at);
        }
    }
}

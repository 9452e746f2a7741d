//! Tensors: dense row-major arrays of any dtype, as bytes.

use super::round::{float_bits, float_to_int, float_value, int_to_f64, wrap_int};
use crate::ir::DType;

/// A dense row-major array. Elements are little-endian.
#[derive(Clone, PartialEq, Debug)]
pub struct Tensor {
    /// Element type.
    pub dtype: DType,
    /// Extent of each dimension; empty for a scalar.
    pub shape: Vec<i64>,
    /// The elements' bytes.
    pub data: Vec<u8>,
}

impl Tensor {
    /// All bits zero.
    pub fn zeros(dtype: DType, shape: &[i64]) -> Tensor {
        let len: i64 = shape.iter().product();
        Tensor { dtype, shape: shape.to_vec(), data: vec![0; len.max(0) as usize * dtype.bytes() as usize] }
    }

    /// From values, rounded to `dtype`. One value per element.
    ///
    /// # Panics
    /// If the number of values is not the product of the shape.
    pub fn from_f64(dtype: DType, shape: &[i64], values: &[f64]) -> Tensor {
        let mut t = Tensor::zeros(dtype, shape);
        assert_eq!(t.len(), values.len(), "one value per element");
        values.iter().enumerate().for_each(|(i, v)| t.set_f64(i, *v));
        t
    }

    /// From integers, wrapped to `dtype` (rounded where it is a float). One value per element.
    ///
    /// # Panics
    /// If the number of values is not the product of the shape.
    pub fn from_i64(dtype: DType, shape: &[i64], values: &[i64]) -> Tensor {
        let mut t = Tensor::zeros(dtype, shape);
        assert_eq!(t.len(), values.len(), "one value per element");
        values.iter().enumerate().for_each(|(i, v)| t.set_i64(i, *v));
        t
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.data.len() / self.dtype.bytes() as usize
    }

    /// True without any element.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// The flat index of an element.
    pub fn flat(&self, index: &[i64]) -> usize {
        index.iter().zip(&self.shape).fold(0, |at, (i, n)| at * *n as usize + *i as usize)
    }

    /// An element as `f64`, by flat index.
    pub fn get_f64(&self, i: usize) -> f64 {
        if self.dtype.is_float() {
            float_value(read_bits(&self.data, self.dtype, i), self.dtype)
        } else {
            int_to_f64(self.get_i64(i), self.dtype)
        }
    }

    /// Sets an element by flat index: rounded to the nearest even for floats, toward zero for
    /// integers.
    pub fn set_f64(&mut self, i: usize, v: f64) {
        let bits = if self.dtype.is_float() { float_bits(v, self.dtype) } else { float_to_int(v, self.dtype) as u64 };
        write_bits(&mut self.data, self.dtype, i, bits);
    }

    /// An element as `i64` by flat index: floats toward zero, `uint64` by its bits.
    pub fn get_i64(&self, i: usize) -> i64 {
        let bits = read_bits(&self.data, self.dtype, i);
        if self.dtype.is_float() {
            float_to_int(float_value(bits, self.dtype), DType::I64)
        } else {
            wrap_int(bits as i64, self.dtype)
        }
    }

    /// Sets an element by flat index: wrapped for integers, rounded for floats.
    pub fn set_i64(&mut self, i: usize, v: i64) {
        let bits =
            if self.dtype.is_float() { float_bits(v as f64, self.dtype) } else { wrap_int(v, self.dtype) as u64 };
        write_bits(&mut self.data, self.dtype, i, bits);
    }

    /// Every element as `f64`.
    pub fn to_f64(&self) -> Vec<f64> {
        (0..self.len()).map(|i| self.get_f64(i)).collect()
    }
}

/// The bits of element `i`, zero-extended.
pub(super) fn read_bits(data: &[u8], dtype: DType, i: usize) -> u64 {
    match dtype.bytes() {
        1 => data[i] as u64,
        2 => u16::from_le_bytes([data[2 * i], data[2 * i + 1]]) as u64,
        4 => u32::from_le_bytes(chunk(data, i)) as u64,
        _ => u64::from_le_bytes(chunk(data, i)),
    }
}

fn write_bits(data: &mut [u8], dtype: DType, i: usize, bits: u64) {
    let n = dtype.bytes() as usize;
    data[n * i..n * (i + 1)].copy_from_slice(&bits.to_le_bytes()[..n]);
}

/// Bytes of the `i`-th group of `N`.
pub(super) fn chunk<const N: usize>(data: &[u8], i: usize) -> [u8; N] {
    let mut bytes = [0; N];
    bytes.copy_from_slice(&data[N * i..N * (i + 1)]);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_keep_their_values() {
        let others = [DType::Handle, DType::Bool, DType::E8M0];
        for (dtype, _) in DType::ALL.iter().filter(|(d, _)| !others.contains(d)) {
            let mut t = Tensor::zeros(*dtype, &[2, 3]);
            t.set_f64(4, 5.0);
            t.set_i64(5, 3);
            assert_eq!((t.get_f64(4), t.get_i64(4), t.get_i64(5), t.get_i64(0)), (5.0, 5, 3, 0), "{dtype}");
            assert_eq!((t.len(), t.flat(&[1, 2])), (6, 5));
        }
    }

    #[test]
    fn integers_wrap_and_floats_round() {
        let t = Tensor::from_i64(DType::I8, &[2], &[200, -1]);
        assert_eq!((t.get_i64(0), t.get_i64(1)), (-56, -1));
        let t = Tensor::from_f64(DType::F16, &[1], &[0.1]);
        assert_eq!(t.get_f64(0), 0.0999755859375);
        let t = Tensor::from_i64(DType::U64, &[1], &[-1]);
        assert_eq!(t.get_f64(0), u64::MAX as f64);
        assert_eq!(Tensor::from_i64(DType::Bool, &[1], &[7]).get_i64(0), 1);
    }
}

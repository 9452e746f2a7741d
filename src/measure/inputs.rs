//! Inputs: seeded, the same wherever they are generated. Floats are standard normal, integers
//! uniform. Element `i` depends on seed, parameter and `i` alone, so parts can be made in parallel.

use crate::ir::DType;
use crate::runner::{Range, element};
use rayon::prelude::*;

/// Elements made by one task.
const CHUNK: usize = 1 << 16;

/// One element in so many is what a condition passes over, where there is such a value.
pub const PASSED_OVER: u64 = 8;

/// Values of a tensor that indexes another, which differ or are passed over.
struct Indices {
    range: Range,
    stream: u64,
    /// How many values there are, and a permutation of them: multiples of `step`, from `first`.
    count: u64,
    step: u64,
    first: u64,
    /// There are enough for all elements to differ.
    enough: bool,
}

impl Indices {
    /// Of a tensor of `len` elements; `None` where values are drawn one by one.
    fn of(range: Range, stream: u64, len: usize) -> Option<Indices> {
        (range.distinct.is_some() || range.passed_over.is_some()).then(|| {
            let count = (i128::from(range.high) - i128::from(range.low) + 1).clamp(1, 1 << 62) as u64;
            let step = (hash(stream, 0) % count..).find(|n| gcd(*n, count) == 1).unwrap_or(1);
            Indices { range, stream, count, step, first: hash(stream, 1), enough: len as u64 <= count }
        })
    }

    /// The value of an element.
    fn value(&self, i: u64) -> i64 {
        let bits = hash(self.stream, i);
        match (self.range.passed_over, self.range.distinct) {
            (Some(value), _) if hash(bits, 1).is_multiple_of(PASSED_OVER) => value,
            (_, None) => between(bits, self.range.low, self.range.high),
            (_, Some(row)) => self.range.low + self.permuted(i, row.max(1) as u64),
        }
    }

    /// A number below the count of values, another one for each `i` where there are enough, else for each of a row
    /// and of a column.
    fn permuted(&self, i: u64, row: u64) -> i64 {
        let at = if self.enough { i } else { i / row + i % row };
        let moved = u128::from(at % self.count) * u128::from(self.step) + u128::from(self.first);
        (moved % u128::from(self.count)) as i64
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// The packed elements of a tensor parameter: by default -8 to 7 for signed types, all bits for unsigned types,
/// standard normal for floats.
pub fn tensor(dtype: DType, len: usize, seed: u64, param: usize, range: Option<Range>) -> Vec<u8> {
    let size = dtype.bytes() as usize;
    let mut bytes = vec![0u8; len * size];
    let stream = stream(seed, param);
    let indices = range.and_then(|r| Indices::of(r, stream, len));
    let plain = range.map(|r| (r.low, r.high));
    bytes.par_chunks_mut(CHUNK * size).enumerate().for_each(|(chunk, out)| {
        let mut packed = Vec::with_capacity(out.len());
        for i in 0..out.len() / size {
            let i = (chunk * CHUNK + i) as u64;
            match &indices {
                Some(indices) => element::push(dtype, indices.value(i) as f64, &mut packed),
                None => push(dtype, hash(stream, i), plain, &mut packed),
            }
        }
        out.copy_from_slice(&packed);
    });
    bytes
}

/// Halves floats so often, each rounded to its type.
pub fn halve(dtype: DType, bytes: &mut [u8], halvings: u32) {
    if halvings == 0 || !dtype.is_float() {
        return;
    }
    let (size, factor) = (dtype.bytes() as usize, 0.5f64.powi(halvings as i32));
    bytes.par_chunks_mut(CHUNK * size).for_each(|part| {
        let mut packed = Vec::with_capacity(part.len());
        (0..part.len() / size).for_each(|i| element::push(dtype, element::get(dtype, part, i) * factor, &mut packed));
        part.copy_from_slice(&packed);
    });
}

/// The value of a scalar parameter for which the caller gave none: rounded to the dtype, never 0.
pub fn scalar(dtype: DType, seed: u64, param: usize) -> f64 {
    let bits = hash(stream(seed, param), 0);
    match dtype {
        d if d.is_float() => element::round(d, 0.5 + uniform(bits)),
        DType::Bool => 1.0,
        _ => (1 + bits % 7) as f64,
    }
}

fn push(dtype: DType, bits: u64, range: Option<(i64, i64)>, out: &mut Vec<u8>) {
    match (dtype, range) {
        (DType::Bool, _) => out.push((bits >> 63) as u8),
        (d, Some((low, high))) if d.is_float() => element::push(d, real(bits, low, high), out),
        (d, None) if d.is_float() => element::push(d, normal(bits), out),
        (d, Some((low, high))) => element::push(d, between(bits, low, high) as f64, out),
        (d, None) if d.is_signed() => element::push(d, between(bits, -8, 7) as f64, out),
        (d, None) => out.extend(&bits.to_le_bytes()[..d.bytes() as usize]),
    }
}

/// A number that becomes an integer from `low` to `high`, cut or rounded.
fn real(bits: u64, low: i64, high: i64) -> f64 {
    low as f64 + uniform(bits) * (high as f64 - low as f64 + 0.49)
}

/// A whole number from `low` to `high`.
fn between(bits: u64, low: i64, high: i64) -> i64 {
    let count = (i128::from(high) - i128::from(low) + 1).max(1) as u128;
    (i128::from(low) + ((u128::from(bits) * count) >> 64) as i128) as i64
}

fn stream(seed: u64, param: usize) -> u64 {
    hash(hash(seed, 0x6461_796c_6967_6874), param as u64)
}

/// SplitMix64's output function of a counter.
fn hash(stream: u64, counter: u64) -> u64 {
    let mut z = stream.wrapping_add(counter.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Strictly between 0 and 1.
fn uniform(bits: u64) -> f64 {
    ((bits >> 12) as f64 + 0.5) / (1u64 << 52) as f64
}

/// The normal quantile of the bits read as a fraction: rational approximations after P. J. Acklam,
/// relative error below 1.2e-9.
fn normal(bits: u64) -> f64 {
    let p = uniform(bits);
    let tail = |q: f64| {
        let top = ((((-7.784894002430293e-3 * q - 3.223964580411365e-1) * q - 2.400758277161838) * q
            - 2.549732539343734)
            * q
            + 4.374664141464968)
            * q
            + 2.938163982698783;
        let bottom =
            (((7.784695709041462e-3 * q + 3.224671290700398e-1) * q + 2.445134137142996) * q + 3.754408661907416) * q
                + 1.0;
        top / bottom
    };
    const EDGE: f64 = 0.02425;
    if p < EDGE {
        return tail((-2.0 * p.ln()).sqrt());
    }
    if p > 1.0 - EDGE {
        return -tail((-2.0 * (1.0 - p).ln()).sqrt());
    }
    let q = p - 0.5;
    let r = q * q;
    let top =
        (((((-3.969683028665376e1 * r + 2.209460984245205e2) * r - 2.759285104469687e2) * r + 1.38357751867269e2) * r
            - 3.066479806614716e1)
            * r
            + 2.506628277459239)
            * q;
    let bottom =
        ((((-5.447609879822406e1 * r + 1.615858368580409e2) * r - 1.556989798598866e2) * r + 6.680131188771972e1) * r
            - 1.328068155288572e1)
            * r
            + 1.0;
    top / bottom
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_standard_normal() {
        let n = 200_000;
        let bytes = tensor(DType::F32, n, 1, 0, None);
        let values: Vec<f64> = (0..n).map(|i| element::get(DType::F32, &bytes, i)).collect();
        let mean = values.iter().sum::<f64>() / n as f64;
        let var = values.iter().map(|v| v * v).sum::<f64>() / n as f64;
        let within = values.iter().filter(|v| v.abs() < 1.0).count() as f64 / n as f64;
        let far = values.iter().filter(|v| v.abs() > 3.0).count() as f64 / n as f64;
        assert!(mean.abs() < 0.01 && (var - 1.0).abs() < 0.02, "{mean} {var}");
        assert!((within - 0.6827).abs() < 0.005 && (far - 0.0027).abs() < 0.0005, "{within} {far}");
    }

    #[test]
    fn seed_and_parameter_decide_and_a_prefix_is_a_prefix() {
        let make = |len, seed, param| tensor(DType::F16, len, seed, param, None);
        assert_eq!(make(70_000, 1, 0)[..2000], make(1000, 1, 0)[..]);
        assert_ne!(make(1000, 1, 0), make(1000, 2, 0));
        assert_ne!(make(1000, 1, 0), make(1000, 1, 1));
    }

    #[test]
    fn integers_stay_in_their_range() {
        let values = |dtype, range| {
            let bytes = tensor(dtype, 1000, 3, 0, range);
            (0..1000).map(|i| element::get(dtype, &bytes, i)).collect::<Vec<_>>()
        };
        assert!(values(DType::I32, None).iter().all(|v| (-8.0..8.0).contains(v)));
        let indices = values(DType::I64, Some(Range::new(0, 4)));
        assert!(indices.iter().all(|v| (0.0..5.0).contains(v)));
        assert!((0..5).all(|k| indices.contains(&f64::from(k))));
        let cut = values(DType::F32, Some(Range::new(0, 4)));
        assert!(
            cut.iter().all(|v| (0.0..4.5).contains(v)) && (0..5).all(|k| cut.iter().any(|v| v.trunc() == f64::from(k)))
        );
        assert!(values(DType::U32, None).iter().any(|v| *v > 2f64.powi(31)));
        assert!(values(DType::Bool, None).iter().all(|v| *v == 0.0 || *v == 1.0));
    }

    #[test]
    fn where_stores_go_by_them_indices_differ() {
        let values = |len, range| {
            let bytes = tensor(DType::I32, len, 3, 0, Some(range));
            (0..len).map(|i| element::get(DType::I32, &bytes, i) as i64).collect::<Vec<_>>()
        };
        let differ = |mut v: Vec<i64>| {
            let n = v.len();
            v.sort_unstable();
            v.dedup();
            v.len() == n && v.iter().all(|x| (2..2 + 97).contains(x))
        };
        let range = Range { distinct: Some(7), ..Range::new(2, 98) };
        assert!(differ(values(97, range)) && differ(values(35, range)));
        let grid = values(700, range);
        assert!((0..7).all(|c| differ((0..97).map(|r| grid[r * 7 + c]).collect())), "columns");
        assert!(grid.chunks(7).all(|r| differ(r.to_vec())), "rows");
        let some = values(97, Range { passed_over: Some(-1), ..range });
        let kept: Vec<i64> = some.iter().copied().filter(|v| *v != -1).collect();
        assert!(kept.len() < 97 && kept.len() > 60 && differ(kept));
    }
}

//! Instructions of a whole warp: matrix fragments and multiplications.
//!
//! Floating-point multiplications take exact products, add them and the accumulator up in float64 in
//! the order of the contraction, and round to float32 once. The hardware adds in an order and with
//! cut-off bits of its own, so that its results differ in the last places. Operands of tf32 lose their
//! low 13 bits first. Integers are exact and wrap around in 32 bits.

use super::block::{At, Block, WARP};
use super::clock::Clock;
use super::code::Code;
use super::error::Fault;
use super::instr::{Instr, Site};
use super::memory::Memory;
use super::scalar;
use super::shadow::By;
use super::thread::{aligned, in_bounds};
use crate::interp::{round_to, wrap_int};
use crate::ir::DType;
use crate::ir::instr::{BlockScaleMma, MmaShape};

/// Bytes of a row of an 8x8 matrix.
const ROW: u32 = 16;

impl Block<'_> {
    /// Index of the first element of row `row`, which its lane gives.
    fn row(&self, first: usize, row: usize, site: Site) -> Result<usize, At> {
        let t = first + row;
        let array = &self.code.arrays[site.array as usize];
        let n = ROW / array.dtype.bytes() as u32;
        let index = self.threads[t].int(site.index);
        let place = aligned(array, index, n).and_then(|i| in_bounds(array, i, n));
        place.map_err(|fault| self.fault(t, fault))
    }

    pub(super) fn ldmatrix(
        &mut self,
        first: usize,
        i: &Instr,
        n: u32,
        transpose: bool,
        memory: &mut [Memory],
    ) -> Result<(), At> {
        let ([d, s], []) = i.operands();
        let (d, s) = (*d, *s);
        let source = &self.code.arrays[s.array as usize];
        let mut rows = vec![];
        for row in 0..8 * n as usize {
            let (t, from) = (first + row, self.row(first, row, s)?);
            let elements = ROW as usize / source.dtype.bytes() as usize;
            let load = |e| self.threads[t].load(source, from + e, memory, self.by(t));
            let values: Result<Vec<u64>, Fault> = (0..elements).map(load).collect();
            rows.push(values.map_err(|fault| self.fault(t, fault))?);
        }
        let each = self.lane_elements(s);
        for lane in 0..WARP {
            for e in 0..n as usize * each {
                let (row, column) = fragment(lane, e, each, transpose);
                self.put(first + lane, d, e, rows[row][column], memory)?;
            }
        }
        Ok(())
    }

    pub(super) fn stmatrix(
        &mut self,
        first: usize,
        i: &Instr,
        n: u32,
        transpose: bool,
        memory: &mut [Memory],
    ) -> Result<(), At> {
        let ([d, s], []) = i.operands();
        let (d, s) = (*d, *s);
        let array = &self.code.arrays[d.array as usize];
        let each = self.lane_elements(s);
        for lane in 0..WARP {
            for e in 0..n as usize * each {
                let (row, column) = fragment(lane, e, each, transpose);
                let (value, place) = (self.get(first + lane, s, e, memory)?, self.row(first, row, d)? + column);
                let by = by(self.code, &self.clock, first + row, self.threads[first + row].pc);
                let stored = self.threads[first + row].store(array, place, value, memory, by);
                stored.map_err(|fault| self.fault(first + row, fault))?;
            }
        }
        Ok(())
    }

    pub(super) fn quad_transpose(&mut self, first: usize, i: &Instr, memory: &mut [Memory]) -> Result<(), At> {
        let ([x], []) = i.operands();
        let x = *x;
        let pair = |t: usize, p: usize, block: &Self, memory: &mut [Memory]| -> Result<[u64; 2], At> {
            Ok([block.get(t, x, 2 * p, memory)?, block.get(t, x, 2 * p + 1, memory)?])
        };
        for (quad, q, p) in (0..WARP / 4).flat_map(|quad| (0..4).flat_map(move |q| (0..q).map(move |p| (quad, q, p)))) {
            let (high, low) = (first + 4 * quad + q, first + 4 * quad + p);
            let (of_high, of_low) = (pair(high, p, self, memory)?, pair(low, q, self, memory)?);
            for v in 0..2 {
                self.put(high, x, 2 * p + v, of_low[v], memory)?;
                self.put(low, x, 2 * q + v, of_high[v], memory)?;
            }
        }
        Ok(())
    }

    /// Elements of one matrix that a lane holds: 32 bits.
    fn lane_elements(&self, site: Site) -> usize {
        4 / self.code.arrays[site.array as usize].dtype.bytes() as usize
    }

    pub(super) fn mma(&mut self, first: usize, i: &Instr, shape: MmaShape, memory: &mut [Memory]) -> Result<(), At> {
        let ([d, a, b, c], []) = i.operands();
        let k = shape.k() as usize;
        let word = 4 / shape.dtypes().0.bytes() as usize;
        let lc = shape.lane_elements()[2] as usize;
        let [left, right, mut sum] = self.fragments(first, [*a, *b, *c], k, word, memory)?;
        for (i, value) in sum.iter_mut().enumerate() {
            let (row, column) = (i / 8 * k, i % 8 * k);
            *value = dot(shape, &left[row..row + k], &right[column..column + k], *value);
        }
        for lane in 0..WARP {
            for e in 0..lc {
                self.put(first + lane, *d, e, sum[accumulator(lane, e)], memory)?;
            }
        }
        Ok(())
    }

    /// The matrices A, by rows, B, by columns, and C, by rows, whose fragments the lanes hold: `k` elements along the
    /// reduced axis, `word` of them in 32 bits.
    fn fragments(
        &self,
        first: usize,
        [a, b, c]: [Site; 3],
        k: usize,
        word: usize,
        memory: &mut [Memory],
    ) -> Result<[Vec<u64>; 3], At> {
        let (mut left, mut right, mut sum) = (vec![0; 16 * k], vec![0; 8 * k], vec![0; 16 * 8]);
        for lane in 0..WARP {
            let (t, group, within) = (first + lane, lane / 4, lane % 4 * word);
            for e in 0..k / 2 {
                let (row, column) = (group + 8 * (e / word % 2), within + e % word + 4 * word * (e / word / 2));
                left[row * k + column] = self.get(t, a, e, memory)?;
            }
            for e in 0..k / 4 {
                right[group * k + within + e % word + 4 * word * (e / word)] = self.get(t, b, e, memory)?;
            }
            for e in 0..4 {
                sum[accumulator(lane, e)] = self.get(t, c, e, memory)?;
            }
        }
        Ok([left, right, sum])
    }

    pub(super) fn block_scale_mma(
        &mut self,
        first: usize,
        i: &Instr,
        shape: BlockScaleMma,
        from: [u32; 2],
        memory: &mut [Memory],
    ) -> Result<(), At> {
        let ([d, a, b, c, sfa, sfb], []) = i.operands();
        let (row, n) = (BlockScaleMma::row() as usize, shape.scales() as usize);
        let [left, right, mut sum] = self.fragments(first, [*a, *b, *c], row, 4, memory)?;
        let mut scales = |lane: usize, site: Site, from: u32| -> Result<Vec<f64>, At> {
            let scale = |e| self.get(first + lane, site, from as usize + e, memory).map(scalar::float);
            // the sign of one is not specified
            (0..n).map(scale).map(|s| s.map(|s| if s < 0.0 { f64::NAN } else { s })).collect()
        };
        // of A two lanes of each four have a row's, of B the first of four
        let of_a = (0..16).map(|r| scales(r % 8 * 4 + r / 8, *sfa, from[0])).collect::<Result<Vec<_>, _>>()?;
        let of_b = (0..8).map(|c| scales(4 * c, *sfb, from[1])).collect::<Result<Vec<_>, _>>()?;
        let numbers = |bytes: &[u64]| bytes.iter().flat_map(|b| numbers(*b, shape.packed())).collect::<Vec<f64>>();
        for (at, value) in sum.iter_mut().enumerate() {
            let (r, c) = (at / 8, at % 8);
            let (x, y) = (numbers(&left[r * row..][..row]), numbers(&right[c * row..][..row]));
            let block = x.len() / n;
            let product = |k: usize| x[k] * of_a[r][k / block] * (y[k] * of_b[c][k / block]);
            let total = (0..x.len()).fold(scalar::float(*value), |sum, k| sum + product(k));
            *value = round_to(total, DType::F32).to_bits();
        }
        for lane in 0..WARP {
            for e in 0..4 {
                self.put(first + lane, *d, e, sum[accumulator(lane, e)], memory)?;
            }
        }
        Ok(())
    }

    /// Element `e` of an operand of a thread.
    pub(super) fn get(&self, t: usize, site: Site, e: usize, memory: &mut [Memory]) -> Result<u64, At> {
        let (thread, array) = (&self.threads[t], &self.code.arrays[site.array as usize]);
        let place = in_bounds(array, thread.int(site.index), e as u32 + 1);
        let value = place.and_then(|i| thread.load(array, i + e, memory, self.by(t)));
        value.map_err(|fault| self.fault(t, fault))
    }

    pub(super) fn put(&mut self, t: usize, site: Site, e: usize, value: u64, memory: &mut [Memory]) -> Result<(), At> {
        let (code, thread) = (self.code, &mut self.threads[t]);
        let array = &code.arrays[site.array as usize];
        let place = in_bounds(array, thread.int(site.index), e as u32 + 1);
        let by = by(code, &self.clock, t, thread.pc);
        let stored = place.and_then(|i| thread.store(array, i + e, value, memory, by));
        stored.map_err(|fault| self.fault(t, fault))
    }
}

fn by<'a>(code: &'a Code, clock: &'a Clock, t: usize, pc: usize) -> By<'a> {
    By { code, clock, thread: t as u32, pc }
}

/// Row, over all matrices, and column of element `e` of a lane, `each` elements per matrix.
fn fragment(lane: usize, e: usize, each: usize, transpose: bool) -> (usize, usize) {
    let (matrix, row, column) = (e / each, lane / 4, each * (lane % 4) + e % each);
    let (row, column) = if transpose { (column, row) } else { (row, column) };
    (8 * matrix + row, column)
}

/// Row-major place of element `e` of a lane in the 16 x 8 accumulator.
fn accumulator(lane: usize, e: usize) -> usize {
    (lane / 4 + 8 * (e / 2)) * 8 + 2 * (lane % 4) + e % 2
}

/// The numbers that an element holds, the low bits first: itself, or two of `float4_e2m1fn`.
pub(super) fn numbers(bits: u64, packed: i64) -> Vec<f64> {
    let four = |code: u64| {
        let (exponent, fraction) = (code >> 1 & 3, (code & 1) as f64);
        let size = if exponent == 0 { fraction / 2.0 } else { (1.0 + fraction / 2.0) * 2f64.powi(exponent as i32 - 1) };
        if code & 8 != 0 { -size } else { size }
    };
    if packed == 1 { vec![scalar::float(bits)] } else { vec![four(bits & 15), four(bits >> 4 & 15)] }
}

fn dot(shape: MmaShape, a: &[u64], b: &[u64], start: u64) -> u64 {
    let pairs = a.iter().zip(b);
    if shape == MmaShape::M16N8K32I8 {
        let sum: i64 = pairs.map(|(x, y)| *x as i64 * *y as i64).sum();
        return wrap_int(start as i64 + sum, DType::I32) as u64;
    }
    let operand = |bits: u64| match shape {
        MmaShape::M16N8K8TF32 => scalar::float(scalar::tf32(bits)),
        MmaShape::M16N8K16F16
        | MmaShape::M16N8K16BF16
        | MmaShape::M16N8K32I8
        | MmaShape::M16N8K32E4M3
        | MmaShape::M16N8K32E5M2 => scalar::float(bits),
    };
    let sum = pairs.fold(scalar::float(start), |sum, (x, y)| sum + operand(*x) * operand(*y));
    round_to(sum, DType::F32).to_bits()
}

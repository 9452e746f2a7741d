//! Products of numbers with scales of blocks: `gemm` with the operands `sfa` and `sfb`, or with one of them.
//!
//! Bytes are two numbers of `float4_e2m1fn`, the first in the low bits. A line of numbers has as many scales as the
//! operand has columns, each for as many neighbours.

use super::tile::{Operand, missing};
use super::{Machine, Result};
use crate::ir::{DType, TileCall};

/// The numbers of `float4_e2m1fn` without sign.
const SIZES: [f64; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];

/// An operand as a matrix whose lines are reduced: elements, those of a line and of the other axis, and whether lines
/// lie side by side.
struct Lines<'o> {
    of: &'o Operand,
    rows: usize,
    columns: usize,
    turned: bool,
}

impl Lines<'_> {
    fn of(of: &Operand, turned: bool) -> Option<Lines<'_>> {
        let [.., rows, columns] = of.extent.as_slice() else { return None };
        Some(Lines { of, rows: *rows as usize, columns: *columns as usize, turned })
    }

    fn len(&self) -> usize {
        if self.turned { self.rows } else { self.columns }
    }

    fn at(&self, line: usize, k: usize) -> usize {
        if self.turned { k * self.columns + line } else { line * self.columns + k }
    }
}

/// The scales of A's rows and of B's columns.
pub(super) type Scales = [Option<Operand>; 2];

impl Machine<'_> {
    /// The scales of A's rows and B's columns, of one of them or both, where the call names any.
    pub(super) fn scales(&mut self, call: &TileCall, group: &[usize]) -> Result<Option<Scales>> {
        let mut of = |name| call.operands.get(name).map(|x| self.operand(x, group)).transpose();
        let scales = [of("sfa")?, of("sfb")?];
        Ok(Some(scales).filter(|all| all.iter().any(Option::is_some)))
    }

    pub(super) fn scaled_product(
        &self,
        call: &TileCall,
        args: &[Operand],
        scales: &Scales,
        old: Option<Operand>,
    ) -> Result<Vec<Option<u64>>> {
        let [a, b] = args else { return Err(missing()) };
        let lines = (Lines::of(a, call.flag("transpose_A")), Lines::of(b, !call.flag("transpose_B")));
        let (Some(a), Some(b), [.., m, n]) = (lines.0, lines.1, call.dst.extent.as_slice()) else {
            return Err(missing());
        };
        let [of_a, of_b] = scales;
        let (rows, columns) = (self.numbers(&a, of_a.as_ref(), *m)?, self.numbers(&b, of_b.as_ref(), *n)?);
        let mut out = vec![];
        for (i, row) in rows.iter().enumerate() {
            for (j, column) in columns.iter().enumerate() {
                let start = match &old {
                    Some(o) => f64::from_bits(self.get(o, i * columns.len() + j, DType::F64)?),
                    None => 0.0,
                };
                let sum = row.iter().zip(column).fold(start, |sum, (x, y)| sum + x * y);
                out.push(Some(self.convert(DType::F64, DType::F32, sum.to_bits())));
            }
        }
        Ok(out)
    }

    /// The numbers of each line, times their scales where they have some.
    fn numbers(&self, lines: &Lines, scales: Option<&Operand>, count: i64) -> Result<Vec<Vec<f64>>> {
        let line = |i: usize| -> Result<Vec<f64>> {
            let mut all = vec![];
            for k in 0..lines.len() {
                all.extend(self.of_element(lines, lines.at(i, k))?);
            }
            let Some(scales) = scales else { return Ok(all) };
            let of_line = Lines::of(scales, false).ok_or_else(missing)?;
            let block = (all.len() / of_line.len().max(1)).max(1);
            for (k, x) in all.iter_mut().enumerate() {
                *x *= f64::from_bits(self.get(scales, of_line.at(i, k / block), DType::F64)?);
            }
            Ok(all)
        };
        (0..count as usize).map(line).collect()
    }

    fn of_element(&self, lines: &Lines, at: usize) -> Result<Vec<f64>> {
        if lines.of.dtype != DType::U8 {
            return Ok(vec![f64::from_bits(self.get(lines.of, at, DType::F64)?)]);
        }
        let byte = self.get(lines.of, at, DType::U8)?;
        let number = |code: u64| if code & 8 != 0 { -SIZES[code as usize % 8] } else { SIZES[code as usize % 8] };
        Ok(vec![number(byte & 15), number(byte >> 4 & 15)])
    }
}

//! Permutes shared memory that matrix instructions are fed from, so that eight rows of a matrix lie in
//! different banks.
//!
//! Units of 16 bytes change places within a row, by the number of the row: within 128 bytes by the low
//! three bits of it, within shorter rows by fewer. Accesses of at most 16 aligned bytes stay what they are.
//! What warpgroups multiply has rows of at most 128 bytes: longer ones are cut, and parts follow each other.
//!
//! before: `ldmatrix r <- s[row * 64 + chunk * 8]` of 16-bit elements
//! after:  `ldmatrix r <- s[row * 64 + ((chunk ^ row % 8) * 8)]`

use crate::analysis::simplify;
use crate::ir::device::DStmt;
use crate::ir::instr::Op;
use crate::ir::layout::{Axis, Iter, Swizzle, TileLayout};
use crate::ir::{BinOp, Buffer, Expr};
use crate::lower::fact::redirect;
use crate::lower::nest::Nest;

/// Bytes that stay together.
const UNIT: i64 = 16;

/// How an array is permuted.
#[derive(Clone, Copy, Debug)]
pub struct Permutation {
    /// Rows, elements of a row, and of the parts that rows are cut into.
    cut: Option<[i64; 3]>,
    swizzle: Swizzle,
}

impl Permutation {
    /// How a matrix lies that warpgroups multiply; `None` where it is too small.
    pub fn of_operand(b: &Buffer) -> Option<Permutation> {
        let [rows, row] = b.shape.iter().map(Expr::as_int).collect::<Option<Vec<i64>>>()?[..] else { return None };
        let element = b.dtype.bytes() as i64;
        let span = Swizzle::widest_row(row * element)?;
        let part = i64::from(span) / element;
        let swizzle = Swizzle::of_rows(span, b.dtype.bytes() as u32).ok()?;
        let cut = (part < row).then_some([rows, row, part]);
        (rows * row % swizzle.block() == 0).then_some(Permutation { cut, swizzle })
    }

    /// The layout of the matrix.
    pub fn layout(&self, b: &Buffer) -> Option<TileLayout> {
        let shape = b.shape.iter().map(Expr::as_int).collect::<Option<Vec<i64>>>()?;
        let plain = match self.cut {
            None => TileLayout::row_major(&shape),
            Some([rows, row, part]) => {
                let parts = Iter::new(row / part, rows * part, Axis::M);
                TileLayout::of_shard(vec![Iter::new(rows, part, Axis::M), parts, Iter::new(part, 1, Axis::M)])
            }
        };
        plain.and_then(|l| l.compose(self.swizzle)).ok()
    }

    /// Where the element at a flat index of the array, which may hold several such matrices, is instead.
    fn place(&self, nest: &Nest, at: &Expr) -> Expr {
        let Some([rows, row, part]) = self.cut else { return permuted(nest, self.swizzle, at) };
        let op = |op, a: &Expr, n: i64| simplify(&Expr::binary(op, a.clone(), Expr::i64(n)), &nest.ranges);
        let (line, along) = (op(BinOp::FloorDiv, at, row), op(BinOp::FloorMod, at, row));
        let (before, line) = (op(BinOp::FloorDiv, &line, rows), op(BinOp::FloorMod, &line, rows));
        let (number, within) = (op(BinOp::FloorDiv, &along, part), op(BinOp::FloorMod, &along, part));
        let at = before * Expr::i64(rows * row) + number * Expr::i64(rows * part) + line * Expr::i64(part) + within;
        permuted(nest, self.swizzle, &simplify(&at, &nest.ranges))
    }
}

/// Notes how those of these arrays that a statement loads matrices from are to be permuted; with `by_rows` also those
/// of which lanes load 16 bytes of a row each.
pub fn choose(nest: &mut Nest, arrays: &[Buffer], s: &DStmt, by_rows: bool) {
    s.visit(&mut |s| {
        let src = match s {
            DStmt::Instr(i) if matches!(i.op, Op::LdMatrix { .. }) => i.places.get(1).map(|at| &at.array),
            DStmt::Copy { src, .. } if by_rows => Some(src),
            _ => None,
        };
        if let Some(b) = src.and_then(|name| arrays.iter().find(|b| b.name == *name && nest.is_shared(name)))
            && let Some(swizzle) = of_rows(b)
        {
            nest.permuted.insert(b.name.clone(), Permutation { cut: None, swizzle });
        }
    });
}

/// The permutation for rows of the buffer's last extent.
fn of_rows(b: &Buffer) -> Option<Swizzle> {
    let element = b.dtype.bytes() as i64;
    let units = b.shape.last()?.as_int()? * element / UNIT;
    if units < 2
        || units.count_ones() != 1
        || UNIT % element != 0
        || b.len()? % (8 * units.max(8) * UNIT / element) != 0
    {
        return None;
    }
    let bits = units.ilog2();
    Swizzle::new((UNIT / element).ilog2(), bits.min(3), bits.max(3), true).ok()
}

/// Permutes every access to the arrays that were chosen.
pub fn run(nest: &mut Nest, body: Vec<DStmt>) -> Vec<DStmt> {
    if nest.permuted.is_empty() {
        return body;
    }
    redirect::elements(&body, &|name, at| Some((name.clone(), nest.permuted.get(name)?.place(nest, at))))
}

/// `at` with its unit exchanged, written with quotients and remainders, which simplify.
fn permuted(nest: &Nest, s: Swizzle, at: &Expr) -> Expr {
    let chunk = s.chunk();
    let within = chunk << s.swizzle_len();
    let op = |op, a: &Expr, n: i64| Expr::binary(op, a.clone(), Expr::i64(n));
    let part = |a: &Expr, low: i64, size: i64| {
        simplify(&op(BinOp::FloorMod, &op(BinOp::FloorDiv, a, low), size), &nest.ranges)
    };
    let n = 1 << s.swizzle_len();
    let (unit, row) = (part(at, chunk, n), part(at, chunk << s.atom_len(), n));
    let above = op(BinOp::Mul, &op(BinOp::FloorDiv, at, within), within);
    let below = op(BinOp::FloorMod, at, chunk);
    let moved = op(BinOp::Mul, &Expr::binary(BinOp::BitXor, unit, row), chunk);
    simplify(&(simplify(&above, &nest.ranges) + moved + simplify(&below, &nest.ranges)), &nest.ranges)
}

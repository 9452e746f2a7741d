//! Permutes shared memory that matrix instructions are fed from, so that eight rows of a matrix lie in
//! different banks.
//!
//! Units of 16 bytes change places within a row, by the number of the row: within 128 bytes by the low
//! three bits of it, within shorter rows by fewer. Accesses of at most 16 aligned bytes stay what they are.
//! What warpgroups multiply has rows of at most 128 bytes: longer ones are cut, and parts follow each other. Scales that are
//! copied to tensor memory lie in the order of those copies.
//!
//! before: `ldmatrix r <- s[row * 64 + chunk * 8]` of 16-bit elements
//! after:  `ldmatrix r <- s[row * 64 + ((chunk ^ row % 8) * 8)]`

use crate::analysis::simplify;
use crate::ir::device::DStmt;
use crate::ir::instr::{LANES_OF_WARP, Op, TENSOR_LANES};
use crate::ir::layout::{Axis, Iter, Swizzle, TileLayout};
use crate::ir::{BinOp, Buffer, Expr};
use crate::lower::fact::redirect;
use crate::lower::nest::Nest;

/// Bytes that stay together.
const UNIT: i64 = 16;

/// How an array is permuted.
#[derive(Clone, Copy, Debug)]
pub enum Permutation {
    /// Units within rows.
    Units {
        /// Rows, elements of a row, and of the parts that rows are cut into.
        cut: Option<[i64; 3]>,
        /// How units of a part change places.
        swizzle: Swizzle,
    },
    /// Scales of whole blocks of rows, so many bytes of a row.
    Scales(i64),
}

/// Rows whose scales one copy takes to tensor memory, those of them that are neighbours there, and scales of each.
const SCALES: [i64; 3] = [TENSOR_LANES, LANES_OF_WARP, 4];

impl Permutation {
    /// How a matrix lies that warpgroups multiply; `None` where it is too small, or lies as its schedule asks.
    pub fn of_operand(b: &Buffer) -> Option<Permutation> {
        let [rows, row] = row_major(b)?;
        let element = b.dtype.bytes() as i64;
        let span = Swizzle::widest_row(row * element)?;
        let part = i64::from(span) / element;
        let swizzle = Swizzle::of_rows(span, b.dtype.bytes() as u32).ok()?;
        let cut = (part < row).then_some([rows, row, part]);
        (rows * row % swizzle.block() == 0).then_some(Permutation::Units { cut, swizzle })
    }

    /// How a matrix of scales lies that is copied to tensor memory; `None` where it is no whole blocks, or lies as its
    /// schedule asks.
    pub fn of_scales(b: &Buffer) -> Option<Permutation> {
        let [rows, row] = row_major(b)?;
        let [lines, _, word] = SCALES;
        let whole = b.dtype.bytes() == 1 && rows % lines == 0 && row % word == 0;
        whole.then_some(Permutation::Scales(row))
    }

    /// The layout of the matrix.
    pub fn layout(&self, b: &Buffer) -> Option<TileLayout> {
        let shape = b.shape.iter().map(Expr::as_int).collect::<Option<Vec<i64>>>()?;
        let own = |n, stride| Iter::new(n, stride, Axis::M);
        match *self {
            Permutation::Units { cut: None, swizzle } => TileLayout::row_major(&shape).and_then(|l| l.compose(swizzle)),
            Permutation::Units { cut: Some([rows, row, part]), swizzle } => {
                let iters = vec![own(rows, part), own(row / part, rows * part), own(part, 1)];
                TileLayout::of_shard(iters).and_then(|l| l.compose(swizzle))
            }
            Permutation::Scales(row) => {
                let [lines, lanes, word] = SCALES;
                let (groups, words) = (lines / lanes, row / word);
                TileLayout::of_shard(vec![
                    own(shape[0] / lines, lines * row),
                    own(groups, word),
                    own(lanes, groups * word),
                    own(words, lines * word),
                    own(word, 1),
                ])
            }
        }
        .ok()
    }

    /// Where the element at a flat index of the array, which may hold several such matrices, is instead.
    fn place(&self, nest: &Nest, at: &Expr) -> Expr {
        let op = |op, a: &Expr, n: i64| simplify(&Expr::binary(op, a.clone(), Expr::i64(n)), &nest.ranges);
        let ([rows, row, part], swizzle) = match *self {
            Permutation::Units { cut: None, swizzle } => return permuted(nest, swizzle, at),
            Permutation::Units { cut: Some(cut), swizzle } => (cut, swizzle),
            Permutation::Scales(row) => {
                let [lines, lanes, word] = SCALES;
                let (line, along) = (op(BinOp::FloorDiv, at, row), op(BinOp::FloorMod, at, row));
                let (before, line) = (op(BinOp::FloorDiv, &line, lines), op(BinOp::FloorMod, &line, lines));
                let (group, lane) = (op(BinOp::FloorDiv, &line, lanes), op(BinOp::FloorMod, &line, lanes));
                let (number, within) = (op(BinOp::FloorDiv, &along, word), op(BinOp::FloorMod, &along, word));
                let block = before * Expr::i64(lines * row) + number * Expr::i64(lines * word);
                let at = block + lane * Expr::i64(lines / lanes * word) + group * Expr::i64(word) + within;
                return simplify(&at, &nest.ranges);
            }
        };
        let (line, along) = (op(BinOp::FloorDiv, at, row), op(BinOp::FloorMod, at, row));
        let (before, line) = (op(BinOp::FloorDiv, &line, rows), op(BinOp::FloorMod, &line, rows));
        let (number, within) = (op(BinOp::FloorDiv, &along, part), op(BinOp::FloorMod, &along, part));
        let at = before * Expr::i64(rows * row) + number * Expr::i64(rows * part) + line * Expr::i64(part) + within;
        permuted(nest, swizzle, &simplify(&at, &nest.ranges))
    }
}

/// Rows of a matrix and elements of a row, where they lie one after the other.
fn row_major(b: &Buffer) -> Option<[i64; 2]> {
    let shape: Vec<i64> = b.shape.iter().map(Expr::as_int).collect::<Option<_>>()?;
    shape.try_into().ok().filter(|_| b.is_row_major())
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
            nest.permuted.insert(b.name.clone(), Permutation::Units { cut: None, swizzle });
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{DType, Name, Scope};

    #[test]
    fn what_lies_as_its_schedule_asks_is_not_permuted() {
        let shape = vec![Expr::i64(64), Expr::i64(64)];
        let mut b = Buffer::new(Name::new("t"), DType::F16, shape, Scope::Shared);
        assert!(Permutation::of_operand(&b).is_some());
        b.strides = vec![Expr::i64(128), Expr::i64(2)];
        assert!(Permutation::of_operand(&b).is_none());
        let shape = vec![Expr::i64(128), Expr::i64(4)];
        let mut b = Buffer::new(Name::new("s"), DType::E8M0, shape, Scope::Shared);
        assert!(Permutation::of_scales(&b).is_some());
        b.strides = vec![Expr::i64(8), Expr::i64(1)];
        assert!(Permutation::of_scales(&b).is_none());
    }
}

//! Permutes shared memory that matrix fragments are loaded from, so that the eight rows of a fragment lie
//! in different banks.
//!
//! Units of 16 bytes change places within a row, by the number of the row: within 128 bytes by the low
//! three bits of it, within shorter rows by fewer. Accesses of at most 16 aligned bytes stay what they are.
//!
//! before: `ldmatrix r <- s[row * 64 + chunk * 8]` of 16-bit elements
//! after:  `ldmatrix r <- s[row * 64 + ((chunk ^ row % 8) * 8)]`

use crate::analysis::simplify;
use crate::ir::device::DStmt;
use crate::ir::instr::Op;
use crate::ir::layout::Swizzle;
use crate::ir::{BinOp, Buffer, Expr};
use crate::lower::fact::redirect;
use crate::lower::nest::Nest;

/// Bytes that stay together.
const UNIT: i64 = 16;

/// Notes how those of these arrays that a statement loads matrices from are to be permuted.
pub fn choose(nest: &mut Nest, arrays: &[Buffer], s: &DStmt) {
    s.visit(&mut |s| {
        if let DStmt::Instr(i) = s
            && matches!(i.op, Op::LdMatrix { .. })
            && let [_, src, ..] = &i.places[..]
            && let Some(swizzle) = arrays.iter().find(|b| b.name == src.array).and_then(of_rows)
        {
            nest.swizzles.insert(src.array.clone(), swizzle);
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
pub fn run(nest: &Nest, body: Vec<DStmt>) -> Vec<DStmt> {
    if nest.swizzles.is_empty() {
        return body;
    }
    redirect::all(&body, &|name, at| Some((name.clone(), permuted(nest, *nest.swizzles.get(name)?, at))))
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

//! The eight rows of an accumulator that a warp holds side by side, and what expressions say of their columns.

use crate::analysis::{Ranges, linear, simplify};
use crate::ir::device::index_var;
use crate::ir::{BinOp, Expr, Name, ThreadTag};
use crate::lower::pass::guards::strict_difference;
use crate::lower::tile::quads::Pairs;

/// Lanes of a warp, that share a row of an accumulator, and rows that a warp holds side by side.
pub const LANES: i64 = 32;
pub const QUAD: i64 = 4;
pub const ROWS: i64 = LANES / QUAD;
/// Neighbours in a lane, and in the lanes of a quad.
pub const PAIR: i64 = 2;
pub const GROUP: i64 = QUAD * PAIR;

/// The eight rows that a warp holds side by side. `warp`, `row` and `lane` are the digits of the thread's number.
pub struct Patch<'p> {
    pub pairs: &'p Pairs<'p>,
    pub ranges: Ranges,
    pub warp: Name,
    pub row: Name,
    pub lane: Name,
}

impl<'p> Patch<'p> {
    /// For a block of so many threads.
    pub fn new(pairs: &'p Pairs<'p>, ranges: &Ranges, threads: i64) -> Patch<'p> {
        let names = ["warp of the block", "row of the warp", "lane of a quad"].map(Name::new);
        let mut ranges = ranges.clone();
        for (name, n) in names.iter().zip([threads / LANES, ROWS, QUAD]) {
            ranges.set(name.clone(), 0, n - 1);
        }
        let [warp, row, lane] = names;
        Patch { pairs, ranges, warp, row, lane }
    }

    fn digits(&self, e: &Expr) -> Expr {
        let [warp, row, lane] = [&self.warp, &self.row, &self.lane].map(index_var);
        let thread = warp * Expr::i64(LANES) + row * Expr::i64(QUAD) + lane;
        let name = Name::new(ThreadTag::ThreadX.name());
        simplify(&e.subst(&|n| (*n == name).then(|| thread.clone())), &self.ranges)
    }

    /// An expression as one of the column, `n` more for each; of those that are the same in a row, as it is.
    pub fn of_column(&self, e: &Expr, column: &Name) -> Option<(i64, Expr)> {
        let e = self.digits(e);
        let crossed = [self.pairs.v, &self.lane, self.pairs.y];
        if crossed.iter().all(|v| !e.uses_var(v)) {
            return Some((0, e));
        }
        let mut rest = e;
        let mut steps = [0; 3];
        for (step, v) in steps.iter_mut().zip(crossed) {
            let (n, without) = linear(&rest, v, &self.ranges)?;
            (*step, rest) = (n.as_int()?, without);
        }
        let n = steps[0];
        let along = n > 0 && steps == [n, PAIR * n, GROUP * n] && crossed.iter().all(|v| !rest.uses_var(v));
        along.then(|| (n, rest + index_var(column) * Expr::i64(n)))
    }

    /// A condition as one of the column.
    pub fn condition(&self, cond: &Expr, column: &Name) -> Option<Expr> {
        if let Some((0, same)) = self.of_column(cond, column) {
            return Some(same);
        }
        let difference = strict_difference(cond)?;
        // of whole pairs, `p + e < 0` for the pair `p` of a column `c` says `c + 2 e < 0`
        let of_pair = Expr::i64(PAIR) * difference.clone() + index_var(self.pairs.v);
        let whole = (!difference.uses_var(self.pairs.v)).then_some(of_pair);
        let (_, below) = self.of_column(whole.as_ref().unwrap_or(&difference), column)?;
        Some(Expr::binary(BinOp::Lt, below, Expr::i64(0)))
    }
}

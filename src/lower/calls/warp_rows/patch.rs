//! The eight rows of an accumulator that a warp holds side by side, or twice eight, and what expressions say of them.

use crate::analysis::{Ranges, linear, simplify};
use crate::ir::device::index_var;
use crate::ir::{BinOp, Expr, Name, ThreadTag};
use crate::lower::calls::quads::Pairs;
use crate::lower::pass::guards::strict_difference;

/// Lanes of a warp, that share a row of an accumulator, and rows that a warp holds side by side.
pub const LANES: i64 = 32;
pub const QUAD: i64 = 4;
pub const ROWS: i64 = LANES / QUAD;
/// Neighbours in a lane, and in the lanes of a quad.
pub const PAIR: i64 = 2;
pub const GROUP: i64 = QUAD * PAIR;
/// Groups of eight rows that are next to each other in a warp's part of an instruction, and their rows.
pub const HALVES: i64 = 2;
pub const BOTH: i64 = HALVES * ROWS;

/// The eight rows that a warp holds side by side. `warp`, `row` and `lane` are the digits of the thread's number.
pub struct Patch<'p> {
    pub pairs: &'p Pairs<'p>,
    pub ranges: Ranges,
    pub warp: Name,
    pub row: Name,
    pub lane: Name,
    halves: Option<Halves<'p>>,
}

/// Twice eight rows, of which a lane holds one of each half.
pub struct Halves<'p> {
    /// The loop over groups of eight rows, and that over pairs of groups.
    pub x: &'p Name,
    pub both: Name,
    /// A half, and a row in it.
    half: Name,
    of_eight: Name,
}

impl Halves<'_> {
    /// The group of eight rows that half `half` is.
    pub fn group(&self, half: Expr) -> Expr {
        index_var(&self.both) * Expr::i64(HALVES) + half
    }
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
        Patch { pairs, ranges, warp, row, lane, halves: None }
    }

    /// The same of two groups of eight rows, steps of the loop `x`: `row` is one of sixteen. `both` goes over such pairs.
    pub fn of_halves(self, x: &'p Name, (both, n): (Name, i64)) -> Patch<'p> {
        let [half, of_eight] = ["half of the rows", "row of eight"].map(Name::new);
        let mut ranges = self.ranges;
        let all = [(&self.row, BOTH), (&half, HALVES), (&of_eight, ROWS), (&both, n)];
        all.into_iter().for_each(|(name, n)| ranges.set(name.clone(), 0, n - 1));
        Patch { ranges, halves: Some(Halves { x, both, half, of_eight }), ..self }
    }

    pub fn halves(&self) -> Option<&Halves<'p>> {
        self.halves.as_ref()
    }

    /// An expression by the digits of the thread's number.
    fn digits(&self, e: &Expr) -> Expr {
        let row = self.halves.as_ref().map_or(&self.row, |h| &h.of_eight);
        let [warp, row, lane] = [&self.warp, row, &self.lane].map(index_var);
        let thread = warp * Expr::i64(LANES) + row * Expr::i64(QUAD) + lane;
        let name = Name::new(ThreadTag::ThreadX.name());
        let group = |n: &Name| self.halves.as_ref().filter(|h| n == h.x).map(|h| h.group(index_var(&h.half)));
        let of = |n: &Name| if *n == name { Some(thread.clone()) } else { group(n) };
        simplify(&e.subst(&of), &self.ranges)
    }

    /// An expression of a half and a row of eight as one of the row of both.
    fn of_both(&self, h: &Halves, e: &Expr) -> Option<Expr> {
        if ![&h.half, &h.of_eight].into_iter().any(|n| e.uses_var(n)) {
            return Some(e.clone());
        }
        let (step, rest) = linear(e, &h.of_eight, &self.ranges)?;
        let (of_half, rest) = linear(&rest, &h.half, &self.ranges)?;
        let step = step.as_int().filter(|n| of_half.is_int(ROWS * n))?;
        (!rest.uses_var(&h.of_eight)).then(|| rest + index_var(&self.row) * Expr::i64(step))
    }

    /// An expression as one of the column, `n` more for each; of those that are the same in a row, as it is.
    pub fn of_column(&self, e: &Expr, column: &Name) -> Option<(i64, Expr)> {
        let e = self.digits(e);
        let e = self.halves.as_ref().map_or(Some(e.clone()), |h| self.of_both(h, &e))?;
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
        let below = self.digits(&strict_difference(cond)?);
        // of whole pairs, `p + e < 0` for the pair `p` of a column `c` says `c + 2 e < 0`
        let finer = |n: i64, digits: &[(&Name, i64)]| {
            let all = digits.iter().fold(Expr::i64(n) * below.clone(), |e, (d, n)| e + index_var(d) * Expr::i64(*n));
            digits.iter().all(|(d, _)| !below.uses_var(d)).then_some(all)
        };
        let (v, lane) = (self.pairs.v, &self.lane);
        let of_eight = self.halves.as_ref().and_then(|h| finer(ROWS, &[(&h.of_eight, 1)]));
        let forms = [Some(below.clone()), finer(PAIR, &[(v, 1)]), finer(GROUP, &[(lane, PAIR), (v, 1)]), of_eight];
        let (_, below) = forms.into_iter().flatten().find_map(|e| self.of_column(&e, column))?;
        Some(Expr::binary(BinOp::Lt, below, Expr::i64(0)))
    }
}

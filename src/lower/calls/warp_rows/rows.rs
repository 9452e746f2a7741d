//! Where the elements of a strip lie in global memory: lines of neighbours, which are rows of the accumulator, or columns
//! of it.

use super::patch::{BOTH, GROUP, LANES, Patch};
use crate::analysis::{linear, multiple_of, simplify};
use crate::ir::device::{conjuncts, index_var};
use crate::ir::{DType, Expr, Name};
use crate::lower::calls::global_store::GlobalStore;
use crate::lower::nest::Nest;
use crate::lower::pass::guards::{free_of, strict_difference};

/// Bytes of the widest store.
const WIDEST: i64 = 16;

/// What a warp stores of a patch at a time.
#[derive(Clone, Copy)]
pub struct Size {
    pub lines: i64,
    /// Elements of a line.
    pub length: i64,
}

/// Where a strip goes: functions of `warp`, `row` and the column, which is a variable.
pub struct Rows {
    pub indices: Vec<Expr>,
    pub valid: Vec<Expr>,
    pub column: Name,
    /// What goes over lines, and over the elements of one: `row` and the column.
    pub line: Name,
    pub along: Name,
    /// What the elements at whole strips are multiples of.
    pub align: i64,
}

impl Rows {
    pub fn of(patch: &Patch, nest: &mut Nest, store: &GlobalStore, length: i64) -> Option<Rows> {
        let b = nest.buffers.get(&store.buffer)?.clone();
        if !b.is_row_major() {
            return None;
        }
        let column = nest.loop_var("column", patch.pairs.n * GROUP);
        let (row, exchanged) = (patch.row.clone(), patch.halves().is_some());
        let (line, along) = if exchanged { (column.clone(), row) } else { (row, column.clone()) };
        let (last, outer) = store.indices.split_last()?;
        let mut indices = vec![];
        for (i, steps) in outer.iter().map(|i| (i, 0)).chain([(last, 1)]) {
            let (of_column, e) = patch.of_column(i, &column)?;
            let step = if exchanged { step_along(&e, &along, patch)? } else { of_column };
            (step == steps).then_some(())?;
            indices.push(e);
        }
        if indices.last()?.uses_var(&line) {
            return None;
        }
        let parts = store.cond.as_ref().map(|c| conjuncts(&simplify(c, &nest.ranges))).unwrap_or_default();
        let valid = parts.iter().map(|c| patch.condition(c, &column)).collect::<Option<Vec<Expr>>>()?;
        let first = indices.iter().zip(&b.shape).fold(Expr::i64(0), |at, (i, n)| at * n.clone() + i.clone());
        let z = Name::new("strip of a line");
        let of_strip = index_var(&z) * Expr::i64(length);
        let first = first.subst(&|n| (*n == along).then(|| of_strip.clone()));
        let align = multiple_of(&first, &patch.ranges);
        Some(Rows { indices, valid, column, line, along, align })
    }

    /// How many neighbours are stored at a time: aligned ones, of which all are valid or none.
    pub fn width(&self, patch: &Patch, dtype: DType, size: Size) -> i64 {
        let (element, vector) = (Name::new("element of a vector"), Name::new("vector of a line"));
        let all = if self.along == patch.row { BOTH } else { patch.pairs.n * GROUP };
        let fits = |w: i64| {
            let at = index_var(&vector) * Expr::i64(w) + index_var(&element);
            let of = |n: &Name| (*n == self.along).then(|| at.clone());
            let mut ranges = patch.ranges.clone();
            ranges.set(element.clone(), 0, w - 1);
            ranges.set(vector.clone(), 0, all / w - 1);
            let same = |c: &Expr| {
                let c = free_of(&ranges, simplify(&c.subst(&of), &ranges), &[(element.clone(), w)]);
                !c.uses_var(&element)
            };
            self.align % w == 0 && LANES * w <= size.lines * size.length && self.valid.iter().all(same)
        };
        let mut w = WIDEST / dtype.bytes() as i64;
        while w > 1 && !fits(w) {
            w /= 2;
        }
        w.max(1)
    }

    /// True if the first of the lines is valid wherever another one is.
    pub fn first_is_valid(&self, patch: &Patch) -> bool {
        self.valid.iter().all(|c| {
            let rises = |d: Expr| Some(linear(&d, &self.line, &patch.ranges)?.0.as_int()? >= 0);
            !c.uses_var(&self.line) || strict_difference(c).and_then(rises) == Some(true)
        })
    }
}

/// By how much an expression grows with each step of a variable.
fn step_along(e: &Expr, along: &Name, patch: &Patch) -> Option<i64> {
    if !e.uses_var(along) {
        return Some(0);
    }
    let (step, rest) = linear(e, along, &patch.ranges)?;
    step.as_int().filter(|_| !rest.uses_var(along))
}

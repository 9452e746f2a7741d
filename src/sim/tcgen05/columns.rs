//! Columns of tensor memory: which block took which.
//!
//! A block takes the lowest ones that are free. The blocks of a pair take the same ones, the lowest that are free in both:
//! what the first to come takes, the other takes after it. They give them back together: once one has, neither may use them.

use crate::ir::instr::{CtaGroup, TENSOR_COLUMNS};
use crate::sim::error::Fault;
use std::collections::{BTreeMap, BTreeSet};

/// Who takes columns, and when.
#[derive(Clone, Copy, Default)]
pub(super) struct Taker {
    pub block: usize,
    pub thread: usize,
    pub pc: usize,
    pub stamp: u32,
}

/// Columns that a block took.
pub(super) struct Taken {
    pub by: Taker,
    first: i64,
    columns: i64,
    group: CtaGroup,
    /// The other block of the pair gave its own back.
    pub over: bool,
}

/// The columns of the blocks of a cluster.
#[derive(Default)]
pub(super) struct Columns {
    taken: Vec<Taken>,
    relinquished: BTreeSet<usize>,
    /// What the blocks of a pair took so far: the first column and how many, by the first block.
    of_pairs: BTreeMap<usize, Vec<(i64, i64)>>,
    /// How often a block of a pair did.
    times: BTreeMap<usize, usize>,
}

/// Both blocks of the pair of a block.
pub(crate) fn pair_of(block: usize) -> [usize; 2] {
    let first = block / 2 * 2;
    [first, first + 1]
}

/// The other block of its pair.
fn other(block: usize) -> usize {
    block ^ 1
}

pub(super) fn fault(why: String) -> Fault {
    Fault::TensorMemory(why)
}

impl Columns {
    /// The first of columns that a block takes.
    pub fn take(&mut self, by: Taker, columns: i64, group: CtaGroup) -> Result<i64, Fault> {
        if self.relinquished.contains(&by.block) {
            return Err(fault("the block takes columns after it said that it takes no more".into()));
        }
        let first = match group {
            CtaGroup::One => self.lowest(&[by.block], columns)?,
            CtaGroup::Pair => self.of_pair(by.block, columns)?,
        };
        self.taken.push(Taken { by, first, columns, group, over: false });
        Ok(first)
    }

    fn lowest(&self, blocks: &[usize], columns: i64) -> Result<i64, Fault> {
        let own = || self.taken.iter().filter(|t| blocks.contains(&t.by.block));
        let free = |first: &i64| own().all(|t| first + columns <= t.first || t.first + t.columns <= *first);
        (0..=TENSOR_COLUMNS - columns).step_by(32).find(free).ok_or_else(|| {
            let of = |block: &usize| own().filter(|t| t.by.block == *block).map(|t| t.columns).sum::<i64>();
            let taken = blocks.iter().map(of).max().unwrap_or(0);
            fault(format!("{columns} columns are taken where {taken} of {TENSOR_COLUMNS} are"))
        })
    }

    fn of_pair(&mut self, block: usize, columns: i64) -> Result<i64, Fault> {
        let blocks = pair_of(block);
        let n = *self.times.get(&block).unwrap_or(&0);
        let before = self.of_pairs.get(&blocks[0]).and_then(|all| all.get(n)).copied();
        let first = match before {
            Some((_, others)) if others != columns => {
                return Err(fault(format!("the blocks of a pair take {others} and {columns} columns")));
            }
            Some((first, _)) => first,
            None => self.lowest(&blocks, columns)?,
        };
        if before.is_none() {
            self.of_pairs.entry(blocks[0]).or_default().push((first, columns));
        }
        self.times.insert(block, n + 1);
        Ok(first)
    }

    /// A block takes no more.
    pub fn relinquish(&mut self, block: usize) {
        self.relinquished.insert(block);
    }

    /// What a block took that has so many columns from one on.
    pub fn having(&self, block: usize, first: i64, columns: i64) -> Option<&Taken> {
        let inside = |a: &&Taken| a.by.block == block && a.first <= first && first + columns <= a.first + a.columns;
        self.taken.iter().find(inside)
    }

    /// A block gives columns back that it took together; the other block of its pair, where that still has its own.
    pub fn give_back(&mut self, block: usize, first: i64, columns: i64) -> Result<Option<usize>, Fault> {
        let whole = |t: &Taken, block| t.by.block == block && (t.first, t.columns) == (first, columns);
        let Some(n) = self.taken.iter().position(|t| whole(t, block)) else {
            return Err(fault(format!("{columns} columns are given back of more that were taken together")));
        };
        if self.taken.remove(n).group == CtaGroup::One {
            return Ok(None);
        }
        let left = self.taken.iter_mut().find(|t| whole(t, other(block)));
        Ok(left.map(|t| {
            t.over = true;
            t.by.block
        }))
    }

    /// Columns that a block which ends has not given back.
    pub fn left(&self) -> Option<(Taker, Fault)> {
        let why = |t: &Taken| fault(format!("the block ends with {} columns not given back", t.columns));
        self.taken.first().map(|t| (t.by, why(t)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(block: usize) -> Taker {
        Taker { block, ..Taker::default() }
    }

    #[test]
    fn columns_are_taken_where_they_are_free() {
        let mut m = Columns::default();
        let mut take = |block, n| m.take(of(block), n, CtaGroup::One);
        assert_eq!((take(0, 256), take(0, 128), take(0, 128), take(1, 512)), (Ok(0), Ok(256), Ok(384), Ok(0)));
        assert!(take(0, 32).is_err() && m.left().is_some());
        assert_eq!(m.give_back(0, 256, 128), Ok(None));
        assert_eq!(m.take(of(0), 64, CtaGroup::One), Ok(256));
    }

    #[test]
    fn blocks_of_a_pair_take_the_same_columns() {
        let mut m = Columns::default();
        let mut take = |block, n| m.take(of(block), n, CtaGroup::Pair);
        assert_eq!(
            (take(0, 64), take(0, 32), take(1, 64), take(1, 32), take(3, 32)),
            (Ok(0), Ok(64), Ok(0), Ok(64), Ok(0))
        );
        assert!(take(2, 64).is_err(), "32 columns of one block and 64 of the other");
        assert_eq!(m.give_back(1, 64, 32), Ok(Some(0)));
        assert!(m.having(0, 64, 32).is_some_and(|t| t.over) && m.having(0, 0, 64).is_some_and(|t| !t.over));
        assert_eq!(m.give_back(0, 64, 32), Ok(None));
    }
}

//! Blocks of a launch that have not started, and what running ones are told that ask for them (`try_cancel`).
//!
//! Blocks, or clusters of them, start one after the other. A running one that asks may be given any of those that have not
//! started, which then never do. The seed decides whether it is, and which: it may be refused while there are some, since
//! a GPU starts blocks by itself. The answer lands at a later point, as a bulk copy does. Found is besides what is found of
//! these: a block that asks again after it was refused (whether it has seen that or not: with one question under way at a time
//! it has).
//!
//! Stands in a circle with `block`, whose threads ask.

use super::block::{At, Block, position};
use super::clock::COPIES;
use super::code::ArrayInfo;
use super::cp_async::{Copy, Load, Span};
use super::error::Fault;
use super::instr::{Instr, Site};
use super::memory::Memory;
use super::thread::{aligned, in_bounds};

/// Words and bytes of an answer.
const WORDS: usize = 4;
const BYTES: i64 = 16;
/// The words that say where the first block is along x, and whether there is one.
const FIRST: usize = 0;
const GIVEN: usize = 2;
/// One question of so many is refused whatever is left.
const REFUSED: u64 = 4;

/// What of a launch has not started.
#[derive(Default)]
pub(super) struct Unstarted {
    /// Numbers of the blocks, or clusters.
    left: Vec<u64>,
    /// How many of these there are along each axis.
    grid: [u32; 3],
    /// Blocks of each.
    cluster: u32,
    /// Those that have started, or were given away.
    pub gone: u64,
    /// The running one was told that there is none.
    refused: bool,
}

impl Unstarted {
    /// Those of these numbers.
    pub fn new(mut numbers: Vec<u64>, grid: [u32; 3], cluster: u32) -> Unstarted {
        numbers.reverse();
        Unstarted { left: numbers, grid, cluster, ..Unstarted::default() }
    }

    /// The first block of the next one, which starts.
    pub fn start(&mut self) -> Option<[u32; 3]> {
        let next = self.left.pop()?;
        self.refused = false;
        Some(self.go(next))
    }

    /// The first block of one that is given away.
    fn give(&mut self, random: u64) -> Option<[u32; 3]> {
        let (kept, pick) = (random.is_multiple_of(REFUSED), random / REFUSED);
        if kept || self.left.is_empty() {
            self.refused = true;
            return None;
        }
        let given = self.left.remove((pick % self.left.len() as u64) as usize);
        Some(self.go(given))
    }

    fn go(&mut self, number: u64) -> [u32; 3] {
        self.gone += 1;
        let [x, y, z] = position(number as usize, self.grid);
        [x * self.cluster, y, z]
    }
}

impl<'a> Block<'a> {
    /// A thread asks for itself, or for all blocks of its cluster.
    pub(super) fn try_cancel(&mut self, t: usize, i: &Instr, all: bool, memory: &mut [Memory]) -> Result<(), Fault> {
        let ([answer, bar], []) = i.operands();
        if self.unstarted.refused {
            return Err(Fault::TryCancel("the block asks for another one after it was told that there is none".into()));
        }
        let own = t / self.per_block;
        let mut blocks = own..own + 1;
        if all {
            self.clock.cluster.access(t)?;
            blocks = 0..self.threads.len() / self.per_block;
        }
        let random = self.next_random();
        let mut bits = [0; WORDS];
        if let Some([x, ..]) = self.unstarted.give(random) {
            (bits[FIRST], bits[GIVEN]) = (x.into(), 1);
        }
        let (array, first) = self.answer(t, *answer)?;
        for block in blocks {
            let bar = self.ready_in(block, t, *bar)?;
            let to = Span::new(array, first, block * self.code.shared());
            let copy = Copy::of(self.by(t), COPIES, to, bits.to_vec(), memory)?;
            self.under_way.loads.push(Load { thread: t, copy, bar, bytes: BYTES });
        }
        self.clock.tick();
        Ok(())
    }

    /// A thread finds what it was told.
    pub(super) fn query_cancel(&mut self, t: usize, i: &Instr, memory: &mut [Memory]) -> Result<(), At> {
        let ([first, answer], []) = i.operands();
        self.answer(t, *answer).map_err(|fault| self.fault(t, fault))?;
        let given = self.get(t, *answer, GIVEN, memory)?;
        let found = if given == 1 { self.get(t, *answer, FIRST, memory)? } else { -1i64 as u64 };
        self.put(t, *first, 0, found, memory)
    }

    /// The array of an answer, and its first element in there.
    fn answer(&self, t: usize, at: Site) -> Result<(&'a ArrayInfo, usize), Fault> {
        let array = &self.code.arrays[at.array as usize];
        let lanes = WORDS as u32;
        Ok((array, in_bounds(array, aligned(array, self.threads[t].int(at.index), lanes)?, lanes)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_block_starts_or_is_given_away() {
        let mut u = Unstarted::new((0..4).collect(), [4, 1, 1], 2);
        assert_eq!(u.start(), Some([0, 0, 0]));
        assert_eq!(u.give(1 + REFUSED), Some([4, 0, 0]), "the second of three that are left, the last first");
        assert!(u.give(REFUSED).is_none() && u.refused);
        assert_eq!((u.start(), u.refused), (Some([2, 0, 0]), false));
        assert_eq!((u.give(1), u.give(1), u.start(), u.gone), (Some([6, 0, 0]), None, None, 4));
    }
}

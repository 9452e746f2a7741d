//! Blocks of a launch that arrive at a counter in global memory, and what the last of them knows (`last_block`).
//!
//! What a block that arrived did before its last barrier comes before what the last one does from then on. What its asynchronous
//! copies do is of agents, and not known by that.
//!
//! Stands in a circle with `block`, whose threads arrive and which keeps what is here.

use super::block::{At, Block};
use super::instr::Instr;
use super::memory::Memory;
use super::thread::in_bounds;
use crate::ir::instr::Op;
use std::collections::BTreeMap;

/// Stamps of one block, from the first after it started to its last barrier.
pub(super) type Span = (u32, u32);

/// Who has arrived in a launch: by memory and element, spans of blocks.
pub(super) type Arrivals = BTreeMap<(usize, usize), Vec<Span>>;

impl Block<'_> {
    /// The block of a thread arrives, as one of `of`.
    pub(super) fn last_block(&mut self, t: usize, i: &Instr, of: u32, memory: &mut [Memory]) -> Result<(), At> {
        let ([last, arrivals], []) = i.operands();
        let array = &self.code.arrays[arrivals.array as usize];
        let element = in_bounds(array, self.threads[t].int(arrivals.index), 1).map_err(|f| self.fault(t, f))?;
        let (number, first) = (array.memory(self.threads[t].shift), Op::FIRST_ARRIVAL);
        let seen = memory[number].bits(element).wrapping_sub(first);
        let before = if seen >= u64::from(of) { 0 } else { seen };
        let all = before + 1 == u64::from(of);
        memory[number].write(element, if all { first } else { first + before + 1 });
        let others = self.arrivals.entry((number, element)).or_default();
        others.push(self.clock.until_barrier(t));
        if all {
            self.clock.learn_blocks(others);
            others.clear();
        }
        self.clock.tick();
        self.put(t, *last, 0, all.into(), memory)
    }
}

//! Stores of registers to tensor memory, which are there when the warp has waited for them.

use super::columns::fault;
use crate::interp::scalar;
use crate::sim::block::{At, Block, WARP};
use crate::sim::error::Fault;
use crate::sim::instr::{Instr, Site};
use crate::sim::memory::Memory;
use crate::sim::thread::in_bounds;
use std::collections::BTreeMap;
use std::ops::Range;

/// What warps have stored and not waited for: by block and array, elements with the threads that did it.
#[derive(Default)]
pub(super) struct Stores(BTreeMap<(usize, u32), BTreeMap<usize, usize>>);

impl Stores {
    /// That nothing is on its way to elements of an array.
    pub fn landed(&self, block: usize, array: u32, elements: Range<usize>, name: &str) -> Result<(), Fault> {
        match self.0.get(&(block, array)).and_then(|all| all.range(elements).next()) {
            None => Ok(()),
            Some((e, _)) => Err(fault(format!("`{name}[{e}]` is used before the warp has waited for its store"))),
        }
    }

    /// What the warp that begins with a thread has stored since it last waited: arrays, elements and threads.
    fn of_warp(&mut self, first: usize) -> Vec<(u32, usize, usize)> {
        let mut out = vec![];
        for ((_, array), all) in &mut self.0 {
            all.retain(|e, t| {
                let own = (first..first + WARP).contains(t);
                out.extend(own.then_some((*array, *e, *t)));
                !own
            });
        }
        out
    }
}

impl Block<'_> {
    /// Issues a store of the warp that begins with thread `first`.
    pub(super) fn store_tensor(
        &mut self,
        first: usize,
        i: &Instr,
        count: i64,
        memory: &mut [Memory],
    ) -> Result<(), At> {
        let ([dst, src], []) = i.operands();
        let done = self.write_tensor(first, *dst, *src, count, memory);
        done.map_err(|(t, fault)| self.fault(t, fault))?;
        self.clock.tick();
        Ok(())
    }

    fn write_tensor(
        &mut self,
        first: usize,
        dst: Site,
        src: Site,
        count: i64,
        memory: &mut [Memory],
    ) -> Result<(), (usize, Fault)> {
        let (to, from) = (&self.code.arrays[dst.array as usize], &self.code.arrays[src.array as usize]);
        let (len, block) = (4 * count as usize, first / self.per_block);
        let elements = self.elements_of_warp(first, dst, count)?;
        let register = in_bounds(from, self.threads[first].int(src.index), len as u32).map_err(|why| (first, why))?;
        for (t, all) in (first..).zip(&elements) {
            for (r, e) in all.iter().enumerate() {
                let mut one = || {
                    self.tensor.stores.landed(block, dst.array, *e..*e + 1, &to.name)?;
                    let value = self.threads[t].load(from, register + r, memory, self.by(t))?;
                    let own = &mut memory[to.memory(self.threads[t].shift)];
                    self.overwrite(t, (&to.name, *e), own, t as u32)?;
                    own.write(*e, scalar::to_stored(value, to.dtype));
                    Ok(())
                };
                one().map_err(|fault| (t, fault))?;
            }
        }
        let own = self.tensor.stores.0.entry((block, dst.array)).or_default();
        own.extend((first..).zip(elements).flat_map(|(t, all)| all.into_iter().map(move |e| (e, t))));
        Ok(())
    }

    /// Waits for what the warp that begins with thread `first` has stored.
    pub(super) fn wait_stores(&mut self, first: usize, memory: &mut [Memory]) -> Result<(), Fault> {
        for (n, e, t) in self.tensor.stores.of_warp(first) {
            let array = &self.code.arrays[n as usize];
            let own = &mut memory[array.memory(self.threads[t].shift)];
            own.shadow.write(e, &array.name, self.by(t))?;
        }
        self.clock.tick();
        Ok(())
    }
}

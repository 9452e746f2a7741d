//! Bulk copies: they go on by themselves, each at a later point that the seed chooses.

use super::block::{At, Block};
use super::clock::COPIES;
use super::cp_async::{Load, Stage};
use super::memory::Memory;

impl Block<'_> {
    /// Lets some of the bulk copies under way go on; with `all`, every one until it is done. True when
    /// a load arrived.
    pub(super) fn deliver(&mut self, all: bool, memory: &mut [Memory]) -> Result<bool, At> {
        let mut arrived = false;
        let mut n = 0;
        while n < self.under_way.loads.len() {
            if all || self.next_random().is_multiple_of(2) {
                let load = self.under_way.loads.swap_remove(n);
                self.arrive(&load, memory)?;
                arrived = true;
            } else {
                n += 1;
            }
        }
        for t in 0..self.under_way.stores.len() {
            if self.under_way.stores[t].iter().next().is_some() && (all || self.next_random().is_multiple_of(2)) {
                self.advance_stores(t, all, memory)?;
            }
        }
        Ok(arrived)
    }

    fn arrive(&mut self, load: &Load, memory: &mut [Memory]) -> Result<(), At> {
        let copy = &load.copy;
        let stamp = self.clock.tick();
        let landed = copy.check_source(memory).and_then(|()| copy.land(memory, stamp, COPIES));
        (0..copy.len()).for_each(|i| memory[copy.dst.memory].settle(copy.dst.first + i));
        let mut known = vec![0; self.threads.len() + 1];
        known[self.threads.len()] = stamp;
        let counted = landed.and_then(|()| self.mbarriers.complete(load.bar, load.bytes, &known));
        counted.map_err(|fault| (load.thread, copy.pc, fault))
    }

    fn advance_stores(&mut self, t: usize, all: bool, memory: &mut [Memory]) -> Result<(), At> {
        for store in self.under_way.stores[t].iter_mut() {
            while store.stage != Stage::Done {
                store.advance(memory).map_err(|fault| (t, store.copy.pc, fault))?;
                if !all {
                    break;
                }
            }
        }
        Ok(())
    }
}

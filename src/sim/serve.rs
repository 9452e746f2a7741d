//! Instructions that concern the block: asynchronous copies and barriers in shared memory.

use super::block::{At, Block};
use super::clock::COPIES;
use super::code::{Op, Slot};
use super::cp_async::{Copy, Load, Span, Stage, Store};
use super::error::Fault;
use super::instr::{Instr, Site};
use super::mbarrier::Word;
use super::memory::Memory;
use super::thread::{State, aligned, in_bounds};
use crate::ir::instr::{self, Sync};

/// What bulk copies are aligned to, and a multiple of, in bytes.
const BULK: i64 = 16;

impl<'a> Block<'a> {
    /// Carries out the operation that a thread stopped at; the thread goes on, unless it has to wait.
    pub(super) fn serve(&mut self, t: usize, memory: &mut [Memory]) -> Result<(), At> {
        let code = self.code;
        match code.ops[self.threads[t].pc] {
            Op::Instr { n, .. } => self.carry_out(t, &code.instrs[n as usize], memory)?,
            Op::ClusterArrive { release } => self.cluster_arrive(t, release)?,
            Op::ClusterWait => self.cluster_wait(t)?,
            other => panic!("{other:?} asks for nothing"),
        }
        if self.threads[t].state == State::Asks {
            self.threads[t].resume();
        }
        Ok(())
    }

    /// Barriers in shared memory, groups of copies, fences.
    pub(super) fn sync(&mut self, t: usize, i: &Instr, sync: Sync, memory: &mut [Memory]) -> Result<(), Fault> {
        match sync {
            Sync::CpAsyncCommit => self.under_way.copies[t].commit(),
            Sync::CpAsyncWait { left } => {
                for copy in self.under_way.copies[t].take(left) {
                    copy.check_source(memory)?;
                    copy.land(memory, self.clock.now, t as u32)?;
                }
            }
            Sync::MbarrierInit { arrivals } => self.mbarriers.init(self.bar(t, i.places[0])?, arrivals)?,
            Sync::MbarrierArrive => self.arrive_at(t, i.places[0], 0)?,
            Sync::MbarrierExpect => self.arrive_at(t, i.places[0], self.threads[t].int(i.values[0]))?,
            Sync::MbarrierWait => {
                let ([bar], [parity]) = i.operands();
                match self.has_completed(t, *bar, *parity)? {
                    true => self.learn(t, *bar)?,
                    false => self.threads[t].state = State::Phase,
                }
            }
            Sync::MbarrierFence => self.mbarriers.fence(t / self.per_block),
            Sync::BulkCommit => self.under_way.stores[t].commit(),
            Sync::BulkWait { left, read } => {
                for store in self.under_way.stores[t].older(left) {
                    store.awaited = true;
                    self.clock.learn_agent(t, COPIES, store.stamp);
                    while store.stage == Stage::Issued || !read && store.stage != Stage::Done {
                        store.advance(memory)?;
                    }
                }
                if !read {
                    self.under_way.stores[t].take(left);
                }
            }
            Sync::WgmmaFence => self.wgmma_fence(t),
            Sync::WgmmaCommit => self.wgmma_commit(t),
            Sync::WgmmaWait { left } => self.wgmma_wait(t, left),
            Sync::AsyncFence => {
                self.mbarriers.fence(t / self.per_block);
                let shift = self.threads[t].shift;
                self.bulk_sources.iter().for_each(|m| memory[*m + shift].settle_all());
            }
        }
        Ok(())
    }

    pub(super) fn cp_async(&mut self, t: usize, i: &Instr, bytes: i64, memory: &mut [Memory]) -> Result<(), Fault> {
        let reads = i.values.iter().all(|valid| self.threads[t].get(*valid) != 0);
        let src = reads.then_some(i.places[1]);
        let copy = self.copy((t, t as u32), i.places[0], src, (bytes, bytes), memory)?;
        self.under_way.copies[t].add(copy);
        Ok(())
    }

    /// Arrives for the thread's copies so far, all of which have then landed.
    pub(super) fn cp_async_arrive(&mut self, t: usize, i: &Instr, memory: &mut [Memory]) -> Result<(), Fault> {
        self.under_way.copies[t].commit();
        for copy in self.under_way.copies[t].take(0) {
            copy.check_source(memory)?;
            copy.land(memory, self.clock.now, t as u32)?;
        }
        self.arrive_at(t, i.places[0], 0)
    }

    pub(super) fn bulk_load(&mut self, t: usize, i: &Instr, memory: &mut [Memory]) -> Result<(), Fault> {
        let ([dst, src, bar], [bytes]) = i.operands();
        let bar = self.ready(t, *bar)?;
        let bytes = self.bulk_size(t, *bytes)?;
        let copy = self.copy((t, COPIES), *dst, Some(*src), (bytes, BULK), memory)?;
        self.under_way.loads.push(Load { thread: t, copy, bar, bytes });
        self.clock.tick();
        Ok(())
    }

    pub(super) fn bulk_store(&mut self, t: usize, i: &Instr, memory: &mut [Memory]) -> Result<(), Fault> {
        let ([dst, src], [bytes]) = i.operands();
        let bytes = self.bulk_size(t, *bytes)?;
        let (span, len) = self.span(t, *src, bytes, BULK)?;
        Self::fenced(span, len, memory)?;
        let copy = self.copy((t, COPIES), *dst, Some(*src), (bytes, BULK), memory)?;
        self.store_in_bulk(t, copy);
        Ok(())
    }

    /// Starts a copy to global memory, in the thread's bulk group.
    pub(super) fn store_in_bulk(&mut self, t: usize, copy: Copy<'a>) {
        let store = Store { copy, stage: Stage::Issued, stamp: self.clock.tick(), awaited: false };
        self.under_way.stores[t].add(store);
    }

    /// Starts a copy for a thread, by whom it is done, of so many bytes between places aligned to `align`
    /// bytes.
    fn copy(
        &mut self,
        (t, done_by): (usize, u32),
        dst: Site,
        src: Option<Site>,
        (bytes, align): (i64, i64),
        memory: &mut [Memory],
    ) -> Result<Copy<'a>, Fault> {
        let writable = &self.code.arrays[dst.array as usize];
        if !writable.writable {
            return Err(Fault::ReadOnly(writable.name.clone()));
        }
        let (dst, len) = self.span(t, dst, bytes, align)?;
        let src = src.map(|s| self.span(t, s, bytes, align)).transpose()?;
        Copy::start(self.by(t), done_by, dst, src.map(|s| s.0), len, memory)
    }

    /// The elements of so many bytes, checked, and their number.
    fn span(&self, t: usize, site: Site, bytes: i64, align: i64) -> Result<(Span<'a>, usize), Fault> {
        let array = &self.code.arrays[site.array as usize];
        let size = array.dtype.bytes() as i64;
        let index = aligned(array, self.threads[t].int(site.index), (align / size).max(1) as u32)?;
        let len = (bytes / size) as u32;
        Ok((Span::new(array, in_bounds(array, index, len)?, self.threads[t].shift), len as usize))
    }

    fn bulk_size(&self, t: usize, bytes: Slot) -> Result<i64, Fault> {
        let bytes = self.threads[t].int(bytes);
        let fits = bytes > 0 && bytes % BULK == 0 && bytes <= i64::from(u32::MAX);
        if fits { Ok(bytes) } else { Err(Fault::BulkSize(bytes)) }
    }

    /// That what ordinary stores wrote to a span has been fenced.
    pub(super) fn fenced(span: Span, len: usize, memory: &[Memory]) -> Result<(), Fault> {
        let from = &memory[span.memory];
        let unfenced = |i: &usize| from.read(span.first + i).is_some() && !from.is_settled(span.first + i);
        (0..len).find(unfenced).map_or(Ok(()), |i| Err(Fault::Unfenced(span.element(i))))
    }

    /// The word of a barrier.
    pub(super) fn bar(&self, t: usize, bar: Site) -> Result<Word<'a>, Fault> {
        let array = &self.code.arrays[bar.array as usize];
        let i = in_bounds(array, self.threads[t].int(bar.index), 1)?;
        Ok(Word { block: t / self.per_block, array: bar.array, i, name: &array.name })
    }

    /// A barrier that the asynchronous proxy may count on.
    pub(super) fn ready(&mut self, t: usize, bar: Site) -> Result<Word<'a>, Fault> {
        self.ready_in(t / self.per_block, t, bar)
    }

    /// The same in a block of the cluster.
    pub(super) fn ready_in(&mut self, block: usize, t: usize, bar: Site) -> Result<Word<'a>, Fault> {
        let word = Word { block, ..self.bar(t, bar)? };
        self.mbarriers.is_ready(word)?;
        Ok(word)
    }

    fn has_completed(&mut self, t: usize, bar: Site, parity: Slot) -> Result<bool, Fault> {
        let word = self.bar(t, bar)?;
        self.mbarriers.has_completed(word, self.threads[t].int(parity))
    }

    fn arrive_at(&mut self, t: usize, bar: Site, bytes: i64) -> Result<(), Fault> {
        let word = self.bar(t, bar)?;
        self.arrive_at_word(t, word, bytes)
    }

    /// Arrives at a barrier of this block or another.
    pub(super) fn arrive_at_word(&mut self, t: usize, word: Word, bytes: i64) -> Result<(), Fault> {
        let mut known = vec![];
        self.clock.publish(t, &mut known);
        self.clock.tick();
        self.mbarriers.arrive(word, bytes, &known)
    }

    /// A thread learns what those knew that it waited for.
    fn learn(&mut self, t: usize, bar: Site) -> Result<(), Fault> {
        let word = self.bar(t, bar)?;
        self.clock.learn(t, self.mbarriers.known(word)?);
        Ok(())
    }

    /// A thread learns what completed the phase that it waited for.
    pub(super) fn learn_phase(&mut self, t: usize) -> Result<(), At> {
        let Some((bar, _)) = self.awaited(t) else { return Ok(()) };
        self.learn(t, bar).map_err(|fault| self.fault(t, fault))
    }

    /// The barrier and parity that a thread waits for.
    fn awaited(&self, t: usize) -> Option<(Site, Slot)> {
        let Op::Instr { n, .. } = self.code.ops[self.threads[t].pc] else { return None };
        let i = &self.code.instrs[n as usize];
        (i.op == instr::Op::Sync(Sync::MbarrierWait)).then(|| (i.places[0], i.values[0]))
    }

    /// True when the phase that a thread waits for has completed.
    pub(super) fn phase_completed(&mut self, t: usize) -> Result<bool, At> {
        let Some((bar, parity)) = self.awaited(t) else { return Ok(true) };
        self.has_completed(t, bar, parity).map_err(|fault| self.fault(t, fault))
    }

    /// What a thread that waits for a phase waits for.
    pub(super) fn phase_lack(&self, t: usize) -> String {
        match self.awaited(t).map(|(bar, _)| self.bar(t, bar)) {
            Some(Ok(word)) => self.mbarriers.lack(word),
            _ => String::new(),
        }
    }
}

//! Instructions that concern the block: asynchronous copies and barriers in shared memory.

use super::block::{At, Block};
use super::clock::COPIES;
use super::cp_async::{Copy, Load, Span, Stage, Store};
use super::error::Fault;
use super::instr::{Instr, Site};
use super::mbarrier::Word;
use super::memory::Memory;
use super::thread::{State, aligned, in_bounds};

/// What bulk copies are aligned to, and a multiple of, in bytes.
const BULK: i64 = 16;

impl<'a> Block<'a> {
    /// Carries out instruction `n` for a thread that stopped at it; the thread goes on, unless it has
    /// to wait.
    pub(super) fn serve(&mut self, t: usize, n: u32, memory: &mut [Memory]) -> Result<(), At> {
        let instr = self.code.instrs[n as usize];
        let waiting = if let Instr::ClusterWait = instr { State::Cluster } else { State::Phase };
        let waits = self.instr(t, instr, memory).map_err(|fault| self.fault(t, fault))?;
        if waits {
            self.threads[t].state = waiting;
        } else {
            self.threads[t].resume();
        }
        Ok(())
    }

    /// True when the thread has to wait.
    fn instr(&mut self, t: usize, instr: Instr, memory: &mut [Memory]) -> Result<bool, Fault> {
        match instr {
            Instr::CpAsync { d, s, bytes, valid } => {
                let reads = valid.is_none_or(|v| self.threads[t].get(v) != 0);
                let bytes = i64::from(bytes);
                let copy = self.copy((t, t as u32), d, reads.then_some(s), (bytes, bytes), memory)?;
                self.under_way.copies[t].add(copy);
            }
            Instr::CpAsyncCommit => self.under_way.copies[t].commit(),
            Instr::CpAsyncWait { left } => {
                for copy in self.under_way.copies[t].take(left) {
                    copy.check_source(memory)?;
                    copy.land(memory, self.clock.now, t as u32)?;
                }
            }
            Instr::Init { bar, arrivals } => {
                let word = self.bar(t, bar)?;
                self.mbarriers.init(word, arrivals)?;
            }
            Instr::InitFence => self.mbarriers.fence(),
            Instr::Arrive { bar } => {
                let word = self.bar(t, bar)?;
                self.arrive_at(t, word, 0)?;
            }
            Instr::Expect { bar, bytes } => {
                let word = self.bar(t, bar)?;
                self.arrive_at(t, word, self.threads[t].int(bytes))?;
            }
            Instr::Wait { bar, parity } => {
                if !self.has_completed(t, bar, parity)? {
                    return Ok(true);
                }
                self.learn(t, bar)?;
            }
            Instr::BulkLoad { d, s, bytes, bar } => {
                let word = self.bar(t, bar)?;
                self.mbarriers.is_ready(word)?;
                let bytes = self.bulk_size(t, bytes)?;
                let copy = self.copy((t, COPIES), d, Some(s), (bytes, BULK), memory)?;
                self.under_way.loads.push(Load { thread: t, copy, bar: word, bytes });
                self.clock.tick();
            }
            Instr::BulkStore { d, s, bytes } => {
                let bytes = self.bulk_size(t, bytes)?;
                self.check_fence(t, s, bytes, memory)?;
                let copy = self.copy((t, COPIES), d, Some(s), (bytes, BULK), memory)?;
                self.under_way.stores[t].add(Store {
                    copy,
                    stage: Stage::Issued,
                    stamp: self.clock.tick(),
                    awaited: false,
                });
            }
            Instr::TensorLoad { d, map, coords, bar } => {
                let word = self.bar(t, bar)?;
                self.mbarriers.is_ready(word)?;
                for (copy, bytes) in self.box_in(t, d, map, coords, memory)? {
                    self.under_way.loads.push(Load { thread: t, copy, bar: word, bytes });
                }
                self.clock.tick();
            }
            Instr::TensorStore { map, coords, s } => {
                for copy in self.box_out(t, s, map, coords, memory)? {
                    self.under_way.stores[t].add(Store {
                        copy,
                        stage: Stage::Issued,
                        stamp: self.clock.tick(),
                        awaited: false,
                    });
                }
            }
            Instr::BulkCommit => self.under_way.stores[t].commit(),
            Instr::BulkWait { left, read } => {
                for store in self.under_way.stores[t].older(left) {
                    store.awaited = true;
                    self.clock.learn_copies(t, store.stamp);
                    while store.stage == Stage::Issued || !read && store.stage != Stage::Done {
                        store.advance(memory)?;
                    }
                }
                if !read {
                    self.under_way.stores[t].take(left);
                }
            }
            Instr::AsyncFence => {
                self.mbarriers.fence();
                self.bulk_sources.iter().for_each(|m| memory[*m].settle_all());
            }
            Instr::ClusterArrive { release } => self.cluster_arrive(t, release)?,
            Instr::ClusterWait => return self.cluster_wait(t),
            Instr::ClusterStore { d, peer, a } => self.cluster_store(t, (d, peer, a), memory)?,
            other @ (Instr::Packed { .. }
            | Instr::Fold3 { .. }
            | Instr::CastPair { .. }
            | Instr::LdMatrix { .. }
            | Instr::StMatrix { .. }
            | Instr::Mma { .. }) => panic!("{other:?} is not for the block"),
        }
        Ok(false)
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

    fn bulk_size(&self, t: usize, bytes: u32) -> Result<i64, Fault> {
        let bytes = self.threads[t].int(bytes);
        let fits = bytes > 0 && bytes % BULK == 0 && bytes <= i64::from(u32::MAX);
        if fits { Ok(bytes) } else { Err(Fault::BulkSize(bytes)) }
    }

    /// What ordinary stores wrote has to be fenced before a bulk store reads it.
    fn check_fence(&self, t: usize, src: Site, bytes: i64, memory: &[Memory]) -> Result<(), Fault> {
        let (span, len) = self.span(t, src, bytes, BULK)?;
        Self::fenced(span, len, memory)
    }

    /// That what ordinary stores wrote to a span has been fenced.
    pub(super) fn fenced(span: Span, len: usize, memory: &[Memory]) -> Result<(), Fault> {
        let from = &memory[span.memory];
        let unfenced = |i: &usize| from.read(span.first + i).is_some() && !from.is_settled(span.first + i);
        (0..len).find(unfenced).map_or(Ok(()), |i| Err(Fault::Unfenced(span.element(i))))
    }

    /// The word of a barrier.
    fn bar(&self, t: usize, bar: Site) -> Result<Word<'a>, Fault> {
        let array = &self.code.arrays[bar.array as usize];
        let i = in_bounds(array, self.threads[t].int(bar.index), 1)?;
        Ok(Word { array: bar.array, i, name: &array.name })
    }

    fn has_completed(&mut self, t: usize, bar: Site, parity: u32) -> Result<bool, Fault> {
        let word = self.bar(t, bar)?;
        self.mbarriers.has_completed(word, self.threads[t].int(parity))
    }

    fn arrive_at(&mut self, t: usize, word: Word, bytes: i64) -> Result<(), Fault> {
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
    fn awaited(&self, t: usize) -> Option<(Site, u32)> {
        match self.code.instr_at(self.threads[t].pc) {
            Some(Instr::Wait { bar, parity }) => Some((bar, parity)),
            _ => None,
        }
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

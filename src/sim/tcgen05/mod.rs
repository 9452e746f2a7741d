//! Tensor memory of blocks: products into it, loads from it.
//!
//! Products are carried out by an agent of the warpgroup of the thread that issued them, in order: nobody knows of
//! them but by waiting for a barrier that a commit arrived at, and the agent reads operands as it does those of
//! warpgroups. An array is where the thread found it; it is used while its columns are taken. Loads read when they
//! are issued and again when they are waited for, so that what frees the columns has to come after the wait. What
//! one thread does to tensor memory and another after a barrier stands between a fence before and one after. Stores write when
//! they are issued and again when they are waited for; nobody may use what they write in between ([`stores`]).
//!
//! The products of a pair of blocks are issued by the first, read operands of both, and write to the tensor memory of both.
//!
//! Copies of scales ([`scaled`]) and products are one agent's, in the order in which a thread issues them: a product finds the
//! scales that were copied before it, and no copy may overwrite what a product reads that the thread has not waited for.
//!
//! Found: columns not given back, or taken beyond the last; use without columns; lanes of another warp; reads
//! before the barrier of a commit, and columns given back before; scales that no copy brought, or that are overwritten too early; a fence that is missing on either side of it; operands that are
//! overwritten too early. Of a load that no thread waits for, the registers cannot be used. Of pairs: columns taken, or products
//! issued, before the other block is known to have started, or to have taken its own; columns given back while the other block
//! may use them; commits that may arrive in a block that has ended.
//!
//! Stands in a circle with `block`, for whose threads it does so.

mod columns;
mod scaled;
mod stores;

pub(super) use columns::pair_of;

use super::block::{At, Block, WARP};
use super::clock::{COPIES, MATRICES};
use super::code::ArrayInfo;
use super::error::Fault;
use super::instr::{Instr, Site};
use super::memory::Memory;
use super::scalar;
use super::shadow::By;
use super::thread::{in_bounds, missing};
use super::wgmma::{WARPGROUP, dot, shortened};
use crate::ir::MatrixDesc;
use crate::ir::instr::{CtaGroup, LANES_OF_WARP, TENSOR_LANES, Tcgen05, Tcgen05Shape, blocks_of};
use columns::{Columns, Taker, fault};
use std::collections::BTreeMap;
use stores::Stores;

/// Registers of a warp that loads are on their way to, and the elements that these read.
struct Loaded {
    array: u32,
    registers: (u32, usize, usize),
    /// Per lane.
    elements: Vec<Vec<usize>>,
}

/// The tensor memory of a block, or of the blocks of a cluster.
#[derive(Default)]
pub(super) struct TensorMemory {
    columns: Columns,
    /// The first column of an array, as a thread found it.
    found: BTreeMap<(usize, u32), i64>,
    /// What each thread knew of the others and the agents at its last fence after a barrier.
    after: Vec<Vec<u32>>,
    /// When each thread last stood at a fence before one.
    before: Vec<u32>,
    /// Per warp.
    loads: Vec<Vec<Loaded>>,
    stores: Stores,
}

impl TensorMemory {
    /// None taken, for so many threads.
    pub fn new(threads: usize) -> TensorMemory {
        TensorMemory {
            after: vec![vec![]; threads],
            before: vec![0; threads],
            loads: (0..threads.div_ceil(WARP)).map(|_| vec![]).collect(),
            ..TensorMemory::default()
        }
    }

    /// That a block that ends has given all columns back.
    pub fn left(&self) -> Result<(), At> {
        self.columns.left().map_or(Ok(()), |(by, fault)| Err((by.thread, by.pc, fault)))
    }

    /// The first column of an array for a thread of a block, of which that many are used; whether the other block of its pair
    /// gave them back.
    fn had(&self, (t, block): (usize, usize), array: &ArrayInfo, n: u32, columns: i64) -> Result<(i64, bool), Fault> {
        let no = |why: &str| fault(format!("`{}` is used {why}", array.name));
        let first = *self.found.get(&(t, n)).ok_or_else(|| no("before the thread has found its columns"))?;
        let taken = self.columns.having(block, first, columns);
        taken.map(|taken| (first, taken.over)).ok_or_else(|| no("in columns that the block has not taken"))
    }

    /// The first column of a whole array, which a thread uses.
    fn used(&self, at: (usize, usize), array: &ArrayInfo, n: u32) -> Result<i64, Fault> {
        match self.had(at, array, n, array.len as i64 / TENSOR_LANES)? {
            (first, false) => Ok(first),
            (_, true) => {
                let why = "is used after the other block of the pair gave its columns back";
                Err(fault(format!("`{}` {why}", array.name)))
            }
        }
    }

    /// That fences stand between what thread `u` did at a stamp and what `t` does now.
    fn fenced(&self, t: usize, u: u32, stamp: u32, name: &str) -> Result<(), Fault> {
        if u as usize == t {
            return Ok(());
        }
        let threads = self.before.len();
        let at = if u < COPIES { u as usize } else { threads + (u - COPIES) as usize };
        if u < COPIES && stamp > self.before[u as usize] {
            return Err(fault(format!(
                "no fence before the barrier stands after the access to `{name}` by another thread"
            )));
        }
        match self.after[t].get(at) {
            Some(known) if stamp <= *known => Ok(()),
            _ => Err(fault(format!("no fence after the barrier stands before this access to `{name}`"))),
        }
    }
}

impl Block<'_> {
    /// Carries out an instruction of tensor memory, for thread `t` or the warp that begins with it.
    pub(super) fn tensor_memory(&mut self, t: usize, i: &Instr, op: &Tcgen05, memory: &mut [Memory]) -> Result<(), At> {
        let done = match op {
            Tcgen05::Alloc { columns, group } => self.take_columns(t, i.places[0], (*columns, *group), memory),
            Tcgen05::Relinquish { .. } => {
                self.tensor.columns.relinquish(t / self.per_block);
                Ok(())
            }
            Tcgen05::Find { column } => self.find_columns(t, i, *column, memory),
            Tcgen05::Dealloc { columns, .. } => self.give_columns_back(t, i.places[0], *columns, memory),
            Tcgen05::Mma { shape, a, b } => return self.tensor_product(t, i, *shape, [*a, *b], memory),
            Tcgen05::ScaledMma { shape, a, b, first } => {
                return self.scaled_product(t, i, *shape, ([*a, *b], *first), memory);
            }
            Tcgen05::CopyScales { group } => self.copy_scales(t, i, *group, memory),
            Tcgen05::Commit { mask, .. } => self.commit(t, i.places[0], *mask),
            Tcgen05::Load { count } => return self.load_tensor(t, i, *count, memory),
            Tcgen05::WaitLoads => self.wait_loads(t, memory),
            Tcgen05::Store { count } => return self.store_tensor(t, i, *count, memory),
            Tcgen05::WaitStores => self.wait_stores(t, memory),
            Tcgen05::FenceBefore => {
                self.tensor.before[t] = self.clock.tick();
                Ok(())
            }
            Tcgen05::FenceAfter => {
                let mut known = vec![];
                self.clock.publish(t, &mut known);
                self.tensor.after[t] = known;
                self.clock.tick();
                Ok(())
            }
        };
        done.map_err(|fault| self.fault(t, fault))
    }

    fn take_columns(
        &mut self,
        t: usize,
        word: Site,
        (columns, group): (i64, CtaGroup),
        memory: &mut [Memory],
    ) -> Result<(), Fault> {
        if group == CtaGroup::Pair {
            self.clock.cluster.access(t)?;
        }
        let (block, pc) = (t / self.per_block, self.threads[t].pc);
        let by = Taker { block, thread: t, pc, stamp: self.clock.tick() };
        let first = self.tensor.columns.take(by, columns, group)?;
        let array = &self.code.arrays[word.array as usize];
        let at = in_bounds(array, self.threads[t].int(word.index), 1)?;
        let by = By { code: self.code, clock: &self.clock, thread: t as u32, pc: self.threads[t].pc };
        self.threads[t].store(array, at, first as u64, memory, by)
    }

    fn find_columns(&mut self, t: usize, i: &Instr, column: i64, memory: &mut [Memory]) -> Result<(), Fault> {
        let ([d, word], []) = i.operands();
        let array = &self.code.arrays[word.array as usize];
        let at = in_bounds(array, self.threads[t].int(word.index), 1)?;
        let by = By { code: self.code, clock: &self.clock, thread: t as u32, pc: self.threads[t].pc };
        let first = self.threads[t].load(array, at, memory, by)?;
        self.tensor.found.insert((t, d.array), first as i64 + column);
        Ok(())
    }

    fn give_columns_back(&mut self, t: usize, d: Site, columns: i64, memory: &mut [Memory]) -> Result<(), Fault> {
        let block = t / self.per_block;
        let (first, _) = self.tensor.had((t, block), &self.code.arrays[d.array as usize], d.array, columns)?;
        let other = self.tensor.columns.give_back(block, first, columns)?;
        let by = By { code: self.code, clock: &self.clock, thread: t as u32, pc: self.threads[t].pc };
        let found = self.tensor.found.range((t, 0)..=(t, u32::MAX));
        for (_, n) in found.filter(|(_, at)| (first..first + columns).contains(*at)).map(|(key, _)| *key) {
            let array = &self.code.arrays[n as usize];
            self.tensor.stores.landed(block, n, 0..array.len as usize, &array.name)?;
            if let Some(other) = other {
                let theirs = &mut memory[array.memory(other * self.code.shared())];
                (0..array.len as usize).try_for_each(|i| theirs.shadow.may_write(i, &array.name, by))?;
            }
            let own = &mut memory[array.memory(self.threads[t].shift)];
            (0..array.len as usize).try_for_each(|i| own.shadow.write(i, &array.name, by))?;
        }
        Ok(())
    }

    /// The number of the element that a thread names.
    fn tensor_element(&self, t: usize, site: Site, columns: i64) -> Result<i64, Fault> {
        let array = &self.code.arrays[site.array as usize];
        let at = in_bounds(array, self.threads[t].int(site.index), 1)? as i64;
        in_bounds(array, (at / TENSOR_LANES + columns) * TENSOR_LANES - 1, 1)?;
        self.tensor.used((t, t / self.per_block), array, site.array)?;
        Ok(at)
    }

    /// The number of the first element of so many whole columns that a thread names.
    fn whole_columns(&self, t: usize, site: Site, columns: i64) -> Result<usize, Fault> {
        match self.tensor_element(t, site, columns)? {
            first if first % TENSOR_LANES == 0 => Ok(first as usize),
            first => {
                let what = "what a product reads or writes in tensor memory begins";
                Err(fault(format!("{what} at lane {}, not at the first", first % TENSOR_LANES)))
            }
        }
    }

    /// The blocks whose operands a product reads, and to which it writes.
    fn blocks_of_product(&mut self, t: usize, d: Site, group: CtaGroup) -> Result<Vec<usize>, Fault> {
        let own = t / self.per_block;
        if group == CtaGroup::One {
            return Ok(vec![own]);
        }
        let ([first, second], array) = (pair_of(own), &self.code.arrays[d.array as usize]);
        if own != first {
            return Err(fault("products of a pair are issued by its first block".into()));
        }
        self.clock.cluster.access(t)?;
        let begin = self.tensor.used((t, own), array, d.array)?;
        let theirs = self.tensor.columns.having(second, begin, array.len as i64 / TENSOR_LANES);
        match theirs.map(|taken| taken.by) {
            Some(by) if self.clock.knows(t as u32, by.thread as u32, by.stamp) => Ok(vec![own, second]),
            _ => {
                let why = "is used before the other block of the pair is known to have taken its columns";
                Err(fault(format!("`{}` {why}", array.name)))
            }
        }
    }

    fn tensor_product(
        &mut self,
        t: usize,
        i: &Instr,
        shape: Tcgen05Shape,
        descs: [MatrixDesc; 2],
        memory: &mut [Memory],
    ) -> Result<(), At> {
        let ([d, a, b], [accumulate]) = i.operands();
        let first = self.whole_columns(t, *d, shape.n).map_err(|fault| self.fault(t, fault))?;
        let blocks = self.blocks_of_product(t, *d, shape.group).map_err(|fault| self.fault(t, fault))?;
        let (mut left, mut right) = (vec![], vec![]);
        for shift in blocks.iter().map(|block| block * self.code.shared()) {
            left.extend(self.operand(&[t], (*a, descs[0], shift), Tcgen05Shape::ROWS, memory)?);
            right.extend(self.operand(&[t], (*b, descs[1], shift), shape.own_columns(), memory)?);
        }
        let (left, right) = (shortened(shape.input, left), shortened(shape.input, right));
        let (add, k) = (self.threads[t].get(*accumulate) != 0, shape.k() as usize);
        let (lanes, all) = (TENSOR_LANES as usize, (shape.n * TENSOR_LANES) as usize);
        for (nth, block) in blocks.into_iter().enumerate() {
            for e in 0..all {
                let (row, column) = ((nth * lanes + e % lanes) * k, e / lanes * k);
                let sum = |start| dot(shape.sum(), &left[row..row + k], &right[column..column + k], start);
                let done = self.add_to((t, block), *d, first + e, add, sum, memory);
                done.map_err(|fault| self.fault(t, fault))?;
            }
        }
        self.clock.tick();
        Ok(())
    }

    /// Writes a sum of a block, which starts from what is there where it adds.
    fn add_to(
        &self,
        (t, block): (usize, usize),
        d: Site,
        e: usize,
        add: bool,
        sum: impl Fn(u64) -> u64,
        memory: &mut [Memory],
    ) -> Result<(), Fault> {
        let array = &self.code.arrays[d.array as usize];
        let own = &mut memory[array.memory(block * self.code.shared())];
        self.tensor.stores.landed(block, d.array, e..e + 1, &array.name)?;
        let start = match (add, own.read(e)) {
            (false, _) => 0,
            (true, Some(bits)) => scalar::from_stored(bits, array.dtype),
            (true, None) => return Err(missing(array, e, own, self.code)),
        };
        let agent = MATRICES + (t / WARPGROUP) as u32;
        self.overwrite(t, (&array.name, e), own, agent)?;
        own.write(e, scalar::to_stored(sum(start), array.dtype));
        Ok(())
    }

    /// An agent, or a thread, overwrites an element for thread `t`: between what others did to it and that stand fences.
    fn overwrite(&self, t: usize, (name, e): (&str, usize), own: &mut Memory, agent: u32) -> Result<(), Fault> {
        let written = own.shadow.last_write(e, self.clock.block).filter(|(_, u, _)| *u != agent);
        let reads = own.shadow.update_as(e, name, self.by(t), agent)?;
        let reads = reads.into_iter().filter(|(_, stamp)| *stamp > self.clock.block);
        let mut before = reads.chain(written.map(|(stamp, u, _)| (u, stamp)));
        before.try_for_each(|(u, stamp)| self.tensor.fenced(t, u, stamp, name))
    }

    /// Arrives for the products of a thread so far: who waits knows what their agent did, and what agents had done
    /// that the thread waited for, such as copies of operands; not what the thread did itself.
    fn commit(&mut self, t: usize, bar: Site, mask: u16) -> Result<(), Fault> {
        let own = t / self.per_block;
        let blocks = if mask == 0 { vec![own] } else { blocks_of(mask).map(|block| block as usize).collect() };
        if blocks.iter().any(|block| *block != own) {
            self.clock.cluster.access(t)?;
        }
        let words = blocks.into_iter().map(|block| self.ready_in(block, t, bar)).collect::<Result<Vec<_>, _>>()?;
        let (threads, mut known) = (self.threads.len(), vec![]);
        self.clock.publish(t, &mut known);
        known[..threads].fill(0);
        known[threads + (MATRICES - COPIES) as usize + t / WARPGROUP] = self.clock.tick();
        for word in words {
            match word.block == own {
                true => self.mbarriers.arrive(word, 0, &known)?,
                false => self.mbarriers.arrive_late(word, &known, (t, self.threads[t].pc))?,
            }
        }
        Ok(())
    }

    /// That threads of a block have waited for what commits of another one arrived at: it may not have ended before.
    pub(super) fn commits_awaited(&self) -> Result<(), At> {
        let Some(((t, pc), (array, i))) = self.mbarriers.unseen() else { return Ok(()) };
        let name = &self.code.arrays[array as usize].name;
        let why = format!("a commit arrives at `{name}[{i}]` of another block, no thread of which waits for it");
        Err((t, pc, fault(why)))
    }

    fn load_tensor(&mut self, first: usize, i: &Instr, count: i64, memory: &mut [Memory]) -> Result<(), At> {
        let ([dst, src], []) = i.operands();
        let loaded = self.read_tensor(first, *dst, *src, count, memory).map_err(|(t, fault)| self.fault(t, fault))?;
        self.tensor.loads[first / WARP].push(loaded);
        self.clock.tick();
        Ok(())
    }

    fn read_tensor(
        &mut self,
        first: usize,
        dst: Site,
        src: Site,
        count: i64,
        memory: &mut [Memory],
    ) -> Result<Loaded, (usize, Fault)> {
        let len = 4 * count as usize;
        let (to, from) = (&self.code.arrays[dst.array as usize], &self.code.arrays[src.array as usize]);
        let own = |fault| (first, fault);
        let register = in_bounds(to, self.threads[first].int(dst.index), len as u32).map_err(own)?;
        let elements = self.elements_of_warp(first, src, count)?;
        for (t, all) in (first..).zip(&elements) {
            for (r, e) in all.iter().enumerate() {
                let value = self.read_element(t, src, *e, memory).map_err(|fault| (t, fault))?;
                self.threads[t].lock(to, register + r, scalar::from_stored(value, from.dtype));
            }
        }
        Ok(Loaded { array: src.array, registers: (dst.array, register, len), elements })
    }

    /// The elements of each lane of the warp that begins with a thread, which names the first of them, by registers.
    fn elements_of_warp(&self, first: usize, at: Site, count: i64) -> Result<Vec<Vec<usize>>, (usize, Fault)> {
        let own = |fault| (first, fault);
        let begin = self.tensor_element(first, at, 8 * count).map_err(own)?;
        let (lane, place) = (begin % TENSOR_LANES, (first % self.per_block / WARP % 4) as i64 * LANES_OF_WARP);
        if lane % 16 != 0 || !(place..place + LANES_OF_WARP).contains(&lane) {
            let why = format!("a warp begins at lane {lane}; this one reaches lanes {place} and {} on", place + 16);
            return Err(own(fault(why)));
        }
        let of_thread = |t: usize| match self.tensor_element(t, at, 8 * count) {
            Ok(same) if same == begin => {
                Ok((0..4 * count).map(|r| begin as usize + place_of((t - first) as i64, r)).collect())
            }
            Ok(_) => Err((t, fault("lanes of the warp begin at different places".to_string()))),
            Err(fault) => Err((t, fault)),
        };
        (first..first + WARP).map(of_thread).collect()
    }

    /// An element of tensor memory, as a thread may read it now.
    fn read_element(&self, t: usize, src: Site, e: usize, memory: &mut [Memory]) -> Result<u64, Fault> {
        let array = &self.code.arrays[src.array as usize];
        self.tensor.stores.landed(t / self.per_block, src.array, e..e + 1, &array.name)?;
        let from = &mut memory[array.memory(self.threads[t].shift)];
        let value = from.read(e).ok_or_else(|| missing(array, e, from, self.code))?;
        from.shadow.read(e, &array.name, self.by(t))?;
        match from.shadow.last_write(e, self.clock.block) {
            Some((stamp, u, _)) => self.tensor.fenced(t, u, stamp, &array.name).map(|()| value),
            None => Ok(value),
        }
    }

    fn wait_loads(&mut self, first: usize, memory: &mut [Memory]) -> Result<(), Fault> {
        for load in std::mem::take(&mut self.tensor.loads[first / WARP]) {
            let (array, (to, register, len)) = (&self.code.arrays[load.array as usize], load.registers);
            for (t, elements) in (first..).zip(&load.elements) {
                let by = By { code: self.code, clock: &self.clock, thread: t as u32, pc: self.threads[t].pc };
                let from = &mut memory[array.memory(self.threads[t].shift)];
                elements.iter().try_for_each(|e| from.shadow.read(*e, &array.name, by))?;
                self.threads[t].unlock(&self.code.arrays[to as usize], register, len);
            }
        }
        self.clock.tick();
        Ok(())
    }
}

/// The element of a load that a lane of a warp receives in a register, counted from the first.
fn place_of(lane: i64, r: i64) -> usize {
    let (row, column) = (lane / 4 + 8 * (r / 2 % 2), r % 2 + 2 * (lane % 4) + 8 * (r / 4));
    (column * TENSOR_LANES + row) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registers_of_a_warp_hold_each_element_once() {
        let mut all: Vec<usize> = (0..32).flat_map(|l| (0..16).map(move |r| place_of(l, r))).collect();
        all.sort_unstable();
        let want: Vec<usize> = (0..32).flat_map(|c| (0..16).map(move |r| c * 128 + r)).collect();
        assert_eq!(all, want);
    }
}

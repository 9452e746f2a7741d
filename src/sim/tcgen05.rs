//! Tensor memory of a block: who took which columns, products into it, loads from it.
//!
//! Products are carried out by an agent of the warpgroup of the thread that issued them, in order: nobody knows of
//! them but by waiting for a barrier that a commit arrived at, and the agent reads operands as it does those of
//! warpgroups. An array is where the thread found it; it is used while its columns are taken. Loads read when they
//! are issued and again when they are waited for, so that what frees the columns has to come after the wait. What
//! one thread does to tensor memory and another after a barrier stands between a fence before and one after.
//!
//! Found: columns not given back, or taken beyond the last; use without columns; lanes of another warp; reads
//! before the barrier of a commit, and columns given back before; a fence that is missing on either side of it; operands that are
//! overwritten too early. Of a load that no thread waits for, the registers cannot be used.
//!
//! Stands in a circle with `block`, for whose threads it does so.

use super::block::{At, Block, WARP};
use super::clock::{COPIES, MATRICES};
use super::error::Fault;
use super::instr::{Instr, Site};
use super::memory::Memory;
use super::scalar;
use super::shadow::By;
use super::thread::{in_bounds, missing};
use super::wgmma::{WARPGROUP, dot};
use crate::ir::instr::{LANES_OF_WARP, TENSOR_COLUMNS, TENSOR_LANES, Tcgen05, Tcgen05Shape};
use crate::ir::{DType, MatrixDesc};
use std::collections::BTreeMap;

/// Columns that a block took.
struct Taken {
    first: i64,
    columns: i64,
    /// Who took them, and where.
    thread: usize,
    pc: usize,
}

/// Registers of a warp that loads are on their way to, and the elements that these read.
struct Loaded {
    array: u32,
    registers: (u32, usize, usize),
    /// Per lane.
    elements: Vec<Vec<usize>>,
}

/// The tensor memory of a block.
#[derive(Default)]
pub(super) struct TensorMemory {
    taken: Vec<Taken>,
    relinquished: bool,
    /// The first column of an array, as a thread found it.
    found: BTreeMap<(usize, u32), i64>,
    /// What each thread knew of the others and the agents at its last fence after a barrier.
    after: Vec<Vec<u32>>,
    /// When each thread last stood at a fence before one.
    before: Vec<u32>,
    /// Per warp.
    loads: Vec<Vec<Loaded>>,
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
        self.taken.first().map_or(Ok(()), |t| {
            Err((t.thread, t.pc, fault(format!("the block ends with {} columns not given back", t.columns))))
        })
    }

    /// The lowest columns that are free.
    fn take(&mut self, columns: i64, thread: usize, pc: usize) -> Result<i64, Fault> {
        if self.relinquished {
            return Err(fault("the block takes columns after it said that it takes no more".into()));
        }
        let free = |first: &i64| self.taken.iter().all(|t| first + columns <= t.first || t.first + t.columns <= *first);
        let first = (0..=TENSOR_COLUMNS - columns).step_by(32).find(free).ok_or_else(|| {
            let taken: i64 = self.taken.iter().map(|t| t.columns).sum();
            fault(format!("{columns} columns are taken where {taken} of {TENSOR_COLUMNS} are"))
        })?;
        self.taken.push(Taken { first, columns, thread, pc });
        Ok(first)
    }

    /// The first column of an array for a thread, of which that many are used.
    fn used(&self, t: usize, array: u32, name: &str, columns: i64) -> Result<i64, Fault> {
        let no = |why: &str| fault(format!("`{name}` is used {why}"));
        let first = *self.found.get(&(t, array)).ok_or_else(|| no("before the thread has found its columns"))?;
        let inside = |a: &&Taken| a.first <= first && first + columns <= a.first + a.columns;
        self.taken.iter().find(inside).map(|_| first).ok_or_else(|| no("in columns that the block has not taken"))
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

fn fault(why: String) -> Fault {
    Fault::TensorMemory(why)
}

impl Block<'_> {
    /// Carries out an instruction of tensor memory, for thread `t` or the warp that begins with it.
    pub(super) fn tensor_memory(&mut self, t: usize, i: &Instr, op: &Tcgen05, memory: &mut [Memory]) -> Result<(), At> {
        let done = match op {
            Tcgen05::Alloc { columns } => self.take_columns(t, i.places[0], *columns, memory),
            Tcgen05::Relinquish => {
                self.tensor.relinquished = true;
                Ok(())
            }
            Tcgen05::Find => self.find_columns(t, i, memory),
            Tcgen05::Dealloc { columns } => self.give_columns_back(t, i.places[0], *columns, memory),
            Tcgen05::Mma { shape, a, b } => return self.tensor_product(t, i, *shape, [*a, *b], memory),
            Tcgen05::Commit => self.commit(t, i.places[0]),
            Tcgen05::Load { count } => return self.load_tensor(t, i, *count, memory),
            Tcgen05::WaitLoads => self.wait_loads(t, memory),
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

    fn take_columns(&mut self, t: usize, word: Site, columns: i64, memory: &mut [Memory]) -> Result<(), Fault> {
        let first = self.tensor.take(columns, t, self.threads[t].pc)?;
        let array = &self.code.arrays[word.array as usize];
        let at = in_bounds(array, self.threads[t].int(word.index), 1)?;
        let by = By { code: self.code, clock: &self.clock, thread: t as u32, pc: self.threads[t].pc };
        self.threads[t].store(array, at, first as u64, memory, by)
    }

    fn find_columns(&mut self, t: usize, i: &Instr, memory: &mut [Memory]) -> Result<(), Fault> {
        let ([d, word], []) = i.operands();
        let array = &self.code.arrays[word.array as usize];
        let at = in_bounds(array, self.threads[t].int(word.index), 1)?;
        let by = By { code: self.code, clock: &self.clock, thread: t as u32, pc: self.threads[t].pc };
        let first = self.threads[t].load(array, at, memory, by)?;
        self.tensor.found.insert((t, d.array), first as i64);
        Ok(())
    }

    fn give_columns_back(&mut self, t: usize, d: Site, columns: i64, memory: &mut [Memory]) -> Result<(), Fault> {
        let array = &self.code.arrays[d.array as usize];
        let first = self.tensor.used(t, d.array, &array.name, columns)?;
        let whole = self.tensor.taken.iter().position(|a| a.first == first && a.columns == columns);
        let Some(n) = whole else {
            return Err(fault(format!("{columns} columns are given back of more that were taken together")));
        };
        self.tensor.taken.remove(n);
        let own = &mut memory[array.memory(self.threads[t].shift)];
        let by = By { code: self.code, clock: &self.clock, thread: t as u32, pc: self.threads[t].pc };
        (0..array.len as usize).try_for_each(|i| own.shadow.write(i, &array.name, by))
    }

    /// The number of the element that a thread names.
    fn tensor_element(&self, t: usize, site: Site, columns: i64) -> Result<i64, Fault> {
        let array = &self.code.arrays[site.array as usize];
        let at = in_bounds(array, self.threads[t].int(site.index), 1)? as i64;
        in_bounds(array, (at / TENSOR_LANES + columns) * TENSOR_LANES - 1, 1)?;
        self.tensor.used(t, site.array, &array.name, array.len as i64 / TENSOR_LANES)?;
        Ok(at)
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
        let first = self.tensor_element(t, *d, shape.n).map_err(|fault| self.fault(t, fault))?;
        if first % TENSOR_LANES != 0 {
            let why = format!("the sums of a product begin at lane {}, not at the first", first % TENSOR_LANES);
            return Err(self.fault(t, fault(why)));
        }
        let left = shortened(shape, self.operand(&[t], (*a, descs[0]), Tcgen05Shape::ROWS, memory)?);
        let right = shortened(shape, self.operand(&[t], (*b, descs[1]), shape.n, memory)?);
        let (add, k) = (self.threads[t].get(*accumulate) != 0, shape.k() as usize);
        for e in 0..(shape.n * TENSOR_LANES) as usize {
            let (row, column) = (e % TENSOR_LANES as usize * k, e / TENSOR_LANES as usize * k);
            let sum = |start| dot(shape.sum(), &left[row..row + k], &right[column..column + k], start);
            let done = self.add_to(t, *d, first as usize + e, add, sum, memory);
            done.map_err(|fault| self.fault(t, fault))?;
        }
        self.clock.tick();
        Ok(())
    }

    /// Writes a sum, which starts from what is there where it adds.
    fn add_to(
        &self,
        t: usize,
        d: Site,
        e: usize,
        add: bool,
        sum: impl Fn(u64) -> u64,
        memory: &mut [Memory],
    ) -> Result<(), Fault> {
        let array = &self.code.arrays[d.array as usize];
        let own = &mut memory[array.memory(self.threads[t].shift)];
        let start = match (add, own.read(e)) {
            (false, _) => 0,
            (true, Some(bits)) => scalar::from_stored(bits, array.dtype),
            (true, None) => return Err(missing(array, e, own, self.code)),
        };
        let agent = MATRICES + (t / WARPGROUP) as u32;
        let reads = own.shadow.update_as(e, &array.name, self.by(t), agent)?;
        for (u, stamp) in reads.into_iter().filter(|(_, stamp)| *stamp > self.clock.block) {
            self.tensor.fenced(t, u, stamp, &array.name)?;
        }
        own.write(e, scalar::to_stored(sum(start), array.dtype));
        Ok(())
    }

    /// Arrives for the products of a thread so far: who waits knows what their agent did, and what agents had done
    /// that the thread waited for, such as copies of operands; not what the thread did itself.
    fn commit(&mut self, t: usize, bar: Site) -> Result<(), Fault> {
        let word = self.ready(t, bar)?;
        let (threads, mut known) = (self.threads.len(), vec![]);
        self.clock.publish(t, &mut known);
        known[..threads].fill(0);
        known[threads + (MATRICES - COPIES) as usize + t / WARPGROUP] = self.clock.tick();
        self.mbarriers.arrive(word, 0, &known)
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
        let begin = self.tensor_element(first, src, 8 * count).map_err(own)?;
        let (lane, place) = (begin % TENSOR_LANES, (first % self.per_block / WARP % 4) as i64 * LANES_OF_WARP);
        if lane % 16 != 0 || !(place..place + LANES_OF_WARP).contains(&lane) {
            let why = format!("a load begins at lane {lane}; this warp reads lanes {place} and {} on", place + 16);
            return Err(own(fault(why)));
        }
        let mut elements = vec![];
        for t in first..first + WARP {
            let at = self.tensor_element(t, src, 8 * count).map_err(|fault| (t, fault))?;
            if at != begin {
                return Err((t, fault("lanes of the warp load from different places".to_string())));
            }
            let own = |r: usize| begin as usize + place_of((t - first) as i64, r as i64);
            let all: Vec<usize> = (0..len).map(own).collect();
            for (r, e) in all.iter().enumerate() {
                let value = self.read_element(t, src, *e, memory).map_err(|fault| (t, fault))?;
                self.threads[t].lock(to, register + r, scalar::from_stored(value, from.dtype));
            }
            elements.push(all);
        }
        Ok(Loaded { array: src.array, registers: (dst.array, register, len), elements })
    }

    /// An element of tensor memory, as a thread may read it now.
    fn read_element(&self, t: usize, src: Site, e: usize, memory: &mut [Memory]) -> Result<u64, Fault> {
        let array = &self.code.arrays[src.array as usize];
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

/// Elements as they are multiplied: float32 loses the low 13 bits.
fn shortened(shape: Tcgen05Shape, mut all: Vec<u64>) -> Vec<u64> {
    if shape.input == DType::F32 {
        let cut = |v: u64| f64::from(f32::from_bits((scalar::float(v) as f32).to_bits() & !0x1fff)).to_bits();
        all.iter_mut().for_each(|v| *v = cut(*v));
    }
    all
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

    #[test]
    fn columns_are_taken_where_they_are_free() {
        let mut m = TensorMemory::new(32);
        assert_eq!((m.take(256, 0, 0), m.take(128, 0, 0), m.take(128, 0, 0)), (Ok(0), Ok(256), Ok(384)));
        assert!(m.take(32, 0, 0).is_err() && m.left().is_err());
        m.taken.remove(1);
        assert_eq!(m.take(64, 0, 0), Ok(256));
    }
}

//! Matrix instructions of warpgroups: issued in order, finished when their group has been waited for.
//!
//! An instruction reads its operands some time after it was issued, and writes its sums some time before a
//! wait for its group returns. So from issue to wait its registers may not be touched, and its operands in
//! shared memory may not be written: reads count as those of an agent of the warpgroup, which its threads
//! know of only by waiting. The same holds for a first operand in registers. Registers that threads touched need a
//! fence before; what ordinary stores wrote to operands needs a fence of the asynchronous proxy.
//!
//! Products are exact, added in float64 in the order of the contraction and rounded to float32 once for each
//! instruction; the hardware cuts off bits of its own.
//!
//! Stands in a circle with `block`, which asks for products left over, and `cp_async`, which keeps those under way.

use super::block::{At, Block};
use super::clock::MATRICES;
use super::cp_async::Groups;
use super::error::Fault;
use super::instr::{Instr, Site};
use super::memory::Memory;
use super::scalar;
use super::shadow::By;
use super::thread::{in_bounds, missing};
use crate::interp::{round_to, wrap_int};
use crate::ir::instr::WgmmaShape;
use crate::ir::{DType, MatrixDesc};

/// Threads of a warpgroup.
pub(super) const WARPGROUP: usize = 128;

/// An instruction that was issued and not waited for.
pub(super) struct Issued {
    /// When its operands were read.
    stamp: u32,
    pc: usize,
    /// The registers of its sums.
    sums: Registers,
    /// Those of its first operand, where it is in registers.
    held: Option<Registers>,
}

impl Issued {
    /// All registers that it uses.
    fn registers(&self) -> impl Iterator<Item = Registers> {
        [self.sums].into_iter().chain(self.held)
    }
}

/// Registers of an array, the same in each thread.
#[derive(Clone, Copy)]
struct Registers {
    array: u32,
    first: usize,
    len: usize,
}

impl Block<'_> {
    /// Issues a product for the warpgroup that begins with thread `first`; without a descriptor the first operand is in
    /// registers.
    pub(super) fn wgmma(
        &mut self,
        first: usize,
        i: &Instr,
        shape: WgmmaShape,
        (of_a, of_b): (Option<MatrixDesc>, MatrixDesc),
        memory: &mut [Memory],
    ) -> Result<(), At> {
        let ([d, a, b], [accumulate]) = i.operands();
        let sums = self.registers(first, *d, shape.registers() as usize)?;
        let held = match of_a {
            None => Some(self.registers(first, *a, shape.held() as usize)?),
            Some(_) => None,
        };
        [sums].into_iter().chain(held).try_for_each(|r| self.registers_fenced(first, r))?;
        // every warp reads, so every warp has to know of the data
        let all: Vec<usize> = (first..first + WARPGROUP).step_by(super::block::WARP).collect();
        let shift = self.threads[first].shift;
        let left = match (of_a, held) {
            (Some(desc), _) => self.operand(&all, (*a, desc, shift), WgmmaShape::ROWS, memory)?,
            (None, held) => self.held(first, held.unwrap_or(sums), shape)?,
        };
        let right = self.operand(&all, (*b, of_b, shift), shape.n, memory)?;
        let (left, right) = (shortened(shape.input, left), shortened(shape.input, right));
        let add = self.threads[first].get(*accumulate) != 0;
        let k = shape.k() as usize;
        for t in first..first + WARPGROUP {
            for e in 0..sums.len {
                let (row, column) = WgmmaShape::place((t - first) as i64, e as i64);
                let (row, column) = (row as usize * k, column as usize * k);
                let start = if add { self.accumulator(t, sums, e)? } else { 0 };
                let value = dot(shape.sum(), &left[row..row + k], &right[column..column + k], start);
                self.threads[t].lock(&self.code.arrays[sums.array as usize], sums.first + e, value);
            }
            if let Some(held) = held {
                self.threads[t].lock_again(&self.code.arrays[held.array as usize], held.first, held.len);
            }
        }
        let issued = Issued { stamp: self.clock.tick(), pc: self.threads[first].pc, sums, held };
        self.under_way.matrices[first / WARPGROUP].add(issued);
        Ok(())
    }

    /// The registers that all threads of a warpgroup name.
    fn registers(&self, first: usize, site: Site, len: usize) -> Result<Registers, At> {
        let array = &self.code.arrays[site.array as usize];
        let at = in_bounds(array, self.threads[first].int(site.index), len as u32);
        let at = at.map_err(|fault| self.fault(first, fault))?;
        Ok(Registers { array: site.array, first: at, len })
    }

    /// That a fence orders what threads did to registers.
    fn registers_fenced(&self, first: usize, r: Registers) -> Result<(), At> {
        let array = &self.code.arrays[r.array as usize];
        match (first..first + WARPGROUP).find(|t| self.threads[*t].touched(array, r.first, r.len)) {
            Some(t) => Err(self.fault(t, Fault::NoWgmmaFence(array.name.clone()))),
            None => Ok(()),
        }
    }

    /// The elements of a first operand in registers, the reduced axis fastest.
    fn held(&self, first: usize, r: Registers, shape: WgmmaShape) -> Result<Vec<u64>, At> {
        let mut out = vec![0; (WgmmaShape::ROWS * shape.k()) as usize];
        for (t, e) in (0..WARPGROUP).flat_map(|t| (0..r.len).map(move |e| (t, e))) {
            let (row, depth) = shape.place_of_a(t as i64, e as i64);
            out[(row * shape.k() + depth) as usize] = self.accumulator(first + t, r, e)?;
        }
        Ok(out)
    }

    /// What a sum starts from: an unfinished one too, of an instruction before.
    fn accumulator(&self, t: usize, sums: Registers, e: usize) -> Result<u64, At> {
        let array = &self.code.arrays[sums.array as usize];
        self.threads[t].peek(array, sums.first + e).map_err(|fault| self.fault(t, fault))
    }

    /// The elements of an operand of 32 bytes of the reduced axis, which comes fastest, and `lines` along its free
    /// one, in the block whose memories are shifted so far, read by the agent of those threads.
    pub(super) fn operand(
        &mut self,
        threads: &[usize],
        (site, desc, shift): (Site, MatrixDesc, usize),
        lines: i64,
        memory: &mut [Memory],
    ) -> Result<Vec<u64>, At> {
        let (array, first) = (&self.code.arrays[site.array as usize], threads[0]);
        let size = array.dtype.bytes() as i64;
        let (start, k) = (self.threads[first].int(site.index) * size, WgmmaShape::DEPTH_BYTES / size);
        let agent = MATRICES + (first / WARPGROUP) as u32;
        let from = &mut memory[array.memory(shift)];
        let mut out = Vec::with_capacity((lines * k) as usize);
        for free in 0..lines {
            for depth in 0..k {
                let at = desc.byte(array.dtype, start, free, depth) / size;
                let value = threads.iter().try_fold(0, |_, t| {
                    let by = By { code: self.code, clock: &self.clock, thread: *t as u32, pc: self.threads[*t].pc };
                    element(array, at, from, by, agent)
                });
                out.push(value.map_err(|fault| self.fault(first, fault))?);
            }
        }
        Ok(out)
    }

    pub(super) fn wgmma_fence(&mut self, first: usize) {
        self.threads[first..first + WARPGROUP].iter_mut().for_each(|t| t.fence_registers());
    }

    pub(super) fn wgmma_commit(&mut self, first: usize) {
        self.under_way.matrices[first / WARPGROUP].commit();
    }

    /// Waits for the groups of a warpgroup but the newest `left`.
    pub(super) fn wgmma_wait(&mut self, first: usize, left: u32) {
        let groups = &mut self.under_way.matrices[first / WARPGROUP];
        let done = groups.take(left);
        let pending: Vec<Registers> = groups.iter().flat_map(Issued::registers).collect();
        for t in first..first + WARPGROUP {
            for i in &done {
                self.clock.learn_agent(t, MATRICES + (first / WARPGROUP) as u32, i.stamp);
                for r in i.registers() {
                    self.threads[t].unlock(&self.code.arrays[r.array as usize], r.first, r.len);
                }
            }
            for r in &pending {
                self.threads[t].lock_again(&self.code.arrays[r.array as usize], r.first, r.len);
            }
        }
    }
}

/// Products that a warpgroup which ends has not waited for.
pub(super) fn left(groups: &Groups<Issued>) -> Option<(usize, u32)> {
    groups.iter().next().map(|i| (i.pc, i.sums.array))
}

/// An element of an operand, read by the warpgroup's agent.
fn element(array: &super::code::ArrayInfo, at: i64, from: &mut Memory, by: By, agent: u32) -> Result<u64, Fault> {
    stored_element(array, at, from, by, agent).map(|bits| scalar::from_stored(bits, array.dtype))
}

/// The bits of an element in shared memory, read by a warpgroup's agent.
pub(super) fn stored_element(
    array: &super::code::ArrayInfo,
    at: i64,
    from: &mut Memory,
    by: By,
    agent: u32,
) -> Result<u64, Fault> {
    let at = in_bounds(array, at, 1)?;
    let bits = from.read(at).ok_or_else(|| missing(array, at, from, by.code))?;
    if !from.is_settled(at) {
        return Err(Fault::Unfenced(format!("{}[{at}]", array.name)));
    }
    from.shadow.read_as(at, &array.name, by, agent)?;
    Ok(bits)
}

/// Elements as they are multiplied.
pub(super) fn shortened(input: DType, mut all: Vec<u64>) -> Vec<u64> {
    if input == DType::F32 {
        all.iter_mut().for_each(|v| *v = scalar::tf32(*v));
    }
    all
}

/// The sum of products that is added to a sum of that type.
pub(super) fn dot(sum: DType, a: &[u64], b: &[u64], start: u64) -> u64 {
    let pairs = a.iter().zip(b);
    if sum == DType::I32 {
        let sum: i64 = pairs.map(|(x, y)| *x as i64 * *y as i64).sum();
        return wrap_int(start as i64 + sum, DType::I32) as u64;
    }
    let start = if start == 0 { 0.0 } else { scalar::float(start) };
    let sum = pairs.fold(start, |sum, (x, y)| sum + scalar::float(*x) * scalar::float(*y));
    round_to(sum, DType::F32).to_bits()
}

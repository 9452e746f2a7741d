//! Matrix instructions of warpgroups: issued in order, finished when their group has been waited for.
//!
//! An instruction reads its operands some time after it was issued, and writes its sums some time before a
//! wait for its group returns. So from issue to wait its registers may not be touched, and its operands in
//! shared memory may not be written: reads count as those of an agent of the warpgroup, which its threads
//! know of only by waiting. Registers that threads touched need a fence before; what ordinary stores wrote to
//! operands needs a fence of the asynchronous proxy.
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
}

/// Registers of an array, the same in each thread.
#[derive(Clone, Copy)]
struct Registers {
    array: u32,
    first: usize,
    len: usize,
}

impl Block<'_> {
    /// Issues a product for the warpgroup that begins with thread `first`.
    pub(super) fn wgmma(
        &mut self,
        first: usize,
        i: &Instr,
        shape: WgmmaShape,
        descs: [MatrixDesc; 2],
        memory: &mut [Memory],
    ) -> Result<(), At> {
        let ([d, a, b], [accumulate]) = i.operands();
        let sums = self.registers(first, *d, shape.registers() as usize)?;
        for t in first..first + WARPGROUP {
            if self.threads[t].touched(&self.code.arrays[sums.array as usize], sums.first, sums.len) {
                let name = &self.code.arrays[sums.array as usize].name;
                return Err(self.fault(t, Fault::NoWgmmaFence(name.clone())));
            }
        }
        // every warp reads, so every warp has to know of the data
        let all: Vec<usize> = (first..first + WARPGROUP).step_by(super::block::WARP).collect();
        let left = self.operand(&all, (*a, descs[0]), WgmmaShape::ROWS, memory)?;
        let right = self.operand(&all, (*b, descs[1]), shape.n, memory)?;
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
        }
        let issued = Issued { stamp: self.clock.tick(), pc: self.threads[first].pc, sums };
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

    /// What a sum starts from: an unfinished one too, of an instruction before.
    fn accumulator(&self, t: usize, sums: Registers, e: usize) -> Result<u64, At> {
        let array = &self.code.arrays[sums.array as usize];
        self.threads[t].peek(array, sums.first + e).map_err(|fault| self.fault(t, fault))
    }

    /// The elements of an operand of 32 bytes of the reduced axis, which comes fastest, and `lines` along its free
    /// one, read by the agent of those threads.
    pub(super) fn operand(
        &mut self,
        threads: &[usize],
        (site, desc): (Site, MatrixDesc),
        lines: i64,
        memory: &mut [Memory],
    ) -> Result<Vec<u64>, At> {
        let (array, first) = (&self.code.arrays[site.array as usize], threads[0]);
        let size = array.dtype.bytes() as i64;
        let (start, k) = (self.threads[first].int(site.index) * size, WgmmaShape::DEPTH_BYTES / size);
        let agent = MATRICES + (first / WARPGROUP) as u32;
        let from = &mut memory[array.memory(self.threads[first].shift)];
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
        let pending: Vec<Registers> = groups.iter().map(|i| i.sums).collect();
        for t in first..first + WARPGROUP {
            for i in &done {
                self.clock.learn_agent(t, MATRICES + (first / WARPGROUP) as u32, i.stamp);
                self.threads[t].unlock(&self.code.arrays[i.sums.array as usize], i.sums.first, i.sums.len);
            }
            for sums in &pending {
                self.threads[t].lock_again(&self.code.arrays[sums.array as usize], sums.first, sums.len);
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
    let at = in_bounds(array, at, 1)?;
    let bits = from.read(at).ok_or_else(|| missing(array, at, from, by.code))?;
    if !from.is_settled(at) {
        return Err(Fault::Unfenced(format!("{}[{at}]", array.name)));
    }
    from.shadow.read_as(at, &array.name, by, agent)?;
    Ok(scalar::from_stored(bits, array.dtype))
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

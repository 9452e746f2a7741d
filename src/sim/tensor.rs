//! Boxes of tensor maps: from device memory to shared memory, zeros where they lie outside, and back.
//! Each run of elements of a box that stays together is a copy of its own, for each block that takes it. A barrier of each
//! such block counts it, or that of the first block of a pair.

use super::block::Block;
use super::clock::COPIES;
use super::cp_async::{Copy, Load, Span};
use super::error::Fault;
use super::instr::Instr;
use super::memory::Memory;
use super::tcgen05::pair_of;
use super::thread::{aligned, in_bounds};
use crate::ir::TensorMap;
use crate::ir::instr::Landing;

/// Elements of a box that are adjacent on both sides.
struct Run {
    /// First element in the box, from its start in shared memory.
    shared: usize,
    /// First element of the tensor; `None` outside.
    global: Option<usize>,
    len: usize,
}

impl<'a> Block<'a> {
    /// Starts the copies of a box.
    pub(super) fn tensor_load(&mut self, t: usize, i: &Instr, to: Landing, memory: &mut [Memory]) -> Result<(), Fault> {
        let own = t / self.per_block;
        // where it lands, and whose barrier counts it
        let blocks = match to {
            Landing::Own => vec![(own, own)],
            Landing::Cluster(n) => (0..n as usize).map(|block| (block, block)).collect(),
            Landing::Pair => vec![(own, pair_of(own)[0])],
        };
        if blocks.iter().any(|(_, counts)| *counts != own) {
            self.clock.cluster.access(t)?;
        }
        let ready = |(block, counts)| Ok((block, self.ready_in(counts, t, i.places[1])?));
        let bars = blocks.into_iter().map(ready).collect::<Result<Vec<_>, Fault>>()?;
        let (map, start) = self.box_of(t, i)?;
        let runs = self.runs(t, map, i);
        for (block, bar) in bars {
            let start = Span::new(start.array, start.first, block * self.code.shared());
            for run in &runs {
                let to = Span { first: start.first + run.shared, ..start };
                let from = run.global.map(|first| self.tensor(map, first, run.len)).transpose()?;
                let copy = Copy::start(self.by(t), COPIES, to, from, run.len, memory)?;
                let bytes = (run.len as u64 * map.dtype.bytes()) as i64;
                self.under_way.loads.push(Load { thread: t, copy, bar, bytes });
            }
        }
        self.clock.tick();
        Ok(())
    }

    /// Starts the copies of a box from shared memory, as far as it lies in the tensor.
    pub(super) fn tensor_store(&mut self, t: usize, i: &Instr, memory: &mut [Memory]) -> Result<(), Fault> {
        let (map, start) = self.box_of(t, i)?;
        let mut copies = vec![];
        for run in self.runs(t, map, i) {
            let from = Span { first: start.first + run.shared, ..start };
            Self::fenced(from, run.len, memory)?;
            if let Some(first) = run.global {
                let to = self.tensor(map, first, run.len)?;
                copies.push(Copy::start(self.by(t), COPIES, to, Some(from), run.len, memory)?);
            }
        }
        copies.into_iter().for_each(|copy| self.store_in_bulk(t, copy));
        Ok(())
    }

    /// The tensor map, and the start of the box in shared memory, checked.
    fn box_of(&self, t: usize, i: &Instr) -> Result<(&'a TensorMap, Span<'a>), Fault> {
        let map = self.code.maps.iter().find(|m| i.op.map() == Some(&m.name));
        let map = map.unwrap_or_else(|| panic!("the tensor map of {:?} passed verification", i.op));
        let (site, size) = (i.places[0], map.dtype.bytes() as i64);
        let array = &self.code.arrays[site.array as usize];
        let index = aligned(array, self.threads[t].int(site.index), (map.swizzle.align() / size).max(1) as u32)?;
        let len = map.box_dims.iter().product::<i64>() as u32;
        Ok((map, Span::new(array, in_bounds(array, index, len)?, self.threads[t].shift)))
    }

    fn tensor(&self, map: &TensorMap, first: usize, len: usize) -> Result<Span<'a>, Fault> {
        let array = self.code.arrays.iter().find(|a| a.name == map.buffer.as_str());
        let array = array.unwrap_or_else(|| panic!("the tensor of `{}` is no parameter", map.name));
        Ok(Span::new(array, in_bounds(array, first as i64, len as u32)?, 0))
    }

    /// The runs of a box at some coordinates: 16 bytes that are whole inside or outside, else elements.
    fn runs(&self, t: usize, map: &TensorMap, i: &Instr) -> Vec<Run> {
        let at: Vec<i64> = i.values.iter().map(|c| self.threads[t].int(*c)).collect();
        let size = map.dtype.bytes() as i64;
        let chunk = 16 / size;
        let all: i64 = map.box_dims.iter().product();
        let mut out = vec![];
        for first in (0..all).step_by(chunk as usize) {
            let x = first % map.box_dims[0] + at[0];
            let whole = x >= 0 && x + chunk <= map.dims[0] || x + chunk <= 0 || x >= map.dims[0];
            let len = if whole { chunk } else { 1 };
            for i in (0..chunk).step_by(len as usize) {
                let shared = map.swizzle.apply((first + i) * size) / size;
                let global = element(map, &at, first + i).map(|g| g as usize);
                out.push(Run { shared: shared as usize, global, len: len as usize });
            }
        }
        out
    }
}

/// The element of the tensor that an element of a box at `at` is; `None` outside.
fn element(map: &TensorMap, at: &[i64], mut n: i64) -> Option<i64> {
    let size = map.dtype.bytes() as i64;
    let mut sum = 0;
    for (d, start) in at.iter().enumerate() {
        let i = start + n % map.box_dims[d] * map.elem_strides[d];
        n /= map.box_dims[d];
        if !(0..map.dims[d]).contains(&i) {
            return None;
        }
        sum += i * if d == 0 { 1 } else { map.strides_bytes[d - 1] / size };
    }
    Some(sum)
}

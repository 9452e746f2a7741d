//! Products of numbers with scales of blocks, and the copies that bring the scales to tensor memory.
//!
//! The scale of a row is in the word of its lane, in a column for each 32 rows; all four groups of 32 lanes have to hold it.
//! Each block of a pair has the numbers of its own rows and half of the columns, and scales of its own rows and all columns.
//! Numbers times scales are exact in float64.

use super::columns::fault;
use crate::interp::scalar;
use crate::ir::DType;
use crate::ir::MatrixDesc;
use crate::ir::instr::{BlockScaleMma, CtaGroup, LANES_OF_WARP, TENSOR_LANES, Tcgen05Scaled, Tcgen05Shape};
use crate::sim::block::{At, Block};
use crate::sim::clock::MATRICES;
use crate::sim::error::Fault;
use crate::sim::instr::{Instr, Site};
use crate::sim::matrix::numbers;
use crate::sim::memory::Memory;
use crate::sim::thread::missing;
use crate::sim::wgmma::{WARPGROUP, dot, stored_element};

/// Bytes of a word, each a scale.
const WORD: i64 = 4;

impl Block<'_> {
    /// Issues a product with scales for thread `t`.
    pub(super) fn scaled_product(
        &mut self,
        t: usize,
        i: &Instr,
        shape: Tcgen05Scaled,
        (descs, first): ([MatrixDesc; 2], [u32; 2]),
        memory: &mut [Memory],
    ) -> Result<(), At> {
        let ([d, a, b, sfa, sfb], [accumulate]) = i.operands();
        let sums = self.whole_columns(t, *d, shape.n).map_err(|fault| self.fault(t, fault))?;
        let blocks = self.blocks_of_product(t, *d, shape.group).map_err(|fault| self.fault(t, fault))?;
        let mut columns = vec![];
        for block in &blocks {
            let at = (*b, descs[1], block * self.code.shared());
            columns.extend(self.operand(&[t], at, shape.own_columns(), memory)?);
        }
        let (k, add) = (shape.k() as usize, self.threads[t].get(*accumulate) != 0);
        for block in blocks {
            let rows = self.operand(&[t], (*a, descs[0], block * self.code.shared()), TENSOR_LANES, memory)?;
            let sides = [(rows.as_slice(), sfa, 0, TENSOR_LANES), (columns.as_slice(), sfb, 1, shape.n)];
            let [left, right] = sides.map(|(bytes, scales, side, lines)| {
                let scales = self.scales((t, block), *scales, lines, (shape.of, first[side]), memory);
                scales.map(|scales| scaled(shape.of, bytes, &scales)).map_err(|fault| self.fault(t, fault))
            });
            let (left, right) = (left?, right?);
            for e in 0..(shape.n * TENSOR_LANES) as usize {
                let (row, column) = (e % TENSOR_LANES as usize * k, e / TENSOR_LANES as usize * k);
                let sum = |start| dot(DType::F32, &left[row..row + k], &right[column..column + k], start);
                self.add_to((t, block), *d, sums + e, add, sum, memory).map_err(|fault| self.fault(t, fault))?;
            }
        }
        self.clock.tick();
        Ok(())
    }

    /// The scales of so many lines in a block, those of a line side by side, as the agent of a thread reads them.
    fn scales(
        &self,
        (t, block): (usize, usize),
        site: Site,
        lines: i64,
        (of, first): (BlockScaleMma, u32),
        memory: &mut [Memory],
    ) -> Result<Vec<f64>, Fault> {
        let begin = self.whole_columns(t, site, (lines + LANES_OF_WARP - 1) / LANES_OF_WARP)?;
        let mut out = vec![];
        for line in 0..lines {
            let of_group = |group| {
                let (column, lane) = (line / LANES_OF_WARP, group * LANES_OF_WARP + line % LANES_OF_WARP);
                begin + (column * TENSOR_LANES + lane) as usize
            };
            let copies =
                (0..TENSOR_LANES / LANES_OF_WARP).map(|group| self.word((t, block), site, of_group(group), memory));
            let copies = copies.collect::<Result<Vec<u64>, _>>()?;
            if copies.iter().any(|word| *word != copies[0]) {
                return Err(fault(format!("the four groups of lanes hold different scales of line {line}")));
            }
            for nth in i64::from(first)..i64::from(first) + of.scales() {
                let scale = scalar::float(scalar::from_stored(copies[0] >> (8 * nth) & 0xff, of.scale()));
                // the sign of one is not specified
                out.push(if scale < 0.0 { f64::NAN } else { scale });
            }
        }
        Ok(out)
    }

    /// A word of a block's tensor memory that the agent of a thread reads, in the order in which that issues.
    fn word(&self, (t, block): (usize, usize), site: Site, e: usize, memory: &mut [Memory]) -> Result<u64, Fault> {
        let (array, agent) = (&self.code.arrays[site.array as usize], MATRICES + (t / WARPGROUP) as u32);
        self.tensor.stores.landed(block, site.array, e..e + 1, &array.name)?;
        let from = &mut memory[array.memory(block * self.code.shared())];
        let word = from.read(e).ok_or_else(|| missing(array, e, from, self.code))?;
        from.shadow.read_in_turn(e, &array.name, self.by(t), agent)?;
        match from.shadow.last_write(e, self.clock.block) {
            Some((stamp, u, _)) if u != agent => self.tensor.fenced(t, u, stamp, &array.name).map(|()| word),
            Some(_) | None => Ok(word),
        }
    }

    /// Copies words of 32 lanes by four columns to all groups of lanes, in each block from its own shared memory.
    pub(super) fn copy_scales(
        &mut self,
        t: usize,
        i: &Instr,
        group: CtaGroup,
        memory: &mut [Memory],
    ) -> Result<(), Fault> {
        let ([dst, src], []) = i.operands();
        let begin = self.whole_columns(t, *dst, Tcgen05Scaled::SCALES[1])?;
        for block in self.blocks_of_product(t, *dst, group)? {
            self.copy_scales_of((t, block), (*dst, begin), *src, memory)?;
        }
        self.clock.tick();
        Ok(())
    }

    fn copy_scales_of(
        &self,
        (t, block): (usize, usize),
        (dst, begin): (Site, usize),
        src: Site,
        memory: &mut [Memory],
    ) -> Result<(), Fault> {
        let (columns, shift) = (Tcgen05Scaled::SCALES[1], block * self.code.shared());
        let (to, from) = (&self.code.arrays[dst.array as usize], &self.code.arrays[src.array as usize]);
        let (start, agent) = (self.threads[t].int(src.index), MATRICES + (t / WARPGROUP) as u32);
        for at in 0..LANES_OF_WARP * columns {
            let own = &mut memory[from.memory(shift)];
            let byte = |b| stored_element(from, start + at * WORD + b, own, self.by(t), agent).map(|v| v << (8 * b));
            let word = (0..WORD).map(byte).sum::<Result<u64, _>>()?;
            let (lane, column) = (at / columns, at % columns);
            for group in 0..TENSOR_LANES / LANES_OF_WARP {
                let e = begin + (column * TENSOR_LANES + group * LANES_OF_WARP + lane) as usize;
                let own = &mut memory[to.memory(shift)];
                self.overwrite(t, (&to.name, e), own, agent)?;
                own.write(e, word);
            }
        }
        Ok(())
    }
}

/// The numbers of lines of 32 bytes, times the scale of each.
fn scaled(of: BlockScaleMma, bytes: &[u64], scales: &[f64]) -> Vec<u64> {
    let all: Vec<f64> = bytes.iter().flat_map(|b| numbers(*b, of.packed())).collect();
    let block = (Tcgen05Shape::DEPTH_BYTES * of.packed() / of.scales()) as usize;
    all.chunks(block).zip(scales).flat_map(|(own, scale)| own.iter().map(move |x| (x * scale).to_bits())).collect()
}

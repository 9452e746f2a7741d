//! Which elements of a buffer each block of a launch may touch: a box around them.

use crate::analysis::{Interval, Ranges, interval};
use crate::ir::device::DStmt;
use crate::ir::instr::Access;
use crate::ir::{Buffer, Expr, Name, PrimFunc, Stmt, ThreadTag};
use crate::lower::LowerError;
use crate::lower::pass::{blocks, launches};
use crate::target::Target;
use std::collections::{BTreeMap, BTreeSet};

/// The indices along each dimension.
pub type Bounds = Vec<Interval>;

/// What a launch does to memory.
pub struct Footprint {
    ranges: Ranges,
    buffers: BTreeMap<Name, Buffer>,
    /// Indices of accesses, each once: those of several elements as the first and the last.
    accesses: BTreeMap<Name, Vec<Vec<Expr>>>,
    written: BTreeSet<Name>,
}

impl Footprint {
    /// That of the launch of a statement.
    ///
    /// # Errors
    /// Where the statement makes no launch.
    pub fn of(f: &PrimFunc, target: &Target, s: &Stmt) -> Result<Footprint, LowerError> {
        let mut nest = launches::cuda(f, target, f.name.clone(), s)?;
        let body = blocks::run(&mut nest, s)?;
        let buffers = nest.buffers.iter().filter(|(name, _)| nest.is_global(name)).map(|(n, b)| (n.clone(), b.clone()));
        let (accesses, written) = (BTreeMap::new(), BTreeSet::new());
        let mut all = Footprint { buffers: buffers.collect(), ranges: nest.ranges.clone(), accesses, written };
        body.iter().for_each(|s| s.visit(&mut |s| all.note(s)));
        Ok(all)
    }

    fn note(&mut self, s: &DStmt) {
        s.for_each_access(|buffer, indices, access| self.add(buffer, indices, access != Access::Read));
        match s {
            DStmt::Reduce(r) => self.add(&r.dst, &r.indices, true),
            DStmt::Tile(call) => call.for_each_tile(|t| {
                self.add(&t.buffer, &t.begin, true);
                self.add(&t.buffer, &t.last(), true);
            }),
            _ => {}
        }
    }

    fn add(&mut self, buffer: &Name, indices: &[Expr], write: bool) {
        if !self.buffers.contains_key(buffer) {
            return;
        }
        if write {
            self.written.insert(buffer.clone());
        }
        let known = self.accesses.entry(buffer.clone()).or_default();
        if known.iter().all(|k| k != indices) {
            known.push(indices.to_vec());
        }
    }

    /// The buffers that two launches use, of which at least one writes them.
    pub fn shared(&self, other: &Footprint) -> Vec<Name> {
        let both = self.accesses.keys().filter(|b| other.accesses.contains_key(*b));
        both.filter(|b| self.written.contains(*b) || other.written.contains(*b)).cloned().collect()
    }

    /// What each of so many blocks along x touches of a buffer; `None` where it is not known.
    pub fn boxes(&self, buffer: &Name, blocks: i64) -> Option<Vec<Bounds>> {
        let (mut ranges, accesses) = (self.ranges.clone(), self.accesses.get(buffer)?);
        let shape: Option<Vec<i64>> = self.buffers[buffer].shape.iter().map(Expr::as_int).collect();
        let shape = shape?;
        let mut of_block = |block: i64| {
            ranges.set(ThreadTag::BlockX.name(), block, block);
            let boxes = accesses.iter().map(|indices| one(indices, &shape, &ranges));
            boxes.collect::<Option<Vec<Bounds>>>()?.into_iter().reduce(|a, b| hull(&a, &b))
        };
        (0..blocks).map(&mut of_block).collect()
    }
}

/// The box of an access, inside the buffer: guards keep it there.
fn one(indices: &[Expr], shape: &[i64], ranges: &Ranges) -> Option<Bounds> {
    if indices.len() != shape.len() {
        return None;
    }
    let along = |(e, n): (&Expr, &i64)| {
        let index = interval(e, ranges);
        index.finite().map(|_| index.meet(Interval::new(0, n - 1)))
    };
    indices.iter().zip(shape).map(along).collect()
}

/// The smallest box around two.
pub fn hull(a: &Bounds, b: &Bounds) -> Bounds {
    a.iter().zip(b).map(|(a, b)| a.join(*b)).collect()
}

/// True where no two of the boxes have an element in common.
pub fn disjoint(boxes: &[Bounds]) -> bool {
    let rank = boxes.first().map_or(0, Vec::len);
    let starts = |d: &usize| boxes.iter().map(|b| b[*d].lo).collect::<BTreeSet<_>>().len();
    let Some(along) = (0..rank).max_by_key(starts) else { return boxes.len() < 2 };
    let mut sorted: Vec<&Bounds> = boxes.iter().collect();
    sorted.sort_by_key(|b| b[along].lo);
    let apart = |a: &Bounds, b: &Bounds| a.iter().zip(b).any(|(a, b)| a.hi < b.lo || b.hi < a.lo);
    let alone = |i: usize| {
        let near = sorted[i + 1..].iter().take_while(|b| b[along].lo <= sorted[i][along].hi);
        near.into_iter().all(|b| apart(sorted[i], b))
    };
    (0..sorted.len()).all(alone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_are_apart_in_some_dimension() {
        let from = |start: i64, n: i64| Interval::new(start, start + n - 1);
        let grid = |width: i64| -> Vec<Bounds> {
            (0..12).map(|i| vec![from(i / 4 * 10, 10), from(i % 4 * 8, width)]).collect()
        };
        assert!(disjoint(&grid(8)) && disjoint(&grid(3)) && !disjoint(&grid(9)));
        assert!(disjoint(&[]) && disjoint(&[vec![]]) && !disjoint(&[vec![], vec![]]));
        assert_eq!(hull(&vec![from(0, 4), from(9, 1)], &vec![from(2, 4), from(1, 4)]), [from(0, 6), from(1, 9)]);
    }
}

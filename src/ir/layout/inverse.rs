//! Bijective layouts, and where an element comes from.

use super::threads::compact;
use super::{Axis, Iter, Point, TileLayout};
use std::collections::BTreeMap;

impl TileLayout {
    /// True when nothing is replicated and the elements fill a box from 0 on every axis, one element
    /// at each position.
    pub fn is_bijective(&self) -> bool {
        let fills = |axis: Axis| {
            let (low, high) = self.affine_range(axis);
            low == 0 && compact(&self.sorted_on(axis).into_iter().map(|e| e.0).collect::<Vec<_>>()) == Some(1 + high)
        };
        let permutes = |s: super::Swizzle| s.keeps(1 + self.affine_range(Axis::M).1);
        self.replica.iter().all(|it| it.extent == 1)
            && Axis::ALL.iter().all(|e| fills(e.0))
            && self.swizzle.is_none_or(permutes)
    }

    /// The axes on which a bijective layout places elements at more than one position, in the order
    /// in which they number its positions: row-major, threads and blocks before memory, `m` last.
    pub fn position_axes(&self) -> Vec<Axis> {
        Axis::ALL.iter().rev().map(|e| e.0).filter(|a| !self.sorted_on(*a).is_empty()).collect()
    }

    /// From the number of a position (see [`TileLayout::position_axes`]) to the number of the
    /// element there, on `m`. An error for layouts that are not bijective, and for swizzled ones,
    /// whose inverse has its swizzle before the strides; ask [`TileLayout::locate`] for those.
    pub fn inverse(&self) -> Result<TileLayout, String> {
        if !self.is_bijective() {
            return Err(format!("layout {self} has no inverse: its elements do not fill a box, one at each position"));
        }
        if let Some(s) = self.swizzle.filter(|s| s.swizzle_len() > 0) {
            return Err(format!("layout {self} has no inverse in the form of a layout, because of {s}"));
        }
        let (mut shard, mut offset) = (vec![], 0);
        for axis in self.position_axes() {
            for (it, weight) in self.sorted_on(axis).into_iter().rev() {
                // a negative stride counts the elements backwards
                offset += if it.stride < 0 { (it.extent - 1) * weight } else { 0 };
                shard.push(Iter::new(it.extent, it.stride.signum() * weight, Axis::M));
            }
        }
        TileLayout::new(shard, vec![], BTreeMap::from([(Axis::M, offset)]), None)
    }

    /// The number of the element at a position of a bijective layout, swizzled or not; `None` where
    /// the layout is not bijective or the position is outside of it.
    pub fn locate(&self, position: &Point) -> Option<i64> {
        let mut p = *position;
        self.permute_memory(&mut p);
        let plain = self.unswizzled();
        let inverse = plain.inverse().ok().filter(|_| self.is_bijective())?;
        let inside = |e: &(Axis, &str)| (0..plain.span(e.0)).contains(&p.get(e.0));
        if !Axis::ALL.iter().all(inside) {
            return None;
        }
        let number = plain.position_axes().iter().fold(0, |n, a| n * plain.span(*a) + p.get(*a));
        Some(inverse.apply(number).get(Axis::M))
    }

    /// The shard iters of more than one step on an axis, nearest neighbours first, each with the
    /// distance of its neighbours in the numbering of elements.
    fn sorted_on(&self, axis: Axis) -> Vec<(Iter, i64)> {
        let mut weight = 1;
        let mut out = vec![];
        for it in self.shard.iter().rev() {
            if it.axis == axis && it.extent > 1 {
                out.push((*it, weight));
            }
            weight *= it.extent;
        }
        out.sort_by_key(|(it, _)| it.stride.abs());
        out
    }
}

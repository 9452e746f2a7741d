//! Layouts: where each element of a tensor lives, in memory and among threads.
//!
//! A [`TileLayout`] maps a logical element to positions on named axes. The element's row-major
//! number is split over the extents of the *shard* iters; the coordinate on an iter times its
//! stride counts on the iter's axis. *Replica* iters add every value of their range, so that the
//! element is held in several places; *offsets* add constants; a *swizzle* permutes the offset in
//! memory last. `S[(32, 8) : (1 @ laneid, 1)] + R[2 : 1 @ warpid]` gives row `i` of a 32x8 tile to
//! lane `i` of two warps, eight registers each.
//!
//! A layout fits every shape of its size. All extents are at least 1, and [`TileLayout::new`]
//! bounds sizes and positions, so that arithmetic on positions does not overflow.

mod axis;
mod canon;
mod coords;
mod fragments;
mod inverse;
mod notation;
mod parts;
mod read;
mod run;
pub mod runs;
mod slice;
mod swizzle;
mod symbolic;
mod threads;
mod tile;
pub mod words;

pub use axis::Axis;
pub use coords::Bundles;
pub use fragments::Fragment;

pub use swizzle::Swizzle;
pub use symbolic::Over;

use std::collections::BTreeMap;
use std::ops::Index;

/// Most shard iters, and most replica iters, of a layout.
pub const MAX_RANK: usize = 32;

/// Greatest size, and greatest distance from 0 of any position.
const MAX_REACH: i64 = 1 << 60;

/// Most places that one element may be held at.
const MAX_REPLICAS: i64 = 1 << 16;

/// `extent` steps of `stride` along `axis`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub struct Iter {
    /// Number of values, at least 1 in a layout.
    pub extent: i64,
    /// Distance between neighbours on the axis; may be 0 or negative.
    pub stride: i64,
    /// What is counted.
    pub axis: Axis,
}

impl Iter {
    /// An iter.
    pub fn new(extent: i64, stride: i64, axis: Axis) -> Iter {
        Iter { extent, stride, axis }
    }

    /// Least and greatest value that it adds.
    fn range(self) -> (i64, i64) {
        let last = (self.extent - 1) * self.stride;
        (last.min(0), last.max(0))
    }
}

/// A position: one value for each axis, 0 where nothing was said.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord, Default)]
pub struct Point([i64; Axis::COUNT]);

impl Point {
    /// The value on an axis.
    pub fn get(&self, axis: Axis) -> i64 {
        self.0[axis as usize]
    }

    /// The same point with another value on an axis.
    #[must_use]
    pub fn with(mut self, axis: Axis, value: i64) -> Point {
        self.0[axis as usize] = value;
        self
    }

    fn add(&mut self, axis: Axis, value: i64) {
        self.0[axis as usize] = self.get(axis).wrapping_add(value);
    }
}

impl Index<Axis> for Point {
    type Output = i64;
    fn index(&self, axis: Axis) -> &i64 {
        &self.0[axis as usize]
    }
}

/// A layout of a tensor. See the module's documentation for what it means; `Display` prints the
/// notation that [`TileLayout::parse`] reads.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct TileLayout {
    shard: Vec<Iter>,
    replica: Vec<Iter>,
    offset: BTreeMap<Axis, i64>,
    swizzle: Option<Swizzle>,
}

impl TileLayout {
    /// A layout of these parts, or which limit they break: extents are at least 1, there are at
    /// most [`MAX_RANK`] iters of a kind and 65,536 replicas, sizes and positions are within 2^60.
    /// Offsets of 0 are dropped.
    pub fn new(
        shard: Vec<Iter>,
        replica: Vec<Iter>,
        offset: BTreeMap<Axis, i64>,
        swizzle: Option<Swizzle>,
    ) -> Result<TileLayout, String> {
        check_iters(&shard, "shard", MAX_REACH)?;
        check_iters(&replica, "replica", MAX_REPLICAS)?;
        let mut reach = [0i128; Axis::COUNT];
        for it in shard.iter().chain(&replica) {
            reach[it.axis as usize] += (i128::from(it.extent) - 1) * i128::from(it.stride).abs();
        }
        for (axis, value) in &offset {
            reach[*axis as usize] += i128::from(*value).abs();
        }
        if let Some((axis, _)) = Axis::ALL.iter().find(|e| reach[e.0 as usize] > i128::from(MAX_REACH)) {
            return Err(format!("positions on axis {axis} reach beyond 2^60; use smaller strides or offsets"));
        }
        let offset = offset.into_iter().filter(|e| e.1 != 0).collect();
        Ok(TileLayout { shard, replica, offset, swizzle })
    }

    /// A layout of shard iters only.
    pub fn of_shard(shard: Vec<Iter>) -> Result<TileLayout, String> {
        TileLayout::new(shard, vec![], BTreeMap::new(), None)
    }

    /// The row-major layout in memory of a shape.
    pub fn row_major(shape: &[i64]) -> Result<TileLayout, String> {
        TileLayout::of_shard(row_major_iters(shape)?)
    }

    /// The iters that the element's number is split over, outermost first.
    pub fn shard(&self) -> &[Iter] {
        &self.shard
    }

    /// The iters whose every value is added.
    pub fn replica(&self) -> &[Iter] {
        &self.replica
    }

    /// What is added on each axis; no entry is 0.
    pub fn offset(&self) -> &BTreeMap<Axis, i64> {
        &self.offset
    }

    /// The permutation of the offset in memory.
    pub fn swizzle(&self) -> Option<Swizzle> {
        self.swizzle
    }

    /// Number of logical elements.
    pub fn size(&self) -> i64 {
        self.shard.iter().map(|it| it.extent).product()
    }

    /// Number of places at which each element is held (equal places counted apart).
    pub fn replicas(&self) -> i64 {
        self.replica.iter().map(|it| it.extent).product()
    }

    /// True when an axis occurs in the layout.
    pub fn mentions(&self, axis: Axis) -> bool {
        self.offset.contains_key(&axis) || self.shard.iter().chain(&self.replica).any(|it| it.axis == axis)
    }

    /// One more than the greatest minus the least position on an axis. In swizzled memory the range
    /// is widened to whole blocks of the swizzle, which the positions do not leave.
    pub fn span(&self, axis: Axis) -> i64 {
        let (low, high) = self.range(axis);
        1 + high - low
    }

    /// Least and greatest position on an axis, widened to whole blocks in swizzled memory.
    pub fn range(&self, axis: Axis) -> (i64, i64) {
        let (low, high) = self.affine_range(axis);
        match self.swizzle {
            Some(s) if axis == Axis::M && s.swizzle_len() > 0 => {
                (low - low.rem_euclid(s.block()), high - high.rem_euclid(s.block()) + s.block() - 1)
            }
            _ => (low, high),
        }
    }

    /// The same before the swizzle.
    fn affine_range(&self, axis: Axis) -> (i64, i64) {
        let base = self.offset.get(&axis).copied().unwrap_or(0);
        let iters = self.shard.iter().chain(&self.replica).filter(|it| it.axis == axis);
        iters.map(|it| it.range()).fold((base, base), |(l, h), (low, high)| (l + low, h + high))
    }

    /// Where element number `linear` (row-major, `0..size()`) is held; its first place, if there
    /// are replicas. Beyond the size the outermost iter runs on.
    pub fn apply(&self, linear: i64) -> Point {
        let mut point = self.affine(linear);
        self.permute_memory(&mut point);
        point
    }

    /// Where the element with these coordinates in a tensor of `shape` is held.
    pub fn apply_at(&self, shape: &[i64], coord: &[i64]) -> Result<Point, String> {
        self.check_shape(shape)?;
        if coord.len() != shape.len() {
            return Err(format!(
                "{} coordinates are given for the {} dimensions of {shape:?}",
                coord.len(),
                shape.len()
            ));
        }
        Ok(self.apply(shape.iter().zip(coord).fold(0i64, |n, (e, c)| n.wrapping_mul(*e).wrapping_add(*c))))
    }

    /// All places of element number `linear`, one for each combination of the replica iters, the
    /// last varying fastest.
    pub fn positions(&self, linear: i64) -> Vec<Point> {
        let mut points = vec![self.affine(linear)];
        for it in &self.replica {
            points = points.iter().flat_map(|p| (0..it.extent).map(|k| moved(*p, *it, k))).collect();
        }
        points.iter_mut().for_each(|p| self.permute_memory(p));
        points
    }

    /// The same layout with its memory permuted.
    pub fn compose(&self, swizzle: Swizzle) -> Result<TileLayout, String> {
        match self.swizzle {
            None => Ok(TileLayout { swizzle: Some(swizzle), ..self.clone() }),
            Some(own) => Err(format!("the layout is swizzled already, by {own}; {swizzle} cannot be put on top")),
        }
    }

    /// The same layout before its swizzle.
    #[must_use]
    pub fn unswizzled(&self) -> TileLayout {
        TileLayout { swizzle: None, ..self.clone() }
    }

    /// The layout for a tensor of `shape`: a bare swizzle, which is written over one period of
    /// memory, is stretched row-major over the whole shape; any other layout has to have its size.
    pub fn fit(&self, shape: &[i64]) -> Result<TileLayout, String> {
        if let Some(s) = self.swizzle
            && self.canonical().is_plain(s.period())
        {
            return TileLayout::row_major(shape)?.compose(s);
        }
        self.check_shape(shape)?;
        Ok(self.clone())
    }

    /// True for `extent` elements in order from 0, whatever the swizzle.
    fn is_plain(&self, extent: i64) -> bool {
        self.replica.is_empty() && self.offset.is_empty() && self.shard == [Iter::new(extent, 1, Axis::M)]
    }

    fn affine(&self, linear: i64) -> Point {
        let mut point = Point::default();
        let mut rest = linear;
        for (k, it) in self.shard.iter().enumerate().rev() {
            let c = if k == 0 { rest } else { rest.rem_euclid(it.extent) };
            rest = rest.div_euclid(it.extent);
            point.add(it.axis, c.wrapping_mul(it.stride));
        }
        self.offset.iter().for_each(|(axis, v)| point.add(*axis, *v));
        point
    }

    fn permute_memory(&self, point: &mut Point) {
        if let Some(s) = self.swizzle {
            *point = point.with(Axis::M, s.apply(point.get(Axis::M)));
        }
    }

    /// Refuses a shape that is not of this size.
    fn check_shape(&self, shape: &[i64]) -> Result<(), String> {
        match checked_size(shape) {
            Some(n) if n == self.size() => Ok(()),
            _ => Err(format!(
                "layout {self} is for {} elements, which is not the size of shape {shape:?}; use a layout of the shape's size",
                self.size()
            )),
        }
    }
}

/// A point moved by `k` steps of an iter.
fn moved(mut p: Point, it: Iter, k: i64) -> Point {
    p.add(it.axis, k * it.stride);
    p
}

fn check_iters(iters: &[Iter], what: &str, most: i64) -> Result<(), String> {
    if iters.len() > MAX_RANK {
        return Err(format!("a layout has at most {MAX_RANK} {what} iters, but {} are given", iters.len()));
    }
    if let Some(it) = iters.iter().find(|it| it.extent < 1) {
        return Err(format!("an extent is at least 1, but a {what} extent is {}", it.extent));
    }
    let size = iters.iter().try_fold(1i64, |n, it| n.checked_mul(it.extent));
    match size {
        Some(n) if n <= most => Ok(()),
        _ => Err(format!("the product of the {what} extents is over {most}; use smaller extents")),
    }
}

/// Number of elements of a shape whose extents are at least 1.
fn checked_size(shape: &[i64]) -> Option<i64> {
    shape.iter().try_fold(1i64, |n, e| if *e < 1 { None } else { n.checked_mul(*e) })
}

/// Iters of a shape in row-major order on `m`.
fn row_major_iters(shape: &[i64]) -> Result<Vec<Iter>, String> {
    if checked_size(shape).is_none() {
        return Err(format!("shape {shape:?} has an extent under 1 or more elements than can be counted"));
    }
    let mut stride = 1;
    let mut out: Vec<Iter> = vec![];
    for e in shape.iter().rev() {
        out.push(Iter::new(*e, stride, Axis::M));
        stride *= e;
    }
    out.reverse();
    Ok(out)
}

//! The layout of a region of a tensor.

use super::{Axis, Iter, Point, TileLayout};

/// Longest dimension of a region that is examined element by element, where it starts and ends in
/// the middle of iters.
const MAX_SEARCH: i64 = 4096;

impl TileLayout {
    /// The layout of the region of a tensor of `shape` that starts at `begin` and has the shape
    /// `extent`: element `x` of the region is held where `begin + x` is. An error where the region
    /// leaves the tensor, or where its elements do not lie at regular distances.
    pub fn slice(&self, shape: &[i64], begin: &[i64], extent: &[i64]) -> Result<TileLayout, String> {
        let inside = |((n, b), e): ((&i64, &i64), &i64)| *b >= 0 && *e >= 1 && *b <= *n && *e <= n - b;
        let ranks_agree = begin.len() == shape.len() && extent.len() == shape.len();
        if !ranks_agree || !shape.iter().zip(begin).zip(extent).all(inside) {
            return Err(format!("the region of extents {extent:?} at {begin:?} is not inside shape {shape:?}"));
        }
        let groups = self.grouped(shape)?;
        let (mut shard, mut offset) = (vec![], self.offset.clone());
        for (dim, group) in groups.iter().enumerate() {
            let iters = slice_group(group, begin[dim], extent[dim]).ok_or_else(|| {
                format!(
                    "elements {}..{} of dimension {dim} of {shape:?} lie at irregular distances in layout {self}; \
                     choose a region that starts and ends at whole iters",
                    begin[dim],
                    begin[dim] + extent[dim]
                )
            })?;
            shard.extend(iters);
            for (it, c) in group.iter().zip(digits(group, begin[dim])) {
                *offset.entry(it.axis).or_insert(0) += c * it.stride;
            }
        }
        TileLayout::new(shard, self.replica.clone(), offset, self.swizzle)
    }
}

/// The coordinate on each iter of element `x`.
fn digits(iters: &[Iter], mut x: i64) -> Vec<i64> {
    let mut out: Vec<i64> = vec![];
    for it in iters.iter().rev() {
        out.push(x % it.extent);
        x /= it.extent;
    }
    out.reverse();
    out
}

/// Iters of elements `begin .. begin + extent` of a dimension, counted from the first of them.
fn slice_group(iters: &[Iter], mut begin: i64, mut extent: i64) -> Option<Vec<Iter>> {
    let mut whole = vec![];
    let mut outer = iters;
    // iters that are run through from end to end, innermost first
    while let Some((it, rest)) = outer.split_last()
        && begin % it.extent == 0
        && extent % it.extent == 0
    {
        whole.push(*it);
        (begin, extent) = (begin / it.extent, extent / it.extent);
        outer = rest;
    }
    let mut out = match outer.last() {
        None => vec![],
        Some(it) if begin % it.extent + extent <= it.extent => vec![Iter { extent, ..*it }],
        Some(_) if extent <= MAX_SEARCH => {
            let start = place(outer, begin);
            let places: Vec<Point> = (0..extent).map(|x| difference(place(outer, begin + x), start)).collect();
            iters_of(&places)?
        }
        Some(_) => return None,
    };
    out.extend(whole.iter().rev());
    out.retain(|it| it.extent > 1);
    Some(out)
}

fn place(iters: &[Iter], x: i64) -> Point {
    let mut p = Point::default();
    iters.iter().zip(digits(iters, x)).for_each(|(it, c)| p.add(it.axis, c * it.stride));
    p
}

fn difference(a: Point, b: Point) -> Point {
    Axis::ALL.iter().fold(a, |p, (axis, _)| p.with(*axis, a.get(*axis) - b.get(*axis)))
}

/// The iters, outermost first, that give these places in order; the first place is the origin.
/// The innermost of them, once merged, ends exactly where the distance from place to place changes.
fn iters_of(places: &[Point]) -> Option<Vec<Iter>> {
    let Some(second) = places.get(1) else { return Some(vec![]) };
    let mut moving = Axis::ALL.iter().map(|e| e.0).filter(|a| second.get(*a) != 0);
    let axis = moving.next().unwrap_or(Axis::M);
    if moving.next().is_some() {
        return None;
    }
    let stride = second.get(axis);
    let step = |k: usize| Point::default().with(axis, k as i64 * stride);
    let run = places.iter().enumerate().take_while(|(k, p)| **p == step(*k)).count();
    let regular = |(k, p): (usize, &Point)| difference(*p, places[k - k % run]) == step(k % run);
    if !places.len().is_multiple_of(run) || !places.iter().enumerate().all(regular) {
        return None;
    }
    let starts: Vec<Point> = places.iter().step_by(run).copied().collect();
    let mut out = iters_of(&starts)?;
    out.push(Iter::new(run as i64, stride, axis));
    Some(out)
}

//! Canonical form, and the split of a layout along the dimensions of a shape.

use super::{Axis, Iter, TileLayout, checked_size};

impl TileLayout {
    /// The same mapping with the fewest iters: unit iters dropped, neighbours merged, stride 0 on
    /// `m`; replicas with positive strides, sorted, merged; a swizzle of no bits dropped. Layouts
    /// without replicas map equally exactly if their canonical forms are equal (and they agree on
    /// swizzles that happen to change nothing).
    #[must_use]
    pub fn canonical(&self) -> TileLayout {
        let mut offset = self.offset.clone();
        let mut replica = vec![];
        for it in self.replica.iter().filter(|it| it.extent > 1 && it.stride != 0) {
            if it.stride < 0 {
                // the same set of values, counted from its least
                *offset.entry(it.axis).or_insert(0) += (it.extent - 1) * it.stride;
            }
            replica.push(Iter::new(it.extent, it.stride.abs(), it.axis));
        }
        replica.sort_by_key(|it| (it.axis, -it.stride, it.extent));
        offset.retain(|_, v| *v != 0);
        TileLayout {
            shard: merged(&self.shard),
            replica: merged(&replica),
            offset,
            swizzle: self.swizzle.filter(|s| s.swizzle_len() > 0),
        }
    }

    /// The shard iters of each dimension of `shape`, canonical; none for a dimension of extent 1.
    /// An error where an iter lies across two dimensions and cannot be split between them.
    pub fn grouped(&self, shape: &[i64]) -> Result<Vec<Vec<Iter>>, String> {
        self.check_shape(shape)?;
        group(&merged(&self.shard), shape).ok_or_else(|| {
            format!("layout {self} has an iter that cannot be split between the dimensions of shape {shape:?}")
        })
    }

    /// The layout of the transposed tensor: dimension `k` of the result is dimension `dims[k]` of
    /// `shape`.
    pub fn permute(&self, shape: &[i64], dims: &[usize]) -> Result<TileLayout, String> {
        let groups = self.grouped(shape)?;
        let mut seen: Vec<usize> = dims.to_vec();
        seen.sort_unstable();
        if !seen.iter().copied().eq(0..shape.len()) {
            return Err(format!("{dims:?} is no permutation of the {} dimensions of {shape:?}", shape.len()));
        }
        let shard = dims.iter().filter_map(|d| groups.get(*d)).flatten().copied().collect();
        Ok(TileLayout { shard, ..self.clone() })
    }
}

/// The same mapping with unit iters dropped, stride 0 on `m` and neighbours merged.
pub(super) fn merged(iters: &[Iter]) -> Vec<Iter> {
    let mut out: Vec<Iter> = vec![];
    for it in iters.iter().filter(|it| it.extent > 1) {
        let it = if it.stride == 0 { Iter::new(it.extent, 0, Axis::M) } else { *it };
        match out.last_mut() {
            Some(last) if last.axis == it.axis && last.stride == it.extent * it.stride => {
                *last = Iter::new(last.extent * it.extent, it.stride, it.axis);
            }
            _ => out.push(it),
        }
    }
    out
}

/// Splits merged iters along a shape of their size.
pub(super) fn group(iters: &[Iter], shape: &[i64]) -> Option<Vec<Vec<Iter>>> {
    let mut rest = iters.iter().copied();
    let mut current = rest.next();
    let mut out = vec![];
    for dim in shape {
        let mut need = *dim;
        let mut group = vec![];
        while need > 1 {
            let it = current?;
            if need % it.extent == 0 {
                need /= it.extent;
                group.push(it);
                current = rest.next();
            } else if it.extent % need == 0 {
                let inside = it.extent / need;
                group.push(Iter::new(need, it.stride * inside, it.axis));
                current = Some(Iter { extent: inside, ..it });
                need = 1;
            } else {
                return None;
            }
        }
        out.push(merged(&group));
    }
    debug_assert!(checked_size(shape).is_some());
    current.is_none().then_some(out)
}

//! Relations between the axes of threads: `tx = 32 warpid + laneid = 128 wgid + tid_in_wg`,
//! `warpid = 4 wgid + wid_in_wg`, `tid_in_wg = 32 wid_in_wg + laneid`.

use super::canon::merged;
use super::{Axis, Iter, TileLayout};
use std::collections::BTreeMap;

impl TileLayout {
    /// The same placement with `tx` written as `warpid` and `laneid`, and `tid_in_wg` as `wid_in_wg`
    /// and `laneid`. An error where an iter or offset carries from lanes into warps.
    pub fn by_warp(&self) -> Result<TileLayout, String> {
        self.split_axis(Axis::Tx, Axis::WarpId, Axis::LaneId)?.split_axis(Axis::TidInWg, Axis::WidInWg, Axis::LaneId)
    }

    /// The same placement with `tx` written as `wgid` and `tid_in_wg`, and `warpid` as `wgid` and
    /// `wid_in_wg`. An error where an iter or offset carries from one warpgroup into the next.
    pub fn by_warpgroup(&self) -> Result<TileLayout, String> {
        self.split_axis(Axis::Tx, Axis::WgId, Axis::TidInWg)?.split_axis(Axis::WarpId, Axis::WgId, Axis::WidInWg)
    }

    /// Writes an axis as `n outer + inner`, where `inner` has `n` values.
    fn split_axis(&self, axis: Axis, outer: Axis, inner: Axis) -> Result<TileLayout, String> {
        let Some(n) = inner.limit().filter(|_| self.mentions(axis)) else { return Ok(self.clone()) };
        let carries = || format!("layout {self} does not divide {axis} into whole {outer} and {inner}");
        let split = |list: &[Iter]| -> Option<Vec<Iter>> {
            let one = |it: &Iter| if it.axis == axis { split_iter(*it, outer, inner, n) } else { Some(vec![*it]) };
            list.iter().map(one).collect::<Option<Vec<_>>>().map(|v| v.concat())
        };
        let shard = split(&self.shard).ok_or_else(carries)?;
        let replica = split(&self.replica).ok_or_else(carries)?;
        let mut offset = self.offset.clone();
        if let Some(v) = offset.remove(&axis) {
            *offset.entry(outer).or_insert(0) += v.div_euclid(n);
            *offset.entry(inner).or_insert(0) += v.rem_euclid(n);
        }
        let out = TileLayout::new(shard, replica, offset, self.swizzle)?;
        match out.range(inner) {
            (low, high) if low >= 0 && high < n => Ok(out),
            _ => Err(carries()),
        }
    }

    /// The same placement with all axes of threads written as `tx`, the thread in its block.
    /// `wid_in_wg` and `tid_in_wg` without `wgid` speak of the first warpgroup, `laneid` without
    /// warps of the first warp.
    pub fn by_thread(&self) -> Result<TileLayout, String> {
        let to_tx = |it: Iter| match it.axis.threads_per_step() {
            None => Ok(it),
            Some(step) => it
                .stride
                .checked_mul(step)
                .map(|s| Iter::new(it.extent, s, Axis::Tx))
                .ok_or_else(|| format!("layout {self} reaches too many threads")),
        };
        let all = |list: &[Iter]| list.iter().map(|it| to_tx(*it)).collect::<Result<Vec<_>, _>>();
        let mut offset = BTreeMap::new();
        for (axis, v) in &self.offset {
            let moved = to_tx(Iter::new(1, *v, *axis))?;
            let slot = offset.entry(moved.axis).or_insert(0i64);
            *slot = slot.checked_add(moved.stride).ok_or_else(|| format!("layout {self} reaches too many threads"))?;
        }
        TileLayout::new(all(&self.shard)?, all(&self.replica)?, offset, self.swizzle)
    }

    /// That the thread axes of shards and replicas together count threads `0..threads` completely,
    /// each exactly once: the layout is an anchor that shares its elements out among the threads of a
    /// scope of that size. The error says what is wrong.
    pub fn covers_scope(&self, threads: i64) -> Result<(), String> {
        for (axis, name) in Axis::ALL {
            let (low, high) = self.range(axis);
            if axis.is_thread() && axis.threads_per_step().is_none() && self.mentions(axis) {
                return Err(format!("layout {self} counts blocks ({name}), not the {threads} threads of a scope"));
            }
            if let Some(limit) = axis.limit().filter(|l| axis.is_thread() && (low < 0 || high >= *l)) {
                return Err(format!("layout {self} gives {name} values from {low} to {high}, beyond 0..{limit}"));
            }
        }
        let one = self.thread_part().by_thread()?;
        let mut iters: Vec<Iter> = one.shard.iter().chain(&one.replica).copied().filter(|it| it.extent > 1).collect();
        iters.sort_by_key(|it| it.stride.abs());
        let (low, _) = one.range(Axis::Tx);
        let counted = compact(&iters);
        match counted {
            Some(n) if n == threads && low == 0 => Ok(()),
            Some(n) if low == 0 => Err(format!("layout {self} counts {n} threads, where the scope has {threads}")),
            Some(_) => Err(format!("layout {self} starts at thread {low}, not at thread 0 of the scope")),
            None => Err(format!("layout {self} leaves threads out or counts them twice")),
        }
    }
}

/// Number of values that iters, sorted by distance, count if they do so without gaps and repeats:
/// the strides are then 1, e0, e0 e1, ...
pub(super) fn compact(sorted: &[Iter]) -> Option<i64> {
    sorted.iter().try_fold(1i64, |n, it| if it.stride.abs() == n { n.checked_mul(it.extent) } else { None })
}

/// An iter as iters over `outer`, which steps by `n`, and over `inner`.
fn split_iter(it: Iter, outer: Axis, inner: Axis, n: i64) -> Option<Vec<Iter>> {
    if it.stride % n == 0 {
        return Some(vec![Iter::new(it.extent, it.stride / n, outer)]);
    }
    if (it.extent - 1).checked_mul(it.stride.abs())? < n {
        return Some(vec![Iter { axis: inner, ..it }]);
    }
    let inside = n / it.stride.abs();
    if n % it.stride != 0 || it.extent % inside != 0 {
        return None;
    }
    let above = Iter::new(it.extent / inside, it.stride.signum(), outer);
    Some(merged(&[above, Iter::new(inside, it.stride, inner)]))
}

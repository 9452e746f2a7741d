//! Relations between the axes of threads: `tx = 32 warpid + laneid = 128 wgid + tid_in_wg`,
//! `warpid = 4 wgid + wid_in_wg`, `tid_in_wg = 32 wid_in_wg + laneid`.

use super::canon::merged;
use super::{Axis, Iter, TileLayout};
use std::collections::BTreeMap;

const LANES: i64 = 32;

impl TileLayout {
    /// The same placement with `tx` written as `warpid` and `laneid`, and `tid_in_wg` as `wid_in_wg`
    /// and `laneid`. An error where an iter or offset carries from lanes into warps.
    pub fn by_warp(&self) -> Result<TileLayout, String> {
        if !self.mentions(Axis::Tx) && !self.mentions(Axis::TidInWg) {
            return Ok(self.clone());
        }
        let carries = || format!("layout {self} does not divide its threads into whole warps and lanes");
        let split = |list: &[Iter]| -> Option<Vec<Iter>> {
            list.iter().map(|it| split_iter(*it)).collect::<Option<Vec<_>>>().map(|v| v.concat())
        };
        let shard = split(&self.shard).ok_or_else(carries)?;
        let replica = split(&self.replica).ok_or_else(carries)?;
        let mut offset = BTreeMap::new();
        for (axis, v) in &self.offset {
            let parts = match warps_of(*axis) {
                None => vec![(*axis, *v)],
                Some(warps) => vec![(warps, v.div_euclid(LANES)), (Axis::LaneId, v.rem_euclid(LANES))],
            };
            for (axis, v) in parts {
                *offset.entry(axis).or_insert(0) += v;
            }
        }
        let out = TileLayout::new(shard, replica, offset, self.swizzle)?;
        match out.range(Axis::LaneId) {
            (low, high) if low >= 0 && high < LANES => Ok(out),
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

/// The axis that counts the warps of an axis of threads.
fn warps_of(axis: Axis) -> Option<Axis> {
    match axis {
        Axis::Tx => Some(Axis::WarpId),
        Axis::TidInWg => Some(Axis::WidInWg),
        Axis::M
        | Axis::TLane
        | Axis::TCol
        | Axis::LaneId
        | Axis::WarpId
        | Axis::WidInWg
        | Axis::WgId
        | Axis::Bx
        | Axis::By
        | Axis::Bz
        | Axis::Cbx
        | Axis::Cby
        | Axis::Cbz => None,
    }
}

/// An iter over threads as iters over warps and lanes.
fn split_iter(it: Iter) -> Option<Vec<Iter>> {
    let Some(warps) = warps_of(it.axis) else { return Some(vec![it]) };
    if it.stride % LANES == 0 {
        return Some(vec![Iter::new(it.extent, it.stride / LANES, warps)]);
    }
    if (it.extent - 1).checked_mul(it.stride.abs())? < LANES {
        return Some(vec![Iter { axis: Axis::LaneId, ..it }]);
    }
    let lanes = LANES / it.stride.abs();
    if LANES % it.stride != 0 || it.extent % lanes != 0 {
        return None;
    }
    let outer = Iter::new(it.extent / lanes, it.stride.signum(), warps);
    Some(merged(&[outer, Iter::new(lanes, it.stride, Axis::LaneId)]))
}

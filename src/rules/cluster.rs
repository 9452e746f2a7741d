//! Parts of a reduction that the blocks of a cluster sum: each leaves its own in shared memory, they wait for each other, and
//! each adds the parts of its share of the results, always in the same order.
//!
//! One launch does what otherwise takes two, and no part passes the cache of the device.

use super::parts::*;
use crate::rules::find::operands::reads_of;

/// The knob that says who adds parts, and its value for the cluster whose blocks summed them.
const KNOB: &str = "add_parts";
const CLUSTER: i64 = 1;
/// Bytes that the banks of shared memory give at a time, and those that threads of a row access side by side.
const BANKS: i64 = 128;
const PAIR: i64 = 32;
/// Results that a thread has side by side.
pub const SIDE_BY_SIDE: i64 = 4;
/// Sums of parts that a thread has on their way.
const IN_FLIGHT: i64 = 64;

/// True where sums pass through the shared memory of the blocks that have them, be it of one block alone.
pub fn shares(k: &Knobs) -> bool {
    k.find(KNOB) == Some(CLUSTER)
}

/// True where the blocks that sum parts, so many by the knob `parts`, are a cluster that adds them.
pub fn adds(k: &Knobs, parts: &str) -> bool {
    k.get(parts) > 1 && shares(k)
}

/// Clusters have as many blocks as the knob `parts` says, `least` or more and no more than the target allows, and share out
/// results whose number is `known`.
pub fn fits(space: Space, target: &Target, parts: (&'static str, i64), known: bool) -> Space {
    fits_where(space, target, shares, parts, known)
}

/// The same of points whose sums pass so.
pub fn fits_where(
    space: Space,
    target: &Target,
    shares: impl At<bool>,
    (parts, least): (&'static str, i64),
    known: bool,
) -> Space {
    let most = i64::from(target.max_cluster);
    space.require("cluster_fits", move |k| match k.get(parts) {
        _ if !shares(k) => Ok(()),
        n if n < least => Err("there are no parts to add".into()),
        _ if !known => Err("the number of results is known at run time only".into()),
        n if n > most => Err(format!("{n} blocks exceed the {most} of a cluster")),
        _ => Ok(()),
    })
}

/// Clusters are of use where all of them run at once, as far as threads say: one that waits for places takes them together.
pub fn run_at_once(space: Space, target: &Target, parts: &'static str, threads: impl At<Option<i64>>) -> Space {
    let most = i64::from(target.sms) * i64::from(target.threads_per_sm);
    space.prefer("run_at_once", move |k| match threads(k) {
        Some(n) if adds(k, parts) && n > most => Err(format!("{n} threads of clusters where {most} run at once")),
        _ => Ok(()),
    })
}

/// So many results of a cluster, where that is known, are as many for each of the knob `threads`.
pub fn shares_evenly(space: Space, [parts, threads]: [&'static str; 2], results: impl At<Option<i64>>) -> Space {
    space.require("shares_evenly", move |k| match results(k) {
        Some(n) if adds(k, parts) && n % k.get(threads).max(1) != 0 => {
            Err(format!("{n} results are not as many for each of {} threads", k.get(threads)))
        }
        _ => Ok(()),
    })
}

/// What adds parts.
pub struct Adders<'a> {
    /// The block that adds them.
    pub add: &'a Name,
    /// What makes results of the sums, in order.
    pub tails: &'a [Name],
    /// The last but one of the kept axes is the one along which results lie side by side.
    pub turned: bool,
    /// Results that a thread has side by side at most.
    pub side_by_side: i64,
}

impl Adders<'_> {
    /// Has the blocks of a cluster add so many parts, with so many threads each: below the loop `grid` over clusters. Where
    /// other loops are bound to threads, the results of a cluster are shared out evenly ([`shares_evenly`]).
    ///
    /// # Errors
    /// A step whose precondition fails, which is a bug.
    pub fn place(&self, s: &mut Schedule, grid: &Name, parts: i64, threads: i64) -> Done {
        s.reverse_compute_at(self.add, grid)?;
        let mut kept = loops_of_kind(s, self.add, grid, IterKind::Spatial);
        if self.turned {
            kept.reverse();
        }
        let reduced = loops_of_kind(s, self.add, grid, IterKind::Reduce);
        s.reorder(&[&kept[..], &reduced].concat())?;
        let share = Share::of(
            kept.iter().map(|l| loop_extent(s, l).unwrap_or(1)).product(),
            parts,
            (threads, self.side_by_side),
        );
        let all = fuse_loops(s, &kept)?;
        let [round, step, block, thread, lane] = split(s, &all, share.factors())?;
        let order = [&block, &thread, &round, &step].into_iter().chain(&reduced).chain([&lane]);
        s.reorder(&order.cloned().collect::<Vec<_>>())?;
        if share.blocks > 1 {
            s.bind(&block, ThreadTag::ClusterX)?;
        }
        s.bind(&thread, ThreadTag::ThreadX)?;
        batch_loads(s, &step)?;
        reduced.iter().chain([&lane]).try_for_each(|l| unroll_loop(s, l))?;
        keep_in_registers(s, self.add)?;
        self.tails.iter().try_for_each(|tail| s.reverse_compute_at(tail, &step))?;
        let sums = outputs(s, self.add);
        let left: Vec<Name> =
            reads_of(s, self.add).into_iter().map(|r| r.buffer).filter(|b| !sums.contains(b)).collect();
        for partial in left {
            let loaded = s.cache_read(self.add, &partial, Scope::Local)?;
            s.compute_at(&loaded, &step)?;
            spread(s, &loaded, &step, share.run)?;
            keep_in_shared(s, &partial, if parts > 1 { Scope::Cluster } else { Scope::Shared })?;
        }
        self.tails.iter().try_for_each(|tail| spread(s, tail, &step, share.run))
    }
}

/// Places parts in the memory of the blocks that sum them, rows apart as [`pitch`] says.
fn keep_in_shared(s: &mut Schedule, partial: &Name, scope: Scope) -> Done {
    let buffer = s.func().buffer(partial);
    let (rank, bytes) = (buffer.shape.len(), buffer.dtype.bytes() as i64);
    s.set_scope(partial, scope)?;
    if rank > 2 { s.storage_align(partial, rank - 2, BANKS / bytes, PAIR / bytes) } else { Ok(()) }
}

/// Elements from one row of parts to the next: threads of four rows, eight bytes each, access different banks.
fn pitch(row: i64, bytes: i64) -> i64 {
    row + (PAIR / bytes - row).rem_euclid(BANKS / bytes)
}

/// Bytes of shared memory for the parts of `rows` by `columns` results, whichever of these lie side by side.
pub fn memory([rows, columns]: [i64; 2], dtype: DType) -> i64 {
    let bytes = dtype.bytes() as i64;
    bytes * (rows * pitch(columns, bytes)).max(columns * pitch(rows, bytes))
}

/// Unrolls what a thread does at a time; copies are of `run` elements side by side.
fn spread(s: &mut Schedule, block: &Name, at: &Name, run: i64) -> Done {
    let loops = loops_below(s, block, at);
    let side_by_side = |l: &&Name| run > 1 && loop_extent(s, l) == Some(run);
    let lane = loops.iter().rfind(side_by_side).filter(|_| copies(s, block)).cloned();
    loops.iter().try_for_each(|l| if Some(l) == lane.as_ref() { vectorize_loop(s, l) } else { unroll_loop(s, l) })
}

/// How the results of a cluster are shared out. No step goes past them: what is there is another cluster's.
#[derive(PartialEq, Debug)]
struct Share {
    blocks: i64,
    threads: i64,
    /// Results of a thread side by side.
    run: i64,
    /// Steps of a thread whose parts are on their way together.
    at_once: i64,
}

impl Share {
    /// The shares of so many results: of all threads where they come out even.
    fn of(results: i64, parts: i64, (threads, side_by_side): (i64, i64)) -> Share {
        let divisor = |n: i64, most: i64| (1..=most.min(n)).rev().find(|d| n % d == 0).unwrap_or(1);
        let threads = divisor(results, threads);
        // where shares are not even, all blocks add everything, and the first has the say
        let blocks = if results / threads % parts == 0 { parts } else { 1 };
        let each = results / threads / blocks;
        let run = [SIDE_BY_SIDE, SIDE_BY_SIDE / 2]
            .into_iter()
            .find(|run| *run <= side_by_side && each % run == 0)
            .unwrap_or(1);
        Share { blocks, threads, run, at_once: divisor(each / run, IN_FLIGHT / (parts * run)) }
    }

    fn factors(&self) -> [Option<i64>; 5] {
        [None, Some(self.at_once), Some(self.blocks), Some(self.threads), Some(self.run)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_result_is_one_threads() {
        let of = |results, parts, threads| Share::of(results, parts, (threads, SIDE_BY_SIDE));
        assert_eq!(of(64 * 96, 4, 256), Share { blocks: 4, threads: 256, run: 2, at_once: 3 });
        assert_eq!(of(128 * 256, 2, 256), Share { blocks: 2, threads: 256, run: 4, at_once: 8 });
        assert_eq!(Share::of(128 * 128, 1, (256, 1)), Share { blocks: 1, threads: 256, run: 1, at_once: 64 });
        assert_eq!(of(85, 8, 32), Share { blocks: 1, threads: 17, run: 1, at_once: 5 });
        assert_eq!(of(1, 8, 32), Share { blocks: 1, threads: 1, run: 1, at_once: 1 });
        for (results, parts, threads) in [(80, 8, 32), (7 * 13, 2, 128), (2469, 4, 64), (16 * 64, 8, 128)] {
            let s = of(results, parts, threads);
            assert_eq!(results % (s.blocks * s.threads * s.run * s.at_once), 0, "{s:?}");
            assert!(s.blocks <= parts && s.threads <= threads && s.at_once * s.run * parts <= IN_FLIGHT, "{s:?}");
        }
    }
}

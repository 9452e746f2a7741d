//! How long a product that is cut into tiles should take on tensor cores.
//!
//! A block computes a tile in steps: it fills shared memory, mostly some steps ahead, and multiplies. What a step waits
//! for is the longest of products, of what the cache gives and of what threads do to copy; then the results leave.
//! Blocks that share a multiprocessor overlap, and so do, in blocks that take one tile after the other, the results of
//! one with the copies of the next. The constants are fitted on an H200 (docs/search.md says on what, and how well the
//! result orders others); rates are shares of the target's.

use super::{at_once, bandwidth, flop_rate};
use crate::ir::instr::WgmmaShape;
use crate::rules::LaunchOutline;
use crate::rules::space::tiles::{Role, Tiles};
use crate::target::Target;

/// Of the rate of tensor cores, what products by warpgroups reach; what `mma.sync` does where there are such, and
/// elsewhere (not fitted: there is no other way there).
const WARPGROUPS: f64 = 0.86;
const BESIDE_WARPGROUPS: f64 = 0.49;
const ALONE: f64 = 0.85;
/// How much faster than its share of the DRAM of the table's product the cache gives to one multiprocessor, rows of 128
/// bytes, whatever DRAM is behind it.
const FROM_CACHE: f64 = 2.03;
/// How much more it gives to each where few ask for it, at most.
const OF_FEW: f64 = 1.6;
/// How this falls with shorter rows: a power of their share of 128 bytes.
const SHORT_ROWS: f64 = 0.24;
/// Bytes of shared memory in a nanosecond, of one multiprocessor.
const SHARED: f64 = 346.0;
/// Part of the DRAM's rate that a product reaches.
const DRAM: f64 = 0.95;
/// Before the first step of a block, where threads of their own copy, and where all do.
const PROLOGUE_NS: [f64; 2] = [1160.0, 360.0];
/// Before the first products of a tile.
const FIRST_NS: f64 = 190.0;
/// From a copy's start to its end, where others are under way, and how strongly a step that waits for one shuts out the rest
/// of the step.
const LATENCY_NS: f64 = 670.0;
const WAITING: f64 = 2.8;
/// Besides what it waits for, a step costs this where threads of their own copy, and where all do.
const STEP_NS: [f64; 2] = [11.0, 95.0];
/// Issue slots of a copy, by a multiprocessor.
const COPY_NS: f64 = 0.026;
/// How much dearer it is through registers, which is how fewer than 4 bytes are copied; the wait of a step for
/// that; and of the next ones.
const THROUGH_REGISTERS: f64 = 4.2;
const REGISTERS_NS: f64 = 760.0;
const REGISTERS_BUSY_NS: f64 = 49.0;
/// Copies of a thread, one after the other: asynchronous ones, and those through registers.
const COPIES_NS: [f64; 2] = [2.8, 9.1];
/// To leave, for a tile, and for each element of a thread; a function of an element in the time of that.
const LEAVE_NS: f64 = 180.0;
const ELEMENT_NS: f64 = 9.4;
const FUNCTION: f64 = 6.9;
/// Bytes of results in a nanosecond, of one multiprocessor; how much longer they take in unaligned rows, and where a
/// row of a tile ends within a line of the cache, of which another block writes the rest.
const STORED: f64 = 68.0;
const UNALIGNED: f64 = 2.2;
const BROKEN_LINES: f64 = 2.0;
/// Of a tile whose results take elements of their own, before the first comes, and for each of a thread; how much dearer
/// that is to one of two groups that take turns, which no other covers for.
const FETCH_NS: f64 = 310.0;
const FETCHED_NS: f64 = 4.2;
const ALONE_IN_TURN: f64 = 3.2;
/// How much of leaving a multiprocessor does nothing else in, besides what it waits for; threads that are busy with elements then.
const LEAVING: f64 = 1.47;
const LEAVING_THREADS: f64 = 128.0 / 0.3;
/// How much longer a step takes in blocks of a cluster, each of which waits for the others to give slots back.
const IN_STEP: f64 = 1.015;
/// Blocks of a cluster leave their sums to each other, wait, add, and wait for those that still read.
const MEET_NS: f64 = 1500.0;
/// Besides, for each sum of a block's tile, which it leaves, and which its blocks then load.
const ADD_NS: f64 = 0.12;
/// For each tile that a block asks for. Neither measured nor counted, since an answer comes while a tile is computed: it puts
/// such blocks behind those that stride, and no more.
const ASKED_NS: f64 = 1.0;
/// How strongly bounds shut each other out.
const EXCLUSION: f64 = 7.0;

/// Nanoseconds of a launch, `resident` blocks of which share a multiprocessor.
pub fn ns(l: &LaunchOutline, p: &Tiles, t: &Target, resident: f64) -> f64 {
    let sms = t.sms.max(1) as f64;
    let step = Step::of(l, p, t);
    let leave = Leave::of(l, p, t);
    let (tiles, fills) = (p.tiles as f64, p.fills as f64);
    let main = step.of_all(p);
    let added = if l.adds_parts { MEET_NS + ADD_NS * p.outputs as f64 } else { 0.0 };
    let prologue = PROLOGUE_NS[usize::from(p.role == Role::All)];
    let (one, busy) = (prologue + main + leave.alone + added, fills * step.busy + LEAVING * leave.busy);
    let of_each = tiles / tiles.min(sms);
    let each = of_each.ceil();
    let computed = match p.role {
        Role::Persistent => prologue + each * (main + leave.alone),
        Role::Turns => {
            let turns = (each / 2.0).ceil() * (main + leave.alone);
            let asked = if p.asked { each * ASKED_NS } else { 0.0 };
            prologue + (each * fills * step.busy).max(turns) + leave.alone / 2.0 + asked
        }
        Role::All | Role::Copy => {
            let waves = tiles / (at_once(sms, l) * resident);
            let wave = |blocks: f64| longest(&[one, blocks * busy]);
            if waves <= 1.0 {
                wave((tiles / sms).ceil().min(resident))
            } else {
                let rest = waves.fract();
                let last = if rest > 1e-9 { wave((rest * resident).ceil()) } else { 0.0 };
                let whole = wave(resident);
                waves * whole + (last - rest * whole).max(0.0)
            }
        }
    };
    let dram = (l.read + l.written) as f64 / (DRAM * bandwidth(t));
    longest(&[computed, dram])
}

/// The longest of times that overlap, and a little more where they are alike.
fn longest(times: &[f64]) -> f64 {
    powers(times, EXCLUSION)
}

fn powers(times: &[f64], power: f64) -> f64 {
    times.iter().map(|t| t.powf(power)).sum::<f64>().powf(1.0 / power)
}

/// A step of a block: alone, and what of it no other block can have at the same time.
struct Step {
    alone: f64,
    busy: f64,
}

impl Step {
    fn of(l: &LaunchOutline, p: &Tiles, t: &Target) -> Step {
        let share = match (p.warpgroups, t.has.wgmma || t.has.tcgen05) {
            (true, _) => WARPGROUPS,
            (false, true) => BESIDE_WARPGROUPS,
            (false, false) => ALONE,
        };
        let products = p.products as f64 / (share * flop_rate(l, t) / 2.0);
        let sms = t.sms.max(1) as f64;
        let few = (sms / (p.tiles as f64).clamp(1.0, sms)).min(OF_FEW);
        let from_cache = few * FROM_CACHE * t.product_gbps / sms * (p.row as f64 / 128.0).powf(SHORT_ROWS);
        let through = |[_, bytes]: &[i64; 2]| *bytes < 4;
        let by_threads = p.role == Role::All;
        let (mut issue, mut own) = (0.0, 0.0);
        for c in p.copies.iter().filter(|_| by_threads) {
            let [n, _] = c.map(|n| n as f64);
            issue += n * COPY_NS * if through(c) { THROUGH_REGISTERS } else { 1.0 };
            own += n / l.threads.max(1) as f64 * COPIES_NS[usize::from(through(c))];
        }
        let registers = by_threads && p.copies.iter().any(through);
        let in_step = if l.cluster > 1 && !l.adds_parts { IN_STEP } else { 1.0 };
        let busy = in_step * longest(&[products, p.shared as f64 / SHARED, p.filled as f64 / from_cache, issue]);
        let (wait, more) = if registers { (REGISTERS_NS, REGISTERS_BUSY_NS) } else { (0.0, 0.0) };
        Step { alone: busy + STEP_NS[usize::from(by_threads)] + wait + own, busy: busy + more }
    }

    /// All steps of a tile. As many as run ahead are under way at once; the others wait for a place, and then for a copy.
    fn of_all(&self, p: &Tiles) -> f64 {
        let (fills, ahead) = (p.fills as f64, p.ahead.max(1) as f64);
        let waiting = powers(&[self.alone, LATENCY_NS / ahead], WAITING);
        FIRST_NS + fills.min(ahead) * self.alone + (fills - ahead).max(0.0) * waiting
    }
}

/// How the results of a tile leave.
struct Leave {
    alone: f64,
    busy: f64,
}

impl Leave {
    fn of(l: &LaunchOutline, p: &Tiles, t: &Target) -> Leave {
        let rows = if p.unaligned { UNALIGNED } else { 1.0 };
        let stored = p.moved as f64 / STORED * rows * if p.broken_lines { BROKEN_LINES } else { 1.0 };
        let element = ELEMENT_NS * (1.0 + FUNCTION * p.functions.min(1) as f64) * p.outputs as f64;
        let holders = holders(l, p, t);
        let turn = if p.role == Role::Turns { ALONE_IN_TURN } else { 1.0 };
        let fetched = turn * (FETCH_NS + FETCHED_NS * rows * p.outputs as f64 / holders);
        let alone = LEAVE_NS + element / holders + stored + if p.fetched { fetched } else { 0.0 };
        Leave { alone, busy: stored + element / LEAVING_THREADS }
    }
}

/// Threads that hold the sums of a tile: not those that copy, nor a group whose turn it is not.
fn holders(l: &LaunchOutline, p: &Tiles, t: &Target) -> f64 {
    let warpgroup = WgmmaShape::WARPS * i64::from(t.warp);
    let copying = if p.warpgroups && p.role != Role::All { warpgroup } else { 0 };
    let groups = if p.role == Role::Turns { 2 } else { 1 };
    ((l.threads - copying) / groups).max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::HostCpu;

    /// A product of 8 fills of 128 bytes a row, in tiles of 128 by 128 that one group of two computes.
    fn product(role: Role, change: impl Fn(&mut Tiles)) -> f64 {
        let t = Target::parse("cuda:sm_90a", &HostCpu::default()).unwrap();
        let (side, row) = (128, 128);
        let mut tiles = Tiles {
            tiles: 132,
            fills: 8,
            ahead: 3,
            products: side * side * row / 2,
            filled: 2 * side * row,
            row,
            shared: 4 * side * row,
            outputs: side * side,
            moved: 2 * side * side,
            warpgroups: true,
            role,
            ..Tiles::default()
        };
        change(&mut tiles);
        let l = LaunchOutline { threads: 384, read: 1 << 22, tensor_core: true, ..LaunchOutline::default() };
        ns(&l, &tiles, &t, 1.0)
    }

    #[test]
    fn steps_that_run_ahead_hide_the_latency_of_copies() {
        let times = [1, 2, 4, 7].map(|ahead| product(Role::Copy, |t| t.ahead = ahead));
        assert!(times.windows(2).all(|w| w[1] < w[0]), "{times:?}");
        assert_eq!(product(Role::Copy, |t| t.ahead = 8), product(Role::Copy, |t| t.ahead = 16));
    }

    #[test]
    fn elements_that_come_late_cost_most_in_turns() {
        let more = |role| product(role, |t| t.fetched = true) - product(role, |_| ());
        assert!(more(Role::Copy) > 0.0 && more(Role::Turns) > 2.0 * more(Role::Copy));
    }

    #[test]
    fn functions_and_unaligned_rows_make_leaving_longer() {
        let plain = product(Role::Copy, |_| ());
        assert!(product(Role::Copy, |t| t.functions = 2) > plain);
        assert!(product(Role::Copy, |t| t.unaligned = true) > plain);
        assert!(product(Role::Copy, |t| t.broken_lines = true) > plain);
    }
}

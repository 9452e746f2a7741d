//! Named conditions that several knob spaces share.

use super::At;
use crate::ir::DType;
use crate::rules::{Knob, Knobs, Space};
use crate::target::Target;

/// Bytes of a line of memory and of the caches, and of the widest row of a matrix instruction's operand.
pub const LINE: i64 = 128;
/// Bytes that a GPU's caches move at least.
pub const SECTOR: i64 = 32;

/// How often `b` fits into `a`, rounded up.
pub fn over(a: i64, b: i64) -> i64 {
    (a + b - 1) / b.max(1)
}

/// Elements of `dtype` in one access of `bytes`; at least one.
pub fn lanes(bytes: i64, dtype: DType) -> i64 {
    (bytes / dtype.bytes() as i64).max(1)
}

/// The largest power of two up to `most` that divides an extent; 1 where it is not constant.
pub fn dividing(most: i64, extent: Option<i64>) -> i64 {
    let mut n = most.max(1);
    while n > 1 && extent.is_none_or(|e| e % n != 0) {
        n /= 2;
    }
    n
}

/// `n` of something are no more than the `most` of whatever has them.
pub fn at_most(n: i64, most: i64, what: &str, of: &str) -> Result<(), String> {
    if n <= most { Ok(()) } else { Err(format!("{n} {what} exceed the {most} of {of}")) }
}

/// A block has at most the target's threads.
pub fn threads_per_block(space: Space, target: &Target, threads: impl At<i64>) -> Space {
    let max = target.max_threads as i64;
    space.require("threads_per_block", move |k| at_most(threads(k), max, "threads", "a block"))
}

/// The block has at most the target's threads, and whole warps unless it is smaller than one; the
/// block count asked of a multiprocessor fits its threads.
pub fn block_fits(space: Space, target: &Target, knobs: &'static [&'static str]) -> Space {
    let (warp, resident) = (target.warp as i64, target.threads_per_sm as i64);
    let threads = move |k: &Knobs| knobs.iter().map(|n| k.get(n)).product::<i64>();
    threads_per_block(space, target, threads)
        .require("whole_warps", move |k| {
            let n = threads(k);
            if n % warp == 0 { Ok(()) } else { Err(format!("{n} threads are not whole warps of {warp}")) }
        })
        .require("resident_threads", move |k| {
            at_most(threads(k) * k.get("min_blocks"), resident, "resident threads", "a multiprocessor")
        })
}

/// What is searched of the blocks that fit: a multiprocessor a quarter full of threads at least, as far
/// as the table's block counts go, and enough bytes in flight for the DRAM where there is work for that.
/// `in_flight` bytes are those of one thread, `total` those of the whole work.
pub fn keeps_busy(
    space: Space,
    target: &Target,
    knobs: &'static [&'static str],
    total: Option<i64>,
    in_flight: impl At<i64>,
) -> Space {
    let (quarter, wanted) = (target.threads_per_sm as i64 / 4, target.bytes_in_flight as i64 / 2);
    let most = space.knob("min_blocks").and_then(|k| k.values.iter().max().copied());
    let resident = move |k: &Knobs| knobs.iter().map(|n| k.get(n)).product::<i64>() * k.get("min_blocks");
    let space = space.prefer("occupancy", move |k| match resident(k) {
        n if n >= quarter || Some(k.get("min_blocks")) >= most => Ok(()),
        n => Err(format!("{n} resident threads are less than {quarter}")),
    });
    let plenty = total.is_some_and(|bytes| bytes / target.sms.max(1) as i64 >= 4 * wanted);
    space.prefer("bytes_in_flight", move |k| match resident(k) * in_flight(k) {
        bytes if plenty && bytes < wanted => Err(format!("{bytes} bytes in flight per multiprocessor of {wanted}")),
        _ => Ok(()),
    })
}

/// Registers that a thread may have, in blocks of so many threads of which so many share a multiprocessor that has `regs`.
pub fn registers_left(regs: i64, threads: i64, blocks: i64) -> i64 {
    (regs / (threads * blocks).max(1)).min(255)
}

/// The registers that loads in flight need fit into what the launch bounds leave: `state` registers
/// plus those of `loads(knobs)` bytes in flight.
pub fn registers_fit(
    space: Space,
    target: &Target,
    knobs: &'static [&'static str],
    state: i64,
    bytes: impl At<i64>,
) -> Space {
    let regs = target.regs_per_sm as i64;
    space.prefer("registers", move |k| {
        let threads: i64 = knobs.iter().map(|n| k.get(n)).product();
        let have = registers_left(regs, threads, k.get("min_blocks"));
        at_most(state + bytes(k) / 4, have, "registers for the loads in flight", "a thread")
    })
}

/// Vector accesses of `knob` bytes hold whole elements and divide a contiguous run of `run` elements.
/// Only the widest that do, and half of them, are searched: narrower ones cost instructions and gain nothing.
pub fn vector_fits(space: Space, knob: &'static str, element: DType, run: Option<i64>) -> Space {
    vector_fits_or(space, knob, element, run, |_| false)
}

/// [`vector_fits`] for values that go to registers, of rows that may be read in words.
pub fn row_vector_fits(space: Space, knob: &'static str, element: DType, run: Option<i64>) -> Space {
    vector_fits_or(space, knob, element, run, move |k| words_of(k.get(knob), element, run) > 1)
}

/// Elements of a row from which on it may be read in words. The best points with words take 1.03 to 1.11 times as long as the best
/// without where rows have 777 to 2,047 elements (4 functions of odd rows, H200), 0.93 to 1.17 times with up to 4,095 (11), 0.81
/// to 1.06 with up to 16,383 (8), and 0.75 to 0.96 with more (19).
const ROW_IN_WORDS: i64 = 2048;

/// Aligned words that hold a vector of so many bytes: two, out of which the copy variant `vec_shifted` shifts it, where rows of
/// 16-bit floats begin anywhere and are long; else one.
pub fn words_of(bytes: i64, element: DType, run: Option<i64>) -> i64 {
    let halves = matches!(element, DType::F16 | DType::BF16) && bytes == 16;
    if halves && run.is_some_and(|n| n % 4 != 0 && n >= ROW_IN_WORDS) { 2 } else { 1 }
}

/// [`vector_fits`], where other points may have vectors that do not divide the run, `also`.
pub fn vector_fits_or(
    space: Space,
    knob: &'static str,
    element: DType,
    run: Option<i64>,
    also: impl At<bool>,
) -> Space {
    let values = space.knob(knob).map_or(&[][..], |k| &k.values);
    let widest = values.iter().copied().filter(|v| vector_fit(*v, element, run).is_ok()).max().unwrap_or(0);
    let fits = move |k: &Knobs| match k.get(knob) {
        _ if also(k) => Ok(()),
        bytes => vector_fit(bytes, element, run),
    };
    space.require("vector_alignment", fits).prefer("wide_loads", move |k| match k.get(knob) {
        bytes if 2 * bytes < widest => Err(format!("loads of {bytes} bytes where {widest} are possible")),
        _ => Ok(()),
    })
}

fn vector_fit(bytes: i64, element: DType, run: Option<i64>) -> Result<(), String> {
    let size = element.bytes() as i64;
    let n = bytes / size;
    if bytes < size || bytes % size != 0 {
        return Err(format!("{bytes} bytes do not hold whole {element} elements"));
    }
    match run {
        Some(run) if run % n == 0 => Ok(()),
        Some(run) => Err(format!("{n} elements do not divide the contiguous run of {run}")),
        None if n == 1 => Ok(()),
        None => Err("the contiguous run has no constant length".into()),
    }
}

/// Vector registers of a CPU: x86 has 16 up to AVX2 and 32 with AVX-512.
pub fn vector_registers(target: &Target) -> i64 {
    if target.vector_bytes >= 64 { 32 } else { 16 }
}

/// Vectors of a CPU hold a power of two of accumulators, and those of a `tile` of rows by columns, in
/// vectors, stay in registers beside a row of one factor and an element of the other.
pub fn vector_tile(space: Space, target: &Target, acc: DType, tile: impl At<[i64; 2]>) -> Space {
    let space = space.require("vector_lanes", move |k| match k.get("vector") / acc.bytes() as i64 {
        n if n > 0 && n.count_ones() == 1 => Ok(()),
        n => Err(format!("{n} lanes of {acc} are no vector")),
    });
    let have = vector_registers(target);
    let width = i64::from(target.vector_bytes.max(16));
    space.prefer("tile_in_registers", move |k| {
        let [rows, columns] = tile(k);
        match (rows * columns + columns + 1) * ((k.get("vector") + width - 1) / width) {
            n if n <= have => Ok(()),
            n => Err(format!("a tile wants {n} vector registers of {have}")),
        }
    })
}

/// Elements of a private array at most: a task's stack holds three.
const ARRAY: i64 = 1 << 16;

/// The private arrays of a task, of `sizes` elements, fit on its stack.
pub fn private_arrays(space: Space, sizes: impl At<[i64; 3]>) -> Space {
    space.require("private_arrays", move |k| {
        sizes(k).into_iter().try_for_each(|n| at_most(n, ARRAY, "elements", "a private array"))
    })
}

/// One step of all threads covers no more than twice the length, or a few dozen elements: more would
/// be guarded away.
pub fn step_fits(space: Space, length: Option<i64>, step: impl At<i64>) -> Space {
    space.prefer("step_within_length", move |k| match (step(k), length) {
        (step, Some(n)) if step >= 2 * n && step > 64 => {
            Err(format!("a step of {step} wastes more than half on a length of {n}"))
        }
        _ => Ok(()),
    })
}

/// The `stream` knob of the CPU: outputs of so many bytes that would stay in the caches are not written past
/// them, because whoever reads them next finds them there.
pub fn stream_fits(space: Space, target: &Target, written: Option<i64>) -> Space {
    let cache = target.l2_bytes as i64;
    space.prefer("larger_than_caches", move |k| match (k.get("stream"), written) {
        (0, _) | (_, None) => Ok(()),
        (_, Some(n)) if 2 * n > cache => Ok(()),
        (_, Some(n)) => Err(format!("{n} bytes of output stay in caches of {cache} for whoever reads them")),
    })
}

/// Parts of a reduction of `length` elements are none of them empty, and all alike where several
/// `outputs` share a launch (the tail of a part is then not a condition on its block alone).
pub fn parts_fit(space: Space, length: Option<i64>, outputs: Option<i64>) -> Space {
    space.require("parts_alike", move |k| match (k.get("split"), length) {
        (split, Some(n)) if split > 1 && outputs != Some(1) && n % split != 0 => {
            Err(format!("{split} parts do not divide {n}"))
        }
        (split, _) => no_part_empty(split, length),
    })
}

/// Parts of a reduction of `length` elements are none of them empty; the last may be shorter.
pub fn parts_hold_some(space: Space, length: Option<i64>) -> Space {
    space.require("parts_hold_some", move |k| no_part_empty(k.get("split"), length))
}

fn no_part_empty(split: i64, length: Option<i64>) -> Result<(), String> {
    let part = |n: i64| (n + split - 1) / split;
    match (split, length) {
        (1, _) => Ok(()),
        (_, Some(n)) if n < 2 * split => Err(format!("{split} parts of {n} have less than two elements each")),
        (_, Some(n)) if n > (split - 1) * part(n) => Ok(()),
        (_, Some(n)) => Err(format!("{split} parts of {} leave some without any of {n}", part(n))),
        (_, None) => Err("the length is not constant".into()),
    }
}

/// Enough blocks for the device, or for so much of it that `1 / part` of its multiprocessors have one, where there is
/// enough work for that.
pub fn fills_device(
    space: Space,
    target: &Target,
    elements: Option<i64>,
    blocks: impl At<Option<i64>>,
    part: impl At<i64>,
) -> Space {
    let sms = target.sms as i64;
    // A block should have some thousand elements before it pays to start another.
    let enough = elements.map(|n| (n / 8192).clamp(1, sms));
    space.prefer("fills_device", move |k| match (enough, blocks(k)) {
        (Some(enough), Some(blocks)) if blocks * part(k) < enough => {
            Err(format!("{blocks} blocks leave {} of {sms} multiprocessors idle", sms - blocks))
        }
        _ => Ok(()),
    })
}

/// Where the fold of a thread has rivals: packed arithmetic is for float32 only.
pub fn fold_rivals(space: Space, element: DType) -> Space {
    space.require("fold_has_rivals", move |k| match k.get("fold") {
        0 => Ok(()),
        _ if element == DType::F32 => Ok(()),
        _ => Err(format!("a fold of {element} has one variant")),
    })
}

/// Where combining across threads has rivals: over several warps. They are searched at the first values
/// of the knobs that have nothing to do with it, because the better one is so with the others too.
pub fn combine_rivals(space: Space, target: &Target) -> Space {
    let warp = i64::from(target.warp);
    let apart = ["combine", "threads", "rows", "groups"];
    let beside: Vec<Knob> = space.knobs.iter().filter(|k| !apart.contains(&k.name.as_str())).cloned().collect();
    let space = space.require("combine_has_rivals", move |k| match (k.get("combine"), k.get("threads")) {
        (0, _) => Ok(()),
        (_, threads) if threads > warp => Ok(()),
        (_, threads) => Err(format!("{threads} threads combine within a warp")),
    });
    space.prefer("combine_beside_defaults", move |k| match beside.iter().find(|b| k.get(&b.name) != b.default) {
        Some(b) if k.get("combine") != 0 => Err(format!("searched at `{}` = {} only", b.name, b.show(b.default))),
        _ => Ok(()),
    })
}

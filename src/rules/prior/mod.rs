//! How long a candidate should take, from its outline and figures of the target alone.
//!
//! Nothing here is measured on the machine at hand or fitted to a function: the terms are what a
//! kernel waits for, and the constants are lengths of time and shares that hold for all of them. The
//! guess orders candidates (docs/search.md says how well); its absolute value is within a factor of
//! two and is never shown as a time.

mod cpu;
pub mod learned;
mod tiles;

use super::{LaunchOutline, Outline};
use crate::ir::DType;
use crate::target::{Kind, Target};

/// From the start of a launch to its first full stream of data, in nanoseconds.
const START_NS: f64 = 1000.0;
/// Of each launch after the first: the one before drains, and this one starts.
const RELAUNCH_NS: f64 = 1500.0;
/// The same of a launch that packs a factor of a product, which waits for nothing.
const PACK_NS: f64 = 500.0;
/// What [`RELAUNCH_NS`] is once more where what comes is the sum of parts of a product in tiles, which is small and waits for all of them.
const PARTS_NS: f64 = 700.0;
/// To start and end a block.
const BLOCK_NS: f64 = 100.0;
/// From the start of a block to that of the next one on the same multiprocessor.
const DISPATCH_NS: f64 = 75.0;
/// Multiprocessors that share clusters (a GPC has 16 to 18), as far as whole clusters fill them.
const GROUP: f64 = 16.0;
/// Blocks of a cluster meet, exchange what they have, and meet again.
const CLUSTER_NS: f64 = 2000.0;
/// Instructions of a thread besides its loop.
const BLOCK_INSTRUCTIONS: f64 = 20.0;
/// One level of a warp shuffle, with its addition.
const SHUFFLE_NS: f64 = 35.0;
/// One barrier, with the shared memory before and after it.
const BARRIER_NS: f64 = 30.0;
/// Latency of a loaded DRAM, in the time in which the bytes in flight that saturate it pass: with all
/// of them in flight the waits then cost 1 % ([`either`]).
const LATENCY_SHARE: f64 = 0.43;
/// Latency where nothing is known of the DRAM.
const LATENCY_NS: f64 = 600.0;
/// An instruction of a thread that waits for the one before it, which other warps do not hide from its own block.
const INSTRUCTION_NS: f64 = 1.2;
/// Warp instructions that a multiprocessor issues in a cycle.
const SCHEDULERS: f64 = 4.0;
/// Issue slots of a spilled register, which is stored and loaded again.
const SPILL: i64 = 8;
/// Registers that a compiler spills for each one that lacks: it has moved loads up and widened values by then.
const SPREAD: i64 = 4;
/// Registers of loads that a thread cannot do without.
const LOADS: i64 = 8;
/// Issue slots of an instruction that waits for the one before.
const SERIALISED: i64 = 2;
/// How much faster than DRAM the cache answers, in latency and in bandwidth.
const CACHE: f64 = 2.0;
/// Part of its bytes, at least, that a block takes while nothing else of it goes on.
const ALONE: f64 = 0.3;
/// Multiprocessors are not equally far from memory: what the slowest loses on a share dealt once.
const UNEVEN: f64 = 0.12;
/// How much more than its even share of the bandwidth one multiprocessor can draw.
const DRAW: f64 = 1.3;
/// Bytes of DRAM time lost whenever a block turns to new addresses.
const TURN_BYTES: f64 = 128.0;
/// Part of the time that a partly filled last wave lasts too long, which shows: blocks do not end together.
const TAIL: f64 = 0.4;
/// How strongly bounds shut each other out: of two that are equal, the sum is a fifth more.
const EXCLUSION: i32 = 4;
/// Bytes of DRAM that one CPU core moves in a nanosecond, where nobody measured.
const CORE_GBPS: f64 = 8.0;

/// The time in nanoseconds that the outline suggests, for comparing points of one function.
pub fn ns(outline: &Outline, target: &Target) -> f64 {
    total(outline, target, None)
}

/// True where the constants come from: where more time goes to memory than to arithmetic, for products in tiles, and
/// where the passes of shared memory are counted.
pub fn is_known(outline: &Outline, target: &Target) -> bool {
    if !is_judged(outline) {
        return false;
    }
    let counted = outline.launches.iter().any(|l| l.passes.is_some());
    is_tiled(outline) || counted || waits_for_memory(outline, target)
}

/// True where drawn functions have judged the constants.
pub fn is_judged(outline: &Outline) -> bool {
    outline.launches.iter().all(|l| !l.unjudged)
}

/// True where each thread has the registers that it wants. Those of products in tiles are a condition of their spaces.
pub fn has_registers(outline: &Outline, target: &Target) -> bool {
    let crowded = |l: &LaunchOutline| l.tiles.is_none() && residency(l, target, None).batches > 1.0;
    !outline.launches.iter().any(crowded)
}

/// True for products in tiles on tensor cores, which have a model of their own.
pub fn is_tiled(outline: &Outline) -> bool {
    outline.launches.iter().any(|l| l.tiles.is_some())
}

fn waits_for_memory(outline: &Outline, target: &Target) -> bool {
    let bytes: i64 = outline.launches.iter().map(|l| l.read + l.written).sum();
    let rate = |l: &LaunchOutline| flop_rate(l, target) * target.sms.max(1) as f64;
    let flops: f64 = outline.launches.iter().map(|l| l.flops as f64 / rate(l)).sum();
    bytes as f64 / bandwidth(target) > flops
}

/// What a compiler says of a candidate.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Compiled {
    /// Registers of a thread; 0 where unknown.
    pub regs: u32,
    /// Bytes spilled by a thread.
    pub spill: u32,
    /// Static shared memory of a block in bytes.
    pub smem: u32,
    /// Instructions of its main loop, where machine code could be read.
    pub loop_instructions: Option<u32>,
    /// The compiler gave up overlapping instructions, and said so.
    pub serialised: bool,
}

/// The same with what the compiler says in place of guesses, for the launch that does the work.
pub fn compiled_ns(outline: &Outline, target: &Target, compiled: &Compiled) -> f64 {
    let mut known = outline.clone();
    if let Some(first) = known.launches.first_mut() {
        first.instructions = compiled.loop_instructions.map_or(first.instructions, i64::from);
        first.instructions *= if compiled.serialised { SERIALISED } else { 1 };
        first.instructions += compiled.spill as i64 / 4 * SPILL;
        first.smem = first.smem.max(compiled.smem as i64);
    }
    total(&known, target, Some(compiled.regs).filter(|r| *r > 0))
}

/// `regs` are the registers of a thread of the first launch.
fn total(outline: &Outline, target: &Target, regs: Option<u32>) -> f64 {
    let one = |(i, l): (usize, &LaunchOutline)| match target.kind {
        Kind::Cuda => gpu(l, target, regs.filter(|_| i == 0)),
        Kind::Cpu => cpu::ns(l, target),
    };
    let starts = match target.kind {
        Kind::Cuda => {
            let packs = outline.launches.iter().position(|l| l.tiles.is_some()).unwrap_or(0);
            let again = outline.launches.len().saturating_sub(1 + packs) as f64;
            START_NS + PACK_NS * packs as f64 + RELAUNCH_NS * again + PARTS_NS * after_tiles(outline) as f64
        }
        Kind::Cpu => RELAUNCH_NS * outline.launches.len() as f64,
    };
    starts + outline.launches.iter().enumerate().map(one).sum::<f64>()
}

/// Launches after one in tiles, whose parts they add. Those before it copy a factor, and wait for nothing.
fn after_tiles(outline: &Outline) -> usize {
    outline.launches.iter().skip_while(|l| l.tiles.is_none()).skip(1).count()
}

/// The longest of several times that overlap, and a little more where they are alike.
fn either(times: &[f64]) -> f64 {
    let most = times.iter().copied().fold(0.0, f64::max);
    if most <= 0.0 {
        return 0.0;
    }
    let sum: f64 = times.iter().map(|t| (t / most).powi(EXCLUSION)).sum();
    most * sum.powf(1.0 / EXCLUSION as f64)
}

/// What one block of a launch costs, by what it waits for, in nanoseconds.
struct Block {
    /// Alone on an idle device.
    latency: f64,
    /// Of the DRAM time of one multiprocessor's even share.
    dram: f64,
    /// Of the time in which one multiprocessor takes its bytes in.
    intake: f64,
    /// Of the issue slots and arithmetic of its multiprocessor.
    issue: f64,
    /// Of its multiprocessor's path to memory, which takes accesses one after the other.
    access: f64,
}

fn gpu(l: &LaunchOutline, t: &Target, regs: Option<u32>) -> f64 {
    let room = residency(l, t, regs);
    if let Some(p) = &l.tiles {
        return tiles::ns(l, p, t, room.blocks as f64);
    }
    // The first blocks start together, and no other covers for the wait for what they share.
    let shared = if l.shares { latency_ns(t) } else { 0.0 };
    shared + waves(l, t, &room)
}

fn waves(l: &LaunchOutline, t: &Target, room: &Room) -> f64 {
    let (block, resident) = (block(l, t, room), room.blocks);
    let share = l.blocks as f64 / at_once(t.sms.max(1) as f64, l);
    let waves = share / resident as f64;
    let at_once = (resident as f64).min(share.ceil());
    let streamed = if waves >= 1.0 { at_once } else { share };
    let wave = together(&block, streamed, at_once);
    if waves <= 1.0 {
        return wave + UNEVEN * share * block.dram;
    }
    let rest = waves.fract();
    let last = if rest > 1e-9 { last_wave(&block, rest * resident as f64) } else { 0.0 };
    waves * wave + TAIL * (last - rest * wave).max(0.0) + UNEVEN * share * block.dram / waves
}

/// Multiprocessors that blocks are on at a time: those of a cluster are in one group of [`GROUP`] and few more.
fn at_once(sms: f64, l: &LaunchOutline) -> f64 {
    if l.cluster > 2 && sms > GROUP { (sms / GROUP).floor() * GROUP } else { sms }
}

/// Blocks that run side by side on every multiprocessor, `streamed` of them as far as DRAM is concerned.
fn together(b: &Block, streamed: f64, blocks: f64) -> f64 {
    either(&[
        b.latency,
        streamed * b.dram,
        blocks * b.intake,
        blocks * b.issue,
        blocks * b.access,
        blocks * DISPATCH_NS,
    ])
}

fn last_wave(b: &Block, blocks: f64) -> f64 {
    either(&[b.latency, blocks * b.dram, (blocks - 1e-9).ceil() * (b.intake + b.issue)])
}

/// What the launch bounds leave.
struct Room {
    /// Blocks resident on a multiprocessor.
    blocks: i64,
    /// In how many batches the loads of a step are issued: more than one where registers for all of them are lacking.
    batches: f64,
    /// Registers that lack even so.
    spilled: i64,
}

/// `regs` are a thread's registers, once known.
fn residency(l: &LaunchOutline, t: &Target, regs: Option<u32>) -> Room {
    let limit = t.regs_per_sm as i64 / (l.threads * l.min_blocks).max(1) / 8 * 8;
    let (wanted, have) = (l.state_regs + l.load_regs, limit.min(255));
    let free = (have - l.state_regs).max(1) as f64;
    let batches = (l.load_regs as f64 / free).clamp(1.0, 4.0);
    let spilled = if regs.is_some() { 0 } else { (l.state_regs + l.load_regs.min(LOADS) - have).max(0) };
    let regs = regs.unwrap_or(wanted.min(have).max(1) as u32);
    let resident = t.resident_blocks(l.threads.max(1) as u32, regs, l.smem.max(0) as u32);
    Room { blocks: resident.max(1) as i64, batches, spilled }
}

fn block(l: &LaunchOutline, t: &Target, room: &Room) -> Block {
    let (sms, blocks) = (t.sms.max(1) as f64, l.blocks.max(1) as f64);
    let cache = if l.from_cache { CACHE } else { 1.0 };
    let share = cache * bandwidth(t) / sms;
    let turn = 1.0 + TURN_BYTES / (l.threads * l.in_flight).max(1) as f64;
    // Every thread stores and loads what is spilled, by way of the caches.
    let spilled = (SPREAD * 8 * room.spilled * l.threads) as f64 / CACHE;
    let bytes = (l.read + l.written) as f64 / blocks * turn + spilled;
    let step = latency_ns(t) / cache;
    let first = if l.staged { step } else { 0.0 };
    let warps = (l.threads as f64 / t.warp.max(1) as f64).ceil();
    let own = l.steps as f64 * l.instructions as f64 + BLOCK_INSTRUCTIONS + (SPILL * room.spilled) as f64;
    let serial = INSTRUCTION_NS * own;
    let waits = (l.steps as f64 * room.batches + l.again) * step;
    let dram = bytes / share;
    let clusters = if l.cluster > 1 { CLUSTER_NS } else { 0.0 };
    Block {
        latency: BLOCK_NS + first + l.rounds as f64 * (combine_ns(l) + clusters) + waits + serial + alone(l) * dram,
        dram,
        intake: bytes * l.padding.sqrt() * l.sectors / (DRAW * share),
        issue: (warps * own / issue_rate(t)).max(l.flops as f64 / blocks / flop_rate(l, t)),
        access: if l.unjudged { 0.0 } else { warps * l.all_passes() * SCHEDULERS / issue_rate(t) },
    }
}

/// Part of its bytes that a block takes while nothing else of it goes on: what it writes, it writes when it has read, and a
/// block that is resident alone reads nothing then. What it reads comes in while it waits for more, but for the last.
fn alone(l: &LaunchOutline) -> f64 {
    if l.unjudged {
        return 0.0;
    }
    let written = l.written as f64 / (l.read + l.written).max(1) as f64;
    (2.0 * written).clamp(ALONE, 1.0)
}

fn combine_ns(l: &LaunchOutline) -> f64 {
    let levels = |n: i64| (n.max(1) as f64).log2();
    let shuffles = SHUFFLE_NS * levels(l.combine.lanes) * l.combine.values.max(1) as f64;
    let parts = l.combine.parts;
    // More parts than one warp adds in order are halved, with a barrier for each step.
    let halvings = if l.combine.lanes == 1 { (levels(parts) - 5.0).max(0.0) } else { 0.0 };
    let barriers = (2.0 + halvings) * BARRIER_NS;
    let shared = if parts > 1 { barriers + SHUFFLE_NS * levels(parts) } else { 0.0 };
    shuffles + shared
}

/// Bytes per nanosecond of the whole device.
fn bandwidth(t: &Target) -> f64 {
    let known = [t.read_gbps, t.copy_gbps, t.dram_gbps].into_iter().find(|b| *b > 0.0);
    known.unwrap_or(CORE_GBPS * t.sms.max(1) as f64)
}

fn latency_ns(t: &Target) -> f64 {
    if t.bytes_in_flight == 0 {
        return LATENCY_NS;
    }
    LATENCY_SHARE * t.bytes_in_flight as f64 / (bandwidth(t) / t.sms.max(1) as f64)
}

/// Warp instructions that one multiprocessor issues in a nanosecond: those of its float32 rate, two
/// operations and a warp of lanes each.
fn issue_rate(t: &Target) -> f64 {
    let tflops = t.peak_of([DType::F32]).unwrap_or(20.0);
    tflops * 1e3 / (2 * t.warp.max(1)) as f64 / t.sms.max(1) as f64
}

/// Operations of one multiprocessor in a nanosecond.
fn flop_rate(l: &LaunchOutline, t: &Target) -> f64 {
    let plain = t.peak_of([DType::F32]).unwrap_or(20.0);
    let tensor = t.peak_of([DType::F16, DType::BF16]).unwrap_or(plain);
    (if l.tensor_core { tensor } else { plain }) * 1e3 / t.sms.max(1) as f64
}

#[cfg(test)]
mod tests;

//! How long a launch should take on a CPU.

use super::{CACHE, CORE_GBPS, either};
use crate::rules::LaunchOutline;
use crate::target::Target;

/// Starting a task on a CPU.
const TASK_NS: f64 = 150.0;
/// Vector instructions of one core in a nanosecond.
const CORE_RATE: f64 = 4.0;

/// Nanoseconds of a launch.
pub fn ns(l: &LaunchOutline, t: &Target) -> f64 {
    let cores = t.cores.max(1) as f64;
    let bytes = (l.read + l.written) as f64;
    let cached = if bytes < t.l2_bytes as f64 / 2.0 || l.from_cache { CACHE * CACHE } else { 1.0 };
    let dram = bytes / (cached * if t.copy_gbps > 0.0 { t.copy_gbps } else { CORE_GBPS * cores.sqrt() });
    // Operands wider than a register, and more accumulators than registers, cost instructions.
    let wide = (l.load_bytes as f64 / t.vector_bytes.max(1) as f64).max(1.0);
    let spilled = (l.load_regs as f64 * wide / 16.0).max(1.0);
    let per_task = TASK_NS + l.steps as f64 * l.instructions as f64 * wide * spilled / CORE_RATE;
    let turns = (l.blocks as f64 / cores).ceil();
    either(&[dram, turns * per_task])
}

//! The time that no run can beat. A measurement below it is broken, not fast.

use crate::runner::{DeviceFacts, Problem, RunError, RunFailure};

/// A measured time may fall this far below the bound before it is refused: clocks differ a little
/// from their data sheet.
const SLACK: f64 = 0.95;

/// Nanoseconds that a run takes at least: bytes over the DRAM pins or operations over the peak,
/// whichever is longer; 0 where nothing is known. `absorbed`: bytes that need not reach the DRAM.
///
/// What a run reads always counts: the cache is cold, because the buffers rotate or because it was
/// cooled, also where the whole problem would fit into it.
pub fn least_ns(problem: &Problem, facts: &DeviceFacts, absorbed: u64) -> f64 {
    let memory = match problem.bytes {
        Some(bytes) if facts.dram_gbps > 0.0 => bytes.saturating_sub(absorbed) as f64 / facts.dram_gbps,
        _ => 0.0,
    };
    let arithmetic = match (problem.flops, problem.peak_flops) {
        (Some(flops), Some(peak)) if peak > 0.0 => flops as f64 / peak * 1e9,
        _ => 0.0,
    };
    memory.max(arithmetic)
}

/// Bytes of what one run writes that may still lie in the last-level cache when a sample of several
/// runs ends: each sample leaves one cache full behind at most.
pub fn absorbed(written: u64, cache: u64, runs: usize) -> u64 {
    written.min(cache / runs.max(1) as u64)
}

/// Refuses a time that the hardware can't reach.
///
/// # Errors
/// [`RunFailure::Impossible`].
pub fn refuse(ns: f64, least: f64) -> Result<(), RunError> {
    if ns >= SLACK * least {
        return Ok(());
    }
    let text =
        format!("{ns:.0} ns were measured, but no run can take less than {least:.0} ns: the measurement is broken");
    Err(RunError::new(RunFailure::Impossible, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longer_of_memory_and_arithmetic_counts() {
        let facts = DeviceFacts { dram_gbps: 4800.0, ..DeviceFacts::default() };
        let mut problem = Problem { bytes: Some(48_000_000), ..Problem::default() };
        assert_eq!(least_ns(&problem, &facts, 0), 10_000.0);
        problem.flops = Some(1_000_000_000);
        assert_eq!(least_ns(&problem, &facts, 0), 10_000.0);
        problem.peak_flops = Some(50e12);
        assert_eq!(least_ns(&problem, &facts, 0), 20_000.0);
        assert_eq!(least_ns(&Problem::default(), &facts, 0), 0.0);
        assert_eq!(least_ns(&problem, &DeviceFacts::default(), 0), 20_000.0);
    }

    /// A copy of 4 MB and a fill of 8 MB on a GPU with 48 MB of L2 and 4 bytes per picosecond.
    #[test]
    fn writes_may_stay_in_the_cache_and_reads_may_not_come_from_it() {
        let facts = DeviceFacts { dram_gbps: 4000.0, l2_bytes: 48_000_000, ..DeviceFacts::default() };
        let problem = Problem { bytes: Some(8_000_000), ..Problem::default() };
        let least = |written, runs| least_ns(&problem, &facts, absorbed(written, facts.l2_bytes, runs));
        assert_eq!(least(0, 64), 2000.0, "a problem that only reads comes from the DRAM, however small");
        assert_eq!((least(4_000_000, 1), least(8_000_000, 1)), (1000.0, 0.0));
        assert_eq!((least(4_000_000, 48), least(8_000_000, 48)), (1750.0, 1750.0));
        assert_eq!(absorbed(4, 48, 0), 4);
    }

    #[test]
    fn a_little_below_passes_and_far_below_is_refused() {
        assert!(refuse(95.1, 100.0).is_ok());
        assert_eq!(refuse(94.0, 100.0).unwrap_err().failure, RunFailure::Impossible);
    }
}

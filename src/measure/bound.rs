//! The time that no run can beat. A measurement below it is broken, not fast.

use crate::backend::{DeviceFacts, Problem, RunError, RunFailure};

/// A measured time may fall this far below the bound before it is refused: clocks differ a little
/// from their data sheet.
const SLACK: f64 = 0.95;

/// Nanoseconds that a run takes at least: bytes over the DRAM pins or operations over the peak,
/// whichever is longer; 0 where nothing is known.
pub fn least_ns(problem: &Problem, facts: &DeviceFacts) -> f64 {
    let memory = match problem.bytes {
        Some(bytes) if facts.dram_gbps > 0.0 => bytes as f64 / facts.dram_gbps,
        _ => 0.0,
    };
    let arithmetic = match (problem.flops, problem.peak_flops) {
        (Some(flops), Some(peak)) if peak > 0.0 => flops as f64 / peak * 1e9,
        _ => 0.0,
    };
    memory.max(arithmetic)
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
        assert_eq!(least_ns(&problem, &facts), 10_000.0);
        problem.flops = Some(1_000_000_000);
        assert_eq!(least_ns(&problem, &facts), 10_000.0);
        problem.peak_flops = Some(50e12);
        assert_eq!(least_ns(&problem, &facts), 20_000.0);
        assert_eq!(least_ns(&Problem::default(), &facts), 0.0);
        assert_eq!(least_ns(&problem, &DeviceFacts::default()), 20_000.0);
    }

    #[test]
    fn a_little_below_passes_and_far_below_is_refused() {
        assert!(refuse(95.1, 100.0).is_ok());
        assert_eq!(refuse(94.0, 100.0).unwrap_err().failure, RunFailure::Impossible);
    }
}

//! What a candidate may cost: seconds per stage, and memory for the processes that work on it.

use std::time::Duration;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
/// Even a large kernel compiles in this much, so no compiler is given less ...
const LEAST_TO_COMPILE: u64 = GIB;
/// ... and one that takes more is stuck.
const MOST_TO_COMPILE: u64 = 8 * GIB;
/// A measuring worker that allocates nothing of size needs this for its threads and libraries.
const LEAST_TO_MEASURE: u64 = 256 * MIB;

/// Limits on one candidate. Whatever exceeds one is that candidate's outcome: its process is killed
/// with its group, or its allocation fails. The times do not include the allowance that measuring adds
/// for workloads with many operations.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Limits {
    /// To start a worker and open its device or load its compiler.
    pub setup: Duration,
    /// To generate the inputs of a workload.
    pub inputs: Duration,
    /// To compile a candidate.
    pub compile: Duration,
    /// To check a candidate once.
    pub execute: Duration,
    /// To time a candidate.
    pub time: Duration,
    /// Bytes that a compile worker, and each compiler that it starts, may allocate; `None` for any.
    pub compile_bytes: Option<u64>,
    /// Bytes that a measuring worker of the CPU may allocate for inputs, workspaces and what kernels
    /// take themselves; `None` for any. A CUDA worker has no such limit, because the driver maps memory
    /// of its own by the gigabyte; there a workspace is compared with the free device memory instead.
    pub measure_bytes: Option<u64>,
}

impl Default for Limits {
    fn default() -> Limits {
        let seconds = Duration::from_secs;
        Limits {
            setup: seconds(60),
            inputs: seconds(120),
            compile: seconds(60),
            execute: seconds(10),
            time: seconds(20),
            compile_bytes: None,
            measure_bytes: None,
        }
    }
}

impl Limits {
    /// The same times, with memory limits for a machine with `free` bytes of memory where `workers`
    /// compile at once. Half of the memory is shared by the compile workers. The measuring worker gets
    /// three quarters: its inputs take at most half, so a quarter is left to kernels. `free` is 0 where
    /// the machine does not say, and then nothing is limited.
    pub fn for_machine(self, free: u64, workers: usize) -> Limits {
        if free == 0 {
            return self;
        }
        let each = free / 2 / workers.max(1) as u64;
        Limits {
            compile_bytes: Some(each.clamp(LEAST_TO_COMPILE, MOST_TO_COMPILE)),
            measure_bytes: Some((free / 4 * 3).max(LEAST_TO_MEASURE)),
            ..self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_follows_from_the_machine() {
        let limits = |free, workers| {
            let l = Limits::default().for_machine(free, workers);
            (l.compile_bytes, l.measure_bytes)
        };
        assert_eq!(limits(64 * GIB, 16), (Some(2 * GIB), Some(48 * GIB)));
        assert_eq!(limits(512 * GIB, 4).0, Some(8 * GIB));
        assert_eq!(limits(4 * GIB, 16), (Some(GIB), Some(3 * GIB)));
        assert_eq!(limits(0, 16), (None, None));
    }
}

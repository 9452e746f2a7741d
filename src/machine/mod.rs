//! The machine that Daylight runs on: its processor, its memory, where tools may lie, the time.
//!
//! Environment, clock and system files are read here and passed on as values.

#[cfg(feature = "tune")]
mod bandwidth;
mod host;
pub(crate) mod memory;

use crate::backend::Places;
use crate::target::HostCpu;
use std::path::PathBuf;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// What is known of a machine.
#[derive(Clone, PartialEq, Debug)]
pub struct Machine {
    /// Where tools may lie.
    pub places: Places,
    /// The processor.
    pub host: HostCpu,
    /// Bytes of memory that are free to use; 0 where the system does not say.
    pub memory_bytes: u64,
}

impl Machine {
    /// Reads this machine; `cache` replaces the default folder for artifacts and tools.
    pub fn here(cache: Option<PathBuf>) -> Machine {
        Machine {
            places: Places::of(|name| std::env::var_os(name), cache),
            host: host::read(),
            memory_bytes: memory::free().unwrap_or(0),
        }
    }

    /// Copies or reads large areas on all cores and gives the better in GB/s; takes half a second.
    #[cfg(feature = "tune")]
    pub fn measure_bandwidth(&self) -> f64 {
        bandwidth::measure(self.host.cores)
    }
}

/// A clock that starts when it is made.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    start: Instant,
}

impl Watch {
    /// Starts.
    pub fn start() -> Watch {
        Watch { start: Instant::now() }
    }

    /// Seconds since the start, monotonic.
    pub fn seconds(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    /// Seconds since 1970.
    pub fn unix_s() -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
    }

    /// A name for what begins now, twelve digits that nothing else on this or another machine has: of the time in
    /// nanoseconds, the process and an address in its memory.
    pub fn name() -> String {
        static PLACE: u8 = 0;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos());
        let parts = (now, std::process::id(), &raw const PLACE);
        format!("{:032x}", xxhash_rust::xxh3::xxh3_128(format!("{parts:?}").as_bytes()))[..12].to_string()
    }
}

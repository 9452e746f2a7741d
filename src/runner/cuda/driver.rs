//! Calls into the CUDA driver with their errors as sentences. An error that breaks the context marks
//! the device as lost.

use crate::runner::device::Outcome;
use crate::runner::{RunError, RunFailure};
use cudarc::driver::{result, sys};
use std::cell::Cell;

/// What to do when libcuda is missing.
pub const LIBCUDA_ADVICE: &str =
    "libcuda was not found: install the NVIDIA driver (580 or newer for CUDA 13), or use --device cpu";

/// The oldest driver whose interface has all calls that are used: CUDA 12.8.
const OLDEST_DRIVER: i32 = 12_080;

/// Loads and initialises the driver; gives its version as `1000 * major + 10 * minor`.
///
/// # Errors
/// [`RunFailure::DeviceMissing`] with what to do.
pub fn initialise() -> Outcome<i32> {
    let missing = |text: String| RunError::new(RunFailure::DeviceMissing, text);
    // SAFETY: only opens the library; without it every other call would panic.
    if !unsafe { sys::is_culib_present() } {
        return Err(missing(LIBCUDA_ADVICE.to_string()));
    }
    result::init().map_err(|e| missing(format!("the CUDA driver does not start: {}", text(e))))?;
    let mut version = 0;
    // SAFETY: writes one integer.
    unsafe { sys::cuDriverGetVersion(&mut version) }.result().map_err(|e| missing(text(e)))?;
    if version < OLDEST_DRIVER {
        let (major, minor) = (version / 1000, version % 1000 / 10);
        return Err(missing(format!("the driver is of CUDA {major}.{minor}; install one of 12.8 or newer")));
    }
    Ok(version)
}

/// Name and meaning of a driver error.
pub fn text(error: result::DriverError) -> String {
    let part = |s: Result<&std::ffi::CStr, _>| s.map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
    format!("{} ({})", part(error.error_name()), part(error.error_string()))
}

/// Whether the context still works.
#[derive(Default)]
pub struct Health {
    lost: Cell<bool>,
}

impl Health {
    /// True after an error that every later call will repeat.
    pub fn is_lost(&self) -> bool {
        self.lost.get()
    }

    /// Turns a driver result into an outcome; `doing` completes "CUDA error while ...".
    pub fn check<T>(&self, result: Result<T, result::DriverError>, doing: &str) -> Outcome<T> {
        result.map_err(|e| {
            self.lost.set(self.lost.get() || breaks_context(e.0));
            RunError::new(RunFailure::LaunchFailed, format!("{} while {doing}", text(e)))
        })
    }
}

/// Errors of running kernels end the context; errors of asking for something impossible don't.
fn breaks_context(status: sys::CUresult) -> bool {
    const FIRST_OF_EXECUTION: u32 = 700;
    const OUT_OF_RESOURCES: u32 = 701;
    const PEER_AND_CONTEXT: std::ops::RangeInclusive<u32> = 704..=709;
    const FIRST_OF_CAPTURE: u32 = 900;
    const UNKNOWN: u32 = 999;
    const ECC: u32 = 214;
    let code = status as u32;
    match code {
        OUT_OF_RESOURCES => false,
        ECC | UNKNOWN => true,
        c if PEER_AND_CONTEXT.contains(&c) => c == 709,
        c => (FIRST_OF_EXECUTION..FIRST_OF_CAPTURE).contains(&c) && !(720..=721).contains(&c) && c < 800,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_errors_of_execution_break_the_context() {
        assert!(breaks_context(sys::CUresult::CUDA_ERROR_ILLEGAL_ADDRESS));
        assert!(breaks_context(sys::CUresult::CUDA_ERROR_MISALIGNED_ADDRESS));
        assert!(breaks_context(sys::CUresult::CUDA_ERROR_LAUNCH_FAILED));
        assert!(breaks_context(sys::CUresult::CUDA_ERROR_ASSERT));
        assert!(!breaks_context(sys::CUresult::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES));
        assert!(!breaks_context(sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY));
        assert!(!breaks_context(sys::CUresult::CUDA_ERROR_INVALID_IMAGE));
        assert!(!breaks_context(sys::CUresult::CUDA_ERROR_STREAM_CAPTURE_INVALIDATED));
    }
}

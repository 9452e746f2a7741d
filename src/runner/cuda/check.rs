//! Kernels that look at results on the device, so that only what decides crosses to the host: a whole
//! output of a hundred megabytes takes longer to fetch than its kernel takes to be timed.

use super::Stream;
use super::launch::launch;
use crate::runner::device::{Outcome, Region};
use cudarc::driver::{result, sys};
use std::ffi::{CStr, CString};

/// Threads per block, as the kernels are written.
const THREADS: u64 = 256;
/// Most blocks; the kernels stride.
const BLOCKS: u64 = 2048;
/// Bytes that a thread of the comparison takes at a time.
pub const WORD: usize = 16;

/// The loaded kernels.
#[derive(Clone, Copy)]
pub struct Checker {
    gather: sys::CUfunction,
    differ: sys::CUfunction,
}

impl Checker {
    /// Loads the kernels (PTX, compiled by the driver for any architecture).
    pub fn new(stream: &Stream) -> Outcome<Checker> {
        let ptx = CString::new(include_str!("check.ptx")).unwrap_or_default();
        // SAFETY: a terminated text; the module stays loaded.
        let module = unsafe { result::module::load_data(ptx.as_ptr().cast()) };
        let module = stream.health.check(module, "loading the kernels that check results")?;
        let function = |name: &CStr| {
            // SAFETY: the module is loaded.
            let found = unsafe { result::module::get_function(module, CString::from(name)) };
            stream.health.check(found, "looking up a kernel that checks results")
        };
        Ok(Checker { gather: function(c"daylight_gather")?, differ: function(c"daylight_differ")? })
    }

    /// Copies the `count` elements of `size` bytes behind `from` whose numbers lie at `points` to `to`.
    pub fn gather(
        &self,
        stream: &Stream,
        from: u64,
        points: u64,
        (count, size): (usize, usize),
        to: u64,
    ) -> Outcome<()> {
        let mut words = [from, points, count as u64, size as u64, to];
        launch(stream, self.gather, blocks(count), [THREADS as u32, 1, 1], 0, &mut words)
    }

    /// Sets the integer in `flag` to 1 where `count` words of [`WORD`] bytes differ.
    pub fn differ(&self, stream: &Stream, a: u64, b: u64, count: usize, flag: Region) -> Outcome<()> {
        let mut words = [a, b, count as u64, flag.at];
        launch(stream, self.differ, blocks(count), [THREADS as u32, 1, 1], 0, &mut words)
    }
}

fn blocks(count: usize) -> [u32; 3] {
    [(count as u64).div_ceil(THREADS).clamp(1, BLOCKS) as u32, 1, 1]
}

//! The CPU as a device: shared objects, the grid spread over threads, the monotonic clock.

use super::device::{Device, ModuleId, Outcome, Protocol, Region, Run, Step, Timer, Value};
use super::{DeviceFacts, DeviceState, RunError, RunFailure, posix};
use crate::machine::memory::{free, kib};
use libloading::Library;
use rayon::prelude::*;
use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;
use std::time::Instant;

/// Pieces per thread that a grid is cut into, so that threads that fall behind lose little.
const PIECES: u32 = 4;
/// Buffers rotate over no more than this, however large the cache.
const MOST_ROTATED: u64 = 512 << 20;
/// Most sets of buffers.
const MOST_SETS: usize = 512;
/// Runs shorter than this are timed several at once.
const SHORTEST_SAMPLE_NS: f64 = 5e5;

/// Signature of a generated function: buffers, scalars, first and one past the last block.
type Kernel = unsafe extern "C" fn(*const *mut u8, *const i64, i64, i64);

/// The host CPU.
pub struct CpuDevice {
    facts: DeviceFacts,
    modules: Vec<Option<Rc<Module>>>,
    /// The next set of buffers. All timers share it: one must not find what another left in the cache.
    next: Rc<Cell<usize>>,
}

struct Module {
    functions: Vec<Kernel>,
    /// Keeps the functions alive.
    _library: Library,
}

impl CpuDevice {
    /// Policy of timing runs over rotated buffers.
    pub const POLICY: &'static str = "cpu-rotate-v2";

    /// The CPU with its facts, which the caller read from the machine. Uses all threads of rayon's
    /// global pool.
    pub fn new(facts: DeviceFacts) -> CpuDevice {
        CpuDevice { facts, modules: vec![], next: Rc::default() }
    }

    fn module(&self, module: ModuleId) -> Outcome<Rc<Module>> {
        let loaded = self.modules.get(module.0).and_then(Option::as_ref);
        loaded.cloned().ok_or_else(|| RunError::new(RunFailure::BadRequest, "the module is not loaded"))
    }
}

/// Runs all steps of a run.
fn execute(module: &Module, run: &Run) -> Outcome<()> {
    for step in run {
        match step {
            Step::Zero(region) => {
                // SAFETY: the region is a workspace of this run.
                unsafe { std::ptr::write_bytes(region.at as *mut u8, 0, region.bytes) }
            }
            Step::Launch { function, grid, args, .. } => {
                let kernel = module.functions.get(*function);
                let kernel = kernel.ok_or_else(|| RunError::new(RunFailure::BadRequest, "a launch has no function"))?;
                launch(*kernel, grid[0], args);
            }
        }
    }
    Ok(())
}

/// Addresses and scalars of one launch, shared by all threads.
struct Arguments {
    buffers: Vec<*mut u8>,
    scalars: Vec<i64>,
}

// SAFETY: the generated code writes disjoint parts of its outputs from different blocks; that is what
// the measuring process verifies, and why it is a process of its own.
unsafe impl Sync for Arguments {}

impl Arguments {
    fn of(args: &[Value]) -> Arguments {
        let mut all = Arguments { buffers: vec![], scalars: vec![] };
        for arg in args {
            match arg {
                Value::Pointer(at) => all.buffers.push(*at as *mut u8),
                Value::Scalar { bits, .. } => all.scalars.push(*bits as i64),
                // no kernel of a CPU has one
                Value::TensorMap { at, .. } => all.buffers.push(*at as *mut u8),
            }
        }
        all
    }

    /// Runs blocks `begin` to `end`.
    ///
    /// # Safety
    /// The kernel was generated for these arguments.
    unsafe fn call(&self, kernel: Kernel, begin: u32, end: u32) {
        // SAFETY: as promised by the caller.
        unsafe { kernel(self.buffers.as_ptr(), self.scalars.as_ptr(), i64::from(begin), i64::from(end)) }
    }
}

fn launch(kernel: Kernel, blocks: u32, args: &[Value]) {
    let args = Arguments::of(args);
    let args = &args;
    let pieces = (rayon::current_num_threads() as u32 * PIECES).min(blocks);
    let cut = |i: u32| (u64::from(blocks) * u64::from(i) / u64::from(pieces)) as u32;
    // SAFETY: the plan belongs to this kernel.
    let part = |i: u32| unsafe { args.call(kernel, cut(i), cut(i + 1)) };
    match pieces {
        0 => {}
        1 => part(0),
        _ => (0..pieces).into_par_iter().for_each(part),
    }
}

impl Device for CpuDevice {
    fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    fn rotation(&self) -> (u64, usize) {
        (self.facts.l2_bytes.saturating_mul(3).min(MOST_ROTATED), MOST_SETS)
    }

    fn free_bytes(&mut self) -> Outcome<u64> {
        let free = free().unwrap_or(self.facts.memory_bytes / 2);
        let used = kib("/proc/self/status", "VmData:").unwrap_or(0);
        Ok(posix::memory_limit().map_or(free, |limit| free.min(limit.saturating_sub(used))))
    }

    fn allocate(&mut self, bytes: usize) -> Outcome<Region> {
        let failed = || RunError::new(RunFailure::LaunchFailed, format!("{bytes} bytes can't be allocated"));
        posix::fenced(bytes).map(|at| Region { at, bytes }).ok_or_else(failed)
    }

    fn free(&mut self, region: Region) {
        // SAFETY: the region came from `allocate` and is given back once.
        unsafe { posix::unfence(region.at, region.bytes) }
    }

    fn upload(&mut self, at: u64, bytes: &[u8]) -> Outcome<()> {
        // SAFETY: the caller owns that memory.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), at as *mut u8, bytes.len()) };
        Ok(())
    }

    fn download(&mut self, at: u64, bytes: &mut [u8]) -> Outcome<()> {
        // SAFETY: the caller owns that memory.
        unsafe { std::ptr::copy_nonoverlapping(at as *const u8, bytes.as_mut_ptr(), bytes.len()) };
        Ok(())
    }

    fn gather(&mut self, at: u64, size: usize, points: &[u64], bytes: &mut [u8]) -> Outcome<()> {
        let each = points.iter().zip(bytes.chunks_exact_mut(size.max(1)));
        each.into_iter().try_for_each(|(p, out)| self.download(at + p * size as u64, out))
    }

    fn differ(&mut self, a: u64, b: u64, bytes: usize) -> Outcome<bool> {
        // SAFETY: the caller owns both areas, which were zeroed when they were allocated, and nothing writes them now.
        let (a, b) = unsafe {
            (std::slice::from_raw_parts(a as *const u8, bytes), std::slice::from_raw_parts(b as *const u8, bytes))
        };
        Ok(a != b)
    }

    fn copy(&mut self, to: u64, from: u64, bytes: usize) -> Outcome<()> {
        // SAFETY: the caller owns both regions.
        unsafe { std::ptr::copy(from as *const u8, to as *mut u8, bytes) };
        Ok(())
    }

    fn fill(&mut self, region: Region, byte: u8) -> Outcome<()> {
        // SAFETY: the caller owns the region.
        unsafe { std::ptr::write_bytes(region.at as *mut u8, byte, region.bytes) };
        Ok(())
    }

    fn load(&mut self, file: &Path, symbols: &[String]) -> Outcome<ModuleId> {
        let failed = |e: String| RunError::new(RunFailure::LaunchFailed, e);
        // SAFETY: generated code has no initialisers.
        let library = unsafe { Library::new(file) }.map_err(|e| failed(format!("{}: {e}", file.display())))?;
        let function = |symbol: &String| {
            // SAFETY: generated functions have this signature.
            let found = unsafe { library.get::<Kernel>(symbol.as_bytes()) };
            found.map(|f| *f).map_err(|_| failed(format!("{} has no function `{symbol}`", file.display())))
        };
        let functions = symbols.iter().map(function).collect::<Outcome<_>>()?;
        self.modules.push(Some(Rc::new(Module { functions, _library: library })));
        Ok(ModuleId(self.modules.len() - 1))
    }

    fn unload(&mut self, module: ModuleId) {
        if let Some(slot) = self.modules.get_mut(module.0) {
            *slot = None;
        }
    }

    fn run(&mut self, module: ModuleId, run: &Run) -> Outcome<f64> {
        let module = self.module(module)?;
        let start = Instant::now();
        execute(&module, run)?;
        Ok(start.elapsed().as_nanos() as f64)
    }

    fn begin(
        &mut self,
        module: ModuleId,
        runs: Vec<Run>,
        _: Protocol,
        estimate_ns: f64,
        _: u64,
    ) -> Outcome<Box<dyn Timer>> {
        let batch = (SHORTEST_SAMPLE_NS / estimate_ns.max(1.0)).ceil().clamp(1.0, 1000.0) as usize;
        Ok(Box::new(RotatingTimer { module: self.module(module)?, runs, next: self.next.clone(), batch }))
    }

    /// The kernel counts our own threads among the runnable ones, so that nothing honest can be said.
    fn state(&mut self) -> Option<DeviceState> {
        None
    }

    fn is_lost(&self) -> bool {
        false
    }

    fn policy(&self, _: Protocol) -> &'static str {
        CpuDevice::POLICY
    }
}

/// Times runs over buffers in rotation.
struct RotatingTimer {
    module: Rc<Module>,
    runs: Vec<Run>,
    next: Rc<Cell<usize>>,
    batch: usize,
}

impl RotatingTimer {
    fn run_next(&mut self) -> Outcome<()> {
        let at = self.next.get() % self.runs.len().max(1);
        self.next.set(self.next.get().wrapping_add(1));
        self.runs.get(at).map_or(Ok(()), |run| execute(&self.module, run))
    }
}

impl Timer for RotatingTimer {
    fn sample(&mut self) -> Outcome<f64> {
        if self.batch > 1 {
            // Threads that fell asleep since the last sample take long to wake beside a short run.
            self.run_next()?;
        }
        let start = Instant::now();
        for _ in 0..self.batch {
            self.run_next()?;
        }
        Ok(start.elapsed().as_nanos() as f64 / self.batch as f64)
    }

    fn runs(&self) -> usize {
        self.batch
    }
}

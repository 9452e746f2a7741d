//! The CUDA device: driver API through `cudarc`, loaded at run time. One stream, the primary
//! context, everything on the thread that opened it.

mod check;
mod cublas;
mod driver;
mod launch;
pub mod nvml;
mod tensor_map;
mod timer;

pub use cublas::MOST_ALGORITHMS;
pub use driver::{LIBCUDA_ADVICE, initialise};

use super::device::{Device, ModuleId, Outcome, Protocol, Region, Run, Timer};
use super::{DeviceFacts, DeviceState, RunError, RunFailure, gemm};
use check::Checker;
use cublas::{Cublas, Product};
use cudarc::driver::result;
use cudarc::driver::sys::{self, CUdevice_attribute as Attribute};
use driver::Health;
use launch::Bound;
use nvml::Monitor;
use std::ffi::{CStr, CString};
use std::path::Path;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Size of the buffer that is read to cool the L2, as peers are cooled too.
const COOL_BYTES: usize = 512 << 20;

/// One CUDA device.
pub struct CudaDevice {
    stream: Rc<Stream>,
    facts: DeviceFacts,
    modules: Vec<Option<Module>>,
    cooler: Option<Rc<timer::Cooler>>,
    checker: Option<Checker>,
    cublas: Option<Rc<Cublas>>,
    /// Room for what the checker takes and gives; grows.
    scratch: Option<Region>,
    watch: Watch,
}

/// Whether NVML watches the device: asked when it is first needed.
enum Watch {
    Unasked(sys::CUdevice),
    Open(Box<Monitor>),
    Absent,
}

/// The stream everything runs on, and whether it still works.
pub(super) struct Stream {
    handle: sys::CUstream,
    health: Health,
}

/// What runs are made of.
enum Module {
    /// Kernels.
    Cubin { handle: sys::CUmodule, functions: Vec<sys::CUfunction> },
    /// A product of a library.
    Product(Rc<Product>),
}

/// Names and facts of the devices; empty where there are none.
///
/// # Errors
/// [`RunFailure::DeviceMissing`] where the driver is missing.
pub fn devices() -> Outcome<Vec<DeviceFacts>> {
    let version = initialise()?;
    let missing = |e| RunError::new(RunFailure::DeviceMissing, driver::text(e));
    let count = result::device::get_count().map_err(missing)?;
    (0..count).map(|i| result::device::get(i).and_then(|d| facts(d, version)).map_err(missing)).collect()
}

/// What NVML says of a device to a process that does not compute on it.
///
/// # Errors
/// A sentence, where the driver or NVML is missing or says nothing.
pub fn observe(ordinal: u32) -> Result<Observation, String> {
    initialise().map_err(|e| e.message)?;
    let device = result::device::get(ordinal as i32).map_err(driver::text)?;
    let mut monitor = Monitor::open(&bus_id(device)?, 0)?;
    let mut timed = || {
        let start = Instant::now();
        let state = monitor.state().ok_or("NVML does not tell the clocks of this device");
        state.map(|state| (state, start.elapsed()))
    };
    let (_, first) = timed()?;
    let (state, next) = timed()?;
    Ok(Observation { state, first, next })
}

/// The state of a device and what asking for it costs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Observation {
    /// The state.
    pub state: DeviceState,
    /// Time of reading everything.
    pub first: Duration,
    /// Time of reading once more, when only what changes fast is asked for.
    pub next: Duration,
}

/// The PCI address of a device, such as `0000:1b:00.0`.
fn bus_id(device: sys::CUdevice) -> Result<String, String> {
    let mut text = [0u8; 32];
    // SAFETY: the device came from the driver, which writes at most that many bytes.
    let asked = unsafe { sys::cuDeviceGetPCIBusId(text.as_mut_ptr().cast(), text.len() as i32, device) };
    asked.result().map_err(driver::text)?;
    let text = CStr::from_bytes_until_nul(&text).map_err(|e| e.to_string())?;
    Ok(text.to_string_lossy().into_owned())
}

fn facts(device: sys::CUdevice, version: i32) -> Result<DeviceFacts, result::DriverError> {
    // SAFETY: the device came from the driver.
    let ask = |a| unsafe { result::device::get_attribute(device, a) };
    let unsigned = |a| ask(a).map(|v| u64::try_from(v).unwrap_or(0));
    // Two transfers per clock; the clock is in kHz. Newer devices may not say.
    let clock = unsigned(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE).unwrap_or(0) as f64 * 1e3;
    let bits = unsigned(Attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH).unwrap_or(0) as f64;
    Ok(DeviceFacts {
        name: result::device::get_name(device)?,
        kind: "cuda".to_string(),
        cc: (
            unsigned(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)? as u32,
            unsigned(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)? as u32,
        ),
        sms: unsigned(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)? as u32,
        driver: format!("{}.{}", version / 1000, version % 1000 / 10),
        l2_bytes: unsigned(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?,
        dram_gbps: 2.0 * clock * bits / 8.0 / 1e9,
        // SAFETY: the device came from the driver.
        memory_bytes: unsafe { result::device::total_mem(device)? } as u64,
        smem_per_block: unsigned(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
    })
}

impl CudaDevice {
    /// Opens a device by its number.
    ///
    /// # Errors
    /// [`RunFailure::DeviceMissing`] with what to do.
    pub fn open(ordinal: u32) -> Outcome<CudaDevice> {
        let version = initialise()?;
        let missing =
            |e| RunError::new(RunFailure::DeviceMissing, format!("CUDA device {ordinal}: {}", driver::text(e)));
        let device = result::device::get(ordinal as i32).map_err(missing)?;
        let facts = facts(device, version).map_err(missing)?;
        // SAFETY: the device came from the driver; the context stays until the process ends.
        let stream = unsafe {
            let context = result::primary_ctx::retain(device).map_err(missing)?;
            result::ctx::set_current(context).map_err(missing)?;
            result::stream::create(result::stream::StreamKind::NonBlocking).map_err(missing)?
        };
        let stream = Rc::new(Stream { handle: stream, health: Health::default() });
        Ok(CudaDevice {
            stream,
            facts,
            modules: vec![],
            cooler: None,
            checker: None,
            cublas: None,
            scratch: None,
            watch: Watch::Unasked(device),
        })
    }

    /// Policy of timing launches in a graph over rotated buffers.
    pub const ROTATE: &'static str = "graph-rotate-v2";
    /// Policy of timing single launches between events, the cache cooled by reading.
    pub const COLD_READ: &'static str = "events-cold-read-v2";

    fn health(&self) -> &Health {
        &self.stream.health
    }

    fn bound(&self, module: ModuleId, run: &Run) -> Outcome<Bound> {
        let module = self.modules.get(module.0).and_then(Option::as_ref);
        let module = module.ok_or_else(|| RunError::new(RunFailure::BadRequest, "the module is not loaded"))?;
        match module {
            Module::Cubin { functions, .. } => Bound::new(functions, run, self.health()),
            Module::Product(product) => Bound::of_product(product, run),
        }
    }

    fn checker(&mut self) -> Outcome<Checker> {
        if self.checker.is_none() {
            self.checker = Some(Checker::new(&self.stream)?);
        }
        self.checker.ok_or_else(|| RunError::new(RunFailure::BadRequest, "the checking kernels were not loaded"))
    }

    /// At least that many bytes, overwritten by the next call.
    fn scratch(&mut self, bytes: usize) -> Outcome<Region> {
        if let Some(region) = self.scratch.filter(|r| r.bytes >= bytes) {
            return Ok(region);
        }
        if let Some(small) = self.scratch.take() {
            self.free(small);
        }
        let region = self.allocate(bytes.next_power_of_two())?;
        self.scratch = Some(region);
        Ok(region)
    }

    /// The product that a file describes.
    fn product(&mut self, file: &Path) -> Outcome<Rc<Product>> {
        let wanted = gemm::Call::read(file).map_err(|e| RunError::new(RunFailure::BadRequest, e))?;
        if self.cublas.is_none() {
            let workspace = self.allocate(cublas::WORKSPACE_BYTES)?;
            let opened = Cublas::open(wanted.library.as_deref(), workspace).inspect_err(|_| self.free(workspace))?;
            self.cublas = Some(Rc::new(opened));
        }
        let library = self.cublas.clone();
        let library = library.ok_or_else(|| RunError::new(RunFailure::DeviceMissing, cublas::ADVICE))?;
        Product::new(library, &wanted).map(Rc::new)
    }

    fn cooler(&mut self) -> Outcome<Rc<timer::Cooler>> {
        if let Some(cooler) = &self.cooler {
            return Ok(cooler.clone());
        }
        let buffer = self.allocate(COOL_BYTES)?;
        self.fill(buffer, 0)?;
        let cooler = Rc::new(timer::Cooler::new(&self.stream, buffer, self.facts.sms)?);
        self.cooler = Some(cooler.clone());
        Ok(cooler)
    }
}

impl Stream {
    fn wait(&self, doing: &str) -> Outcome<()> {
        // SAFETY: the stream lives as long as the device.
        self.health.check(unsafe { result::stream::synchronize(self.handle) }, doing)
    }
}

impl Device for CudaDevice {
    fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    fn rotation(&self) -> (u64, usize) {
        (3 * self.facts.l2_bytes, timer::MOST_SETS)
    }

    fn free_bytes(&mut self) -> Outcome<u64> {
        let (free, _) = self.health().check(result::mem_get_info(), "asking for free memory")?;
        Ok(free as u64)
    }

    fn allocate(&mut self, bytes: usize) -> Outcome<Region> {
        // SAFETY: plain allocation; it is written before it is read.
        let at = unsafe { result::malloc_sync(bytes.max(1)) };
        let at = self.health().check(at, &format!("allocating {bytes} bytes"))?;
        Ok(Region { at, bytes })
    }

    fn free(&mut self, region: Region) {
        // SAFETY: the region came from `allocate` and is given back once. An error means that the
        // context is lost, which the next call reports.
        let _ = unsafe { result::free_sync(region.at) };
    }

    fn upload(&mut self, at: u64, bytes: &[u8]) -> Outcome<()> {
        // On the kernels' stream: a copy on the default stream from memory that is not pinned may end after its call
        // returns (CUDA driver API, "API synchronization behavior"), and this stream does not wait for that one.
        // SAFETY: the caller owns that device memory, and keeps the bytes until the stream has been waited for.
        let copied = unsafe { result::memcpy_htod_async(at, bytes, self.stream.handle) };
        self.health().check(copied, "copying to the device")?;
        self.stream.wait("copying to the device")
    }

    fn download(&mut self, at: u64, bytes: &mut [u8]) -> Outcome<()> {
        self.stream.wait("waiting for the kernel")?;
        // SAFETY: the caller owns that device memory.
        self.health().check(unsafe { result::memcpy_dtoh_sync(bytes, at) }, "copying from the device")
    }

    fn gather(&mut self, at: u64, size: usize, points: &[u64], bytes: &mut [u8]) -> Outcome<()> {
        let checker = self.checker()?;
        let numbers: Vec<u8> = points.iter().flat_map(|p| p.to_le_bytes()).collect();
        let room = self.scratch(numbers.len() + bytes.len())?;
        let to = room.at + numbers.len() as u64;
        self.upload(room.at, &numbers)?;
        checker.gather(&self.stream, at, room.at, (points.len(), size), to)?;
        self.download(to, bytes)
    }

    fn differ(&mut self, a: u64, b: u64, bytes: usize) -> Outcome<bool> {
        let checker = self.checker()?;
        let flag = self.scratch(check::WORD)?;
        self.fill(Region { at: flag.at, bytes: check::WORD }, 0)?;
        checker.differ(&self.stream, a, b, bytes / check::WORD, flag)?;
        let mut found = [0; check::WORD];
        self.download(flag.at, &mut found)?;
        Ok(found != [0; check::WORD])
    }

    fn copy(&mut self, to: u64, from: u64, bytes: usize) -> Outcome<()> {
        // SAFETY: the caller owns both regions.
        let copied = unsafe { result::memcpy_dtod_async(to, from, bytes, self.stream.handle) };
        self.health().check(copied, "copying on the device")
    }

    fn fill(&mut self, region: Region, byte: u8) -> Outcome<()> {
        // SAFETY: the caller owns the region.
        let filled = unsafe { result::memset_d8_async(region.at, byte, region.bytes, self.stream.handle) };
        self.health().check(filled, "filling device memory")
    }

    fn load(&mut self, file: &Path, symbols: &[String]) -> Outcome<ModuleId> {
        if gemm::is_call(file) {
            let product = self.product(file)?;
            self.modules.push(Some(Module::Product(product)));
            return Ok(ModuleId(self.modules.len() - 1));
        }
        let bytes = std::fs::read(file)
            .map_err(|e| RunError::new(RunFailure::BadRequest, format!("{}: {e}", file.display())))?;
        let health = self.health();
        // SAFETY: the driver checks the image; PTX would need the terminating zero that cubins ignore.
        let handle = unsafe { result::module::load_data(bytes.as_ptr().cast()) };
        let handle = health.check(handle, "loading the cubin")?;
        let mut functions = vec![];
        for symbol in symbols {
            let name = CString::new(symbol.as_str()).unwrap_or_default();
            // SAFETY: the module is loaded.
            let function = unsafe { result::module::get_function(handle, name) };
            functions.push(health.check(function, &format!("looking up `{symbol}`"))?);
        }
        self.modules.push(Some(Module::Cubin { handle, functions }));
        Ok(ModuleId(self.modules.len() - 1))
    }

    fn unload(&mut self, module: ModuleId) {
        if let Some(Module::Cubin { handle, .. }) = self.modules.get_mut(module.0).and_then(Option::take) {
            // SAFETY: loaded, and unloaded once. An error means that the context is lost, which the
            // next call reports.
            let _ = unsafe { result::module::unload(handle) };
        }
    }

    fn run(&mut self, module: ModuleId, run: &Run) -> Outcome<f64> {
        let mut bound = self.bound(module, run)?;
        timer::between_events(&self.stream, || bound.enqueue(&self.stream))
    }

    fn begin(
        &mut self,
        module: ModuleId,
        runs: Vec<Run>,
        protocol: Protocol,
        estimate_ns: f64,
        touched_bytes: u64,
    ) -> Outcome<Box<dyn Timer>> {
        let bound = runs.iter().map(|r| self.bound(module, r)).collect::<Outcome<Vec<Bound>>>()?;
        let cooler = self.cooler()?;
        let stream = self.stream.clone();
        Ok(match protocol {
            Protocol::Rotate => {
                let plan = timer::Rotation::new(bound.len(), estimate_ns, touched_bytes, self.facts.l2_bytes);
                Box::new(timer::GraphTimer::new(stream, cooler, bound, plan)?)
            }
            Protocol::ColdRead => Box::new(timer::ColdTimer::new(stream, cooler, bound)),
        })
    }

    fn state(&mut self) -> Option<DeviceState> {
        if let Watch::Unasked(device) = self.watch {
            let monitor = bus_id(device).and_then(|id| Monitor::open(&id, 1));
            self.watch = monitor.map_or(Watch::Absent, |m| Watch::Open(Box::new(m)));
        }
        match &mut self.watch {
            Watch::Open(monitor) => monitor.state(),
            Watch::Unasked(_) | Watch::Absent => None,
        }
    }

    fn is_lost(&self) -> bool {
        self.health().is_lost()
    }

    fn policy(&self, protocol: Protocol) -> &'static str {
        match protocol {
            Protocol::Rotate => CudaDevice::ROTATE,
            Protocol::ColdRead => CudaDevice::COLD_READ,
        }
    }
}

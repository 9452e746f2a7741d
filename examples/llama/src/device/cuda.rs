//! One NVIDIA GPU. Kernels are put into one stream and run in order; what was put there can be recorded as a graph and
//! run again with one call.

use super::{Error, functions};
use crate::kernels::cuda as built;
use cudarc::driver::sys::{CUevent_flags, CUgraphInstantiate_flags, CUstreamCaptureMode};
use cudarc::driver::{CudaContext, CudaGraph, CudaSlice, CudaStream, DevicePtr};
use std::cell::RefCell;
use std::sync::Arc;

/// The first GPU, and the stream that everything goes through.
pub struct Device {
    context: Arc<CudaContext>,
    stream: Arc<CudaStream>,
}

/// Memory of the device.
pub struct Memory {
    slice: CudaSlice<u8>,
    address: u64,
}

/// Work that was recorded.
pub struct Graph(CudaGraph);

impl Device {
    pub fn open() -> Result<Device, Error> {
        let context = CudaContext::new(0)?;
        // SAFETY: all that uses memory is in one stream.
        unsafe { context.disable_event_tracking() };
        Ok(Device { stream: context.new_stream()?, context })
    }

    /// `bytes` bytes of zeros.
    pub fn zeros(&self, bytes: usize) -> Result<Memory, Error> {
        let slice = self.stream.alloc_zeros::<u8>(bytes.max(16))?;
        let address = slice.device_ptr(&self.stream).0;
        Ok(Memory { slice, address })
    }

    /// Copies `data` to a place `offset` bytes into `memory`.
    pub fn write(&self, memory: &mut Memory, offset: usize, data: &[u8]) -> Result<(), Error> {
        Ok(self.stream.memcpy_htod(data, &mut memory.slice.slice_mut(offset..offset + data.len()))?)
    }

    /// The first bytes of `memory`, when all that was started before is done.
    pub fn read(&self, memory: &Memory, data: &mut [u8]) -> Result<(), Error> {
        self.stream.memcpy_dtoh(&memory.slice.slice(..data.len()), data)?;
        Ok(self.stream.synchronize()?)
    }

    /// Records what `work` starts, which runs nothing.
    pub fn record(&self, work: impl FnOnce() -> Result<(), Error>) -> Result<Graph, Error> {
        self.stream.begin_capture(CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)?;
        let done = work();
        let graph = self.stream.end_capture(CUgraphInstantiate_flags(0));
        done?;
        Ok(Graph(graph?.ok_or("nothing was recorded")?))
    }

    /// Runs what was recorded.
    pub fn replay(&self, graph: &Graph) -> Result<(), Error> {
        Ok(graph.0.launch()?)
    }

    /// Milliseconds that `work` takes on the device.
    pub fn clock(&self, work: impl FnOnce() -> Result<(), Error>) -> Result<f64, Error> {
        let timed = Some(CUevent_flags::CU_EVENT_DEFAULT);
        let start = self.stream.record_event(timed)?;
        work()?;
        let end = self.stream.record_event(timed)?;
        end.synchronize()?;
        Ok(f64::from(start.elapsed_ms(&end)?))
    }

    /// What the driver calls the GPU.
    pub fn name(&self) -> Result<String, Error> {
        Ok(self.context.name()?)
    }
}

impl Memory {
    /// Where it starts, for kernels.
    pub fn address(&self) -> u64 {
        self.address
    }
}

macro_rules! methods {
    ($($name:ident($raw:ident, $workspace_bytes:ident, $type:ident) $tensors:literal [$($extent:ident),*];)*) => {
        /// The kernels and the scratch memory that they share.
        pub struct Kernels {
            stream: Arc<CudaStream>,
            scratch: RefCell<CudaSlice<u8>>,
            $($name: built::$type,)*
        }

        impl Kernels {
            pub fn load(device: &Device) -> Result<Kernels, Error> {
                Ok(Kernels {
                    stream: device.stream.clone(),
                    scratch: RefCell::new(device.stream.alloc_zeros(1 << 20)?),
                    $($name: built::$type::load(&device.context)?,)*
                })
            }

            $(/// The function of this name, with its tensors in order.
            ///
            /// # Safety
            /// Each address is that of memory as large as the function's text says, for these extents; indices that
            /// are data lie inside.
            pub unsafe fn $name(&self, tensors: [u64; $tensors], $($extent: usize),*) -> Result<(), Error> {
                let scratch = self.scratch(self.$name.workspace_bytes($($extent),*))?;
                let stream = self.stream.cu_stream().cast();
                // SAFETY: as the caller promised; the context was bound by the first launch of this thread.
                Ok(unsafe { self.$name.launch_raw(stream, &tensors, $($extent,)* scratch) }?)
            })*
        }
    };
}

functions!(methods);

impl Kernels {
    /// Where `bytes` bytes of scratch memory are. It grows where a kernel is the first to need so much: what is to be
    /// recorded has to run once before.
    fn scratch(&self, bytes: usize) -> Result<u64, Error> {
        let mut memory = self.scratch.borrow_mut();
        if memory.len() < bytes {
            self.stream.synchronize()?;
            *memory = self.stream.alloc_zeros(bytes)?;
        }
        Ok(memory.device_ptr(&self.stream).0)
    }
}

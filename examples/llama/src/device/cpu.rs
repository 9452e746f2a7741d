//! This processor. Kernels run on the threads of `rayon` and are done when their function returns.

use super::{Error, functions};
use crate::kernels::cpu as built;
use std::cell::RefCell;
use std::ffi::c_void;

/// This processor.
pub struct Device;

/// Memory of the device.
pub struct Memory(Box<[u64]>);

impl Device {
    pub fn open() -> Result<Device, Error> {
        Ok(Device)
    }

    /// `bytes` bytes of zeros.
    pub fn zeros(&self, bytes: usize) -> Result<Memory, Error> {
        Ok(Memory(vec![0; bytes.div_ceil(8) + 7].into()))
    }

    /// Copies `data` to a place `offset` bytes into `memory`.
    pub fn write(&self, memory: &mut Memory, offset: usize, data: &[u8]) -> Result<(), Error> {
        memory.bytes_mut()[offset..][..data.len()].copy_from_slice(data);
        Ok(())
    }

    /// The first bytes of `memory`, when all that was started before is done.
    pub fn read(&self, memory: &Memory, data: &mut [u8]) -> Result<(), Error> {
        data.copy_from_slice(&memory.bytes()[..data.len()]);
        Ok(())
    }
}

impl Memory {
    /// Where it starts, for kernels.
    pub fn address(&self) -> u64 {
        self.bytes().as_ptr() as u64
    }

    /// From the first place that lines of the cache start at.
    fn bytes(&self) -> &[u8] {
        // SAFETY: bytes are valid whatever the words are.
        unsafe { self.0.align_to::<u8>().1 }.split_at(self.0.as_ptr().cast::<u8>().align_offset(64)).1
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        let skip = self.0.as_ptr().cast::<u8>().align_offset(64);
        // SAFETY: as above.
        unsafe { self.0.align_to_mut::<u8>().1 }.split_at_mut(skip).1
    }
}

/// The kernels and the scratch memory that they share.
pub struct Kernels {
    scratch: RefCell<Memory>,
}

impl Kernels {
    pub fn load(device: &Device) -> Result<Kernels, Error> {
        Ok(Kernels { scratch: RefCell::new(device.zeros(0)?) })
    }

    /// Where `bytes` bytes of scratch memory are.
    fn scratch(&self, bytes: usize) -> Result<u64, Error> {
        let mut memory = self.scratch.borrow_mut();
        if memory.bytes().len() < bytes {
            *memory = Device.zeros(bytes)?;
        }
        Ok(memory.address())
    }
}

macro_rules! methods {
    ($($name:ident($raw:ident, $workspace_bytes:ident, $type:ident) $tensors:literal [$($extent:ident),*];)*) => {
        impl Kernels {
            $(/// The function of this name, with its tensors in order.
            ///
            /// # Safety
            /// Each address is that of memory as large as the function's text says, for these extents; indices that
            /// are data lie inside.
            pub unsafe fn $name(&self, tensors: [u64; $tensors], $($extent: usize),*) -> Result<(), Error> {
                let scratch = self.scratch(built::$workspace_bytes($($extent),*))? as *mut c_void;
                let tensors = tensors.map(|t| t as *mut c_void);
                // SAFETY: as the caller promised.
                Ok(unsafe { built::$raw(&tensors, $($extent,)* scratch, &built::Rayon) }?)
            })*
        }
    };
}

functions!(methods);

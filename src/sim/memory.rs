//! Arrays in global and shared memory.

use crate::interp::Tensor;
use crate::ir::DType;

/// An array with a mark per element: written or not. (Marks are bytes, so that they can tell more.)
pub(super) struct Memory {
    pub dtype: DType,
    pub data: Vec<u8>,
    written: Vec<u8>,
}

impl Memory {
    /// A tensor; `written` says whether its contents count.
    pub fn of(tensor: &mut Tensor, written: bool) -> Memory {
        let len = tensor.len();
        Memory { dtype: tensor.dtype, data: std::mem::take(&mut tensor.data), written: vec![written as u8; len] }
    }

    /// An array that nothing has written.
    pub fn unwritten(dtype: DType, len: u64) -> Memory {
        let len = len as usize;
        Memory { dtype, data: vec![0; len * dtype.bytes() as usize], written: vec![0; len] }
    }

    /// Forgets everything, with bits that look like a mistake.
    pub fn poison(&mut self) {
        self.data.fill(0xcd);
        self.written.fill(0);
    }

    /// Number of elements.
    pub fn len(&self) -> u64 {
        self.written.len() as u64
    }

    /// The stored bits of an element, or `None` when nothing has written it. `i` is in bounds.
    pub fn read(&self, i: usize) -> Option<u64> {
        if self.written[i] == 0 {
            return None;
        }
        let n = self.dtype.bytes() as usize;
        let mut bytes = [0; 8];
        bytes[..n].copy_from_slice(&self.data[i * n..(i + 1) * n]);
        Some(u64::from_le_bytes(bytes))
    }

    /// Writes the low bytes of `bits`. `i` is in bounds.
    pub fn write(&mut self, i: usize, bits: u64) {
        let n = self.dtype.bytes() as usize;
        self.data[i * n..(i + 1) * n].copy_from_slice(&bits.to_le_bytes()[..n]);
        self.written[i] = 1;
    }
}

//! Arrays in global and shared memory.

use super::shadow::Shadow;
use crate::interp::Tensor;
use crate::ir::DType;

/// Marks of elements. Odd ones can be read.
mod mark {
    pub const UNWRITTEN: u8 = 0;
    pub const WRITTEN: u8 = 1;
    /// An asynchronous copy to it is on its way.
    pub const PENDING: u8 = 2;
    /// Written, and visible to the asynchronous proxy.
    pub const SETTLED: u8 = 3;
}

/// An array with a mark per element, and who accessed it last.
pub(super) struct Memory {
    pub dtype: DType,
    pub data: Vec<u8>,
    written: Vec<u8>,
    pub shadow: Shadow,
}

impl Memory {
    /// A tensor; `written` says whether its contents count.
    pub fn of(tensor: &mut Tensor, written: bool) -> Memory {
        let len = tensor.len();
        Memory {
            dtype: tensor.dtype,
            data: std::mem::take(&mut tensor.data),
            written: vec![if written { mark::WRITTEN } else { mark::UNWRITTEN }; len],
            shadow: Shadow::new(len, false),
        }
    }

    /// An array that nothing has written; `shared`: each block has its own.
    pub fn unwritten(dtype: DType, len: u64, shared: bool) -> Memory {
        let len = len as usize;
        Memory {
            dtype,
            data: vec![0; len * dtype.bytes() as usize],
            written: vec![mark::UNWRITTEN; len],
            shadow: Shadow::new(len, shared),
        }
    }

    /// Forgets everything, with bits that look like a mistake.
    pub fn poison(&mut self) {
        self.data.fill(0xcd);
        self.written.fill(mark::UNWRITTEN);
    }

    /// Number of elements.
    pub fn len(&self) -> u64 {
        self.written.len() as u64
    }

    /// The stored bits of an element, or `None` when nothing has written it yet. `i` is in bounds.
    pub fn read(&self, i: usize) -> Option<u64> {
        if self.written[i] & 1 == 0 {
            return None;
        }
        Some(self.bits(i))
    }

    /// What an element holds, whether something has written it or not. `i` is in bounds.
    pub fn bits(&self, i: usize) -> u64 {
        let n = self.dtype.bytes() as usize;
        let mut bytes = [0; 8];
        bytes[..n].copy_from_slice(&self.data[i * n..(i + 1) * n]);
        u64::from_le_bytes(bytes)
    }

    /// True where the element was written and holds the low bytes of `bits`.
    pub fn holds(&self, i: usize, bits: u64) -> bool {
        let n = self.dtype.bytes() as usize;
        self.written[i] & 1 == 1 && self.data[i * n..(i + 1) * n] == bits.to_le_bytes()[..n]
    }

    /// Writes the low bytes of `bits`. `i` is in bounds.
    pub fn write(&mut self, i: usize, bits: u64) {
        let n = self.dtype.bytes() as usize;
        self.data[i * n..(i + 1) * n].copy_from_slice(&bits.to_le_bytes()[..n]);
        self.written[i] = mark::WRITTEN;
    }

    /// Announces an asynchronous copy to an element.
    pub fn pend(&mut self, i: usize) {
        self.written[i] = mark::PENDING;
    }

    /// True while an asynchronous copy to the element is on its way.
    pub fn is_pending(&self, i: usize) -> bool {
        self.written[i] == mark::PENDING
    }

    /// Makes what is written visible to the asynchronous proxy.
    pub fn settle_all(&mut self) {
        self.written.iter_mut().filter(|m| **m == mark::WRITTEN).for_each(|m| *m = mark::SETTLED);
    }

    /// Marks an element as written by the asynchronous proxy.
    pub fn settle(&mut self, i: usize) {
        self.written[i] = mark::SETTLED;
    }

    /// True when the asynchronous proxy sees the element.
    pub fn is_settled(&self, i: usize) -> bool {
        self.written[i] == mark::SETTLED
    }
}

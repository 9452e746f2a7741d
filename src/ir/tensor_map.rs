//! Tensor maps: how the asynchronous proxy finds boxes of a tensor in device memory.

use super::{DType, Name};
use std::fmt::{self, Display, Formatter};

/// Bytes that permuted memory moves together.
const CHUNK: i64 = 16;

/// A description of a tensor and of a box in it, made before the launch and passed to the kernel. All
/// lists have the innermost dimension first; its elements are adjacent. Boxes lie dense in shared
/// memory, but for the swizzle; elements outside the tensor are read as zeros and not written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TensorMap {
    /// Name of the kernel's parameter.
    pub name: Name,
    /// The tensor's buffer.
    pub buffer: Name,
    /// Element type.
    pub dtype: DType,
    /// Number of elements along each dimension, 1 to 5 of them.
    pub dims: Vec<i64>,
    /// Bytes from one index to the next, for all dimensions but the innermost; multiples of 16.
    pub strides_bytes: Vec<i64>,
    /// Elements of a box along each dimension, 1 to 256.
    pub box_dims: Vec<i64>,
    /// Elements from one that is taken to the next along each dimension.
    pub elem_strides: Vec<i64>,
    /// How a box is permuted in shared memory.
    pub swizzle: MapSwizzle,
    /// Bytes that the L2 fetches at once: 0 (as asked), 64, 128 or 256.
    pub l2: u32,
}

/// How 16-byte chunks of a box are permuted: within rows of that many bytes, by xor with the number of
/// the row counted in 128 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum MapSwizzle {
    None,
    B32,
    B64,
    B128,
}

impl MapSwizzle {
    /// Every swizzle.
    pub const ALL: [MapSwizzle; 4] = [MapSwizzle::None, MapSwizzle::B32, MapSwizzle::B64, MapSwizzle::B128];

    /// Bytes of a row within which chunks move; 0 without swizzle.
    pub fn span(self) -> i64 {
        match self {
            MapSwizzle::None => 0,
            MapSwizzle::B32 => 32,
            MapSwizzle::B64 => 64,
            MapSwizzle::B128 => 128,
        }
    }

    /// The swizzle of that span.
    pub fn of_span(bytes: i64) -> Option<MapSwizzle> {
        MapSwizzle::ALL.into_iter().find(|s| s.span() == bytes)
    }

    /// Alignment of a box in shared memory, in bytes: the period of the permutation, at least 128.
    pub fn align(self) -> i64 {
        (8 * self.span()).max(128)
    }

    /// The byte in shared memory, from a start aligned to [`MapSwizzle::align`], of a byte of the box.
    pub fn apply(self, byte: i64) -> i64 {
        let chunks = (self.span() / CHUNK).max(1);
        byte ^ (((byte >> 7) & (chunks - 1)) * CHUNK)
    }
}

impl TensorMap {
    /// Bytes of a box.
    pub fn box_bytes(&self) -> i64 {
        self.box_dims.iter().product::<i64>() * self.dtype.bytes() as i64
    }

    /// What keeps the hardware from taking the map.
    ///
    /// # Errors
    /// Names the first limit that is broken.
    pub fn check(&self) -> Result<(), String> {
        let (rank, bytes) = (self.dims.len(), self.dtype.bytes() as i64);
        let lengths = [self.strides_bytes.len() + 1, self.box_dims.len(), self.elem_strides.len()];
        if !(1..=5).contains(&rank) || lengths.iter().any(|n| *n != rank) {
            return Err(format!("a tensor map has 1 to 5 dimensions, not {rank}"));
        }
        if let Some(n) = self.dims.iter().find(|n| !(1..=1 << 32).contains(*n)) {
            return Err(format!("a dimension of a tensor map has 1 to 2^32 elements, not {n}"));
        }
        if let Some(n) = self.box_dims.iter().find(|n| !(1..=256).contains(*n)) {
            return Err(format!("a box has 1 to 256 elements along a dimension, not {n}"));
        }
        if let Some(n) = self.strides_bytes.iter().find(|n| **n % CHUNK != 0 || !(0..1 << 40).contains(*n)) {
            return Err(format!("rows of a tensor map are a multiple of {CHUNK} bytes apart, below 2^40, not {n}"));
        }
        let inner = self.box_dims[0] * bytes;
        if inner % CHUNK != 0 {
            return Err(format!("rows of a box are a multiple of {CHUNK} bytes, not {inner}"));
        }
        match self.swizzle.span() {
            0 => Ok(()),
            span if inner <= span => Ok(()),
            span => Err(format!("rows of a box swizzled within {span} bytes are {inner} bytes")),
        }
    }
}

impl Display for TensorMap {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "tensor_map {} of {} {} {:?}", self.name, self.dtype, self.buffer, self.dims)?;
        write!(f, " strides {:?} box {:?}", self.strides_bytes, self.box_dims)?;
        write!(f, " swizzle {} l2 {}", self.swizzle.span(), self.l2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swizzles_permute_the_chunks_of_their_rows() {
        for s in MapSwizzle::ALL {
            let period = s.align();
            let mut seen: Vec<i64> = (0..period).map(|b| s.apply(b)).collect();
            for (byte, to) in (0..).zip(&seen) {
                assert_eq!(to / s.span().max(16), byte / s.span().max(16), "{s:?}: rows stay");
                assert_eq!(to % 16, byte % 16, "{s:?}: chunks move whole");
            }
            seen.sort_unstable();
            assert!((0..period).eq(seen), "{s:?} is a permutation");
        }
        assert_eq!(MapSwizzle::B128.apply(128 * 3), 128 * 3 + 48);
        assert_eq!(MapSwizzle::B64.apply(128), 128 + 16);
        assert_eq!(MapSwizzle::B32.apply(256 + 128), 256 + 128 + 16);
    }
}

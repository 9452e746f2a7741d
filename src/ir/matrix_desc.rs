//! Matrix descriptors: how a warpgroup's matrix instruction (`wgmma`), and one in tensor memory (`tcgen05.mma`), finds
//! an operand in shared memory.
//!
//! An operand is a matrix of `free` rows (those of A, the columns of B) by `depth` steps of the reduced
//! axis. It lies in pieces of 8 lines of 16, 32, 64 or 128 bytes, permuted as tensor maps permute them; the
//! descriptor says how far apart the pieces are. With `span` the bytes of a line, the byte of an element, from
//! the start, before the permutation (PTX ISA, "Matrix descriptor"; strides are the fields of that name):
//!
//! - depth contiguous: line `free % 8` of piece `free / 8`, `stride` apart. Lines of 16 bytes, which are not
//!   permuted, hold a part of an instruction's depth; the next one is `leading` away.
//! - free contiguous (16-bit elements): line `depth % 8` of piece `depth / 8`, `stride` apart; the next
//!   `span` bytes of free lines are `leading` away. Without a permutation the two change roles.

use super::{DType, MapSwizzle};

/// Lines of a piece.
const LINES: i64 = 8;
/// Bytes of a line that is not permuted, and of what moves together in others.
const CHUNK: i64 = 16;

/// Which axis of an operand is contiguous.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Contiguous {
    /// The reduced one ("K-major").
    Depth,
    /// Rows of A, columns of B ("MN-major").
    Free,
}

/// Where the elements of an operand are, from its start. Distances are in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct MatrixDesc {
    /// The contiguous axis.
    pub contiguous: Contiguous,
    /// The permutation within lines.
    pub swizzle: MapSwizzle,
    /// The field "leading dimension byte offset".
    pub leading: u32,
    /// The field "stride dimension byte offset".
    pub stride: u32,
}

impl MatrixDesc {
    /// Bytes of a line.
    pub fn span(&self) -> i64 {
        self.swizzle.span().max(CHUNK)
    }

    /// True where each piece starts with the permutation: the hardware takes the lines of a piece by their numbers,
    /// not by their addresses. Measured on an H200: a tile of three pieces 43 lines apart is read wrongly.
    pub fn in_period(&self) -> bool {
        let period = LINES * self.span();
        let whole = |n: u32| i64::from(n) % period == 0;
        match (self.swizzle, self.contiguous) {
            (MapSwizzle::None, _) => true,
            (_, Contiguous::Depth) => whole(self.stride),
            (_, Contiguous::Free) => whole(self.stride) && whole(self.leading),
        }
    }

    /// The byte, counted from an address that the permutation's period divides, of an element of an operand
    /// that starts at byte `start`: what the hardware reads.
    pub fn byte(&self, dtype: DType, start: i64, free: i64, depth: i64) -> i64 {
        self.swizzle.apply(start + self.offset(dtype, free, depth))
    }

    /// The byte of an element from the operand's start, before the permutation.
    pub fn offset(&self, dtype: DType, free: i64, depth: i64) -> i64 {
        let size = dtype.bytes() as i64;
        let (leading, stride) = (i64::from(self.leading), i64::from(self.stride));
        let (line, along) = match self.contiguous {
            Contiguous::Depth => (free, depth * size),
            Contiguous::Free => (depth, free * size),
        };
        let (within, next) = (along % self.span(), along / self.span());
        let pieces = match (self.contiguous, self.swizzle) {
            (Contiguous::Free, MapSwizzle::None) => line / LINES * leading + next * stride,
            // The reduced axis of one instruction ends with the line.
            _ => line / LINES * stride + next * leading,
        };
        line % LINES * self.span() + pieces + within
    }

    /// The 64 bits without the start address, which is added in units of 16 bytes.
    pub fn bits(&self) -> u64 {
        let kind: u64 = match self.swizzle {
            MapSwizzle::None => 0,
            MapSwizzle::B128 => 1,
            MapSwizzle::B64 => 2,
            MapSwizzle::B32 => 3,
        };
        kind << 62 | u64::from(self.stride >> 4) << 32 | u64::from(self.leading >> 4) << 16
    }

    /// The same for products in tensor memory, whose descriptors have a version and name permutations otherwise.
    pub fn bits_of_tensor_memory(&self) -> u64 {
        let kind: u64 = match self.swizzle {
            MapSwizzle::None => 0,
            MapSwizzle::B128 => 2,
            MapSwizzle::B64 => 4,
            MapSwizzle::B32 => 6,
        };
        kind << 61 | 1 << 46 | u64::from(self.stride >> 4) << 32 | u64::from(self.leading >> 4) << 16
    }

    /// As it stands in listings: `k128(1, 1024)`.
    pub fn text(&self) -> String {
        let axis = match self.contiguous {
            Contiguous::Depth => "k",
            Contiguous::Free => "mn",
        };
        format!("{axis}{}({}, {})", self.swizzle.span(), self.leading, self.stride)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_those_of_worked_examples() {
        let desc = |contiguous, leading| MatrixDesc { contiguous, swizzle: MapSwizzle::B128, leading, stride: 1024 };
        assert_eq!(desc(Contiguous::Depth, 16).bits(), 0x4000_0040_0001_0000);
        assert_eq!(desc(Contiguous::Free, 8192).bits(), 0x4000_0040_0200_0000);
        assert_eq!(desc(Contiguous::Depth, 16).bits_of_tensor_memory(), 0x4000_4040_0001_0000);
    }

    #[test]
    fn rows_of_128_bytes_are_what_a_tensor_map_writes() {
        let desc = MatrixDesc { contiguous: Contiguous::Depth, swizzle: MapSwizzle::B128, leading: 16, stride: 1024 };
        for (free, depth) in [(0, 0), (1, 0), (5, 17), (63, 63), (130, 8)] {
            assert_eq!(desc.byte(DType::F16, 0, free, depth), MapSwizzle::B128.apply(free * 128 + depth * 2));
        }
    }
}

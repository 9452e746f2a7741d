//! Instructions of tensor memory: 128 lanes by 512 columns of 32 bits beside the registers of a multiprocessor, in
//! which single threads have matrices multiplied (PTX ISA, "TensorCore 5th Generation Instructions").
//!
//! A block takes columns and gives them back. An array in tensor memory holds element `(lane, column)` at
//! `128 column + lane`, counted from the first of its columns.
//!
//! Two blocks of a cluster with ranks `2 i` and `2 i + 1` are a pair (`.cta_group::2`). They take the same columns and give
//! them back together, and the first one issues products that are written to both.

use super::BlockScaleMma;
use crate::ir::{DType, MatrixDesc};

/// Lanes of tensor memory: rows of a matrix in it.
pub const TENSOR_LANES: i64 = 128;
/// Columns of tensor memory.
pub const TENSOR_COLUMNS: i64 = 512;
/// Lanes that a warp reads: those of its place among four.
pub const LANES_OF_WARP: i64 = 32;

/// What is done with tensor memory.
// The text of a variant says what its fields are.
#[allow(missing_docs)]
#[derive(Clone, PartialEq, Debug)]
pub enum Tcgen05 {
    /// `word`: takes `columns` (a power of two, 32 to 512) for the block, and leaves their address in a word of
    /// shared memory (`tcgen05.alloc`). A warp does it together, in both blocks of a pair, which have met before.
    Alloc { columns: i64, group: CtaGroup },
    /// The block takes no more columns (`tcgen05.relinquish_alloc_permit`). A warp says so together.
    Relinquish { group: CtaGroup },
    /// `d, word`: the thread has `d` so many columns after the address that the word holds.
    Find { column: i64 },
    /// `d`, which is in the first of them: gives the columns back, all at once (`tcgen05.dealloc`). A warp does it together, in both blocks of a pair,
    /// of which neither uses them any more.
    Dealloc { columns: i64, group: CtaGroup },
    /// `d, a, b; accumulate`: `d = a b + d`, or `a b` where `accumulate` is false (`tcgen05.mma`). One thread says
    /// so; `a` and `b` are in shared memory where their descriptors say, from the place given. Operands are read,
    /// and sums written, some time before a barrier that a later commit of the thread arrives at completes.
    ///
    /// A thread of the first block of a pair says so for both. Each has 128 rows of `a` and half of the columns of `b`, at
    /// the same place in its own shared memory, and receives the sums of its rows.
    Mma { shape: Tcgen05Shape, a: MatrixDesc, b: MatrixDesc },
    /// `d, a, b, sfa, sfb; accumulate`: the same where each block of numbers has a scale (`.block_scale`). Scales of rows of
    /// `a` and of columns of `b` are in words of tensor memory, as [`Tcgen05::CopyScales`] leaves them; of the four in a word
    /// the instruction takes as many as a row has ([`BlockScaleMma::scales`]), from number `first` on, for `a` and for `b`.
    ///
    /// Each block of a pair has the scales of its own 128 rows, and of all columns, in its own tensor memory.
    ScaledMma { shape: Tcgen05Scaled, a: MatrixDesc, b: MatrixDesc, first: [u32; 2] },
    /// `dst, src`: copies 512 bytes of shared memory to four columns (`tcgen05.cp.32x128b.warpx4`): word `4 l + c` to column
    /// `c` of lane `l`, the same to each of the four groups of 32 lanes. So the scales of 128 rows, four each, become those
    /// of a product: word `4 (row % 32) + row / 32` is that of a row. One thread says so; its products after it read what it
    /// copied. That those before it have read what it overwrites the thread has to know of a barrier.
    ///
    /// A thread of the first block of a pair says so for both: each from the same place in its own shared memory, to its own
    /// tensor memory.
    CopyScales { group: CtaGroup },
    /// `bar`: arrives once when all products of the thread so far are done (`tcgen05.commit`), in the block, or in the
    /// blocks of its cluster of which `mask` has the bit, each with `bar` in its own shared memory (`.multicast::cluster`).
    Commit { group: CtaGroup, mask: u16 },
    /// `dst, src`: loads 16 lanes by `8 count` columns (`count` 1, 2, 4, .., 32) into registers
    /// (`tcgen05.ld.16x256b`), which are there after [`Tcgen05::WaitLoads`]. Each warp of four reads 32 lanes of its
    /// own; the first lane is a multiple of 16. Lane `l` of the warp receives in register `r` lane
    /// `l / 4 + 8 (r / 2 % 2)` and column `r % 2 + 2 (l % 4) + 8 (r / 4)`.
    Load { count: i64 },
    /// Waits until the registers of the warp's loads are there (`tcgen05.wait::ld`).
    WaitLoads,
    /// `dst, src`: stores registers to 16 lanes by `8 count` columns (`tcgen05.st.16x256b`), of the same form and order as
    /// [`Tcgen05::Load`]'s. They are there after [`Tcgen05::WaitStores`].
    Store { count: i64 },
    /// Waits until what the warp stored is in tensor memory (`tcgen05.wait::st`).
    WaitStores,
    /// Orders what the thread did to tensor memory before what others do after a barrier
    /// (`tcgen05.fence::before_thread_sync`).
    FenceBefore,
    /// Orders what others did to tensor memory before a barrier before what the thread does next
    /// (`tcgen05.fence::after_thread_sync`).
    FenceAfter,
}

impl Tcgen05 {
    /// The blocks that it is of; `None` of what a thread or a warp does for its own block.
    pub fn group(&self) -> Option<CtaGroup> {
        match self {
            Tcgen05::Alloc { group, .. }
            | Tcgen05::Relinquish { group }
            | Tcgen05::Dealloc { group, .. }
            | Tcgen05::Mma { shape: Tcgen05Shape { group, .. }, .. }
            | Tcgen05::ScaledMma { shape: Tcgen05Scaled { group, .. }, .. }
            | Tcgen05::CopyScales { group }
            | Tcgen05::Commit { group, .. } => Some(*group),
            Tcgen05::Find { .. }
            | Tcgen05::Load { .. }
            | Tcgen05::WaitLoads
            | Tcgen05::Store { .. }
            | Tcgen05::WaitStores
            | Tcgen05::FenceBefore
            | Tcgen05::FenceAfter => None,
        }
    }
}

/// The blocks that an instruction is of (`.cta_group`): one in all of a kernel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum CtaGroup {
    /// A block by itself.
    One,
    /// A pair of blocks.
    Pair,
}

impl CtaGroup {
    /// How many blocks they are.
    pub fn blocks(self) -> i64 {
        match self {
            CtaGroup::One => 1,
            CtaGroup::Pair => 2,
        }
    }

    /// Rows of one instruction: each block has as many as tensor memory has lanes.
    pub fn rows(self) -> i64 {
        TENSOR_LANES * self.blocks()
    }

    /// What is added to the name of an instruction in listings.
    pub fn suffix(self) -> &'static str {
        match self {
            CtaGroup::One => "",
            CtaGroup::Pair => ".pair",
        }
    }
}

/// The blocks of a cluster whose bits a mask has.
pub fn blocks_of(mask: u16) -> impl Iterator<Item = u32> {
    (0..u16::BITS).filter(move |block| mask >> block & 1 == 1)
}

/// `tcgen05.mma` of 128 rows of each block by [`Tcgen05Shape::n`] columns and 32 bytes of the reduced axis.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Tcgen05Shape {
    /// Columns: 16 to 256, a multiple of 16; of a pair a multiple of 32, of which each block has half.
    pub n: i64,
    /// Type of both operands; of float32 the bits of tf32 are used.
    pub input: DType,
    /// Whose rows they are.
    pub group: CtaGroup,
}

impl Tcgen05Shape {
    /// Rows of one block.
    pub const ROWS: i64 = TENSOR_LANES;
    /// Bytes of the reduced axis of one instruction.
    pub const DEPTH_BYTES: i64 = 32;

    /// Columns of B that a block has in its shared memory.
    pub fn own_columns(self) -> i64 {
        self.n / self.group.blocks()
    }

    /// Steps of the reduced axis.
    pub fn k(self) -> i64 {
        Tcgen05Shape::DEPTH_BYTES / self.input.bytes() as i64
    }

    /// Type of the sums.
    pub fn sum(self) -> DType {
        if self.input == DType::I8 { DType::I32 } else { DType::F32 }
    }

    /// The kind of instruction, with the number of the operands' format in its descriptor.
    fn row(self) -> Option<(&'static str, u32)> {
        match self.input {
            DType::F16 => Some(("f16", 0)),
            DType::BF16 => Some(("f16", 1)),
            DType::F32 => Some(("tf32", 2)),
            DType::E4M3 => Some(("f8f6f4", 0)),
            DType::E5M2 => Some(("f8f6f4", 1)),
            DType::I8 => Some(("i8", 1)),
            DType::Bool
            | DType::I16
            | DType::I32
            | DType::I64
            | DType::U8
            | DType::U16
            | DType::U32
            | DType::U64
            | DType::F64
            | DType::E8M0
            | DType::Handle => None,
        }
    }

    /// The PTX name of the kind.
    pub fn kind(self) -> &'static str {
        self.row().map_or("", |row| row.0)
    }

    /// What listings name it by.
    pub fn name(self) -> String {
        let input = if self.input == DType::F32 { "tf32".to_string() } else { self.input.to_string() };
        format!("m{}n{}k{}.{input}", self.group.rows(), self.n, self.k())
    }

    /// The 32 bits that tell the instruction formats, contiguous axes and extents ("instruction descriptor").
    pub fn bits(self, free_contiguous: [bool; 2]) -> u32 {
        let format = self.row().map_or(0, |row| row.1);
        let sum = if self.sum() == DType::I32 { 2 } else { 1 };
        let [a, b] = free_contiguous.map(u32::from);
        let (n, m) = ((self.n >> 3) as u32, (self.group.rows() >> 4) as u32);
        sum << 4 | format << 7 | format << 10 | a << 15 | b << 16 | n << 17 | m << 24
    }

    /// That there is such an instruction.
    ///
    /// # Errors
    /// What is wrong, as a sentence.
    pub fn check(self) -> Result<(), String> {
        if self.row().is_none() {
            return Err(format!("no instruction multiplies matrices of {} into tensor memory", self.input));
        }
        let step = 16 * self.group.blocks();
        match self.n {
            n @ 16..=256 if n % step == 0 => Ok(()),
            n => Err(format!("{n} columns; expected {step} to 256, a multiple of {step}")),
        }
    }
}

/// `tcgen05.mma` of 128 rows of each block by `n` columns and 32 bytes of the reduced axis, of which each block of numbers has a
/// scale.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Tcgen05Scaled {
    /// Columns: 8 to 256, a multiple of 8; of a pair a multiple of 16, of which each block has half.
    pub n: i64,
    /// Types of numbers and scales, and how many of these a row has.
    pub of: BlockScaleMma,
    /// Whose rows they are.
    pub group: CtaGroup,
}

impl Tcgen05Scaled {
    /// Rows whose scales a copy brings, and the columns that it brings them to.
    pub const SCALES: [i64; 2] = [TENSOR_LANES, 4];

    /// Columns of B that a block has in its shared memory.
    pub fn own_columns(self) -> i64 {
        self.n / self.group.blocks()
    }

    /// Numbers along the reduced axis.
    pub fn k(self) -> i64 {
        Tcgen05Shape::DEPTH_BYTES * self.of.packed()
    }

    /// What listings name it by.
    pub fn name(self) -> String {
        let [a, b] = self.of.inputs();
        format!("m{}n{}k{}.{a}.{b}", self.group.rows(), self.n, self.k())
    }

    /// The 32 bits that tell formats, extents and numbers of scales ("instruction descriptor" of kinds with block scales).
    pub fn bits(self, [a, b]: [u32; 2]) -> u32 {
        let format = |input| match input {
            "e4m3" => 0,
            // numbers of 4 bits have a list of formats of their own
            _ => 1,
        };
        let [of_a, of_b] = self.of.inputs().map(format);
        let powers = u32::from(self.of.scale() == DType::E8M0);
        let (n, m) = ((self.n >> 3) as u32, (self.group.rows() >> 4) as u32);
        b << 4 | of_a << 7 | of_b << 10 | n << 17 | powers << 23 | m << 24 | a << 29
    }

    /// That there is such an instruction.
    ///
    /// # Errors
    /// What is wrong, as a sentence.
    pub fn check(self) -> Result<(), String> {
        let step = 8 * self.group.blocks();
        match self.n {
            n @ 8..=256 if n % step == 0 => Ok(()),
            n => Err(format!("{n} columns; expected {step} to 256, a multiple of {step}")),
        }
    }
}

/// Columns that a block takes for so many: a power of two, 32 at least.
pub fn columns_taken(wanted: i64) -> i64 {
    (wanted.max(1) as u64).next_power_of_two().max(32) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_are_those_of_worked_examples() {
        let shape = |input, group| Tcgen05Shape { n: 256, input, group };
        let bits = |input, n| Tcgen05Shape { n, ..shape(input, CtaGroup::One) }.bits([false; 2]);
        assert_eq!(bits(DType::BF16, 256), 0x0840_0490);
        assert_eq!(bits(DType::F16, 256), 0x0840_0010);
        assert_eq!(bits(DType::E4M3, 256), 0x0840_0010);
        assert_eq!(bits(DType::F32, 256), 0x0840_0910);
        assert_eq!(bits(DType::I8, 256), 0x0840_04a0);
        assert_eq!(shape(DType::BF16, CtaGroup::Pair).bits([false; 2]), 0x1040_0490);
        let turned = |free| shape(DType::BF16, CtaGroup::One).bits(free);
        assert_eq!(turned([true, false]), 0x0840_8490);
        assert_eq!(turned([false, true]), 0x0841_0490);
    }

    #[test]
    fn a_block_of_a_pair_has_half_of_the_columns() {
        let shape = |n| Tcgen05Shape { n, input: DType::F16, group: CtaGroup::Pair };
        assert_eq!(
            (shape(96).group.rows(), shape(96).own_columns(), shape(96).name()),
            (256, 48, "m256n96k16.float16".into())
        );
        assert!([32, 256].map(shape).iter().all(|s| s.check().is_ok()));
        assert!([16, 48, 288].map(shape).iter().all(|s| s.check().is_err()));
    }

    #[test]
    fn bits_of_products_with_scales_are_those_of_worked_examples() {
        let bits = |of, first| Tcgen05Scaled { n: 256, of, group: CtaGroup::One }.bits(first);
        let mxf8 = |a, b| BlockScaleMma::Mxf8 { a, b };
        assert_eq!(bits(mxf8(DType::E4M3, DType::E4M3), [0; 2]), 0x08c0_0000);
        assert_eq!(bits(BlockScaleMma::Nvf4, [0; 2]), 0x0840_0480);
        assert_eq!(bits(BlockScaleMma::Mxf4, [0; 2]), 0x08c0_0480);
        assert_eq!(bits(mxf8(DType::E5M2, DType::E4M3), [3, 1]), 0x68c0_0090);
        assert_eq!(bits(BlockScaleMma::Mxf4, [2, 2]), 0x48c0_04a0);
        let pair = Tcgen05Scaled { n: 256, of: BlockScaleMma::Nvf4, group: CtaGroup::Pair };
        assert_eq!((pair.bits([0; 2]), pair.group.rows(), pair.own_columns()), (0x1040_0480, 256, 128));
        assert!(pair.check().is_ok() && Tcgen05Scaled { n: 24, ..pair }.check().is_err());
    }

    #[test]
    fn blocks_take_powers_of_two() {
        assert_eq!([1, 32, 33, 192, 512].map(columns_taken), [32, 32, 64, 256, 512]);
    }
}

//! The shapes of matrix multiplications by a warpgroup.

use crate::ir::DType;

/// `wgmma.mma_async.m64n<n>k<k>`: 64 rows, `n` columns, 32 bytes of the reduced axis.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct WgmmaShape {
    /// Columns: 8 to 256, a multiple of 8 (of 16 above 32 for int8).
    pub n: i64,
    /// Type of both operands; of float32 the low 13 bits are ignored (tf32).
    pub input: DType,
}

impl WgmmaShape {
    /// Warps of the group that carries it out.
    pub const WARPS: i64 = 4;
    /// Rows of one instruction.
    pub const ROWS: i64 = 64;
    /// Bytes of the reduced axis of one instruction.
    pub const DEPTH_BYTES: i64 = 32;

    /// Steps of the reduced axis.
    pub fn k(self) -> i64 {
        WgmmaShape::DEPTH_BYTES / self.input.bytes() as i64
    }

    /// Type of the sums.
    pub fn sum(self) -> DType {
        if self.input == DType::I8 { DType::I32 } else { DType::F32 }
    }

    /// Registers of the sums in each thread.
    pub fn registers(self) -> i64 {
        self.n / 2
    }

    /// The PTX name of the input type.
    pub fn input_name(self) -> &'static str {
        match self.input {
            DType::F16 => "f16",
            DType::BF16 => "bf16",
            DType::E4M3 => "e4m3",
            DType::E5M2 => "e5m2",
            DType::I8 => "s8",
            DType::F32 => "tf32",
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
            | DType::Handle => "",
        }
    }

    /// The PTX name of tile and depth.
    pub fn name(self) -> String {
        format!("m64n{}k{}", self.n, self.k())
    }

    /// That there is such an instruction.
    ///
    /// # Errors
    /// What is wrong, as a sentence.
    pub fn check(self) -> Result<(), String> {
        if self.input_name().is_empty() {
            return Err(format!("no instruction multiplies matrices of {} by warpgroups", self.input));
        }
        let step = if self.input == DType::I8 && self.n > 32 { 16 } else { 8 };
        match self.n {
            8..=256 if self.n % step == 0 => Ok(()),
            n => Err(format!("{n} columns; expected 8 to 256, a multiple of {step}")),
        }
    }

    /// Row and column of register `e` of thread `t` of the warpgroup.
    pub fn place(t: i64, e: i64) -> (i64, i64) {
        let (warp, lane) = (t / 32, t % 32);
        (16 * warp + lane / 4 + 8 * (e / 2 % 2), 8 * (e / 4) + 2 * (lane % 4) + e % 2)
    }

    /// Elements of the first operand that a thread holds, where it is in registers.
    pub fn held(self) -> i64 {
        WgmmaShape::ROWS * self.k() / (32 * WgmmaShape::WARPS)
    }

    /// Row, and step of the reduced axis, of element `e` of the first operand in thread `t` of the warpgroup.
    pub fn place_of_a(self, t: i64, e: i64) -> (i64, i64) {
        let (warp, lane, word) = (t / 32, t % 32, 4 / self.input.bytes() as i64);
        (16 * warp + lane / 4 + 8 * (e / word % 2), word * (lane % 4) + e % word + 4 * word * (e / (2 * word)))
    }
}

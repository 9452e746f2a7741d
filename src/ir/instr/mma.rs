//! The shapes of matrix multiplications by a warp.

use crate::ir::DType;

/// The matrix instructions, named by their tile and input type. Accumulators are float32, int32 for
/// int8 inputs.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum MmaShape {
    /// `m16n8k16`, float16 inputs.
    M16N8K16F16,
    /// `m16n8k16`, bfloat16 inputs.
    M16N8K16BF16,
    /// `m16n8k8`, float32 inputs of which tf32 precision is used.
    M16N8K8TF32,
    /// `m16n8k32`, int8 inputs.
    M16N8K32I8,
    /// `m16n8k32`, `float8_e4m3fn` inputs.
    M16N8K32E4M3,
    /// `m16n8k32`, `float8_e5m2` inputs.
    M16N8K32E5M2,
}

impl MmaShape {
    /// PTX name of tile and depth, depth, types of inputs and accumulator.
    fn row(self) -> (&'static str, i64, DType, DType) {
        match self {
            MmaShape::M16N8K16F16 => ("m16n8k16", 16, DType::F16, DType::F32),
            MmaShape::M16N8K16BF16 => ("m16n8k16", 16, DType::BF16, DType::F32),
            MmaShape::M16N8K8TF32 => ("m16n8k8", 8, DType::F32, DType::F32),
            MmaShape::M16N8K32I8 => ("m16n8k32", 32, DType::I8, DType::I32),
            MmaShape::M16N8K32E4M3 => ("m16n8k32", 32, DType::E4M3, DType::F32),
            MmaShape::M16N8K32E5M2 => ("m16n8k32", 32, DType::E5M2, DType::F32),
        }
    }

    /// The PTX name of tile and depth.
    pub fn name(self) -> &'static str {
        self.row().0
    }

    /// Depth of one instruction; its tile is always 16 by 8.
    pub fn k(self) -> i64 {
        self.row().1
    }

    /// Types of the inputs and of the accumulator.
    pub fn dtypes(self) -> (DType, DType) {
        (self.row().2, self.row().3)
    }

    /// Elements of one lane in the fragments of `a`, `b` and the accumulator.
    pub fn lane_elements(self) -> [i64; 3] {
        [16 * self.k() / 32, 8 * self.k() / 32, 4]
    }
}

/// The matrix instructions of which each block along the reduced axis has a scale, named by their kind. Their tile is
/// 16 by 8, accumulators are float32.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum BlockScaleMma {
    /// `mxf8f6f4`, `m16n8k32`: numbers of 8 bits, a scale of `ue8m0` for all of them.
    Mxf8 { a: DType, b: DType },
    /// `mxf4nvf4` with `scale_vec::2X`, `m16n8k64`: `e2m1` numbers two in a byte, the first in its low bits, a scale of
    /// `ue8m0` for each 32.
    Mxf4,
    /// `mxf4nvf4` with `scale_vec::4X`, `m16n8k64`: the same with a scale of `ue4m3` for each 16.
    Nvf4,
}

impl BlockScaleMma {
    /// The instruction for types of elements and scales, bytes standing for two numbers each.
    pub fn of([a, b]: [DType; 2], scale: DType) -> Option<BlockScaleMma> {
        let eight = |d| matches!(d, DType::E4M3 | DType::E5M2);
        match (a, b, scale) {
            (DType::U8, DType::U8, DType::E4M3) => Some(BlockScaleMma::Nvf4),
            (DType::U8, DType::U8, DType::E8M0) => Some(BlockScaleMma::Mxf4),
            (a, b, DType::E8M0) if eight(a) && eight(b) => Some(BlockScaleMma::Mxf8 { a, b }),
            _ => None,
        }
    }

    /// The PTX name of tile and depth.
    pub fn name(self) -> &'static str {
        if self.packed() == 2 { "m16n8k64" } else { "m16n8k32" }
    }

    /// The PTX name of the kind, with how many scales there are of a row.
    pub fn kind(self) -> &'static str {
        match self {
            BlockScaleMma::Mxf8 { .. } => "mxf8f6f4.block_scale.scale_vec::1X",
            BlockScaleMma::Mxf4 => "mxf4nvf4.block_scale.scale_vec::2X",
            BlockScaleMma::Nvf4 => "mxf4nvf4.block_scale.scale_vec::4X",
        }
    }

    /// The PTX names of the types of A and B.
    pub fn inputs(self) -> [&'static str; 2] {
        match self {
            BlockScaleMma::Mxf8 { a, b } => [a, b].map(|d| if d == DType::E4M3 { "e4m3" } else { "e5m2" }),
            BlockScaleMma::Mxf4 | BlockScaleMma::Nvf4 => ["e2m1"; 2],
        }
    }

    /// Types of the registers of A and B.
    pub fn elements(self) -> [DType; 2] {
        match self {
            BlockScaleMma::Mxf8 { a, b } => [a, b],
            BlockScaleMma::Mxf4 | BlockScaleMma::Nvf4 => [DType::U8; 2],
        }
    }

    /// Numbers in an element.
    pub fn packed(self) -> i64 {
        if matches!(self, BlockScaleMma::Mxf8 { .. }) { 1 } else { 2 }
    }

    /// Bytes of a row of an operand; a lane holds 16 of A and 8 of B, as with int8.
    pub fn row() -> i64 {
        32
    }

    /// Type of the scales.
    pub fn scale(self) -> DType {
        if self == BlockScaleMma::Nvf4 { DType::E4M3 } else { DType::E8M0 }
    }

    /// Scales of a row.
    pub fn scales(self) -> i64 {
        match self {
            BlockScaleMma::Mxf8 { .. } => 1,
            BlockScaleMma::Mxf4 => 2,
            BlockScaleMma::Nvf4 => 4,
        }
    }
}

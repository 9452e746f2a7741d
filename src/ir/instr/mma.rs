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
}

impl MmaShape {
    /// PTX name of tile and depth, depth, types of inputs and accumulator.
    fn row(self) -> (&'static str, i64, DType, DType) {
        match self {
            MmaShape::M16N8K16F16 => ("m16n8k16", 16, DType::F16, DType::F32),
            MmaShape::M16N8K16BF16 => ("m16n8k16", 16, DType::BF16, DType::F32),
            MmaShape::M16N8K8TF32 => ("m16n8k8", 8, DType::F32, DType::F32),
            MmaShape::M16N8K32I8 => ("m16n8k32", 32, DType::I8, DType::I32),
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

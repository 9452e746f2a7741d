//! Instructions of a GPU that have no counterpart in C: asynchronous copies, matrix fragments,
//! matrix multiply-accumulate, packed arithmetic, barriers in shared memory.
//!
//! They are statements. Operands are places in arrays; register operands name the first of the
//! adjacent elements that the instruction takes. Names and rules are those of the PTX ISA.

use super::{DType, Expr, Name};

/// Element `index` of an array.
#[derive(Clone, PartialEq, Debug)]
pub struct At {
    /// The array.
    pub array: Name,
    /// Flat element index.
    pub index: Expr,
}

impl At {
    /// Element `index` of `array`.
    pub fn new(array: &Name, index: Expr) -> At {
        At { array: array.clone(), index }
    }
}

/// A statement that is one instruction (or a fixed handful).
#[derive(Clone, PartialEq, Debug)]
pub enum Intrinsic {
    /// `dst[0..2] = op(a[0..2], b[0..2] (, c[0..2]))` on pairs of float32 (`add.rn.ftz.f32x2`, sm_100 and
    /// up) or float16 (`add.rn.f16x2`, to nearest, without `ftz`) in registers. Indices are even, arrays
    /// aligned to a pair.
    Packed { op: PackedOp, rounding: Rounding, ftz: bool, dst: At, a: At, b: At, c: Option<At> },
    /// `dst = max(a, b, c)` or `min` of float32; a NaN operand counts as absent
    /// (`max.f32` with three operands, sm_100 and up).
    Fold3 { op: Fold, dst: At, a: Expr, b: Expr, c: Expr },
    /// `dst[0..2] = src[0..2]` rounded to nearest even, in registers, between float32 and a 16-bit
    /// float (`cvt.rn.bf16x2.f32` and the like). Indices are even.
    CastPair { dst: At, src: At },
    /// `dst[0..2]`, 16-bit floats in registers, become the low and the high half of a 32-bit word
    /// (`mov.b32`). The index is even.
    Halves { dst: At, word: Expr },
    /// Two adjacent 16-bit values in registers count as new: what was made of them before is made again
    /// rather than kept, in twice their registers. The index is even. Nothing is done at run time.
    Pin { pair: At },
    /// Starts an asynchronous copy of `bytes` (4, 8 or 16) from global to shared memory
    /// (`cp.async`, sm_80 and up). Where `valid` is given and false, zeros are written and nothing is
    /// read. Visible to the thread after commit and wait, to others after a barrier too.
    CpAsync { dst: At, src: At, bytes: u32, valid: Option<Expr>, prefetch: Option<u32> },
    /// Closes the thread's group of asynchronous copies (`cp.async.commit_group`).
    CpAsyncCommit,
    /// Waits until at most `left` of the thread's newest groups are pending (`cp.async.wait_group`).
    CpAsyncWait { left: u32 },
    /// Loads `count` (1, 2 or 4) 8x8 matrices of 16-bit elements from shared memory (`ldmatrix`).
    /// Lane `8 i + r` gives with `src` the first of the 8 elements of row `r` of matrix `i`
    /// (aligned to 16 bytes); lanes past `8 count` give any valid place. Lane `l` receives elements
    /// `2 (l % 4)` and the next of row `l / 4` of matrix `i` in `dst[2 i..2 i + 2]`; with `transpose`
    /// the matrix is transposed first. All lanes of the warp take part. A row is 16 bytes whatever it
    /// holds: of 8-bit elements 16, of which a lane receives 4 adjacent ones, of 32-bit elements 4, of
    /// which it receives one; those are not transposed.
    LdMatrix { dst: At, src: At, count: u32, transpose: bool },
    /// The reverse of [`Intrinsic::LdMatrix`], from registers to shared memory (sm_90 and up).
    StMatrix { dst: At, src: At, count: u32, transpose: bool },
    /// `d = a b + c` over the lanes of a warp, each operand the lane's fragment in registers
    /// (`mma.sync.aligned`, row-major `a`, column-major `b`). `c` and `d` may be the same place. With
    /// `w` elements in 32 bits, element `e` of lane `l` is row `l / 4 + 8 (e / w % 2)` and column
    /// `w (l % 4) + e % w + 4 w (e / 2 w)` of `a`, column `l / 4` and row `w (l % 4) + e % w + 4 w (e / w)`
    /// of `b`, row `l / 4 + 8 (e / 2)` and column `2 (l % 4) + e % 2` of `c` and `d`. int32 wraps around.
    Mma { shape: MmaShape, d: At, a: At, b: At, c: At },
    /// Makes a barrier of a 64-bit word in shared memory that expects `arrivals` per phase.
    MbarrierInit { bar: At, arrivals: u32 },
    /// Makes initialised barriers visible to the asynchronous proxy (`fence.mbarrier_init`).
    MbarrierFence,
    /// Arrives once.
    MbarrierArrive { bar: At },
    /// Arrives once and adds `bytes` to what the phase waits for (`mbarrier.arrive.expect_tx`).
    MbarrierExpect { bar: At, bytes: Expr },
    /// Waits until the phase of that parity (0 or 1) has completed.
    MbarrierWait { bar: At, parity: Expr },
    /// Copies `bytes` (a multiple of 16, both sides aligned to 16) from global to shared memory and
    /// counts them on `bar` (`cp.async.bulk`, sm_90 and up). One thread issues it.
    BulkLoad { dst: At, src: At, bytes: Expr, bar: At },
    /// Copies `bytes` from shared to global memory, in the thread's bulk group.
    BulkStore { dst: At, src: At, bytes: Expr },
    /// Loads the box at `coords` (innermost first) of a tensor map into shared memory, zeros where
    /// it lies outside, and counts its bytes on `bar` (`cp.async.bulk.tensor`).
    TensorLoad { dst: At, map: Name, coords: Vec<Expr>, bar: At },
    /// Stores a box from shared memory through a tensor map; nothing is written outside the tensor.
    TensorStore { map: Name, coords: Vec<Expr>, src: At },
    /// Closes the thread's group of bulk stores.
    BulkCommit,
    /// Waits until at most `left` groups of bulk stores are pending; with `read`, only until their
    /// source has been read.
    BulkWait { left: u32, read: bool },
    /// Orders the thread's accesses to shared memory before asynchronous ones
    /// (`fence.proxy.async.shared::cta`).
    AsyncFence,
    /// Stores `value` where block `peer` of the cluster has `dst` in its own shared memory (`mapa`,
    /// `st.shared::cluster`, sm_90 and up). The peer reads it after a barrier of the cluster, has started
    /// before the store by another one, and ends after it by a third or the same as the reader's.
    ClusterStore { dst: At, peer: Expr, value: Expr },
}

/// Arithmetic on pairs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum PackedOp {
    Add,
    Sub,
    Mul,
    /// `a b + c`, rounded once.
    Fma,
}

/// How packed arithmetic rounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rounding {
    /// To nearest, ties to even.
    Nearest,
    /// Toward zero.
    Zero,
}

/// Which of three values is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Fold {
    Max,
    Min,
}

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
    /// Depth of one instruction; its tile is always 16 by 8.
    pub fn k(self) -> i64 {
        match self {
            MmaShape::M16N8K16F16 | MmaShape::M16N8K16BF16 => 16,
            MmaShape::M16N8K8TF32 => 8,
            MmaShape::M16N8K32I8 => 32,
        }
    }

    /// Types of the inputs and of the accumulator.
    pub fn dtypes(self) -> (DType, DType) {
        match self {
            MmaShape::M16N8K16F16 => (DType::F16, DType::F32),
            MmaShape::M16N8K16BF16 => (DType::BF16, DType::F32),
            MmaShape::M16N8K8TF32 => (DType::F32, DType::F32),
            MmaShape::M16N8K32I8 => (DType::I8, DType::I32),
        }
    }

    /// Elements of one lane in the fragments of `a`, `b` and the accumulator.
    pub fn lane_elements(self) -> [i64; 3] {
        [16 * self.k() / 32, 8 * self.k() / 32, 4]
    }

    /// The PTX name of tile and depth.
    pub fn name(self) -> &'static str {
        match self {
            MmaShape::M16N8K16F16 | MmaShape::M16N8K16BF16 => "m16n8k16",
            MmaShape::M16N8K8TF32 => "m16n8k8",
            MmaShape::M16N8K32I8 => "m16n8k32",
        }
    }
}

/// What an instruction does with a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Access {
    Read,
    Write,
}

impl Intrinsic {
    /// Calls `f` on every place with what is done to it and how many elements are touched from there
    /// on, where that is fixed (0 where it depends on operands: bulk and tensor copies, and the rows
    /// of matrix loads, whose 8 elements per lane are given).
    pub fn for_each_place(&self, mut f: impl FnMut(&At, Access, i64)) {
        use Access::{Read, Write};
        match self {
            Intrinsic::Packed { dst, a, b, c, .. } => {
                f(a, Read, 2);
                f(b, Read, 2);
                c.iter().for_each(|c| f(c, Read, 2));
                f(dst, Write, 2);
            }
            Intrinsic::Fold3 { dst, .. } | Intrinsic::ClusterStore { dst, .. } => f(dst, Write, 1),
            Intrinsic::Halves { dst, .. } => f(dst, Write, 2),
            Intrinsic::CastPair { dst, src } => {
                f(src, Read, 2);
                f(dst, Write, 2);
            }
            Intrinsic::Pin { pair } => {
                f(pair, Read, 2);
                f(pair, Write, 2);
            }
            Intrinsic::CpAsync { dst, src, .. } | Intrinsic::BulkStore { dst, src, .. } => {
                f(src, Read, 0);
                f(dst, Write, 0);
            }
            Intrinsic::LdMatrix { dst, src, count, .. } => {
                f(src, Read, 8);
                f(dst, Write, 2 * i64::from(*count));
            }
            Intrinsic::StMatrix { dst, src, count, .. } => {
                f(src, Read, 2 * i64::from(*count));
                f(dst, Write, 8);
            }
            Intrinsic::Mma { shape, d, a, b, c } => {
                let [la, lb, lc] = shape.lane_elements();
                f(a, Read, la);
                f(b, Read, lb);
                f(c, Read, lc);
                f(d, Write, lc);
            }
            Intrinsic::MbarrierInit { bar, .. }
            | Intrinsic::MbarrierArrive { bar }
            | Intrinsic::MbarrierExpect { bar, .. }
            | Intrinsic::MbarrierWait { bar, .. } => f(bar, Write, 1),
            Intrinsic::BulkLoad { dst, src, bar, .. } => {
                f(src, Read, 0);
                f(dst, Write, 0);
                f(bar, Write, 1);
            }
            Intrinsic::TensorLoad { dst, bar, .. } => {
                f(dst, Write, 0);
                f(bar, Write, 1);
            }
            Intrinsic::TensorStore { src, .. } => f(src, Read, 0),
            Intrinsic::CpAsyncCommit
            | Intrinsic::CpAsyncWait { .. }
            | Intrinsic::MbarrierFence
            | Intrinsic::BulkCommit
            | Intrinsic::BulkWait { .. }
            | Intrinsic::AsyncFence => {}
        }
    }

    /// Calls `f` on every expression: indices, values, sizes, coordinates.
    pub fn for_each_expr(&self, mut f: impl FnMut(&Expr)) {
        self.map_exprs(&mut |e| {
            f(e);
            e.clone()
        });
    }

    /// Rebuilds the statement with `f` applied to every expression.
    pub fn map_exprs(&self, f: &mut impl FnMut(&Expr) -> Expr) -> Intrinsic {
        let mut out = self.clone();
        let mut at = |a: &mut At| a.index = f(&a.index);
        match &mut out {
            Intrinsic::Packed { dst, a, b, c, .. } => [dst, a, b].into_iter().chain(c.as_mut()).for_each(at),
            Intrinsic::Fold3 { dst, a, b, c, .. } => {
                at(dst);
                [a, b, c].into_iter().for_each(|e| *e = f(e));
            }
            Intrinsic::CastPair { dst, src }
            | Intrinsic::LdMatrix { dst, src, .. }
            | Intrinsic::StMatrix { dst, src, .. } => [dst, src].into_iter().for_each(at),
            Intrinsic::CpAsync { dst, src, valid, .. } => {
                [dst, src].into_iter().for_each(at);
                valid.iter_mut().for_each(|e| *e = f(e));
            }
            Intrinsic::Mma { d, a, b, c, .. } => [d, a, b, c].into_iter().for_each(at),
            Intrinsic::Pin { pair: bar } | Intrinsic::MbarrierInit { bar, .. } | Intrinsic::MbarrierArrive { bar } => {
                at(bar)
            }
            Intrinsic::Halves { dst: bar, word: e }
            | Intrinsic::MbarrierExpect { bar, bytes: e }
            | Intrinsic::MbarrierWait { bar, parity: e } => {
                at(bar);
                *e = f(e);
            }
            Intrinsic::BulkLoad { dst, src, bytes, bar } => {
                [dst, src, bar].into_iter().for_each(at);
                *bytes = f(bytes);
            }
            Intrinsic::BulkStore { dst, src, bytes } => {
                [dst, src].into_iter().for_each(at);
                *bytes = f(bytes);
            }
            Intrinsic::TensorLoad { dst, coords, bar, .. } => {
                [dst, bar].into_iter().for_each(at);
                coords.iter_mut().for_each(|e| *e = f(e));
            }
            Intrinsic::TensorStore { coords, src, .. } => {
                at(src);
                coords.iter_mut().for_each(|e| *e = f(e));
            }
            Intrinsic::ClusterStore { dst, peer, value } => {
                at(dst);
                [peer, value].into_iter().for_each(|e| *e = f(e));
            }
            Intrinsic::CpAsyncCommit
            | Intrinsic::CpAsyncWait { .. }
            | Intrinsic::MbarrierFence
            | Intrinsic::BulkCommit
            | Intrinsic::BulkWait { .. }
            | Intrinsic::AsyncFence => {}
        }
        out
    }

    /// Every place, to be changed.
    pub fn places_mut(&mut self) -> Vec<&mut At> {
        match self {
            Intrinsic::Packed { dst, a, b, c, .. } => [dst, a, b].into_iter().chain(c.as_mut()).collect(),
            Intrinsic::Fold3 { dst, .. }
            | Intrinsic::Halves { dst, .. }
            | Intrinsic::Pin { pair: dst }
            | Intrinsic::ClusterStore { dst, .. } => vec![dst],
            Intrinsic::CastPair { dst, src }
            | Intrinsic::LdMatrix { dst, src, .. }
            | Intrinsic::StMatrix { dst, src, .. }
            | Intrinsic::CpAsync { dst, src, .. }
            | Intrinsic::BulkStore { dst, src, .. } => vec![dst, src],
            Intrinsic::Mma { d, a, b, c, .. } => vec![d, a, b, c],
            Intrinsic::MbarrierInit { bar, .. }
            | Intrinsic::MbarrierArrive { bar }
            | Intrinsic::MbarrierExpect { bar, .. }
            | Intrinsic::MbarrierWait { bar, .. } => vec![bar],
            Intrinsic::BulkLoad { dst, src, bar, .. } => vec![dst, src, bar],
            Intrinsic::TensorLoad { dst, bar, .. } => vec![dst, bar],
            Intrinsic::TensorStore { src, .. } => vec![src],
            Intrinsic::CpAsyncCommit
            | Intrinsic::CpAsyncWait { .. }
            | Intrinsic::MbarrierFence
            | Intrinsic::BulkCommit
            | Intrinsic::BulkWait { .. }
            | Intrinsic::AsyncFence => vec![],
        }
    }

    /// The barrier of a statement that is about one.
    pub fn barrier_mut(&mut self) -> Option<&mut At> {
        match self {
            Intrinsic::MbarrierInit { bar, .. }
            | Intrinsic::MbarrierArrive { bar }
            | Intrinsic::MbarrierExpect { bar, .. }
            | Intrinsic::MbarrierWait { bar, .. } => Some(bar),
            _ => None,
        }
    }

    /// True where the instruction needs all lanes of the warp.
    pub fn is_warp_wide(&self) -> bool {
        matches!(self, Intrinsic::LdMatrix { .. } | Intrinsic::StMatrix { .. } | Intrinsic::Mma { .. })
    }
}

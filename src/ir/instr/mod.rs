//! Instructions of a GPU that have no counterpart in C: asynchronous copies, matrix fragments,
//! matrix multiply-accumulate, packed arithmetic, barriers in shared memory.
//!
//! An instruction is an operation with its immediates, places in arrays and values. What an operation
//! takes is one row of `signature`; walks, texts and most checks follow from it. A register operand names
//! the first of the adjacent elements that it takes. Names and rules are those of the PTX ISA.

mod check;
mod mma;
mod registers;
mod signature;
mod sync;
mod tcgen05;
mod wgmma;

pub use mma::{BlockScaleMma, MmaShape};
pub use registers::Dealt;
pub use signature::{Access, Place, Signature, Space, Value};
pub use sync::Sync;
pub use tcgen05::{
    CtaGroup, LANES_OF_WARP, TENSOR_COLUMNS, TENSOR_LANES, Tcgen05, Tcgen05Scaled, Tcgen05Shape, blocks_of,
    columns_taken,
};
pub use wgmma::WgmmaShape;

use super::kernel_print::text;
use super::{Expr, MatrixDesc, Name};
use std::fmt::{self, Display, Formatter};

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

/// A statement that is one instruction (or a fixed handful). The simulator holds places and values of
/// other types.
#[derive(Clone, PartialEq, Debug)]
pub struct Instr<P = At, V = Expr> {
    /// What is done.
    pub op: Op,
    /// Where, in the order of the operation.
    pub places: Vec<P>,
    /// With what: numbers, coordinates, conditions, in the order of the operation.
    pub values: Vec<V>,
}

/// What an instruction does, with its immediates. Each says its places, and after a semicolon its values.
// The text of a variant says what its fields are.
#[allow(missing_docs)]
#[derive(Clone, PartialEq, Debug)]
pub enum Op {
    /// `dst, a, b`, for `fma` `c`: `dst[0..2] = op(a[0..2], b[0..2], c[0..2])` on pairs of float32 in
    /// registers (`add.rn.ftz.f32x2`). Indices are even, arrays aligned to a pair.
    Packed { op: PackedOp, rounding: Rounding, ftz: bool },
    /// The same on pairs of float16 (`add.rn.f16x2`), to nearest, subnormal numbers included.
    PackedF16(PackedOp),
    /// `dst; a, b, c`: `dst = max(a, b, c)` or `min` of float32; a NaN operand counts as absent
    /// (`max.f32` with three operands).
    Fold3(Fold),
    /// `dst, src`: `dst[0..2] = src[0..2]` rounded to nearest even, in registers, between float32 and a
    /// 16-bit float (`cvt.rn.bf16x2.f32` and the like). Indices are even.
    CastPair,
    /// `dst; word`: `dst[0..2]`, 16-bit floats in registers, become the low and the high half of a 32-bit
    /// word (`mov.b32`). The index is even.
    Halves,
    /// `dst, a, b`: `dst[0..2]`, 16-bit floats in registers, become one of `a[0..2]` and one of `b[0..2]`, each the
    /// high one where that is said (`prmt.b32`). Indices are even.
    Pick { high: [bool; 2] },
    /// `dst, src; first, count`: `dst[0..8]`, 16-bit floats in registers, become `src[first..first + 8]` of
    /// `src[0..16]`, with zeros in place of number `count` and those after it (`shf.r.wrap.b32` and selections).
    /// `first` is 0 to 7, `count` any number. Indices are even.
    FunnelShift,
    /// `dst; a, b, selector`: a 32-bit register becomes four bytes, the lowest first, each that of `a` (numbers 0 to 3)
    /// or `b` (4 to 7) which three bits of four of the selector name (`__byte_perm`).
    Prmt,
    /// `pair`: two adjacent floats of 16 or 32 bits in registers count as new: what was made of the short ones before is made
    /// again rather than kept, in twice their registers, and what the long ones are made of is done here. The index is even.
    /// Nothing is done at run time.
    Pin,
    /// `dst, src; valid?`: starts an asynchronous copy of `bytes` (4, 8 or 16) from global to shared memory
    /// (`cp.async`). Where `valid` is given and false, zeros are written and nothing is read. Visible to
    /// the thread after commit and wait, to others after a barrier too.
    CpAsync { bytes: u32, prefetch: Option<u32> },
    /// `dst, src`: loads `count` (1, 2 or 4) 8x8 matrices of 16-bit elements from shared memory (`ldmatrix`).
    /// Lane `8 i + r` gives with `src` the first of the 8 elements of row `r` of matrix `i`
    /// (aligned to 16 bytes); lanes past `8 count` give any valid place. Lane `l` receives elements
    /// `2 (l % 4)` and the next of row `l / 4` of matrix `i` in `dst[2 i..2 i + 2]`; with `transpose`
    /// the matrix is transposed first. All lanes of the warp take part. A row is 16 bytes whatever it
    /// holds: of 8-bit elements 16, of which a lane receives 4 adjacent ones, of 32-bit elements 4, of
    /// which it receives one; those are not transposed.
    LdMatrix { count: u32, transpose: bool },
    /// `dst, src`: the reverse of [`Op::LdMatrix`], from registers to shared memory.
    StMatrix { count: u32, transpose: bool },
    /// `x`: of `x[0..8]` in registers, four pairs of 16-bit elements, pair `p` of lane `q` and pair `q` of lane `p`
    /// of each four adjacent lanes change places (`shfl.sync.bfly` and selections). All lanes of the warp take part.
    QuadTranspose,
    /// `d, a, b, c`: `d = a b + c` over the lanes of a warp, each operand the lane's fragment in registers
    /// (`mma.sync.aligned`, row-major `a`, column-major `b`). `c` and `d` may be the same place. With
    /// `w` elements in 32 bits, element `e` of lane `l` is row `l / 4 + 8 (e / w % 2)` and column
    /// `w (l % 4) + e % w + 4 w (e / 2 w)` of `a`, column `l / 4` and row `w (l % 4) + e % w + 4 w (e / w)`
    /// of `b`, row `l / 4 + 8 (e / 2)` and column `2 (l % 4) + e % 2` of `c` and `d`. int32 wraps around.
    Mma(MmaShape),
    /// `d, a, b, c, sfa, sfb`: the same of numbers times scales, one for each block along the reduced axis
    /// (`mma.sync.aligned.kind::mxf4nvf4.block_scale`). Bytes of `a` and `b` are where those of int8 are. Of four scales
    /// in registers the instruction takes as many as a row has ([`BlockScaleMma::scales`]), from number `first` on, for A
    /// and for B: those of row `l / 4 + 8 (l % 2)` of A from lane `l`, `l % 4` below 2, those of column `l / 4` of B from
    /// lane `l`, a multiple of 4.
    BlockScaleMma { shape: BlockScaleMma, first: [u32; 2] },
    /// `d, a, b; accumulate`: `d = a b + d`, or `a b` where `accumulate` is false, over the 128 threads of a
    /// warpgroup (`wgmma.mma_async`), 64 rows by [`WgmmaShape::n`] columns. Each thread holds `d` in registers
    /// ([`WgmmaShape::place`]); `a` and `b` are in shared memory where their descriptors say, from the place
    /// given. Operands are read, and sums written, some time before the group that the instruction is
    /// committed to has been waited for.
    Wgmma { shape: WgmmaShape, a: MatrixDesc, b: MatrixDesc },
    /// `d, a, b; accumulate`: the same with `a` in registers, 16 bytes of each thread ([`WgmmaShape::place_of_a`]), which
    /// may be touched as little as `d` until the group has been waited for.
    WgmmaRegisters { shape: WgmmaShape, b: MatrixDesc },
    /// What is done with tensor memory.
    Tcgen05(Tcgen05),
    /// Changes the registers that each thread of a warpgroup may use (`setmaxnreg`): takes more, once others
    /// gave them back, or gives some back.
    SetMaxReg { registers: u32, take: bool },
    /// `bar`: arrives once when the thread's copies by `cp.async` so far have landed
    /// (`cp.async.mbarrier.arrive.noinc`).
    CpAsyncArrive,
    /// `dst, src, bar; bytes`: copies `bytes` (a multiple of 16, both sides aligned to 16) from global to
    /// shared memory and counts them on `bar` (`cp.async.bulk`). One thread issues it.
    BulkLoad,
    /// `dst, src; bytes`: copies `bytes` from shared to global memory, in the thread's bulk group.
    BulkStore,
    /// `dst, bar; coords..`: loads the box at `coords` (innermost first) of a tensor map into shared
    /// memory, zeros where it lies outside, and counts its bytes on `bar` (`cp.async.bulk.tensor`).
    TensorLoad { map: Name, to: Landing },
    /// `src; coords..`: stores a box from shared memory through a tensor map; nothing is written outside
    /// the tensor.
    TensorStore { map: Name },
    /// `dst; peer, value`: stores `value` where block `peer` of the cluster has `dst` in its own shared
    /// memory (`mapa`, `st.shared::cluster`). The peer reads it after a barrier of the cluster, has started
    /// before the store by another one, and ends after it by a third or the same as the reader's.
    ClusterStore,
    /// `dst, src; peer`: loads `lanes` elements into registers from where block `peer` of the cluster has `src` in its own
    /// shared memory (`mapa`, `ld.shared::cluster`), aligned to all of them. The peer has stored them before a barrier of
    /// the cluster, and ends after the load by another one.
    ClusterLoad { lanes: u32 },
    /// `bar; peer`: arrives once where block `peer` of the cluster has `bar` in its own shared memory (`mapa`,
    /// `mbarrier.arrive.shared::cluster`). The peer has made the barrier before one of the cluster, and ends after another.
    PeerArrive,
    /// `answer, bar`: asks for a block, or cluster of blocks, of the grid that has not started, and then never will: what it
    /// would have done is left to who asked (`clusterlaunchcontrol.try_cancel`). The answer, 16 bytes, comes some time later, and
    /// `bar` counts them; where `all` is said, at the same place in every block of the cluster, each of which counts it
    /// (`.multicast::cluster::all`). One thread asks, and never again once it was told that there is none.
    TryCancel { all: bool },
    /// `first, answer`: the place along x of the first block that an answer is about, -1 where there was none
    /// (`clusterlaunchcontrol.query_cancel`). All threads of the block find the same.
    QueryCancel,
    /// Waits until what was launched before in the stream is done, and sees what it wrote (`griddepcontrol.wait`).
    GridWait,
    /// The next launch in the stream may start when all blocks have got here or ended
    /// (`griddepcontrol.launch_dependents`).
    GridLaunch,
    /// `last, arrivals`: the block arrives at a counter in global memory, where `of` blocks of the launch do; `last` in shared
    /// memory becomes 1 in that which is the last of them, else 0. What the others did before a barrier of the block that
    /// stands before this is seen there after one that stands behind it. The counter may hold anything before the
    /// launch, and is ready for the next one after it ([`Op::FIRST_ARRIVAL`]). One thread arrives.
    LastBlock { of: u32 },
    /// What tile programs may hold.
    Sync(Sync),
}

impl Op {
    /// What a counter of arrivals holds when no block has arrived; with each arrival it grows by one. Anything else is what was
    /// there before. The number is drawn: that memory holds it by chance, or one of those that follow, is as likely as that it
    /// holds 50 given bits.
    pub const FIRST_ARRIVAL: u64 = 0x9e6d_1b7a_43c5_0000;
}

/// Where a box lands, and which barrier counts it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Landing {
    /// In the block, which counts it.
    Own,
    /// In so many blocks of a cluster, all that there are, at the same place of each, which counts it (`.multicast::cluster`).
    Cluster(u32),
    /// In the block; the first block of its pair counts it (`.cta_group::2`).
    Pair,
}

/// Arithmetic on pairs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PackedOp {
    /// `a + b`.
    Add,
    /// `a - b`.
    Sub,
    /// `a b`.
    Mul,
    /// `a b + c`, rounded once.
    Fma,
}

impl PackedOp {
    /// The PTX name and how many operands it takes.
    pub fn name(self) -> (&'static str, usize) {
        match self {
            PackedOp::Add => ("add", 2),
            PackedOp::Sub => ("sub", 2),
            PackedOp::Mul => ("mul", 2),
            PackedOp::Fma => ("fma", 3),
        }
    }
}

/// How packed arithmetic rounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rounding {
    /// To nearest, ties to even.
    Nearest,
    /// Toward zero.
    Zero,
}

impl Rounding {
    /// The PTX name.
    pub fn name(self) -> &'static str {
        match self {
            Rounding::Nearest => "rn",
            Rounding::Zero => "rz",
        }
    }
}

/// Which of three values is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fold {
    /// The largest.
    Max,
    /// The smallest.
    Min,
}

impl Fold {
    /// The PTX name.
    pub fn name(self) -> &'static str {
        match self {
            Fold::Max => "max",
            Fold::Min => "min",
        }
    }
}

impl From<Sync> for Op {
    fn from(s: Sync) -> Op {
        Op::Sync(s)
    }
}

impl From<Tcgen05> for Op {
    fn from(t: Tcgen05) -> Op {
        Op::Tcgen05(t)
    }
}

impl Op {
    /// The tensor map that it copies through.
    pub fn map(&self) -> Option<&Name> {
        match self {
            Op::TensorLoad { map, .. } | Op::TensorStore { map } => Some(map),
            _ => None,
        }
    }

    /// True where each place is a run of neighbours in a thread's registers, which may lie anywhere in these.
    pub fn takes_runs(&self) -> bool {
        matches!(self, Op::FunnelShift)
    }
}

impl From<Sync> for Instr {
    fn from(s: Sync) -> Instr {
        Instr::new(s, [], [])
    }
}

impl<P, V> Instr<P, V> {
    /// Its places and values, as many as the operation takes.
    ///
    /// # Panics
    /// Where it has others, which the verifier refuses.
    pub fn operands<const N: usize, const M: usize>(&self) -> (&[P; N], &[V; M]) {
        match (self.places.as_slice().try_into(), self.values.as_slice().try_into()) {
            (Ok(places), Ok(values)) => (places, values),
            _ => panic!("{:?} has {} places and {} values", self.op, self.places.len(), self.values.len()),
        }
    }
}

impl Instr {
    /// The instruction of that operation, with places and values in its order.
    pub fn new(op: impl Into<Op>, places: impl Into<Vec<At>>, values: impl Into<Vec<Expr>>) -> Instr {
        Instr { op: op.into(), places: places.into(), values: values.into() }
    }

    /// An asynchronous copy, where `valid` holds; elsewhere zeros are written.
    pub fn cp_async(dst: At, src: At, bytes: u32, valid: Option<Expr>, prefetch: Option<u32>) -> Instr {
        Instr::new(Op::CpAsync { bytes, prefetch }, [dst, src], Vec::from_iter(valid))
    }

    /// Calls `f` on every place with what is done to it, and how many elements are touched from there on (0
    /// where that depends on operands).
    pub fn for_each_place(&self, mut f: impl FnMut(&At, Access, i64)) {
        for (at, place) in self.places.iter().zip(self.signature().places) {
            for access in [Access::Read, Access::Write] {
                if place.access == access || place.access == Access::Update {
                    f(at, access, place.elements);
                }
            }
        }
    }

    /// Calls `f` on every expression: indices, then values.
    pub fn for_each_expr(&self, f: impl FnMut(&Expr)) {
        self.places.iter().map(|at| &at.index).chain(&self.values).for_each(f);
    }

    /// Rebuilds the instruction with `f` applied to every expression.
    pub fn map_exprs(&self, f: &mut impl FnMut(&Expr) -> Expr) -> Instr {
        let places = self.places.iter().map(|at| At::new(&at.array, f(&at.index))).collect::<Vec<_>>();
        Instr::new(self.op.clone(), places, self.values.iter().map(f).collect::<Vec<_>>())
    }
}

impl Display for At {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", self.array, text(&self.index))
    }
}

/// The form of its signature with the operands in their places.
impl Display for Instr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let places = self.places.iter().map(At::to_string);
        let operands: Vec<String> = places.chain(self.values.iter().map(text)).collect();
        let form = self.signature().form;
        let mut parts = form.split('%');
        f.write_str(parts.next().unwrap_or_default())?;
        parts.try_for_each(|part| {
            let (number, rest) = part.split_at(1);
            let operand = number.parse().ok().and_then(|n: usize| operands.get(n));
            write!(f, "{}{rest}", operand.map_or("?", String::as_str))
        })
    }
}

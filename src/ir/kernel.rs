//! `Program`: what a scheduled function is lowered to. Launches of kernels over flat arrays.
//!
//! Expressions are those of `ir::expr` with two restrictions: a `Load` has exactly one flat element
//! index, and there is no `Extern`. Thread indices are `int32` variables named `blockIdx.x` to
//! `threadIdx.z`. Extents and scalar parameters are variables named as the kernel's parameters.
//! On the CPU a launch has a one-dimensional grid and one thread per block.

use super::instr::Op;
use super::{DType, Expr, Instr, Name, Param, TensorMap};

/// A lowered function.
#[derive(Clone, PartialEq, Debug)]
pub struct Program {
    /// Name of the function.
    pub name: String,
    /// The function's parameters, in order.
    pub params: Vec<Param>,
    /// Symbolic extents that the launches need, with their dtype.
    pub extents: Vec<(Name, DType)>,
    /// Scratch memory between launches.
    pub workspaces: Vec<Workspace>,
    /// The launches, run in order on one stream.
    pub launches: Vec<Launch>,
    /// The schedule's steps, quoted in the header comment of generated text.
    pub trace: Vec<String>,
    /// What dispatch chose for each tile call, quoted there too.
    pub variants: Vec<ChosenVariant>,
}

/// The variant that carries out a tile call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChosenVariant {
    /// Number of the call in the program, from 0.
    pub call: u32,
    /// The operation.
    pub op: String,
    /// The variant.
    pub variant: String,
}

/// Scratch device memory.
#[derive(Clone, PartialEq, Debug)]
pub struct Workspace {
    /// The buffer it stands for.
    pub name: Name,
    /// Element type.
    pub dtype: DType,
    /// Number of elements, over extents.
    pub len: Expr,
}

/// One kernel launch.
#[derive(Clone, PartialEq, Debug)]
pub struct Launch {
    /// The kernel.
    pub kernel: Kernel,
    /// Blocks per axis, over extents.
    pub grid: [Expr; 3],
    /// Threads per axis.
    pub block: [u32; 3],
    /// Blocks per cluster, neighbours along x; 1 where blocks are on their own. Divides `grid[0]`.
    pub cluster: u32,
    /// Second argument of `__launch_bounds__`: blocks that should fit on one multiprocessor.
    pub min_blocks: Option<u32>,
}

impl Launch {
    /// Threads per block.
    pub fn threads(&self) -> u32 {
        self.block.iter().product()
    }
}

/// One kernel.
#[derive(Clone, PartialEq, Debug)]
pub struct Kernel {
    /// Symbol in the generated text.
    pub symbol: String,
    /// Parameters in order: pointers first, then scalars.
    pub params: Vec<KernelParam>,
    /// Arrays in shared memory and registers, all declared at the top.
    pub arrays: Vec<Array>,
    /// The body.
    pub body: Vec<KStmt>,
}

impl Kernel {
    /// The element type of a pointer parameter or array.
    pub fn element(&self, name: &Name) -> Option<DType> {
        let param = self.params.iter().find_map(|p| match p {
            KernelParam::Pointer { name: n, dtype, .. } if n == name => Some(*dtype),
            _ => None,
        });
        param.or_else(|| self.arrays.iter().find(|a| a.name == *name).map(|a| a.dtype))
    }

    /// True where it writes a buffer in global memory.
    pub fn writes(&self, buffer: &Name) -> bool {
        let writes = |p: &KernelParam| matches!(p, KernelParam::Pointer { name, written: true, .. } if name == buffer);
        self.params.iter().any(writes)
    }

    /// True where some instruction is one of these.
    pub fn has_instr(&self, is: impl Fn(&Op) -> bool) -> bool {
        let mut any = false;
        let mut note = |s: &KStmt| any |= matches!(s, KStmt::Instr(i) if is(&i.op));
        self.body.iter().for_each(|s| s.visit(&mut note));
        any
    }

    /// The tensor map of that name.
    pub fn tensor_map(&self, name: &Name) -> Option<&TensorMap> {
        self.params.iter().find_map(|p| match p {
            KernelParam::TensorMap(map) if map.name == *name => Some(&**map),
            _ => None,
        })
    }

    /// The array of that name.
    pub fn array(&self, name: &Name) -> Option<&Array> {
        self.arrays.iter().find(|a| a.name == *name)
    }

    /// Bytes of shared memory, with what aligns its arrays.
    pub fn shared_bytes(&self) -> u64 {
        let shared = self.arrays.iter().filter(|a| a.scope == ArrayScope::Shared);
        shared.fold(0, |start, a| a.shared_start(start) + (a.len as u64 * a.dtype.bytes()).next_multiple_of(16))
    }

    /// Alignment in bytes of the shared memory as a whole.
    pub fn shared_align(&self) -> u64 {
        let shared = self.arrays.iter().filter(|a| a.scope == ArrayScope::Shared);
        shared.map(|a| u64::from(a.align)).fold(16, u64::max)
    }
}

/// A parameter of a kernel.
#[derive(Clone, PartialEq, Debug)]
pub enum KernelParam {
    /// A pointer to global memory: a tensor parameter of the function or a workspace, by name.
    Pointer {
        /// Buffer name.
        name: Name,
        /// Element type.
        dtype: DType,
        /// False where the kernel only reads it (`const __restrict__`).
        written: bool,
        /// Number of elements, over extents; what the simulator checks accesses against.
        len: Expr,
    },
    /// An extent or scalar parameter, by name.
    Scalar {
        /// Its name.
        name: Name,
        /// Its type.
        dtype: DType,
    },
    /// A tensor map, by value.
    TensorMap(Box<TensorMap>),
}

/// An array in registers, shared or tensor memory.
#[derive(Clone, PartialEq, Debug)]
pub struct Array {
    /// Name.
    pub name: Name,
    /// Element type.
    pub dtype: DType,
    /// Number of elements.
    pub len: u32,
    /// Where it lives.
    pub scope: ArrayScope,
    /// Alignment in bytes (that of its widest vector access).
    pub align: u32,
}

impl Array {
    /// The first byte of a shared array, where the arrays before it end at `end`.
    pub fn shared_start(&self, end: u64) -> u64 {
        end.next_multiple_of(u64::from(self.align.max(16)))
    }
}

/// Where an array lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ArrayScope {
    /// One copy per block.
    Shared,
    /// One copy per thread; indices are constants once unrolled loops are expanded.
    Register,
    /// One copy per block in tensor memory, once columns are taken for it: element `128 column + lane`. Only
    /// instructions access it.
    Tensor,
}

/// A statement of a kernel.
// The text of a variant says what its fields are.
#[allow(missing_docs)]
#[derive(Clone, PartialEq, Debug)]
pub enum KStmt {
    /// A scalar bound once, in scope until the end of the enclosing list.
    Let { var: Name, value: Expr },
    /// A mutable scalar of the thread, in scope until the end of the enclosing list.
    Var { var: Name, dtype: DType, init: Option<Expr> },
    /// Assigns a mutable scalar.
    Assign { var: Name, value: Expr },
    /// `array[index] = value`.
    Store { array: Name, index: Expr, value: Expr, hint: CacheHint },
    /// CPU only: asks for the cache line of `array[index]`, which may lie outside of the array: nothing
    /// is read.
    Prefetch { array: Name, index: Expr },
    /// Copies `lanes` adjacent elements between two arrays of one element type in one vector access
    /// per side; both indices are multiples of `lanes`. At least one side is in registers.
    Copy { dst: Name, dst_index: Expr, src: Name, src_index: Expr, lanes: u32, hint: CacheHint },
    /// A loop from 0, which ends before a step where `live` is given and does not hold.
    For { var: Name, extent: Expr, live: Option<Expr>, kind: LoopKind, body: Vec<KStmt> },
    /// A conditional.
    If { cond: Expr, then: Vec<KStmt>, otherwise: Vec<KStmt> },
    /// A barrier; never under a condition that its participants do not share.
    Barrier(Barrier),
    /// A warp shuffle: `dst` (a mutable scalar) receives `value` of the lane chosen by `mode`
    /// within segments of `width` lanes; all 32 lanes of the warp take part. Out-of-range source
    /// lanes give the own value, as in CUDA.
    Shuffle { dst: Name, mode: ShuffleMode, value: Expr, width: u32 },
    /// An instruction that has no counterpart in C.
    Instr(Instr),
}

/// How a kernel loop runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LoopKind {
    /// A plain loop (`#pragma unroll 1` in CUDA).
    Serial,
    /// Fully unrolled.
    Unrolled,
    /// CPU only: one vector operation per statement. `extent` is a constant power of two, and every
    /// index in the body is either free of the loop variable or `base + var`.
    Vectorized,
}

/// Cache hint of a global access (PTX `ld`/`st` cache operators).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CacheHint {
    /// No hint.
    #[default]
    Plain,
    /// Evict first: `ld.global.cs`, `st.global.cs`; on the CPU vector stores that go past the caches.
    Streaming,
    /// Loads only: `ld.global.nc.L1::no_allocate`.
    NoAllocate,
    /// Loads only: `ld.global.nc.L1::no_allocate.L2::256B`, which has the L2 fetch the 256 bytes around.
    NoAllocate256,
}

/// A barrier and who takes part.
// The text of a variant says what its fields are.
#[allow(missing_docs)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Barrier {
    /// The 32 lanes of a warp (`__syncwarp`).
    Warp,
    /// All threads of the block (`__syncthreads`).
    Block,
    /// `threads` threads (a multiple of 32) that name the same barrier, 1 to 15 (`bar.sync id, threads`).
    Named { id: u32, threads: u32 },
    /// A thread arrives for all threads of all blocks of the cluster, and goes on
    /// (`barrier.cluster.arrive`). It waits before it arrives again. What it did before is seen by those
    /// that wait if it is to `release` that, which costs a fence.
    ClusterArrive { release: bool },
    /// Waits until all of them have arrived (`barrier.cluster.wait`).
    ClusterWait,
}

/// Which lane a shuffle reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ShuffleMode {
    /// Lane `own ^ mask`.
    Xor(u32),
    /// Lane `own + delta`.
    Down(u32),
    /// The lane of that index in the segment.
    Index(u32),
}

impl KStmt {
    /// Calls `f` on each statement directly inside this one.
    pub fn for_each_child(&self, f: impl FnMut(&KStmt)) {
        match self {
            KStmt::For { body, .. } => body.iter().for_each(f),
            KStmt::If { then, otherwise, .. } => then.iter().chain(otherwise).for_each(f),
            KStmt::Let { .. }
            | KStmt::Var { .. }
            | KStmt::Assign { .. }
            | KStmt::Store { .. }
            | KStmt::Prefetch { .. }
            | KStmt::Copy { .. }
            | KStmt::Barrier(_)
            | KStmt::Instr(_)
            | KStmt::Shuffle { .. } => {}
        }
    }

    /// Calls `f` on this statement and all inside it, parents first.
    pub fn visit(&self, f: &mut impl FnMut(&KStmt)) {
        f(self);
        self.for_each_child(|s| s.visit(f));
    }

    /// Calls `f` on the expressions directly in this statement, values before indices.
    pub fn for_each_expr(&self, mut f: impl FnMut(&Expr)) {
        match self {
            KStmt::Let { value, .. } | KStmt::Assign { value, .. } | KStmt::Shuffle { value, .. } => f(value),
            KStmt::Var { init, .. } => init.iter().for_each(f),
            KStmt::Store { index, value, .. } => [value, index].into_iter().for_each(f),
            KStmt::Prefetch { index, .. } => f(index),
            KStmt::Copy { dst_index, src_index, .. } => [src_index, dst_index].into_iter().for_each(f),
            KStmt::For { extent, live, .. } => std::iter::once(extent).chain(live).for_each(f),
            KStmt::If { cond, .. } => f(cond),
            KStmt::Barrier(_) => {}
            KStmt::Instr(i) => i.for_each_expr(f),
        }
    }
}

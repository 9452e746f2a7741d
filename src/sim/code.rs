//! The bytecode: a flat list of operations on the slots of a thread.
//!
//! A slot holds an integer (as its bits in 64) or a float (as the bits of an `f64` that its type
//! represents exactly). Register arrays are ranges of slots. Slots that must be written before they
//! are read have a number in the thread's set of written ones.
//!
//! Stands in a circle with `instr`, whose operations are part of the bytecode.

use super::instr::{Instr, sites};
use crate::ir::instr::Space;
use crate::ir::kernel::ShuffleMode;
use crate::ir::{BinOp, DType, Intrin, TensorMap, UnOp};

/// Number of a slot.
pub(super) type Slot = u32;

/// One operation. `d` is the slot of the result.
#[derive(Clone, Copy, Debug)]
pub(super) enum Op {
    Mov {
        d: Slot,
        a: Slot,
    },
    Unary {
        op: UnOp,
        dtype: DType,
        d: Slot,
        a: Slot,
    },
    /// A binary operator of integers or `bool` of one type.
    Int {
        op: BinOp,
        dtype: DType,
        d: Slot,
        a: Slot,
        b: Slot,
    },
    /// A binary operator of floats of one type.
    Float {
        op: BinOp,
        dtype: DType,
        d: Slot,
        a: Slot,
        b: Slot,
    },
    Cast {
        from: DType,
        to: DType,
        d: Slot,
        a: Slot,
    },
    Reinterpret {
        from: DType,
        to: DType,
        d: Slot,
        a: Slot,
    },
    Call {
        op: Intrin,
        from: DType,
        to: DType,
        d: Slot,
        args: [Slot; 3],
    },
    Select {
        d: Slot,
        c: Slot,
        a: Slot,
        b: Slot,
    },
    Jump {
        to: u32,
    },
    JumpIfZero {
        c: Slot,
        to: u32,
    },
    JumpIfNot {
        c: Slot,
        to: u32,
    },
    /// Leaves the loop where `i >= limit`.
    LoopEnter {
        i: Slot,
        limit: Slot,
        exit: u32,
    },
    /// `i += 1`, then back to `body` while `i < limit`.
    LoopNext {
        i: Slot,
        limit: Slot,
        body: u32,
    },
    /// A mutable scalar comes into being, unwritten.
    Forget {
        var: u32,
    },
    /// A mutable scalar was assigned.
    Wrote {
        var: u32,
    },
    /// A mutable scalar is read.
    Check {
        var: u32,
    },
    Load {
        d: Slot,
        array: u32,
        index: Slot,
    },
    Store {
        array: u32,
        index: Slot,
        a: Slot,
    },
    Copy {
        dst: u32,
        dst_index: Slot,
        src: u32,
        src_index: Slot,
        lanes: u32,
    },
    /// Stops until all lanes of the warp stop here.
    WarpBarrier,
    /// Stops until all threads of the block stop here.
    BlockBarrier,
    /// Stops until all lanes of the warp stop here; then `d` receives a lane's `a`.
    Shuffle {
        d: Slot,
        a: Slot,
        mode: ShuffleMode,
        width: u32,
    },
    /// Stops until so many threads stop at the barrier of that number.
    NamedBarrier {
        id: u32,
        threads: u32,
    },
    /// The instruction of that number.
    Instr {
        n: u32,
        /// So many threads, a warp or warpgroup, have to stop here first where it is more than one.
        threads: u32,
    },
    /// Arrives at the barrier of the cluster.
    ClusterArrive {
        release: bool,
    },
    /// Stops until all threads of the cluster have arrived.
    ClusterWait,
    /// The thread ends.
    Halt,
}

/// Where an array's elements are.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    /// Slots of the thread from `base` on, with numbers in the set of written slots from `flag` on.
    Slots { base: Slot, flag: u32 },
    /// Memory of that number: parameters in their order.
    Memory(u32),
    /// Shared memory: after the parameters the arrays of the first block of a cluster, then those of the next.
    /// The number is that of the first block.
    Shared(u32),
}

/// An array of the kernel.
#[derive(Clone, Debug)]
pub(super) struct ArrayInfo {
    pub name: String,
    pub dtype: DType,
    pub len: u64,
    pub place: Place,
    /// False for a parameter that the kernel only reads.
    pub writable: bool,
}

impl ArrayInfo {
    /// The first of its numbers in the set of written slots; 0 where it is in memory.
    pub fn flag(&self) -> u32 {
        match self.place {
            Place::Slots { flag, .. } => flag,
            Place::Memory(_) | Place::Shared(_) => 0,
        }
    }

    /// The number of its memory, in a block whose shared arrays come so many after those of the first.
    ///
    /// # Panics
    /// For an array in registers.
    pub fn memory(&self, shift: usize) -> usize {
        match self.place {
            Place::Memory(m) => m as usize,
            Place::Shared(m) => m as usize + shift,
            Place::Slots { .. } => panic!("`{}` is in registers", self.name),
        }
    }
}

/// A mutable scalar that may be read before it is written.
#[derive(Clone, Debug)]
pub(super) struct VarInfo {
    pub name: String,
    /// Its number in the set of written slots.
    pub flag: u32,
}

/// A compiled kernel.
#[derive(Clone, Debug, Default)]
pub(super) struct Code {
    pub symbol: String,
    pub ops: Vec<Op>,
    /// Statement of each operation.
    pub statement_of: Vec<u32>,
    /// Text of each statement.
    pub statements: Vec<String>,
    pub arrays: Vec<ArrayInfo>,
    /// Tensor maps, in the order of the kernel's parameters.
    pub maps: Vec<TensorMap>,
    pub instrs: Vec<Instr>,
    pub vars: Vec<VarInfo>,
    /// What the slots of a thread start from.
    pub slots: Vec<u64>,
    /// Slots of `blockIdx.x` to `.z` and `threadIdx.x` to `.z`.
    pub indices: [Slot; 6],
    /// Size of the set of written slots.
    pub flags: u32,
    /// True when some threads may wait where the rest of the block does not.
    pub waits_apart: bool,
    /// True when matrix instructions, or loads of tensor memory, use registers for some time.
    pub warpgroups: bool,
    /// True when threads may learn of each other otherwise than by barriers of the block or of warps.
    pub learns_apart: bool,
}

impl Code {
    /// Number of shared arrays.
    pub fn shared(&self) -> usize {
        self.arrays.iter().filter(|a| matches!(a.place, Place::Shared(_))).count()
    }

    /// Texts of the statements that write an array in memory.
    pub fn writers(&self, array: &str) -> Vec<String> {
        let mut all: Vec<u32> = vec![];
        for (op, statement) in self.ops.iter().zip(&self.statement_of) {
            let written = match op {
                Op::Store { array, .. } | Op::Copy { dst: array, .. } => Some(*array),
                Op::Instr { n, .. } => {
                    let memory = [Space::Shared, Space::Global, Space::Peer, Space::Tensor];
                    sites(&self.instrs[*n as usize], &memory, true).next().map(|s| s.array)
                }
                _ => None,
            };
            if written.is_some_and(|a| self.arrays[a as usize].name == array) && all.last() != Some(statement) {
                all.push(*statement);
            }
        }
        all.into_iter().map(|s| self.statements[s as usize].clone()).collect()
    }

    /// Text of the statement of an operation.
    pub fn statement(&self, pc: usize) -> &str {
        self.statement_of.get(pc).map_or("", |s| &self.statements[*s as usize])
    }
}

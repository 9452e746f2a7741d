//! The bytecode: operations on a file of integer registers and a file of float registers.

use crate::ir::{DType, Intrin, Name};

/// A register number, in the file that the operation says.
pub type Reg = u16;

/// Number of registers in each file; a `u16` always names one.
pub const REGS: usize = 1 << 16;

/// What an integer operation other than `AddI` and `MulI` computes, before wrapping. `U` marks the `uint64` forms.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IntOp {
    Sub,
    FloorDiv,
    FloorMod,
    TruncDiv,
    TruncMod,
    Min,
    Max,
    And,
    Or,
    Xor,
    Shl,
    Shr,
    Eq,
    Ne,
    Lt,
    Le,
    DivU,
    ModU,
    MinU,
    MaxU,
    ShrU,
    LtU,
    LeU,
}

/// What a float operation other than `AddF` and `MulF` computes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FloatOp {
    Sub,
    Div,
    FloorDiv,
    FloorMod,
    TruncDiv,
    TruncMod,
    Min,
    Max,
}

/// A comparison of floats.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FloatCmp {
    Eq,
    Ne,
    Lt,
    Le,
}

/// One operation. `d` is the destination; `I` and `F` name the register file of the operands.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    /// The commonest integer operations have their own codes.
    AddI {
        d: Reg,
        a: Reg,
        b: Reg,
    },
    MulI {
        d: Reg,
        a: Reg,
        b: Reg,
    },
    Int {
        op: IntOp,
        d: Reg,
        a: Reg,
        b: Reg,
    },
    NegI {
        d: Reg,
        a: Reg,
    },
    InvertI {
        d: Reg,
        a: Reg,
    },
    NotI {
        d: Reg,
        a: Reg,
    },
    /// Wraps to an integer type's width.
    Wrap {
        d: Reg,
        a: Reg,
        dtype: DType,
    },
    PopCount {
        d: Reg,
        a: Reg,
        dtype: DType,
    },
    Clz {
        d: Reg,
        a: Reg,
        dtype: DType,
    },
    /// The commonest float operations have their own codes.
    AddF {
        d: Reg,
        a: Reg,
        b: Reg,
    },
    MulF {
        d: Reg,
        a: Reg,
        b: Reg,
    },
    Float {
        op: FloatOp,
        d: Reg,
        a: Reg,
        b: Reg,
    },
    Compare {
        op: FloatCmp,
        d: Reg,
        a: Reg,
        b: Reg,
    },
    NegF {
        d: Reg,
        a: Reg,
    },
    Call1 {
        f: fn(f64) -> f64,
        d: Reg,
        a: Reg,
    },
    Call2 {
        op: Intrin,
        d: Reg,
        a: Reg,
        b: Reg,
    },
    Fma {
        d: Reg,
        a: Reg,
        b: Reg,
        c: Reg,
    },
    IsNan {
        d: Reg,
        a: Reg,
    },
    IsInf {
        d: Reg,
        a: Reg,
    },
    /// Rounds to a floating type.
    Round {
        d: Reg,
        a: Reg,
        dtype: DType,
    },
    IntToFloat {
        d: Reg,
        a: Reg,
        from: DType,
        to: DType,
    },
    FloatToInt {
        d: Reg,
        a: Reg,
        dtype: DType,
    },
    /// Float to the integer of its bits, and back.
    Bits {
        d: Reg,
        a: Reg,
        from: DType,
        to: DType,
    },
    FromBits {
        d: Reg,
        a: Reg,
        dtype: DType,
    },
    MovI {
        d: Reg,
        a: Reg,
    },
    MovF {
        d: Reg,
        a: Reg,
    },
    SelectI {
        d: Reg,
        c: Reg,
        a: Reg,
        b: Reg,
    },
    SelectF {
        d: Reg,
        c: Reg,
        a: Reg,
        b: Reg,
    },
    Jump {
        to: u32,
    },
    JumpIfZero {
        c: Reg,
        to: u32,
    },
    JumpIfNot {
        c: Reg,
        to: u32,
    },
    /// Leaves the loop where `i >= limit`.
    LoopEnter {
        i: Reg,
        limit: Reg,
        exit: u32,
    },
    /// `i += 1`, then back to `body` while `i < limit`.
    LoopNext {
        i: Reg,
        limit: Reg,
        body: u32,
    },
    LoadI {
        d: Reg,
        access: u32,
    },
    LoadF {
        d: Reg,
        access: u32,
    },
    StoreI {
        s: Reg,
        access: u32,
    },
    StoreF {
        s: Reg,
        access: u32,
    },
    /// Stops where nothing has written the element.
    WasWritten {
        access: u32,
    },
    /// An element is now as written as the one that it was copied from.
    Copied {
        from: u32,
        to: u32,
    },
    /// Demand-driven loads: what the buffer holds is computed where it is not known yet.
    DemandI {
        d: Reg,
        access: u32,
    },
    DemandF {
        d: Reg,
        access: u32,
    },
    /// Notes that a value was stored to a cell.
    Written {
        cell: u16,
    },
    Halt,
}

/// One place where a buffer is read or written.
#[derive(Clone, Debug)]
pub struct Access {
    /// Index of the buffer in the function's table.
    pub buffer: u16,
    /// Per dimension: the register of the index, the extent, the stride.
    pub dims: Vec<(Reg, i64, i64)>,
}

/// Compiled code with what its registers start from.
#[derive(Clone, Debug, Default)]
pub struct Code {
    pub ops: Vec<Op>,
    pub accesses: Vec<Access>,
    pub int_consts: Vec<(Reg, i64)>,
    pub float_consts: Vec<(Reg, f64)>,
}

/// Why a function can't be interpreted, or why a run stopped. Names are the user's.
#[derive(Clone, PartialEq, Debug)]
pub enum InterpError {
    /// An index outside its buffer.
    OutOfBounds {
        /// The buffer.
        buffer: String,
        /// The index that was used.
        index: Vec<i64>,
        /// The buffer's extents.
        shape: Vec<i64>,
    },
    /// A read of an element of an intermediate buffer that nothing has written.
    Unwritten {
        /// The buffer.
        buffer: String,
        /// The index that was read.
        index: Vec<i64>,
    },
    /// An integer division or remainder by zero.
    DivisionByZero,
    /// The tensors or scalars that were passed do not fit the function.
    Arguments(String),
    /// A symbolic extent whose value neither tensor shapes nor scalars give.
    UnknownExtent(Name),
    /// Something that the interpreter does not run.
    Unsupported(String),
    /// A tile program that its threads cannot run together.
    Threads(String),
}

impl std::fmt::Display for InterpError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            InterpError::OutOfBounds { buffer, index, shape } => {
                write!(f, "index {index:?} lies outside buffer `{buffer}` of shape {shape:?}")
            }
            InterpError::Unwritten { buffer, index } => {
                write!(f, "index {index:?} of buffer `{buffer}` is read before it is written")
            }
            InterpError::DivisionByZero => f.write_str("an integer was divided by zero"),
            InterpError::Arguments(why) | InterpError::Threads(why) => f.write_str(why),
            InterpError::UnknownExtent(n) => write!(f, "the value of extent `{n}` is not known: bind it"),
            InterpError::Unsupported(what) => write!(f, "the interpreter does not run {what}"),
        }
    }
}

impl std::error::Error for InterpError {}

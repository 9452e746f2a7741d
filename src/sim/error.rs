//! What a run can find.

use std::fmt::{Display, Formatter, Result};

/// Why a run stopped.
#[derive(Clone, PartialEq, Debug)]
pub enum SimError {
    /// The arguments do not fit the program.
    Arguments(String),
    /// A kernel did something wrong.
    Fault {
        /// Symbol of the kernel.
        kernel: String,
        /// The statement as kernel text.
        statement: String,
        /// Block index along x, y, z.
        block: [u32; 3],
        /// Thread index along x, y, z.
        thread: [u32; 3],
        /// What it did.
        fault: Fault,
    },
}

/// What a statement did wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fault {
    /// An index outside its array.
    OutOfBounds {
        /// The array.
        array: String,
        /// The first index outside.
        index: i64,
        /// Number of elements.
        len: u64,
    },
    /// A vector access at an index that is no multiple of its lanes.
    Misaligned {
        /// The array.
        array: String,
        /// The index.
        index: i64,
        /// Lanes of the access.
        lanes: u32,
    },
    /// A read of a register that nothing has written: `name` or `name[index]`.
    Unwritten(String),
    /// A read of an element of memory that nothing has written.
    UnwrittenElement {
        /// The element: `name[index]`.
        element: String,
        /// Statements of the kernel that write others.
        writers: Vec<String>,
    },
    /// A store to a parameter that the kernel declares as read only.
    ReadOnly(String),
    /// A block barrier that not all threads of the block reach; what another thread does.
    DivergentBarrier(String),
    /// A warp barrier that not all lanes of the warp reach; what another lane does.
    DivergentWarpBarrier(String),
    /// A shuffle that not all lanes of the warp reach; what another lane does.
    DivergentShuffle(String),
    /// Two accesses of one element, a write among them, that nothing orders.
    Race(Box<Race>),
    /// A read of an element while an asynchronous copy to it is on its way: `name[index]`.
    Pending(String),
    /// The source of an asynchronous copy was written while the copy was on its way.
    SourceOverwritten(String),
    /// The destination of an asynchronous copy was written while the copy was on its way.
    DestinationOverwritten(String),
    /// A thread, or its block, ends without having waited for a copy to this destination.
    NeverAwaited(String),
    /// A bulk copy of this many bytes.
    BulkSize(i64),
    /// A bulk store of what was written without an asynchronous fence after it.
    Unfenced(String),
    /// A register that a matrix instruction of the warpgroup uses is accessed before a wait for it.
    InFlight(String),
    /// A matrix instruction uses registers of this array, which were written with no fence after it.
    NoWgmmaFence(String),
    /// Tensor memory is used against its rules; how.
    TensorMemory(String),
    /// A barrier in shared memory is used against its rules; how.
    Mbarrier(String),
    /// Threads wait for a barrier in shared memory that nothing can complete; what it lacks.
    Deadlock(String),
    /// A barrier of a cluster, or a store to another of its blocks, is used against its rules; how.
    Cluster(String),
    /// A block asks for one that has not started against the rules; how.
    TryCancel(String),
    /// A named barrier that its threads do not all reach; what happens instead.
    DivergentNamedBarrier(String),
    /// A warp-wide instruction that not all lanes of the warp reach; what another lane does.
    DivergentInstruction(String),
}

/// Two accesses of one element that nothing orders. The first is the one at fault in [`SimError`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Race {
    /// The element: `name[index]`.
    pub element: String,
    /// True when the access at fault is a write.
    pub write: bool,
    /// Who accessed the element before.
    pub party: Party,
    /// Its block.
    pub block: [u32; 3],
    /// True when that is the block at fault.
    pub same_block: bool,
    /// Its statement as kernel text.
    pub statement: String,
    /// True when it wrote.
    pub other_wrote: bool,
}

/// Who takes part in a race.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Party {
    /// A thread, by its index along x, y, z.
    Thread([u32; 3]),
    /// A bulk or tensor copy that goes on by itself.
    Copy,
    /// A matrix instruction of the warpgroup of that number.
    Matrices(u32),
}

impl Display for Race {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let verb = |write| if write { "write" } else { "read" };
        write!(f, "race: nothing orders this {} of `{}` and the ", verb(self.write), self.element)?;
        write!(f, "{} by ", verb(self.other_wrote))?;
        match self.party {
            Party::Thread([x, y, z]) => write!(f, "thread ({x}, {y}, {z})")?,
            Party::Copy => f.write_str("the asynchronous copy")?,
            Party::Matrices(g) => write!(f, "the matrix instruction of warpgroup {g}")?,
        }
        if !self.same_block {
            let [x, y, z] = self.block;
            write!(f, " of block ({x}, {y}, {z})")?;
        }
        write!(f, " at `{}`", self.statement)
    }
}

impl Display for Fault {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            Fault::OutOfBounds { array, index, len } => {
                write!(f, "index {index} lies outside `{array}`, which has {len} elements")
            }
            Fault::Misaligned { array, index, lanes } => {
                write!(
                    f,
                    "an access of {lanes} elements of `{array}` at index {index}, which is no multiple of {lanes}"
                )
            }
            Fault::Unwritten(what) => write!(f, "read of `{what}`, which nothing has written"),
            Fault::UnwrittenElement { element, writers } => {
                write!(f, "read of `{element}`, which nothing has written")?;
                let list: Vec<String> = writers.iter().map(|s| format!("`{s}`")).collect();
                if list.is_empty() { Ok(()) } else { write!(f, "; others are written at {}", list.join(", ")) }
            }
            Fault::ReadOnly(array) => write!(f, "store to `{array}`, which the kernel declares as read only"),
            Fault::DivergentBarrier(other) => write!(f, "divergent barrier: {other}"),
            Fault::DivergentWarpBarrier(other) => write!(f, "divergent warp barrier: {other}"),
            Fault::DivergentShuffle(other) => write!(f, "divergent shuffle: {other}"),
            Fault::Race(race) => write!(f, "{race}"),
            Fault::Pending(what) => {
                write!(f, "read of `{what}` while an asynchronous copy to it is on its way: wait for the copy first")
            }
            Fault::SourceOverwritten(what) => {
                write!(f, "`{what}` was overwritten while an asynchronous copy from it was on its way")
            }
            Fault::DestinationOverwritten(what) => {
                write!(f, "`{what}` was overwritten while an asynchronous copy to it was on its way")
            }
            Fault::NeverAwaited(what) => {
                write!(f, "nothing waits for this copy to `{what}` before the end")
            }
            Fault::BulkSize(bytes) => {
                write!(f, "a bulk copy of {bytes} bytes: the size has to be a positive multiple of 16")
            }
            Fault::Unfenced(what) => {
                write!(f, "asynchronous read of `{what}`, which was written with no asynchronous fence after it")
            }
            Fault::InFlight(what) => write!(f, "access to `{what}`, which an unfinished matrix instruction uses"),
            Fault::NoWgmmaFence(what) => {
                write!(f, "matrix instruction on registers of `{what}`, which were written with no fence after it")
            }
            Fault::Mbarrier(why) | Fault::Cluster(why) | Fault::TensorMemory(why) | Fault::TryCancel(why) => {
                f.write_str(why)
            }
            Fault::Deadlock(why) => write!(f, "deadlock: {why}"),
            Fault::DivergentNamedBarrier(other) => write!(f, "divergent named barrier: {other}"),
            Fault::DivergentInstruction(other) => write!(f, "divergent warp instruction: {other}"),
        }
    }
}

impl Display for SimError {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        match self {
            SimError::Arguments(why) => f.write_str(why),
            SimError::Fault { kernel, statement, block, thread, fault } => {
                let ([bx, by, bz], [tx, ty, tz]) = (block, thread);
                write!(
                    f,
                    "kernel `{kernel}`, block ({bx}, {by}, {bz}), thread ({tx}, {ty}, {tz}), at `{statement}`: {fault}"
                )
            }
        }
    }
}

impl std::error::Error for SimError {}

//! The slots that copies fill and products empty in turn, and the statements that roles are made of.

use crate::ir::device::{DStmt, index_var};
use crate::ir::instr::{At, CtaGroup, Instr, Op, Sync};
use crate::ir::{BinOp, DType, Expr, ExprKind, Name};
use crate::lower::nest::Nest;

/// The index of the thread in its block.
pub const THREAD: &str = "threadIdx.x";

/// A role's place in the ring of slots.
pub struct Ring {
    /// Number of the slot.
    slot: Name,
    /// The phase of the slot's barriers that the role waits for next.
    phase: Name,
    stages: i64,
}

impl Ring {
    /// A place of its own.
    pub fn new(nest: &mut Nest, stages: i64) -> Ring {
        let ring = Ring { slot: nest.fresh("slot"), phase: nest.fresh("phase"), stages };
        nest.ranges.set(ring.slot.clone(), 0, stages - 1);
        nest.ranges.set(ring.phase.clone(), 0, 1);
        ring
    }

    /// At the first slot, waiting for that phase.
    pub fn declare(&self, phase: i64) -> [DStmt; 2] {
        [variable(&self.slot, Expr::i32(0)), variable(&self.phase, Expr::i32(phase))]
    }

    /// The slot, as an index.
    pub fn at(&self) -> Expr {
        index_of(&self.slot)
    }

    /// The slot, as a value.
    pub fn slot(&self) -> Expr {
        Expr::var(self.slot.clone(), DType::I32)
    }

    /// Waits for the slot's barrier of an array of them.
    pub fn wait(&self, bar: &Name) -> DStmt {
        sync(Sync::MbarrierWait, Some((bar, self.at())), Some(index_of(&self.phase)))
    }

    /// Waits for the phase before that one, of a barrier that completes the first before it is used.
    pub fn wait_before(&self, bar: &Name) -> DStmt {
        sync(Sync::MbarrierWait, Some((bar, self.at())), Some(Expr::i64(1) - index_of(&self.phase)))
    }

    /// To the next slot.
    pub fn next(&self) -> [DStmt; 2] {
        let (slot, phase) = (self.slot(), Expr::var(self.phase.clone(), DType::I32));
        let last = Expr::binary(BinOp::Eq, slot.clone(), Expr::i32(self.stages - 1));
        [
            assign(&self.phase, select(last.clone(), Expr::i32(1) - phase.clone(), phase)),
            assign(&self.slot, select(last, Expr::i32(0), slot + Expr::i32(1))),
        ]
    }

    /// So many slots further.
    pub fn skip(&self, steps: i64) -> [DStmt; 2] {
        let at = self.slot() + Expr::i32(steps % (2 * self.stages));
        let rounds = op(BinOp::FloorDiv, at.clone(), self.stages);
        let phase = op(BinOp::FloorMod, Expr::var(self.phase.clone(), DType::I32) + rounds, 2);
        [assign(&self.phase, phase), assign(&self.slot, op(BinOp::FloorMod, at, self.stages))]
    }
}

/// A scalar of 32 bits that changes.
pub fn variable(var: &Name, init: Expr) -> DStmt {
    DStmt::Var { var: var.clone(), dtype: DType::I32, init: Some(init) }
}

/// Gives a scalar another value.
pub fn assign(var: &Name, value: Expr) -> DStmt {
    DStmt::Assign { var: var.clone(), value }
}

/// A scalar of 32 bits that stays.
pub fn constant(var: &Name, value: Expr) -> DStmt {
    DStmt::Let { var: var.clone(), value: Expr::cast(DType::I32, value) }
}

/// A scalar of 32 bits in an index.
pub fn index_of(var: &Name) -> Expr {
    Expr::cast(DType::I64, Expr::var(var.clone(), DType::I32))
}

/// Arrives at a barrier of an array, in a pair of blocks at the first one's.
pub fn arrive(group: CtaGroup, bar: &Name, at: Expr) -> DStmt {
    match group {
        CtaGroup::One => sync(Sync::MbarrierArrive, Some((bar, at)), None),
        CtaGroup::Pair => DStmt::Instr(Instr::new(Op::PeerArrive, [At::new(bar, at)], [Expr::i64(0)])),
    }
}

/// The index of the thread.
pub fn thread() -> Expr {
    index_var(&Name::new(THREAD))
}

/// True for the first of each so many threads.
pub fn first_of(threads: i64) -> Expr {
    op(BinOp::Eq, op(BinOp::FloorMod, thread(), threads), 0)
}

/// `a op n`.
pub fn op(op: BinOp, a: Expr, n: i64) -> Expr {
    let n = Expr::int(n, a.dtype());
    Expr::binary(op, a, n)
}

/// `then` where the condition holds.
pub fn when(cond: Expr, then: Vec<DStmt>) -> DStmt {
    DStmt::If { cond, then, otherwise: vec![] }
}

/// An instruction at a place in an array of barriers.
pub fn sync(sync: Sync, place: Option<(&Name, Expr)>, value: Option<Expr>) -> DStmt {
    let places: Vec<At> = place.map(|(bar, at)| At::new(bar, at)).into_iter().collect();
    DStmt::Instr(Instr::new(sync, places, Vec::from_iter(value)))
}

fn select(cond: Expr, then: Expr, otherwise: Expr) -> Expr {
    Expr::new(ExprKind::Select { cond, then, otherwise })
}

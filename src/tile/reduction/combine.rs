//! The operator of a reduction, its identity, and the type that partial results are held in.

use crate::analysis::{Combiner, accumulator};
use crate::ir::{DType, Expr, TileOp};

/// How two partial results become one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Combine {
    combiner: Combiner,
    /// Type of partial results: float32 for 16-bit floats, else that of the destination.
    pub acc: DType,
}

impl Combine {
    /// The operator of a reduction to elements of `dtype`. Any other operation counts as `sum`,
    /// which no table lets happen.
    pub fn of(op: TileOp, dtype: DType) -> Combine {
        let combiner = match op {
            TileOp::Prod => Combiner::Prod,
            TileOp::Max => Combiner::Max,
            TileOp::Min => Combiner::Min,
            _ => Combiner::Sum,
        };
        Combine { combiner, acc: accumulator(dtype) }
    }

    /// Both operands, combined.
    pub fn apply(self, a: Expr, b: Expr) -> Expr {
        Expr::binary(self.combiner.op(), a, b)
    }

    /// The value that changes nothing.
    ///
    /// # Panics
    /// For a type without arithmetic, which every table refuses.
    pub fn identity(self) -> Expr {
        self.combiner.identity(self.acc).unwrap_or_else(|| panic!("the tables take no reduction of {}", self.acc))
    }
}

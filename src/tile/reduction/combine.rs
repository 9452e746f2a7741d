//! The operator of a reduction, its identity, and the type that partial results are held in.

use crate::analysis::{Combiner, accumulator};
use crate::ir::{DType, Expr, TileOp};
use crate::tile::predicates::is_arithmetic;

/// How two partial results become one.
#[derive(Clone, Debug)]
pub(super) struct Combine {
    combiner: Combiner,
    /// Type of partial results: float32 for 16-bit floats, else that of the destination.
    pub acc: DType,
    /// The value that changes nothing.
    pub identity: Expr,
}

impl Combine {
    /// The operator of a reduction to elements of `dtype`. Any other operation counts as `sum`,
    /// which no table lets happen.
    ///
    /// # Errors
    /// Where the operator is not defined on that type or has no identity in it.
    pub fn of(op: TileOp, dtype: DType) -> Result<Combine, String> {
        let combiner = match op {
            TileOp::Prod => Combiner::Prod,
            TileOp::Max => Combiner::Max,
            TileOp::Min => Combiner::Min,
            _ => Combiner::Sum,
        };
        match (combiner, dtype) {
            // The extrema of truth values are `and` and `or`.
            (Combiner::Max | Combiner::Min, DType::Bool) => {}
            _ => is_arithmetic(dtype)?,
        }
        let acc = accumulator(dtype);
        let identity = combiner.identity(acc).ok_or_else(|| format!("`{}` has no identity in {acc}", op.name()))?;
        Ok(Combine { combiner, acc, identity })
    }

    /// Both operands, combined.
    pub fn apply(&self, a: Expr, b: Expr) -> Expr {
        Expr::binary(self.combiner.op(), a, b)
    }
}

//! The operator of a reduction, its identity, and the type that partial results are held in.

use crate::ir::{BinOp, DType, Expr, TileOp};

/// How two partial results become one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Combine {
    op: BinOp,
    /// Type of partial results: float32 for 16-bit floats, else that of the destination.
    pub acc: DType,
}

impl Combine {
    /// The operator of a reduction to elements of `dtype`. Any other operation counts as `sum`,
    /// which no table lets happen.
    pub fn of(op: TileOp, dtype: DType) -> Combine {
        let acc = if matches!(dtype, DType::F16 | DType::BF16) { DType::F32 } else { dtype };
        let op = match op {
            TileOp::Prod => BinOp::Mul,
            TileOp::Max => BinOp::Max,
            TileOp::Min => BinOp::Min,
            _ => BinOp::Add,
        };
        Combine { op, acc }
    }

    /// Both operands, combined.
    pub fn apply(self, a: Expr, b: Expr) -> Expr {
        Expr::binary(self.op, a, b)
    }

    /// The value that changes nothing.
    pub fn identity(self) -> Expr {
        let float = |v: f64| Expr::float(v, self.acc);
        match self.op {
            BinOp::Mul => Expr::constant(1.0, self.acc),
            BinOp::Max if self.acc.is_float() => float(f64::NEG_INFINITY),
            BinOp::Min if self.acc.is_float() => float(f64::INFINITY),
            BinOp::Max => Expr::int(bounds(self.acc).0, self.acc),
            BinOp::Min => Expr::int(bounds(self.acc).1, self.acc),
            _ => Expr::constant(0.0, self.acc),
        }
    }
}

/// Least and greatest value of an integer type; of `uint64` their bits.
fn bounds(dtype: DType) -> (i64, i64) {
    let bits = 8 * dtype.bytes() as u32;
    match (dtype.is_signed(), bits) {
        (true, 64) => (i64::MIN, i64::MAX),
        (true, _) => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
        (false, 64) => (0, -1),
        (false, _) => (0, (1 << bits) - 1),
    }
}

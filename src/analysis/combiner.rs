//! The commutative operators that reductions put partial results together with.

use crate::ir::{BinOp, DType, Expr, Name, TileOp};

/// How two partial results are put together.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum Combiner {
    Sum,
    Prod,
    Max,
    Min,
}

impl Combiner {
    /// The tile primitive that folds the elements of a tile into one.
    pub fn fold(self) -> TileOp {
        match self {
            Combiner::Sum => TileOp::Sum,
            Combiner::Prod => TileOp::Prod,
            Combiner::Max => TileOp::Max,
            Combiner::Min => TileOp::Min,
        }
    }

    /// The tile primitive that combines two tiles element by element.
    pub fn elementwise(self) -> TileOp {
        match self {
            Combiner::Sum => TileOp::Add,
            Combiner::Prod => TileOp::Mul,
            Combiner::Max => TileOp::Maximum,
            Combiner::Min => TileOp::Minimum,
        }
    }

    /// The operator.
    pub fn op(self) -> BinOp {
        match self {
            Combiner::Sum => BinOp::Add,
            Combiner::Prod => BinOp::Mul,
            Combiner::Max => BinOp::Max,
            Combiner::Min => BinOp::Min,
        }
    }

    /// The combiner that an operator is.
    pub fn of(op: BinOp) -> Option<Combiner> {
        match op {
            BinOp::Add => Some(Combiner::Sum),
            BinOp::Mul => Some(Combiner::Prod),
            BinOp::Max => Some(Combiner::Max),
            BinOp::Min => Some(Combiner::Min),
            _ => None,
        }
    }

    /// The value that changes nothing; `None` for types without one.
    pub fn identity(self, dtype: DType) -> Option<Expr> {
        let infinite = matches!(dtype, DType::F64 | DType::F32 | DType::F16 | DType::BF16);
        match self {
            Combiner::Sum => Some(Expr::constant(0.0, dtype)),
            Combiner::Prod => Some(Expr::constant(1.0, dtype)),
            Combiner::Max if infinite => Some(Expr::float(f64::NEG_INFINITY, dtype)),
            Combiner::Min if infinite => Some(Expr::float(f64::INFINITY, dtype)),
            Combiner::Max => int_limits(dtype).map(|(lo, _)| Expr::int(lo, dtype)),
            Combiner::Min => int_limits(dtype).map(|(_, hi)| Expr::int(hi, dtype)),
        }
    }

    /// Partial results may start from `value` as often as one likes.
    pub(super) fn neutral(self, value: &Expr) -> bool {
        let is = |v: i64| value.is_int(v) || value.as_float() == Some(v as f64);
        match self {
            Combiner::Sum => is(0),
            Combiner::Prod => is(1),
            Combiner::Max | Combiner::Min => value.as_int().is_some() || value.as_float().is_some(),
        }
    }
}

/// The type that partial results are held in: float32 for 16-bit floats.
pub fn accumulator(dtype: DType) -> DType {
    if matches!(dtype, DType::F16 | DType::BF16) { DType::F32 } else { dtype }
}

/// Smallest and largest value of an integer type (`uint64` as its bits).
fn int_limits(dtype: DType) -> Option<(i64, i64)> {
    match dtype {
        DType::Bool => Some((0, 1)),
        DType::I8 => Some((i8::MIN as i64, i8::MAX as i64)),
        DType::I16 => Some((i16::MIN as i64, i16::MAX as i64)),
        DType::I32 => Some((i32::MIN as i64, i32::MAX as i64)),
        DType::I64 => Some((i64::MIN, i64::MAX)),
        DType::U8 => Some((0, u8::MAX as i64)),
        DType::U16 => Some((0, u16::MAX as i64)),
        DType::U32 => Some((0, u32::MAX as i64)),
        DType::U64 => Some((0, -1)),
        DType::F16
        | DType::BF16
        | DType::F32
        | DType::F64
        | DType::E4M3
        | DType::E5M2
        | DType::E8M0
        | DType::Handle => None,
    }
}

/// `buffer[..] = combiner(buffer[..], term)`, starting from `identity`.
#[derive(Clone, PartialEq, Debug)]
pub struct Reducer {
    /// How partial results combine.
    pub combiner: Combiner,
    /// The value of the init, a constant.
    pub identity: Expr,
    /// What is combined at each step; does not read `buffer`.
    pub term: Expr,
    /// The accumulator's dtype.
    pub dtype: DType,
    /// The accumulator.
    pub buffer: Name,
}

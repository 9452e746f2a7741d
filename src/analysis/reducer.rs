//! Which commutative reduction a block computes.

use crate::ir::{BinOp, Block, DType, Expr, ExprKind, Name, Stmt, TileOp};

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

    fn of(op: BinOp) -> Option<Combiner> {
        match op {
            BinOp::Add => Some(Combiner::Sum),
            BinOp::Mul => Some(Combiner::Prod),
            BinOp::Max => Some(Combiner::Max),
            BinOp::Min => Some(Combiner::Min),
            _ => None,
        }
    }

    /// Partial results may start from `value` as often as one likes.
    fn neutral(self, value: &Expr) -> bool {
        let is = |v: i64| value.is_int(v) || value.as_float() == Some(v as f64);
        match self {
            Combiner::Sum => is(0),
            Combiner::Prod => is(1),
            Combiner::Max | Combiner::Min => value.as_int().is_some() || value.as_float().is_some(),
        }
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

/// The reducer of a block whose init and body are one store each, in either order of operands.
pub(super) fn reducer(b: &Block) -> Option<Reducer> {
    let [Stmt::Store { buffer, indices, value }] = b.body.as_slice() else { return None };
    let [Stmt::Store { buffer: init, indices: at, value: identity }] = b.init.as_slice() else { return None };
    if init != buffer || at != indices {
        return None;
    }
    let ExprKind::Binary { op, a, b: right } = value.kind() else { return None };
    let combiner = Combiner::of(*op)?;
    let is_self =
        |e: &Expr| matches!(e.kind(), ExprKind::Load { buffer: x, indices: i, .. } if x == buffer && i == indices);
    let term = if is_self(a) {
        right
    } else if is_self(right) {
        a
    } else {
        return None;
    };
    let usable = !term.loads(buffer) && combiner.neutral(identity);
    usable.then(|| Reducer {
        combiner,
        identity: identity.clone(),
        term: term.clone(),
        dtype: value.dtype(),
        buffer: buffer.clone(),
    })
}

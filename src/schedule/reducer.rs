//! Recognises a block that accumulates: `X[i] = X[i] op e`, in either order of the operands.

use super::Failure;
use crate::ir::{BinOp, Block, DType, Expr, ExprKind, IterKind, Name, Stmt};

/// The accumulation that a block does.
pub(super) struct Reducer {
    /// `Add`, `Mul`, `Max` or `Min`.
    pub op: BinOp,
    /// What is accumulated into.
    pub buffer: Name,
    /// The element, in terms of the block's iterators.
    pub indices: Vec<Expr>,
    /// What is accumulated.
    pub term: Expr,
    /// True where the accumulator is the left operand.
    pub accumulator_first: bool,
    /// Element type of the accumulator.
    pub dtype: DType,
    /// The lets before the store.
    pub lets: Vec<Stmt>,
}

impl Reducer {
    /// The accumulation of a block, or why it is none (`known_reducer`).
    pub fn of(block: &Block) -> Result<Reducer, Failure> {
        parse(block).ok_or_else(|| {
            let why = "its body is not one store X[i] = X[i] op e with op one of +, *, T.max, T.min";
            Failure::new("known_reducer", &block.name, why)
        })
    }

    /// The store `to[indices] = to[indices] op value`, operands in the order of the original.
    pub fn store(&self, to: &Name, indices: &[Expr], value: Expr) -> Stmt {
        let own = Expr::load(to.clone(), indices.to_vec(), self.dtype);
        let (a, b) = if self.accumulator_first { (own, value) } else { (value, own) };
        Stmt::Store { buffer: to.clone(), indices: indices.to_vec(), value: Expr::binary(self.op, a, b) }
    }

    /// The value that changes nothing when it is accumulated.
    pub fn identity(&self) -> Expr {
        match self.op {
            BinOp::Mul => Expr::constant(1.0, self.dtype),
            BinOp::Max => lowest(self.dtype),
            BinOp::Min => highest(self.dtype),
            _ => Expr::constant(0.0, self.dtype),
        }
    }
}

fn parse(block: &Block) -> Option<Reducer> {
    let (last, before) = block.body.split_last()?;
    let Stmt::Store { buffer, indices, value } = last else { return None };
    let ExprKind::Binary { op: op @ (BinOp::Add | BinOp::Mul | BinOp::Max | BinOp::Min), a, b } = value.kind() else {
        return None;
    };
    let is_own = |e: &Expr| match e.kind() {
        ExprKind::Load { buffer: from, indices: at, .. } => from == buffer && at == indices,
        _ => false,
    };
    let (term, accumulator_first) = if is_own(a) { (b, true) } else { (a, false) };
    let plain = before.iter().all(|s| matches!(s, Stmt::Let { value, .. } if !value.loads(buffer)));
    if !(is_own(a) || is_own(b)) || term.loads(buffer) || !plain {
        return None;
    }
    Some(Reducer {
        op: *op,
        buffer: buffer.clone(),
        indices: indices.clone(),
        term: term.clone(),
        accumulator_first,
        dtype: value.dtype(),
        lets: before.to_vec(),
    })
}

/// Names of the iterators of a kind.
pub(super) fn iters_of(block: &Block, kind: IterKind) -> Vec<&Name> {
    block.iters.iter().filter(|it| it.kind == kind).map(|it| &it.var).collect()
}

fn lowest(dtype: DType) -> Expr {
    match dtype {
        DType::E4M3 => Expr::float(-448.0, dtype),
        d if d.is_float() => Expr::float(f64::NEG_INFINITY, dtype),
        d if d.is_signed() => Expr::int(i64::MIN >> (64 - 8 * d.bytes()), dtype),
        _ => Expr::int(0, dtype),
    }
}

fn highest(dtype: DType) -> Expr {
    match dtype {
        DType::E4M3 => Expr::float(448.0, dtype),
        DType::Bool => Expr::int(1, dtype),
        DType::U64 => Expr::int(-1, dtype),
        d if d.is_float() => Expr::float(f64::INFINITY, dtype),
        d if d.is_signed() => Expr::int(i64::MAX >> (64 - 8 * d.bytes()), dtype),
        d => Expr::int((1i64 << (8 * d.bytes())) - 1, dtype),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_the_integer_types() {
        assert_eq!(lowest(DType::I8), Expr::int(-128, DType::I8));
        assert_eq!(highest(DType::I8), Expr::int(127, DType::I8));
        assert_eq!(highest(DType::U16), Expr::int(65535, DType::U16));
        assert_eq!(lowest(DType::I64), Expr::int(i64::MIN, DType::I64));
        assert_eq!(highest(DType::U64), Expr::int(-1, DType::U64));
        assert_eq!(highest(DType::U32), Expr::int(u32::MAX as i64, DType::U32));
    }
}

//! Reductions of truth values in the form that rules know: `and` is a minimum and `or` a maximum.
//!
//! before: `init: y[i] = True; y[i] = y[i] and x[i, k]`
//! after:  `init: y[i] = True; y[i] = min(y[i], x[i, k])`

use super::walk::map_blocks;
use crate::ir::{BinOp, Block, DType, Expr, ExprKind, PrimFunc, Stmt};

/// The function with `all` and `any` as extrema.
pub fn extrema(f: &PrimFunc) -> PrimFunc {
    let of = |b: &Block| {
        let body: Vec<Stmt> = b.body.iter().map(|s| update(s).unwrap_or_else(|| s.clone())).collect();
        (!b.init.is_empty() && body != b.body).then(|| Stmt::Block(Block { body, ..b.clone() }))
    };
    PrimFunc { body: map_blocks(&f.body, &of), ..f.clone() }
}

/// The store of an accumulator `x and term`, or `x or term`, as an extremum.
fn update(s: &Stmt) -> Option<Stmt> {
    let Stmt::Store { buffer, indices, value } = s else { return None };
    let ExprKind::Binary { op, a, b } = value.kind() else { return None };
    let op = match op {
        BinOp::And => BinOp::Min,
        BinOp::Or => BinOp::Max,
        _ => return None,
    };
    let own = |e: &Expr| e.is_element(buffer, indices);
    let truths = a.dtype() == DType::Bool && b.dtype() == DType::Bool;
    let value = (truths && (own(a) || own(b))).then(|| Expr::binary(op, a.clone(), b.clone()))?;
    Some(Stmt::Store { buffer: buffer.clone(), indices: indices.clone(), value })
}

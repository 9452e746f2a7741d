//! The leaves of schedules as calls of tile primitives of one thread.
//!
//! A loop that a schedule marks with `tile` = `sum` (or `prod`, `max`, `min`) and that, unrolled, folds
//! adjacent registers into one becomes a call of that primitive, which the dispatch table carries out.
//! A marked loop of another form (a tail under a condition, a term that is computed) stays a loop.
//!
//! before: `unroll u < 4 { unroll v < 4 { acc[0] = acc[0] + r[u * 4 + v] } }`, marked
//! after:  `Tx.thread.sum(acc[0:1], r[0:16], axes=(0,), accum=True)`, dispatched

use super::LowerError;
use super::nest::Nest;
use super::reducer::{Update, update_of};
use crate::analysis::linear;
use crate::ir::device::{DFor, DKind, DStmt, TileMark};
use crate::ir::{BinOp, ExecScope, Expr, ExprKind, Name, Tile, TileArg, TileCall, TileOp};
use crate::tile::Active;

const PASS: &str = "leaves";

/// Turns the marked folds of a launch into calls and carries them out.
pub(super) fn run(nest: &mut Nest, body: Vec<DStmt>) -> Result<Vec<DStmt>, LowerError> {
    let mut out = vec![];
    for s in body {
        match s {
            DStmt::For(l) => match l.tile.clone().and_then(|mark| fold(nest, &l, &mark)) {
                Some(call) => out.extend(carried_out(nest, &l, &call)?),
                None => {
                    let body = run(nest, l.body.clone())?;
                    out.push(DStmt::For(l.with_body(body)));
                }
            },
            DStmt::If { cond, then, otherwise } => {
                let (then, otherwise) = (run(nest, then)?, run(nest, otherwise)?);
                out.push(DStmt::If { cond, then, otherwise });
            }
            DStmt::Store { .. }
            | DStmt::Copy { .. }
            | DStmt::Let { .. }
            | DStmt::Var { .. }
            | DStmt::Assign { .. }
            | DStmt::Shuffle { .. }
            | DStmt::Barrier(_)
            | DStmt::Intrinsic(_)
            | DStmt::Tile(_)
            | DStmt::Reduce(_) => out.push(s),
        }
    }
    Ok(out)
}

fn carried_out(nest: &mut Nest, l: &DFor, call: &TileCall) -> Result<Vec<DStmt>, LowerError> {
    let (decision, body) =
        nest.dispatch(call, Active::All).map_err(|e| LowerError::new(PASS, &l.var, e.to_string()))?;
    nest.decisions.push(decision);
    Ok(body)
}

/// The call that a marked loop amounts to.
fn fold(nest: &Nest, l: &DFor, mark: &TileMark) -> Option<TileCall> {
    let mut loops = vec![];
    let up = innermost(l, &mut loops)?;
    if reduction(up.op) != Some(mark.op) {
        return None;
    }
    let ExprKind::Load { buffer: src, indices, dtype } = up.term.kind() else { return None };
    let ([to], [from]) = (up.indices.as_slice(), indices.as_slice()) else { return None };
    let same = nest.buffers.get(&up.buffer).is_some_and(|b| b.dtype == *dtype);
    if !same || !nest.is_local(src) || !nest.is_local(&up.buffer) || loops.iter().any(|(v, _)| to.uses_var(v)) {
        return None;
    }
    let (begin, len) = run_of(nest, from, &loops)?;
    let tile = |name: &Name, at: Expr, n: i64| Tile { buffer: name.clone(), begin: vec![at], extent: vec![n] };
    let dst = tile(&up.buffer, to.clone(), 1);
    let mut call = TileCall::new(mark.op, ExecScope::Thread, dst, vec![TileArg::Tile(tile(src, begin, len))]);
    (call.axes, call.accum, call.forced) = (vec![0], true, mark.variant.clone());
    Some(call)
}

/// The update inside perfectly nested constant loops, and the loops, outermost first.
fn innermost(l: &DFor, loops: &mut Vec<(Name, i64)>) -> Option<Update> {
    loops.push((l.var.clone(), l.extent.as_int()?));
    match l.body.as_slice() {
        [DStmt::For(inner)] if l.kind == DKind::Unrolled => innermost(inner, loops),
        [s] if l.kind == DKind::Unrolled => update_of(s),
        _ => None,
    }
}

/// First index and length where the loops walk over adjacent elements in order.
fn run_of(nest: &Nest, index: &Expr, loops: &[(Name, i64)]) -> Option<(Expr, i64)> {
    let (mut rest, mut len) = (index.clone(), 1);
    for (var, n) in loops.iter().rev() {
        let (stride, base) = linear(&rest, var, &nest.ranges)?;
        if *n > 1 && stride.as_int()? != len {
            return None;
        }
        (rest, len) = (base, len * n);
    }
    loops.iter().all(|(v, _)| !rest.uses_var(v)).then_some((rest, len))
}

/// The primitive that folds with an operator.
pub(super) fn reduction(op: BinOp) -> Option<TileOp> {
    match op {
        BinOp::Add => Some(TileOp::Sum),
        BinOp::Mul => Some(TileOp::Prod),
        BinOp::Max => Some(TileOp::Max),
        BinOp::Min => Some(TileOp::Min),
        BinOp::Sub
        | BinOp::Div
        | BinOp::FloorDiv
        | BinOp::FloorMod
        | BinOp::TruncDiv
        | BinOp::TruncMod
        | BinOp::Eq
        | BinOp::Ne
        | BinOp::Lt
        | BinOp::Le
        | BinOp::Gt
        | BinOp::Ge
        | BinOp::And
        | BinOp::Or
        | BinOp::BitAnd
        | BinOp::BitOr
        | BinOp::BitXor
        | BinOp::Shl
        | BinOp::Shr => None,
    }
}

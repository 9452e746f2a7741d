//! Elementwise operations on shared memory, spread over the threads of the scope.
//!
//! When: all tiles are in shared memory.
//!
//! before: `Tx.cta.add(D[0:32, 0:8], A[0:32, 0:8], B[0:8])` by 32 threads
//! after:  `for step in 2 { a = A[4 (32 step + thread)..][4]; for v in 4 { d[v] = a[v] + B[..] };`
//!         `D[4 (32 step + thread)..][4] = d }; barrier`
//!
//! The destination is walked as `[steps, threads, lanes]`: in each step every thread takes as many
//! neighbouring elements as destination and operands allow in one access, up to 16 bytes. Operands that
//! are broadcast are read element by element. A check keeps the last step inside the tile, and the
//! scope's barrier ends the call (none at thread scope). Rounds as `reg`.
//!
//! Declines by `operands`, `storage_scope`, `dtype`, `all_threads`, `barrier`, `overlap` and `rounding`.

use super::operand::{Operand, Operands, broadcast_dims, broadcast_index, dtypes, operands, overlap, plain_rounding};
use super::ops;
use crate::ir::device::{DKind, DStmt, guarded, index_var};
use crate::ir::kernel::CacheHint;
use crate::ir::{BinOp, ExecScope, Expr, Scope, TileCall, TileOp};
use crate::tile::copy::{Side, Walk, moved};
use crate::tile::loops::unrolled;
use crate::tile::predicates::{all_shared, all_threads};
use crate::tile::sync::{can_meet, meet};
use crate::tile::{Cx, Emit, Plan, Refusals, Variant, View};

/// Widest access to shared memory in bytes.
const WIDEST: i64 = 16;
/// Steps of a loop that are unrolled.
const UNROLLED: i64 = 8;

pub(super) const VARIANT: Variant = Variant { name: "smem", ops: ops::ALL, priority: 10, only_forced: false, plan };

fn plan(call: &TileCall, cx: &Cx, r: &mut Refusals) -> Option<Plan> {
    let operands = operands(call, cx, r, all_shared, dtypes);
    all_threads(call, cx, r);
    can_meet(call, cx, r);
    overlap(operands.as_ref(), cx, r);
    plain_rounding(call, r);
    let (op, scope, all) = (call.op, call.scope, operands?);
    Some(Box::new(move |e| emit(op, &all, scope, e)))
}

fn emit(op: TileOp, all: &Operands, scope: ExecScope, emit: &mut Emit) -> Vec<DStmt> {
    let extent = &all.dst.extent;
    let whole = |v: &&View| broadcast_dims(&v.extent, extent).is_empty();
    let sides: Vec<Side> = std::iter::once(&all.dst).chain(all.tiles().filter(whole)).map(side).collect();
    let walk = Walk::widest(extent, &sides.iter().collect::<Vec<_>>(), emit.ranges);
    let chunks = walk.len() / walk.lanes;
    let (threads, rank) = (emit.cx().threads_in(scope), emit.cx().rank(scope));
    let steps = (chunks + threads - 1) / threads;
    let kind = if steps <= UNROLLED { DKind::Unrolled } else { DKind::Serial };
    let mut out = vec![emit.repeat("step", steps, kind, |emit, step| {
        let chunk = emit.simple(step * Expr::i64(threads) + rank);
        let body = one_chunk(op, emit, all, &walk, &chunk);
        let inside = (chunks % threads != 0).then(|| Expr::binary(BinOp::Lt, chunk, Expr::i64(chunks)));
        guarded(inside, body)
    })];
    out.extend(meet(scope, &emit.cx()));
    out
}

/// A tile over indices into the destination.
fn side(v: &View) -> Side<'_> {
    let own = v.extent.clone();
    Side::of(v, WIDEST, move |i: &[Expr]| broadcast_index(&own, i))
}

/// The elements of one access.
fn one_chunk(op: TileOp, emit: &mut Emit, all: &Operands, walk: &Walk, chunk: &Expr) -> Vec<DStmt> {
    let (lanes, dst) = (walk.lanes, &all.dst);
    if lanes == 1 {
        let index = walk.index(chunk.clone());
        let values: Vec<Expr> = all.args.iter().map(|a| element(emit, a, &index)).collect();
        return vec![dst.store(emit.simple(dst.at(&index)), ops::value(op, dst.dtype, &values))];
    }
    let lane = emit.loop_var("lane", lanes);
    let index = walk.index(chunk.clone() * Expr::i64(lanes) + index_var(&lane));
    let index: Vec<Expr> = index.into_iter().map(|e| emit.simple(e)).collect();
    let (mut out, mut values) = (vec![], vec![]);
    for a in &all.args {
        match a {
            Operand::Tile(v) if broadcast_dims(&v.extent, &dst.extent).is_empty() => {
                let via = emit.scratch(&format!("{}_via", v.buffer), v.dtype, lanes, Scope::Local);
                let from = side(v).start(walk, chunk, emit.ranges);
                out.push(moved((&via, Expr::i64(0)), (&v.buffer, from), v.dtype, lanes, CacheHint::Plain));
                values.push(Expr::load(via, vec![index_var(&lane)], v.dtype));
            }
            Operand::Tile(_) | Operand::Scalar(_) => values.push(element(emit, a, &index)),
        }
    }
    let made = emit.scratch(&format!("{}_via", dst.buffer), dst.dtype, lanes, Scope::Local);
    let set = DStmt::store(made.clone(), vec![index_var(&lane)], ops::value(op, dst.dtype, &values));
    out.push(unrolled(&lane, lanes, vec![set]));
    let to = side(dst).start(walk, chunk, emit.ranges);
    out.push(moved((&dst.buffer, to), (&made, Expr::i64(0)), dst.dtype, lanes, CacheHint::Plain));
    out
}

/// One element of an operand, for an index into the destination.
fn element(emit: &Emit, a: &Operand<View>, index: &[Expr]) -> Expr {
    match a {
        Operand::Scalar(e) => e.clone(),
        Operand::Tile(v) => v.load(emit.simple(v.at(&broadcast_index(&v.extent, index)))),
    }
}

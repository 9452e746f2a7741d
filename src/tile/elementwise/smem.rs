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
use crate::ir::device::{DFor, DKind, DStmt, guarded, index_var};
use crate::ir::kernel::CacheHint;
use crate::ir::{BinOp, Expr, Name, Scope, TileCall};
use crate::tile::copy::{Side, Walk};
use crate::tile::predicates::{ALL_THREADS, all_shared};
use crate::tile::sync::{can_meet, meet};
use crate::tile::{Emit, Predicate, Variant, View};

/// Widest access to shared memory in bytes.
const WIDEST: i64 = 16;
/// Steps of a loop that are unrolled.
const UNROLLED: i64 = 8;

pub(super) const VARIANT: Variant = Variant {
    name: "smem",
    ops: ops::ALL,
    priority: 10,
    only_forced: false,
    when: &[
        Predicate { name: "operands", check: operands },
        Predicate { name: "storage_scope", check: all_shared },
        Predicate { name: "dtype", check: dtypes },
        ALL_THREADS,
        Predicate { name: "barrier", check: can_meet },
        Predicate { name: "overlap", check: overlap },
        Predicate { name: "rounding", check: plain_rounding },
    ],
    emit,
};

fn emit(call: &TileCall, emit: &mut Emit) -> Vec<DStmt> {
    let all = Operands::of(call, &emit.cx()).unwrap_or_else(|why| panic!("`smem` accepted the call: {why}"));
    let extent = all.dst.extent.clone();
    let whole = |v: &&View| broadcast_dims(&v.extent, &extent).is_empty();
    let walk = {
        let tiles = std::iter::once(&all.dst).chain(all.tiles().filter(whole));
        let sides: Vec<Side> = tiles.map(side).collect();
        Walk::widest(&extent, &sides.iter().collect::<Vec<_>>(), emit.ranges)
    };
    let chunks = walk.len() / walk.lanes;
    let threads = emit.cx().threads_in(call.scope);
    let steps = (chunks + threads - 1) / threads;
    let step = emit.loop_var("step", steps);
    let chunk = emit.simple(index_var(&step) * Expr::i64(threads) + emit.cx().rank(call.scope));
    let body = one_chunk(call, emit, &all, &walk, &chunk);
    let inside = (chunks % threads != 0).then(|| Expr::binary(BinOp::Lt, chunk, Expr::i64(chunks)));
    let kind = if steps <= UNROLLED { DKind::Unrolled } else { DKind::Serial };
    let mut out = vec![DStmt::For(DFor::new(step, Expr::i64(steps), kind, guarded(inside, body)))];
    out.extend(meet(call.scope, &emit.cx()));
    out
}

/// A tile over indices into the destination.
fn side(v: &View) -> Side<'_> {
    let own = v.extent.clone();
    Side::of(v, WIDEST, move |i: &[Expr]| broadcast_index(&own, i))
}

/// The elements of one access.
fn one_chunk(call: &TileCall, emit: &mut Emit, all: &Operands, walk: &Walk, chunk: &Expr) -> Vec<DStmt> {
    let lanes = walk.lanes;
    if lanes == 1 {
        let index = walk.index(chunk.clone());
        let values: Vec<Expr> = all.args.iter().map(|a| element(emit, a, &index)).collect();
        let at = vec![emit.simple(all.dst.at(&index))];
        return vec![DStmt::store(all.dst.buffer.clone(), at, ops::value(call.op, all.dst.dtype, &values))];
    }
    let lane = emit.loop_var("lane", lanes);
    let index = walk.index(chunk.clone() * Expr::i64(lanes) + index_var(&lane));
    let index: Vec<Expr> = index.into_iter().map(|e| emit.simple(e)).collect();
    let (mut out, mut values) = (vec![], vec![]);
    for a in &all.args {
        match a {
            Operand::Tile(v) if broadcast_dims(&v.extent, &all.dst.extent).is_empty() => {
                let via = emit.scratch(&format!("{}_via", v.buffer), v.dtype, lanes, Scope::Local);
                let from = side(v).start(walk, chunk, emit.ranges);
                out.push(copy((&via, Expr::i64(0)), (&v.buffer, from), lanes));
                values.push(Expr::load(via, vec![index_var(&lane)], v.dtype));
            }
            Operand::Tile(_) | Operand::Scalar(_) => values.push(element(emit, a, &index)),
        }
    }
    let made = emit.scratch(&format!("{}_via", all.dst.buffer), all.dst.dtype, lanes, Scope::Local);
    let value = ops::value(call.op, all.dst.dtype, &values);
    let set = vec![DStmt::store(made.clone(), vec![index_var(&lane)], value)];
    out.push(DStmt::For(DFor::new(lane, Expr::i64(lanes), DKind::Unrolled, set)));
    let to = side(&all.dst).start(walk, chunk, emit.ranges);
    out.push(copy((&all.dst.buffer, to), (&made, Expr::i64(0)), lanes));
    out
}

/// One element of an operand, for an index into the destination.
fn element(emit: &Emit, a: &Operand<View>, index: &[Expr]) -> Expr {
    match a {
        Operand::Scalar(e) => e.clone(),
        Operand::Tile(v) => {
            let at = emit.simple(v.at(&broadcast_index(&v.extent, index)));
            Expr::load(v.buffer.clone(), vec![at], v.dtype)
        }
    }
}

fn copy(dst: (&Name, Expr), src: (&Name, Expr), lanes: i64) -> DStmt {
    let (dst, dst_index) = (dst.0.clone(), dst.1);
    let (src, src_index) = (src.0.clone(), src.1);
    DStmt::Copy { dst, dst_index, src, src_index, lanes: lanes as u32, hint: CacheHint::Plain }
}

//! `cp.async`: each thread starts copies of 16, 8 or 4 bytes from device to shared memory.
//!
//! When: sm_80 and up, all threads of the scope reach the call, and both sides have runs of at least
//! 4 bytes that are adjacent and aligned. Threads take turns; where elements are no multiple of that,
//! the last turn is guarded. Under `predicate=` nothing is copied where it is false, or zeros are
//! written with `fill_mode="zero"`; `prefetch=` asks for 64, 128 or 256 bytes into the L2.
//!
//! before: `Tx.cta.copy_async(A_smem[0:32, 0:64], A[0:32, 0:64])` of float16, 128 threads
//! after:  `unroll u < 2 { cp_async 16 A_smem[u * 1024 + threadIdx.x * 8] <- A[u * 1024 + threadIdx.x * 8] }`
//!
//! Declines other memories, conversions, runs of less than 4 bytes. The program commits and waits.

use super::OPS;
use super::gate::{self, Condition, condition};
use crate::ir::device::{DKind, DStmt, guarded};
use crate::ir::instr::{At, Instr};
use crate::ir::{AttrValue, BinOp, ExecScope, Expr, TileCall};
use crate::tile::copy::{Pair, Walk, check};
use crate::tile::predicates::{all_threads, takes};
use crate::tile::{Cx, Emit, Plan, Refusals, Variant};

/// Turns that are unrolled; more are a loop.
const UNROLLED: i64 = 16;
/// Narrowest and widest copy of one instruction, in bytes.
const NARROWEST: i64 = 4;
const WIDEST: i64 = 16;

pub(super) const VARIANT: Variant = Variant { name: "ldgsts", ops: OPS, priority: 20, only_forced: false, plan };

fn plan(call: &TileCall, cx: &Cx, r: &mut Refusals) -> Option<Plan> {
    let pair = check::pair(call, cx, r);
    all_threads(call, cx, r);
    r.ask("sm_version", takes(cx, cx.target.has.cp_async, "cp.async", 80));
    r.ask_of("storage_scope", &pair, gate::into_shared);
    let walk = r.ask_of("width", &pair, |p| widest(p, cx));
    let condition = r.ask("condition", condition(call));
    let prefetch = r.ask("prefetch", prefetch(call));
    check::options(call, &["predicate", "valid", "fill_mode", "prefetch"], r);
    let start = Start { pair: pair.ok()?, walk: walk?, condition: condition?, prefetch: prefetch?, scope: call.scope };
    Some(Box::new(move |e| start.emit(e)))
}

/// The order of the widest copies.
fn widest(pair: &Pair, cx: &Cx) -> Result<Walk, String> {
    check::same_shape(pair)?;
    let walk = pair.widest_walk(WIDEST, cx);
    let bytes = walk.lanes * pair.dst.dtype.bytes() as i64;
    if bytes >= NARROWEST {
        return Ok(walk);
    }
    Err(format!(
        "adjacent aligned runs of both sides are of {bytes} bytes, the instruction copies {NARROWEST} to {WIDEST}"
    ))
}

fn prefetch(call: &TileCall) -> Result<Option<u32>, String> {
    match call.config.get("prefetch") {
        None => Ok(None),
        Some(AttrValue::Int(n @ (64 | 128 | 256))) => Ok(Some(*n as u32)),
        Some(_) => Err("`prefetch` is 64, 128 or 256 bytes".into()),
    }
}

/// What the threads of the scope start in turns.
struct Start {
    pair: Pair,
    walk: Walk,
    condition: Condition,
    prefetch: Option<u32>,
    scope: ExecScope,
}

impl Start {
    fn emit(&self, e: &mut Emit) -> Vec<DStmt> {
        if self.pair.dst.is_empty() {
            return vec![];
        }
        let (threads, rank) = (e.cx().threads_in(self.scope), e.cx().rank(self.scope));
        let copies = self.walk.len() / self.walk.lanes;
        let (turns, rest) = (copies / threads, copies % threads);
        let kind = if turns <= UNROLLED { DKind::Unrolled } else { DKind::Serial };
        let turn = |e: &mut Emit, turn: Expr| vec![self.turn(e, turn * Expr::i64(threads) + rank.clone())];
        let mut out = if turns == 0 { vec![] } else { e.steps("u", turns, kind, turn) };
        if rest > 0 {
            let last = turn(e, Expr::i64(turns));
            out.extend(guarded(Some(Expr::binary(BinOp::Lt, rank.clone(), Expr::i64(rest))), last));
        }
        let Condition { holds, zeros } = &self.condition;
        guarded(holds.clone().filter(|_| !zeros), out)
    }

    fn turn(&self, e: &Emit, number: Expr) -> DStmt {
        let [to, from] = self.pair.over_box(WIDEST).map(|s| s.start(&self.walk, &number, e.ranges));
        let Condition { holds, zeros } = &self.condition;
        let (dst, src) = (At::new(&self.pair.dst.buffer, to), At::new(&self.pair.src.buffer, from));
        let bytes = (self.walk.lanes * self.pair.dst.dtype.bytes() as i64) as u32;
        DStmt::Instr(Instr::cp_async(dst, src, bytes, holds.clone().filter(|_| *zeros), self.prefetch))
    }
}

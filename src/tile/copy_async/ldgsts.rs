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
use crate::ir::device::{DFor, DKind, DStmt, guarded, index_var};
use crate::ir::instr::{At, Instr};
use crate::ir::{AttrValue, BinOp, Expr, TileCall};
use crate::tile::copy::{Pair, Side, Walk, box_of, check, spread};
use crate::tile::predicates::{ALL_THREADS, takes};
use crate::tile::{Cx, Emit, Predicate, Variant};

/// Turns that are unrolled; more are a loop.
const UNROLLED: i64 = 16;
/// Narrowest and widest copy of one instruction, in bytes.
const NARROWEST: i64 = 4;
const WIDEST: i64 = 16;

pub(super) const VARIANT: Variant = Variant {
    name: "ldgsts",
    ops: OPS,
    priority: 20,
    only_forced: false,
    when: &[
        check::OPERANDS,
        check::DTYPE,
        check::SAME_SHAPE,
        ALL_THREADS,
        Predicate { name: "sm_version", check: sm_version },
        Predicate { name: "storage_scope", check: gate::into_shared },
        Predicate { name: "width", check: width },
        Predicate { name: "condition", check: |call, _| condition(call).map(drop) },
        Predicate { name: "prefetch", check: |call, _| prefetch(call).map(drop) },
        Predicate { name: "options", check: options },
    ],
    emit,
};

fn sm_version(_: &TileCall, cx: &Cx) -> Result<(), String> {
    takes(cx, cx.target.has.cp_async, "cp.async", 80)
}

fn width(call: &TileCall, cx: &Cx) -> Result<(), String> {
    let pair = Pair::of(call, cx)?;
    check::same_shape(call, cx)?;
    let bytes = walk(&pair, cx).lanes * pair.dst.dtype.bytes() as i64;
    if bytes >= NARROWEST {
        return Ok(());
    }
    Err(format!(
        "adjacent aligned runs of both sides are of {bytes} bytes, the instruction copies {NARROWEST} to {WIDEST}"
    ))
}

fn options(call: &TileCall, _: &Cx) -> Result<(), String> {
    check::known(call, &["predicate", "valid", "fill_mode", "prefetch"])
}

fn prefetch(call: &TileCall) -> Result<Option<u32>, String> {
    match call.config.get("prefetch") {
        None => Ok(None),
        Some(AttrValue::Int(n @ (64 | 128 | 256))) => Ok(Some(*n as u32)),
        Some(_) => Err("`prefetch` is 64, 128 or 256 bytes".into()),
    }
}

fn sides<'a>(pair: &'a Pair) -> [Side<'a>; 2] {
    [&pair.dst, &pair.src].map(|v| Side { widest: WIDEST, ..Side::of(v, WIDEST, |i| spread(&v.extent, i)) })
}

fn walk(pair: &Pair, cx: &Cx) -> Walk {
    let [to, from] = sides(pair);
    Walk::widest(&box_of(&pair.dst.extent), &[&to, &from], cx.ranges)
}

fn emit(call: &TileCall, e: &mut Emit) -> Vec<DStmt> {
    let pair = Pair::accepted(call, e);
    if pair.dst.is_empty() {
        return vec![];
    }
    let walk = walk(&pair, &e.cx());
    let (threads, rank) = (e.cx().threads_in(call.scope), e.cx().rank(call.scope));
    let Condition { holds, zeros } = condition(call).unwrap_or(Condition { holds: None, zeros: false });
    let (valid, guard) = if zeros { (holds, None) } else { (None, holds) };
    let start = Start {
        pair: &pair,
        walk: &walk,
        threads,
        rank: rank.clone(),
        valid,
        prefetch: prefetch(call).unwrap_or(None),
    };
    let copies = walk.len() / walk.lanes;
    let (turns, rest) = (copies / threads, copies % threads);
    let mut out = vec![];
    match turns {
        0 => {}
        1 => out.push(start.turn(e, Expr::i64(0))),
        _ => {
            let kind = if turns <= UNROLLED { DKind::Unrolled } else { DKind::Serial };
            let var = e.loop_var("u", turns);
            let body = vec![start.turn(e, index_var(&var))];
            out.push(DStmt::For(DFor::new(var, Expr::i64(turns), kind, body)));
        }
    }
    if rest > 0 {
        let last = vec![start.turn(e, Expr::i64(turns))];
        out.extend(guarded(Some(Expr::binary(BinOp::Lt, rank, Expr::i64(rest))), last));
    }
    guarded(guard, out)
}

/// What one thread starts in its turns.
struct Start<'a> {
    pair: &'a Pair,
    walk: &'a Walk,
    threads: i64,
    rank: Expr,
    valid: Option<Expr>,
    prefetch: Option<u32>,
}

impl Start<'_> {
    fn turn(&self, e: &Emit, turn: Expr) -> DStmt {
        let number = turn * Expr::i64(self.threads) + self.rank.clone();
        let [to, from] = sides(self.pair).map(|s| s.start(self.walk, &number, e.ranges));
        let (dst, src) = (At::new(&self.pair.dst.buffer, to), At::new(&self.pair.src.buffer, from));
        let bytes = (self.walk.lanes * self.pair.dst.dtype.bytes() as i64) as u32;
        DStmt::Instr(Instr::cp_async(dst, src, bytes, self.valid.clone(), self.prefetch))
    }
}

//! Bulk copies: one thread starts copies of whole contiguous runs, which the hardware carries out.
//!
//! When: sm_90 and up, between device and shared memory, where the tile is made of runs of a multiple
//! of 16 bytes that are contiguous and aligned to 16 on both sides. Loads count their bytes on the
//! barrier that `mbar=` names, a 64-bit word in shared memory; stores belong to the thread's bulk group.
//! The first thread of the scope starts them; at thread scope each thread that reaches the call.
//!
//! before: `Tx.cta.copy_async(A_smem[0:4, 0:64], A[0:4, 8:72], mbar=bar[0])` of float32
//! after:  `if threadIdx.x == 0 { for i < 4 { bulk_load 256 A_smem[i * 64] <- A[i * 512 + 8], bar[0] } }`
//!
//! Declines short or unaligned runs, a load without a barrier, older targets. The program makes the
//! barrier, announces the bytes and waits.

use super::OPS;
use super::gate::{self, global_shared};
use crate::ir::device::{DFor, DKind, DStmt, guarded, index_var};
use crate::ir::instr::{At, Instr, Op};
use crate::ir::{DType, Expr, TileArg, TileCall};
use crate::tile::copy::{Pair, Side, Walk, box_of, check, spread};
use crate::tile::predicates::{REACHED, takes};
use crate::tile::{Cx, Emit, Predicate, Variant};

/// Bytes that bulk copies are aligned to, and a multiple of.
const UNIT: i64 = 16;

pub(super) const VARIANT: Variant = Variant {
    name: "bulk",
    ops: OPS,
    priority: 10,
    only_forced: false,
    when: &[
        check::OPERANDS,
        check::DTYPE,
        check::SAME_SHAPE,
        REACHED,
        Predicate { name: "sm_version", check: sm_version },
        Predicate { name: "storage_scope", check: gate::global_and_shared },
        Predicate { name: "runs", check: runs },
        Predicate { name: "mbar", check: |call, cx| barrier(call, cx).map(drop) },
        Predicate { name: "options", check: |call, _| check::known(call, &["mbar"]) },
    ],
    emit,
};

/// That the target copies in bulk.
pub(super) fn sm_version(_: &TileCall, cx: &Cx) -> Result<(), String> {
    takes(cx, cx.target.has.tma, "bulk copies", 90)
}

/// The barrier of a load; `None` for a store.
pub(super) fn barrier(call: &TileCall, cx: &Cx) -> Result<Option<At>, String> {
    let pair = Pair::of(call, cx)?;
    let tile = match (call.operands.get("mbar"), pair.dst.is_shared()) {
        (None, false) => return Ok(None),
        (None, true) => return Err("a load needs `mbar`, the barrier that counts its bytes".into()),
        (Some(_), false) => return Err("`mbar` counts the bytes of loads; a store waits for its bulk group".into()),
        (Some(TileArg::Tile(tile)), true) => tile.clone(),
        (Some(TileArg::Scalar(e)), true) => {
            element(e).ok_or("`mbar` is not an element of a buffer, such as `bar[0]`")?
        }
    };
    let bar = cx.view(&tile)?;
    if bar.len() != 1 || !bar.is_shared() || !matches!(bar.dtype, DType::I64 | DType::U64) {
        let (n, d) = (bar.len(), bar.dtype);
        return Err(format!("`mbar` is {n} elements of {d} in {}, not one uint64 in shared memory", bar.scope.name()));
    }
    let first = vec![Expr::i64(0); bar.extent.len()];
    Ok(Some(At::new(&bar.buffer, cx.simple(bar.at(&first)))))
}

/// The tile of one element that an expression loads.
fn element(e: &Expr) -> Option<crate::ir::Tile> {
    let crate::ir::ExprKind::Load { buffer, indices, .. } = e.kind() else { return None };
    Some(crate::ir::Tile { buffer: buffer.clone(), begin: indices.clone(), extent: vec![1; indices.len()] })
}

fn sides<'a>(pair: &'a Pair) -> [Side<'a>; 2] {
    [&pair.dst, &pair.src].map(|v| Side::of(v, UNIT, |i| spread(&v.extent, i)))
}

/// The runs that the tile is made of.
fn walk(pair: &Pair, cx: &Cx) -> Option<Walk> {
    let [to, from] = sides(pair);
    Walk::runs(&box_of(&pair.dst.extent), &[&to, &from], UNIT, cx.ranges)
}

fn runs(call: &TileCall, cx: &Cx) -> Result<(), String> {
    let pair = Pair::of(call, cx)?;
    check::same_shape(call, cx)?;
    global_shared(&pair).ok_or("one side is neither in global nor in shared memory")?;
    let why = || {
        let (to, from) = (&pair.dst.buffer, &pair.src.buffer);
        format!("no runs of a multiple of {UNIT} bytes are contiguous and aligned in both `{to}` and `{from}`")
    };
    walk(&pair, cx).map(drop).ok_or_else(why)
}

fn emit(call: &TileCall, e: &mut Emit) -> Vec<DStmt> {
    let pair = Pair::accepted(call, e);
    let Some(walk) = walk(&pair, &e.cx()) else { return vec![] };
    let bar = barrier(call, &e.cx()).unwrap_or(None);
    let copies = walk.len() / walk.lanes;
    by_first_thread(call, e, copies, |e, n| {
        let index: Vec<Expr> = walk.index(n * Expr::i64(walk.lanes)).into_iter().map(|i| e.simple(i)).collect();
        let [to, from] = sides(&pair).map(|s| e.simple((s.at)(&index)));
        let (dst, src) = (At::new(&pair.dst.buffer, to), At::new(&pair.src.buffer, from));
        let bytes = Expr::i64(walk.lanes * pair.dst.dtype.bytes() as i64);
        DStmt::Instr(match bar.clone() {
            Some(bar) => Instr::new(Op::BulkLoad, [dst, src, bar], [bytes]),
            None => Instr::new(Op::BulkStore, [dst, src], [bytes]),
        })
    })
}

/// The first thread of the scope starts so many copies, one after the other.
pub(super) fn by_first_thread(
    call: &TileCall,
    e: &mut Emit,
    copies: i64,
    start: impl FnOnce(&Emit, Expr) -> DStmt,
) -> Vec<DStmt> {
    let body = if copies == 1 {
        vec![start(e, Expr::i64(0))]
    } else {
        let var = e.loop_var("i", copies);
        let body = vec![start(e, index_var(&var))];
        vec![DStmt::For(DFor::new(var, Expr::i64(copies), DKind::Serial, body))]
    };
    guarded(e.cx().is_first(call.scope), body)
}

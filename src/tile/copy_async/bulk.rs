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
use crate::ir::device::{DKind, DStmt, guarded};
use crate::ir::instr::{At, Instr, Op};
use crate::ir::{DType, ExecScope, Expr, ExprKind, Tile, TileArg, TileCall};
use crate::tile::copy::{Pair, Walk, box_of, check};
use crate::tile::predicates::{reached, takes};
use crate::tile::{Cx, Emit, Plan, Refusals, Variant};

/// Bytes that bulk copies are aligned to, and a multiple of.
const UNIT: i64 = 16;

pub(super) const VARIANT: Variant = Variant { name: "bulk", ops: OPS, priority: 10, only_forced: false, plan };

fn plan(call: &TileCall, cx: &Cx, r: &mut Refusals) -> Option<Plan> {
    let pair = in_bulk(call, cx, r);
    let walk = r.ask_of("runs", &pair, |p| runs(p, cx));
    let bar = barrier(&pair, call, cx, r);
    let (pair, walk, bar, scope) = (pair.ok()?, walk?, bar?, call.scope);
    Some(Box::new(move |e| emit(&pair, &walk, bar, scope, e)))
}

/// Asks what variants ask of which one thread starts the copies.
pub(super) fn in_bulk(call: &TileCall, cx: &Cx, r: &mut Refusals) -> Result<Pair, String> {
    let pair = check::pair(call, cx, r);
    reached(call, cx, r);
    r.ask("sm_version", takes(cx, cx.target.has.tma, "bulk copies", 90));
    r.ask_of("storage_scope", &pair, gate::global_and_shared);
    pair
}

/// Asks for the barrier of a load; `None` for a store. No other named argument is known.
pub(super) fn barrier(pair: &Result<Pair, String>, call: &TileCall, cx: &Cx, r: &mut Refusals) -> Option<Option<At>> {
    let bar = r.ask_of("mbar", pair, |p| mbar(call, p.dst.is_shared(), cx));
    check::options(call, &["mbar"], r);
    bar
}

fn mbar(call: &TileCall, loads: bool, cx: &Cx) -> Result<Option<At>, String> {
    match (call.operands.get("mbar"), loads) {
        (None, false) => Ok(None),
        (None, true) => Err("a load needs `mbar`, the barrier that counts its bytes".into()),
        (Some(_), false) => Err("`mbar` counts the bytes of loads; a store waits for its bulk group".into()),
        (Some(bar), true) => place_of(bar, cx).map(Some),
    }
}

/// The place of the barrier that an argument names.
///
/// # Errors
/// Where it names none.
pub(crate) fn place_of(bar: &TileArg, cx: &Cx) -> Result<At, String> {
    let tile = match bar {
        TileArg::Tile(tile) => tile.clone(),
        TileArg::Scalar(e) => element(e).ok_or("`mbar` is not an element of a buffer, such as `bar[0]`")?,
    };
    let bar = cx.view(&tile)?;
    if bar.len() != 1 || !bar.is_shared() || !matches!(bar.dtype, DType::I64 | DType::U64) {
        let (n, d) = (bar.len(), bar.dtype);
        return Err(format!("`mbar` is {n} elements of {d} in {}, not one uint64 in shared memory", bar.scope.name()));
    }
    Ok(At::new(&bar.buffer, cx.simple(bar.first())))
}

/// The tile of one element that an expression loads.
fn element(e: &Expr) -> Option<Tile> {
    let ExprKind::Load { buffer, indices, .. } = e.kind() else { return None };
    Some(Tile { buffer: buffer.clone(), begin: indices.clone(), extent: vec![1; indices.len()] })
}

/// The runs that the tile is made of.
fn runs(pair: &Pair, cx: &Cx) -> Result<Walk, String> {
    check::same_shape(pair)?;
    global_shared(pair)?;
    let [to, from] = pair.over_box(UNIT);
    Walk::runs(&box_of(&pair.dst.extent), &[&to, &from], UNIT, cx.ranges).ok_or_else(|| {
        let (to, from) = (&pair.dst.buffer, &pair.src.buffer);
        format!("no runs of a multiple of {UNIT} bytes are contiguous and aligned in both `{to}` and `{from}`")
    })
}

fn emit(pair: &Pair, walk: &Walk, bar: Option<At>, scope: ExecScope, e: &mut Emit) -> Vec<DStmt> {
    by_first_thread(scope, e, walk.len() / walk.lanes, |e, n| {
        let index: Vec<Expr> = walk.index(n * Expr::i64(walk.lanes)).into_iter().map(|i| e.simple(i)).collect();
        let [to, from] = pair.over_box(UNIT).map(|s| e.simple((s.at)(&index)));
        let (dst, src) = (At::new(&pair.dst.buffer, to), At::new(&pair.src.buffer, from));
        let bytes = Expr::i64(walk.lanes * pair.dst.dtype.bytes() as i64);
        match bar {
            Some(bar) => Instr::new(Op::BulkLoad, [dst, src, bar], [bytes]),
            None => Instr::new(Op::BulkStore, [dst, src], [bytes]),
        }
    })
}

/// The first thread of the scope starts so many copies, one after the other.
pub(super) fn by_first_thread(
    scope: ExecScope,
    e: &mut Emit,
    copies: i64,
    start: impl FnOnce(&mut Emit, Expr) -> Instr,
) -> Vec<DStmt> {
    let body = e.steps("i", copies, DKind::Serial, |e, n| vec![DStmt::Instr(start(e, n))]);
    guarded(e.cx().is_first(scope), body)
}

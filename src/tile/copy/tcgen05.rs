//! Copies between tensor memory and registers (`tcgen05.ld.16x256b`, `tcgen05.st.16x256b`).
//!
//! When: a target with tensor memory; a matrix of 128 rows there, row `i` in lane `i`, columns side by side, and
//! registers of whole warpgroups that hold it as accumulators of `mma.sync` do: each warp of a group has the 32 rows
//! that it can reach, in fragments of 16 by 8 whose columns are adjacent.
//!
//! before: `Tx.cta.copy(d[0:128, 0:64], d_tmem[0:128, 0:64])`
//! after:  `tcgen05_fence_after; for each 16 rows tcgen05_load.x8 d <- d_tmem; tcgen05_wait_loads; tcgen05_fence_before`
//!
//! before: `Tx.cta.copy(d_tmem[0:128, 0:64], d[0:128, 0:64])`
//! after:  `tcgen05_fence_after; for each 16 rows tcgen05_store.x8 d_tmem <- d; tcgen05_wait_stores; tcgen05_fence_before`
//!
//! The program waits for the products before, and has a barrier between the copy and what uses its destination, or overwrites
//! its source.
//!
//! Declines by naming the condition with its values.

use super::check::{dtype, options, same_shape};
use super::{OPS, Pair};
use crate::ir::device::DStmt;
use crate::ir::instr::{At, Instr, TENSOR_LANES, Tcgen05};
use crate::ir::layout::Fragment;
use crate::ir::{BinOp, ExecScope, Expr, TileArg, TileCall};
use crate::tile::gemm::grid::Grid;
use crate::tile::gemm::operands::Matrix;
use crate::tile::predicates::{all_threads, scope_in, takes};
use crate::tile::{Cx, Emit, Plan, Refusals, Variant, View, WARP};

/// Most fragments side by side that one instruction moves.
const MOST: i64 = 16;
/// Fragments that the lanes of a warp hold below each other.
const OF_WARP: i64 = 2;

/// From tensor memory to registers.
pub(super) const LOAD: Variant = variant("tcgen05_load", |call, cx, r| plan(Way::Load, call, cx, r));
/// From registers to tensor memory.
pub(super) const STORE: Variant = variant("tcgen05_store", |call, cx, r| plan(Way::Store, call, cx, r));

const fn variant(name: &'static str, plan: fn(&TileCall, &Cx, &mut Refusals) -> Option<Plan>) -> Variant {
    Variant { name, ops: OPS, priority: 60, only_forced: false, plan }
}

/// Which way a copy goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Load,
    Store,
}

impl Way {
    /// The side in tensor memory and the one in registers, of destination and source.
    fn sides<T>(self, dst: T, src: T) -> (T, T) {
        match self {
            Way::Load => (src, dst),
            Way::Store => (dst, src),
        }
    }

    fn moves(self, count: i64) -> Tcgen05 {
        match self {
            Way::Load => Tcgen05::Load { count },
            Way::Store => Tcgen05::Store { count },
        }
    }

    fn waits(self) -> Tcgen05 {
        match self {
            Way::Load => Tcgen05::WaitLoads,
            Way::Store => Tcgen05::WaitStores,
        }
    }
}

fn plan(way: Way, call: &TileCall, cx: &Cx, r: &mut Refusals) -> Option<Plan> {
    r.ask("sm_version", takes(cx, cx.target.has.tcgen05, "tensor memory", 100));
    scope_in(call, &[ExecScope::Warpgroup, ExecScope::Cta], r);
    all_threads(call, cx, r);
    options(call, &[], r);
    let pair = Pair::of(call, cx);
    r.ask_of("dtype", &pair, |p| dtype(p).and_then(|()| of_words(way, p)));
    r.ask_of("same_shape", &pair, same_shape);
    let sides = r.ask_of("storage_scope", &pair, |p| sides(way, p, call, cx));
    let first = r.ask_if("tensor_place", sides.as_ref(), |(tensor, _)| tensor.in_lanes(cx));
    let grid = r.ask_if("registers", sides.as_ref(), |(_, own)| held(own, call.scope, cx));
    let (grid, first, (tensor, own), scope) = (grid?, first?, sides?, call.scope);
    Some(Box::new(move |e| emit(way, (&tensor, &first), (&own, &grid), scope, e)))
}

fn of_words(way: Way, p: &Pair) -> Result<(), String> {
    let (tensor, _) = way.sides(&p.dst, &p.src);
    match tensor.dtype.bytes() {
        4 => Ok(()),
        _ => Err(format!("`{}` holds {}; lanes of tensor memory are of 32 bits", tensor.buffer, tensor.dtype)),
    }
}

/// The sides in tensor memory and in registers, which are matrices.
fn sides(way: Way, p: &Pair, call: &TileCall, cx: &Cx) -> Result<(Matrix, Matrix), String> {
    let wrong = |view: &View, what: &str| Err(format!("`{}` is not in {what}", view.buffer));
    let (tensor, own) = way.sides(&p.dst, &p.src);
    if !tensor.is_tensor() {
        return wrong(tensor, "tensor memory");
    }
    if !own.is_local() {
        return wrong(own, "registers");
    }
    let Some(TileArg::Tile(src)) = call.args.first() else { return Err("operand 0 is not a tile".into()) };
    let dst = Matrix::of(cx, &call.dst, "the destination", false)?;
    Ok(way.sides(dst, Matrix::of(cx, src, "the source", false)?))
}

/// The registers: each warp's rows are lanes that it can reach.
fn held(own: &Matrix, scope: ExecScope, cx: &Cx) -> Result<Grid, String> {
    let grid = Grid::of(own, Fragment::M16N8Acc, scope, cx)?;
    for (warp, [rows, columns]) in (0..).zip(&grid.numbers) {
        let (place, name) = (warp % 4, &own.view.buffer);
        if let Some(row) = rows.iter().find(|row| **row / OF_WARP != place) {
            let (lane, from) = (row * 16, place * 32);
            return Err(format!("warp {warp} holds row {lane} of `{name}`, and reaches lanes {from} to {}", from + 31));
        }
        if columns.iter().zip(0..).any(|(c, j)| c - columns[0] != j) {
            return Err(format!("the columns of `{name}` that warp {warp} holds are not adjacent"));
        }
    }
    let [rows, columns] = grid.local;
    let register = |i: i64, j: i64| cx.simple(grid.register(&Expr::i64(i), &Expr::i64(j)));
    let each = grid.fragment.len() as i64;
    let dense = |i: i64, j: i64| cx.simple(register(i, j) - register(i, 0)).is_int(j * each);
    match (0..rows).all(|i| (0..columns).all(|j| dense(i, j))) {
        true => Ok(grid),
        false => Err(format!("the columns of `{}` are not in adjacent registers", own.view.buffer)),
    }
}

fn emit(
    way: Way,
    (tensor, first): (&Matrix, &Expr),
    (own, grid): (&Matrix, &Grid),
    scope: ExecScope,
    emit: &mut Emit,
) -> Vec<DStmt> {
    let cx = emit.cx();
    let warp = cx.simple(Expr::binary(BinOp::FloorDiv, cx.rank(scope), Expr::i64(WARP)));
    let sync = |op: Tcgen05| DStmt::Instr(Instr::new(op, [], []));
    let mut out = vec![sync(Tcgen05::FenceAfter)];
    let [rows, columns] = grid.local;
    for i in 0..rows {
        let mut j = 0;
        while j < columns {
            let count = 1 << (columns - j).min(MOST).ilog2();
            let (nth, beside) = (Expr::i64(i), Expr::i64(j));
            let [row, column] = grid.place_of(&cx, &warp, &nth, &beside);
            let lane = row * Expr::i64(16);
            let element = first.clone() + column * Expr::i64(8 * TENSOR_LANES) + lane;
            let registers = At::new(&own.view.buffer, cx.simple(grid.register(&nth, &beside)));
            let lanes = At::new(&tensor.view.buffer, cx.simple(element));
            let places = match way {
                Way::Load => [registers, lanes],
                Way::Store => [lanes, registers],
            };
            out.push(DStmt::Instr(Instr::new(way.moves(count), places, [])));
            j += count;
        }
    }
    out.extend([sync(way.waits()), sync(Tcgen05::FenceBefore)]);
    out
}

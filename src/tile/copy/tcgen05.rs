//! Copies from tensor memory to registers (`tcgen05.ld.16x256b`).
//!
//! When: a target with tensor memory; a matrix of 128 rows there, row `i` in lane `i`, columns side by side, and
//! registers of whole warpgroups that hold it as accumulators of `mma.sync` do: each warp of a group has the 32 rows
//! that it can read, in fragments of 16 by 8 whose columns are adjacent.
//!
//! before: `Tx.cta.copy(d[0:128, 0:64], d_tmem[0:128, 0:64])`
//! after:  `tcgen05_fence_after; for each 16 rows tcgen05_load.x8 d <- d_tmem; tcgen05_wait_loads; tcgen05_fence_before`
//!
//! The program waits for the products before, and has a barrier between the copy and what overwrites its source.
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
use crate::tile::{Cx, Emit, Plan, Refusals, Variant, WARP};

/// Most fragments side by side that one instruction loads.
const MOST: i64 = 16;
/// Fragments that the lanes of a warp hold below each other.
const OF_WARP: i64 = 2;

pub(super) const VARIANT: Variant = Variant { name: "tcgen05_load", ops: OPS, priority: 60, only_forced: false, plan };

fn plan(call: &TileCall, cx: &Cx, r: &mut Refusals) -> Option<Plan> {
    r.ask("sm_version", takes(cx, cx.target.has.tcgen05, "tensor memory", 100));
    scope_in(call, &[ExecScope::Warpgroup, ExecScope::Cta], r);
    all_threads(call, cx, r);
    options(call, &[], r);
    let pair = Pair::of(call, cx);
    r.ask_of("dtype", &pair, |p| dtype(p).and_then(|()| of_words(p)));
    r.ask_of("same_shape", &pair, same_shape);
    let sides = r.ask_of("storage_scope", &pair, |p| sides(p, call, cx));
    let first = r.ask_if("source_place", sides.as_ref(), |(_, src)| src.in_lanes(cx));
    let grid = r.ask_if("registers", sides.as_ref(), |(dst, _)| held(dst, call.scope, cx));
    let (grid, first, (dst, src), scope) = (grid?, first?, sides?, call.scope);
    Some(Box::new(move |e| emit(&grid, [&dst, &src], &first, scope, e)))
}

fn of_words(p: &Pair) -> Result<(), String> {
    match p.src.dtype.bytes() {
        4 => Ok(()),
        _ => Err(format!("`{}` holds {}; lanes of tensor memory are of 32 bits", p.src.buffer, p.src.dtype)),
    }
}

/// Destination and source, which are matrices.
fn sides(p: &Pair, call: &TileCall, cx: &Cx) -> Result<(Matrix, Matrix), String> {
    let wrong = |view: &crate::tile::View, what: &str| Err(format!("`{}` is not in {what}", view.buffer));
    if !p.src.is_tensor() {
        return wrong(&p.src, "tensor memory");
    }
    if !p.dst.is_local() {
        return wrong(&p.dst, "registers");
    }
    let Some(TileArg::Tile(src)) = call.args.first() else { return Err("operand 0 is not a tile".into()) };
    Ok((Matrix::of(cx, &call.dst, "the destination", false)?, Matrix::of(cx, src, "the source", false)?))
}

/// The registers of the destination: each warp's rows are lanes that it can read.
fn held(dst: &Matrix, scope: ExecScope, cx: &Cx) -> Result<Grid, String> {
    let grid = Grid::of(dst, Fragment::M16N8Acc, scope, cx)?;
    for (warp, [rows, columns]) in (0..).zip(&grid.numbers) {
        let (place, name) = (warp % 4, &dst.view.buffer);
        if let Some(row) = rows.iter().find(|row| **row / OF_WARP != place) {
            let (lane, from) = (row * 16, place * 32);
            return Err(format!("warp {warp} holds row {lane} of `{name}`, and reads lanes {from} to {}", from + 31));
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
        false => Err(format!("the columns of `{}` are not in adjacent registers", dst.view.buffer)),
    }
}

fn emit(grid: &Grid, [dst, src]: [&Matrix; 2], first: &Expr, scope: ExecScope, emit: &mut Emit) -> Vec<DStmt> {
    let cx = emit.cx();
    let warp = cx.simple(Expr::binary(BinOp::FloorDiv, cx.rank(scope), Expr::i64(WARP)));
    let sync = |op: Tcgen05| DStmt::Instr(Instr::new(op, [], []));
    let mut out = vec![sync(Tcgen05::FenceAfter)];
    let [rows, columns] = grid.local;
    for i in 0..rows {
        let mut j = 0;
        while j < columns {
            let count = 1 << (columns - j).min(MOST).ilog2();
            let (own, beside) = (Expr::i64(i), Expr::i64(j));
            let [row, column] = grid.place_of(&cx, &warp, &own, &beside);
            let lane = row * Expr::i64(16);
            let from = first.clone() + column * Expr::i64(8 * TENSOR_LANES) + lane;
            let to = At::new(&dst.view.buffer, cx.simple(grid.register(&own, &beside)));
            let from = At::new(&src.view.buffer, cx.simple(from));
            out.push(DStmt::Instr(Instr::new(Tcgen05::Load { count }, [to, from], [])));
            j += count;
        }
    }
    out.extend([sync(Tcgen05::WaitLoads), sync(Tcgen05::FenceBefore)]);
    out
}

//! Matrix products of float8 by whole warpgroups, their sums kept in two levels.
//!
//! When: as `wgmma`, of 8-bit floats. The instructions add such products with about 14 bits, whatever the type of the
//! sums: what one call adds up, which is short, starts from zero in registers of its own and is then added to D in float32.
//!
//! before: `Tx.cta.gemm(d[0:128, 0:128], a_smem[0:128, 0:128], b_smem[0:128, 0:128], accum=True)`
//! after:  `wgmma_fence`; for each 32 of k and each 64 rows of the group `wgmma.m64n128k32` into `part`; commit, wait;
//!         `d += part`
//!
//! Declines by naming the condition with its values.

use super::operands::{Product, Start};
use super::wgmma::{Wgmma, input};
use crate::ir::device::{DKind, DStmt};
use crate::ir::instr::At;
use crate::ir::{DType, Expr, Scope, TileCall, TileOp};
use crate::tile::{Cx, Emit, Plan, Refusals, Variant};

/// Products by warpgroups, the sums of a call added to the others in float32.
pub(super) const WGMMA_TWO_LEVEL: Variant =
    Variant { name: "wgmma_two_level", ops: &[TileOp::Gemm], priority: 19, only_forced: true, plan };

fn plan(call: &TileCall, cx: &Cx, r: &mut Refusals) -> Option<Plan> {
    let wgmma = Wgmma::of(call, cx, r, |p| eight_bit_float(call, p))?;
    Some(Box::new(move |e| emit(&wgmma, e)))
}

fn eight_bit_float(call: &TileCall, p: &Product) -> Result<DType, String> {
    match input(call, p)? {
        d @ (DType::E4M3 | DType::E5M2) => Ok(d),
        d => Err(format!("sums of {d} are whole in the instruction, and need no second level")),
    }
}

fn emit(wgmma: &Wgmma, emit: &mut Emit) -> Vec<DStmt> {
    let (d, each) = (wgmma.p.d.view.buffer.clone(), wgmma.shape.registers());
    let tiles = &wgmma.sums.tiles;
    let sum = wgmma.shape.sum();
    let part = emit.scratch("part", sum, tiles.len() as i64 * each, Scope::Local);
    let begins: Vec<Expr> = (0..tiles.len() as i64).map(|i| Expr::i64(i * each)).collect();
    let places: Vec<At> = begins.iter().map(|begin| At::new(&part, begin.clone())).collect();
    let mut out = wgmma.products(&emit.cx(), &places, false);
    for (to, from) in tiles.iter().zip(&begins) {
        out.push(emit.repeat("e", each, DKind::Unrolled, |emit, e| {
            let to = emit.simple(to.clone() + e.clone());
            let part = Expr::load(part.clone(), vec![emit.simple(from.clone() + e)], sum);
            let value = match wgmma.p.start {
                Start::Old => Expr::load(d.clone(), vec![to.clone()], sum) + part,
                Start::Zero | Start::Other(_) => part,
            };
            vec![DStmt::store(d.clone(), vec![to], value)]
        }));
    }
    out
}

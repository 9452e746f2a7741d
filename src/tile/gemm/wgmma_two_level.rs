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
use crate::ir::device::DStmt;
use crate::ir::{DType, TileCall, TileOp};
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
    let (d, shape, sums) = (&wgmma.p.d.view.buffer, wgmma.shape, &wgmma.sums);
    let part = sums.registers(emit, "part", shape);
    let mut out = wgmma.products(&emit.cx(), &part, false);
    out.extend(sums.add(emit, (d, shape), &part, matches!(wgmma.p.start, Start::Old), |part| part));
    out
}

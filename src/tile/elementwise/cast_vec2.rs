//! Conversion between float32 and a 16-bit float in registers, two elements by one instruction.
//!
//! When: as `reg`, for `cast` from float32 to float16 or bfloat16 or back, where each thread's elements
//! come in pairs that are side by side in destination and source.
//!
//! before: `Tx.thread.cast(h[0:8], a[0:8])`
//! after:  `for f in 4 { h[2 f..2 f + 2] = cvt.rn.f16x2.f32(a[2 f..2 f + 2]) }`
//!
//! Rounds to nearest even, as a scalar conversion does.
//!
//! Declines by `operands`, `storage_scope`, `dtype`, `all_threads`, `layout`, `overlap`, `pairs` and
//! `rounding`.

use super::operand::{Operand, operands, plain_rounding};
use super::registers::{Registers, is_broadcast, place};
use crate::ir::device::DStmt;
use crate::ir::instr::{At, Instr, Op};
use crate::ir::{DType, TileCall, TileOp};
use crate::tile::predicates::all_local;
use crate::tile::{Cx, Part, Plan, Refusals, Variant};

pub(super) const VARIANT: Variant =
    Variant { name: "cast_vec2", ops: &[TileOp::Cast], priority: 20, only_forced: false, plan };

fn plan(call: &TileCall, cx: &Cx, r: &mut Refusals) -> Option<Plan> {
    let operands = operands(call, cx, r, all_local, dtype);
    let registers = Registers::ask(operands.as_ref(), call, cx, r);
    let pairs = r.ask_if("pairs", registers.as_ref(), |found| both_paired(found, cx));
    plain_rounding(call, r);
    let (registers, (dim, src)) = (registers?, pairs?);
    Some(Box::new(move |e| {
        registers.for_each_pair(dim, e, |e, index| {
            let [dst, src] = [&registers.dst, &src].map(|p| At::new(&p.view.buffer, place(e, p, index)));
            vec![DStmt::Instr(Instr::new(Op::CastPair, [dst, src], []))]
        })
    }))
}

fn dtype(call: &TileCall, cx: &Cx) -> Result<(), String> {
    let (dst, src) = (cx.view(&call.dst)?.dtype, cx.arg(call, 0)?.dtype);
    match (src, dst) {
        (DType::F32, DType::F16 | DType::BF16) | (DType::F16 | DType::BF16, DType::F32) => Ok(()),
        _ => Err(format!("{src} is converted to {dst}, expected float32 and a 16-bit float")),
    }
}

/// The dimension along which source and destination have pairs side by side, and the source.
fn both_paired(r: &Registers, cx: &Cx) -> Result<(usize, Part), String> {
    let dim = r.pairs(cx)?;
    match r.args.as_slice() {
        [Operand::Tile(src)] if !is_broadcast(src, &r.dst, dim) => Ok((dim, src.clone())),
        _ => Err("one source element is given for both of a pair".to_string()),
    }
}

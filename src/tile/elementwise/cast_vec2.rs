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

use super::operand::{Operand, operands, overlap, plain_rounding};
use super::registers::{Registers, is_broadcast, layouts_match, pairs};
use crate::ir::device::DStmt;
use crate::ir::instr::{At, Instr, Op};
use crate::ir::{DType, Expr, TileCall, TileOp};
use crate::tile::predicates::{ALL_THREADS, all_local};
use crate::tile::unrolled::Loops;
use crate::tile::{Cx, Emit, Predicate, Variant};

pub(super) const VARIANT: Variant = Variant {
    name: "cast_vec2",
    ops: &[TileOp::Cast],
    priority: 20,
    only_forced: false,
    when: &[
        Predicate { name: "operands", check: operands },
        Predicate { name: "storage_scope", check: all_local },
        Predicate { name: "dtype", check: dtype },
        ALL_THREADS,
        Predicate { name: "layout", check: layouts_match },
        Predicate { name: "overlap", check: overlap },
        Predicate { name: "pairs", check: both_paired },
        Predicate { name: "rounding", check: plain_rounding },
    ],
    emit,
};

fn dtype(call: &TileCall, cx: &Cx) -> Result<(), String> {
    let (dst, src) = (cx.view(&call.dst)?.dtype, cx.arg(call, 0)?.dtype);
    match (src, dst) {
        (DType::F32, DType::F16 | DType::BF16) | (DType::F16 | DType::BF16, DType::F32) => Ok(()),
        _ => Err(format!("{src} is converted to {dst}, expected float32 and a 16-bit float")),
    }
}

/// That source and destination have pairs side by side.
fn both_paired(call: &TileCall, cx: &Cx) -> Result<(), String> {
    pairs(call, cx)?;
    let Ok(r) = Registers::of(call, cx) else { return Ok(()) };
    match (r.args.as_slice(), r.pair_dim()) {
        ([Operand::Tile(p)], Some(dim)) if !is_broadcast(p, &r.dst, dim) => Ok(()),
        _ => Err("one source element is given for both of a pair".to_string()),
    }
}

fn emit(call: &TileCall, emit: &mut Emit) -> Vec<DStmt> {
    let r = Registers::accepted(call, emit);
    let ([Operand::Tile(src)], Some(dim)) = (r.args.as_slice(), r.pair_dim()) else {
        panic!("`cast_vec2` accepted a call without pairs")
    };
    let shape: Vec<i64> = r.dst.shape.iter().enumerate().map(|(d, n)| if d == dim { n / 2 } else { *n }).collect();
    let (loops, mut index) = Loops::over(emit, "f", &shape);
    index[dim] = index[dim].clone() * Expr::i64(2);
    let at = |emit: &Emit, part| r.place(emit, part, &index);
    let dst = At::new(&r.dst.view.buffer, at(emit, &r.dst));
    let src = At::new(&src.view.buffer, at(emit, src));
    loops.around(vec![DStmt::Instr(Instr::new(Op::CastPair, [dst, src], []))])
}

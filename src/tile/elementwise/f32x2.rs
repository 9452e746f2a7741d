//! Packed float32 arithmetic on registers, two elements by one instruction.
//!
//! When: as `reg`, for `add`, `sub`, `mul` and `fma` of float32 on sm_100 or newer, where each thread's
//! elements come in pairs that are side by side in destination and operands. Scalars, and operands that
//! are broadcast along the pairs, are doubled first.
//!
//! before: `Tx.thread.add(d[0:4], a[0:4], b[0:4])`
//! after:  `for f in 2 { d[2 f..2 f + 2] = add.rn.f32x2(a[2 f..2 f + 2], b[2 f..2 f + 2]) }`
//!
//! Rounds to nearest even and keeps subnormal numbers, unless the call says `rounding="rz"` (toward
//! zero) or `ftz=True`.
//!
//! Declines by `operands`, `storage_scope`, `dtype`, `sm_version`, `all_threads`, `layout`, `overlap`,
//! `pairs` and `rounding`.

use super::operand::{Operand, operands, overlap};
use super::registers::{Registers, is_broadcast, layouts_match, pairs};
use crate::ir::device::DStmt;
use crate::ir::instr::{At, Instr, Op, PackedOp, Rounding};
use crate::ir::{AttrValue, DType, Expr, Scope, TileCall, TileOp};
use crate::tile::predicates::{ALL_THREADS, all_local, takes_f32x2};
use crate::tile::unrolled::Loops;
use crate::tile::{Cx, Emit, Part, Predicate, Variant};

pub(super) const VARIANT: Variant = Variant {
    name: "f32x2",
    ops: &[TileOp::Add, TileOp::Sub, TileOp::Mul, TileOp::Fma],
    priority: 20,
    only_forced: false,
    when: &[
        Predicate { name: "operands", check: operands },
        Predicate { name: "storage_scope", check: all_local },
        Predicate { name: "dtype", check: dtype },
        Predicate { name: "sm_version", check: |_, cx| takes_f32x2(cx) },
        ALL_THREADS,
        Predicate { name: "layout", check: layouts_match },
        Predicate { name: "overlap", check: overlap },
        Predicate { name: "pairs", check: pairs },
        Predicate { name: "rounding", check: |call, _| rounding(call).map(drop) },
    ],
    emit,
};

fn dtype(call: &TileCall, cx: &Cx) -> Result<(), String> {
    let other = cx.views(call)?.into_iter().find(|v| v.dtype != DType::F32);
    other.map_or(Ok(()), |v| Err(format!("`{}` has type {}, expected float32", v.buffer, v.dtype)))
}

/// The rounding that the call asks for.
fn rounding(call: &TileCall) -> Result<Rounding, String> {
    match call.config.get("rounding") {
        None => Ok(Rounding::Nearest),
        Some(AttrValue::Str(mode)) if mode == "rn" => Ok(Rounding::Nearest),
        Some(AttrValue::Str(mode)) if mode == "rz" => Ok(Rounding::Zero),
        Some(AttrValue::Str(mode)) => Err(format!("rounding \"{mode}\" is asked for, expected \"rn\" or \"rz\"")),
        Some(_) => Err("rounding is no word, expected \"rn\" or \"rz\"".to_string()),
    }
}

fn emit(call: &TileCall, emit: &mut Emit) -> Vec<DStmt> {
    let r = Registers::accepted(call, emit);
    let dim = r.pair_dim().unwrap_or_else(|| panic!("`f32x2` accepted a call without pairs"));
    let shape: Vec<i64> = r.dst.shape.iter().enumerate().map(|(d, n)| if d == dim { n / 2 } else { *n }).collect();
    let (loops, mut index) = Loops::over(emit, "f", &shape);
    index[dim] = index[dim].clone() * Expr::i64(2);
    let mut body = vec![];
    let mut places = vec![At::new(&r.dst.view.buffer, r.place(emit, &r.dst, &index))];
    for a in &r.args {
        places.push(pair(&r, emit, a, &index, dim, &mut body));
    }
    let op = match call.op {
        TileOp::Sub => PackedOp::Sub,
        TileOp::Mul => PackedOp::Mul,
        TileOp::Fma => PackedOp::Fma,
        _ => PackedOp::Add,
    };
    let rounding = rounding(call).unwrap_or(Rounding::Nearest);
    body.push(DStmt::Instr(Instr::new(Op::Packed { op, rounding, ftz: call.flag("ftz") }, places, [])));
    loops.around(body)
}

/// Where the pair of an operand is; made in `body` where it has to be doubled.
fn pair(r: &Registers, emit: &mut Emit, a: &Operand<Part>, index: &[Expr], dim: usize, body: &mut Vec<DStmt>) -> At {
    let value = match a {
        Operand::Tile(p) if !is_broadcast(p, &r.dst, dim) => {
            return At::new(&p.view.buffer, r.place(emit, p, index));
        }
        Operand::Tile(p) => Expr::load(p.view.buffer.clone(), vec![r.place(emit, p, index)], DType::F32),
        Operand::Scalar(e) => Expr::cast(DType::F32, e.clone()),
    };
    let twice = emit.scratch(&format!("{}_twice", r.dst.view.buffer), DType::F32, 2, Scope::Local);
    for k in 0..2 {
        body.push(DStmt::store(twice.clone(), vec![Expr::i64(k)], value.clone()));
    }
    At::new(&twice, Expr::i64(0))
}

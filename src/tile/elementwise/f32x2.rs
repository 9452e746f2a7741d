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

use super::operand::{Operand, operands};
use super::registers::{Registers, is_broadcast, place};
use crate::ir::device::DStmt;
use crate::ir::instr::{At, Instr, Op, PackedOp, Rounding};
use crate::ir::{AttrValue, DType, Expr, Scope, TileCall, TileOp};
use crate::tile::predicates::{all_float32, all_local, takes_f32x2};
use crate::tile::{Cx, Emit, Part, Plan, Refusals, Variant};

pub(super) const VARIANT: Variant = Variant {
    name: "f32x2",
    ops: &[TileOp::Add, TileOp::Sub, TileOp::Mul, TileOp::Fma],
    priority: 20,
    only_forced: false,
    plan,
};

fn plan(call: &TileCall, cx: &Cx, r: &mut Refusals) -> Option<Plan> {
    let operands = operands(call, cx, r, all_local, all_float32);
    r.ask("sm_version", takes_f32x2(cx));
    let registers = Registers::ask(operands.as_ref(), call, cx, r);
    let pairs = r.ask_if("pairs", registers.as_ref(), |found| Pairs::of(found, call.op, cx));
    let rounding = r.ask("rounding", rounding(call));
    let (registers, pairs, rounding, ftz) = (registers?, pairs?, rounding?, call.flag("ftz"));
    Some(Box::new(move |e| {
        registers.for_each_pair(pairs.dim, e, |e, index| {
            let mut body = vec![];
            let mut at = |a: &Operand<Part>| pairs.at(&registers.dst, e, a, index, &mut body);
            let (a, b, c) = (at(&pairs.a), at(&pairs.b), pairs.c.as_ref().map(at));
            let dst = At::new(&registers.dst.view.buffer, place(e, &registers.dst, index));
            let op = Op::Packed { op: pairs.op, rounding, ftz };
            let places: Vec<At> = [dst, a, b].into_iter().chain(c).collect();
            body.push(DStmt::Instr(Instr::new(op, places, [])));
            body
        })
    }))
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

/// Operands that come in pairs, or are doubled.
struct Pairs {
    dim: usize,
    op: PackedOp,
    a: Operand<Part>,
    b: Operand<Part>,
    c: Option<Operand<Part>>,
}

impl Pairs {
    fn of(r: &Registers, op: TileOp, cx: &Cx) -> Result<Pairs, String> {
        let op = match op {
            TileOp::Sub => PackedOp::Sub,
            TileOp::Mul => PackedOp::Mul,
            TileOp::Fma => PackedOp::Fma,
            _ => PackedOp::Add,
        };
        match r.args.as_slice() {
            [a, b, c @ ..] => Ok(Pairs { dim: r.pairs(cx)?, op, a: a.clone(), b: b.clone(), c: c.first().cloned() }),
            few => Err(format!("{} operands are no pair to combine", few.len())),
        }
    }

    /// Where the pair of an operand is; made in `body` where it has to be doubled.
    fn at(&self, dst: &Part, emit: &mut Emit, a: &Operand<Part>, index: &[Expr], body: &mut Vec<DStmt>) -> At {
        let value = match a {
            Operand::Tile(p) if !is_broadcast(p, dst, self.dim) => {
                return At::new(&p.view.buffer, place(emit, p, index));
            }
            Operand::Tile(p) => p.view.load(place(emit, p, index)),
            Operand::Scalar(e) => Expr::cast(DType::F32, e.clone()),
        };
        let twice = emit.scratch(&format!("{}_twice", dst.view.buffer), DType::F32, 2, Scope::Local);
        for k in 0..2 {
            body.push(DStmt::store(twice.clone(), vec![Expr::i64(k)], value.clone()));
        }
        At::new(&twice, Expr::i64(0))
    }
}

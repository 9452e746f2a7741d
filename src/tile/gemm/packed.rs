//! Matrix products of float32 with packed arithmetic: one instruction does two neighbouring columns
//! (`fma.rn.f32x2`), rounded as two fused multiply-adds are.
//!
//! When: sm_100 and up, thread scope, float32, an even number of columns, and D's columns in pairs of
//! adjacent registers (the first of even number). A and B are in any memory.
//!
//! before: `Tx.thread.gemm(d[0:1, 0:2], a[0:1, 0:4], b[0:4, 0:2])`
//! after:  for each k: `bb = {b[k, 0], b[k, 1]}`, `aa = {a[0, k], a[0, k]}`,
//!         `d[0, 0:2] = fma2(aa, bb, d[0, 0:2])`
//!
//! Declines elsewhere by name (`sm_version`, `exec_scope`, `dtype`, `pairs`); `fma` then takes the call.

use super::fma::{chain, k_kind, start};
use super::operands::{Matrix, Product, in_registers, product};
use super::share::Share;
use crate::ir::device::{DFor, DStmt, index_var};
use crate::ir::instr::{At, Instr, Op, PackedOp, Rounding};
use crate::ir::{DType, Expr, Name, Scope, TileCall, TileOp};
use crate::tile::loops::unrolled;
use crate::tile::predicates::{one_thread, takes_f32x2};
use crate::tile::{Cx, Emit, Plan, Refusals, Variant};

/// Packed products of float32.
pub(super) const FMA_F32X2: Variant =
    Variant { name: "fma_f32x2", ops: &[TileOp::Gemm], priority: 15, only_forced: false, plan };

fn plan(call: &TileCall, cx: &Cx, r: &mut Refusals) -> Option<Plan> {
    r.ask("sm_version", takes_f32x2(cx));
    one_thread(call, r);
    let product = product(call, cx, r);
    let p = product.as_ref();
    r.ask_if("dtype", p, dtype);
    r.ask_if("storage_scope", p, in_registers);
    let share = r.ask_if("partition", p, |p| Share::of(&p.d, call.scope, cx));
    r.ask_if("pairs", p, pairs);
    chain(p, share.as_ref(), call.scope, r);
    let (p, share) = (product?, share?);
    Some(Box::new(move |e| emit(&p, &share, e)))
}

fn dtype(p: &Product) -> Result<(), String> {
    let all = [("D", &p.d)].into_iter().chain(p.sources()).map(|(name, x)| (name, x.view.dtype));
    let other = all.into_iter().find(|(_, t)| *t != DType::F32);
    other.map_or(Ok(()), |(name, t)| Err(format!("{name} is {t}, and pairs are of float32")))
}

fn pairs(p: &Product) -> Result<(), String> {
    if p.n % 2 != 0 {
        return Err(format!("D has {} columns, an odd number", p.n));
    }
    let layout = p.d.view.tile_layout()?;
    match layout.vector_len(&[p.m, p.n]) {
        n if n >= 2 => Ok(()),
        _ => {
            let name = &p.d.view.buffer;
            Err(format!("columns of `{name}` do not lie in pairs of registers: its layout is {layout}"))
        }
    }
}

fn emit(p: &Product, share: &Share, emit: &mut Emit) -> Vec<DStmt> {
    let mut out = start(p, share, emit);
    let k = emit.loop_var("k", p.k);
    let (i, j) = (emit.loop_var("i", p.m), emit.loop_var("j", p.n / 2));
    let first = index_var(&j) * Expr::i64(2);
    let mut step = vec![];
    let row = row_of_b(&mut step, emit, &p.b, &k, p.n);
    let pair = emit.scratch("pair", DType::F32, 2, Scope::Local);
    let a = p.a.view.load(emit.simple(p.a.at(index_var(&i), index_var(&k))));
    let mut each: Vec<DStmt> = (0..2).map(|h| DStmt::store(pair.clone(), vec![Expr::i64(h)], a.clone())).collect();
    let d = At::new(&p.d.view.buffer, emit.simple(p.d.at(index_var(&i), first.clone())));
    let fma = Op::Packed { op: PackedOp::Fma, rounding: Rounding::Nearest, ftz: false };
    let fma = Instr::new(fma, [d.clone(), At::new(&pair, Expr::i64(0)), At::new(&row, first), d], []);
    each.push(unrolled(&j, p.n / 2, vec![DStmt::Instr(fma)]));
    step.push(unrolled(&i, p.m, each));
    out.push(DStmt::For(DFor::new(k, Expr::i64(p.k), k_kind(p), step)));
    out
}

/// Row k of B side by side in registers.
fn row_of_b(step: &mut Vec<DStmt>, emit: &mut Emit, b: &Matrix, k: &Name, n: i64) -> Name {
    let row = emit.scratch(&format!("{}_row", b.view.buffer), DType::F32, n, Scope::Local);
    let j = emit.loop_var("j", n);
    let place = emit.simple(b.at(index_var(k), index_var(&j)));
    step.push(unrolled(&j, n, vec![DStmt::store(row.clone(), vec![index_var(&j)], b.view.load(place))]));
    row
}

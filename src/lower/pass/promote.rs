//! Holds reduction accumulators of 16-bit floats in float32.
//!
//! A register buffer that a reduction updates becomes float32; what is added is computed in
//! float32 from the (exactly converted) operands, and readers see the value rounded once.
//!
//! before: `acc: float16[1]`, `acc[0] = acc[0] + a[0] * b[0]`, `out[0] = acc[0]`
//! after:  `acc: float32[1]`, `acc[0] = acc[0] + float32(a[0]) * float32(b[0])`, `out[0] = float16(acc[0])`

use super::batch::held_by_instructions;
use crate::analysis::accumulator;
use crate::ir::device::{DStmt, ThreadReduce, map_list, map_stmts};
use crate::ir::{BinOp, DType, Expr, ExprKind, Name};
use crate::lower::fact::reducer::update_of;
use crate::lower::nest::Nest;
use std::collections::BTreeSet;

/// Promotes every accumulator of the launch.
pub fn run(nest: &mut Nest, body: Vec<DStmt>) -> Vec<DStmt> {
    let wide = accumulators(nest, &body);
    let read = map_list(&body, &mut |e| read(&wide, e));
    let out = map_stmts(read, &mut |s| stmt(&wide, s));
    for name in &wide {
        if let Some(b) = nest.buffers.get_mut(name) {
            b.dtype = DType::F32;
        }
    }
    out
}

fn accumulators(nest: &Nest, body: &[DStmt]) -> BTreeSet<Name> {
    let mut found = BTreeSet::new();
    let narrow = |n: &Name| nest.is_local(n) && nest.buffers.get(n).is_some_and(|b| accumulator(b.dtype) != b.dtype);
    for s in body {
        s.visit(&mut |s| {
            if let DStmt::Reduce(r) = s
                && narrow(&r.dst)
            {
                found.insert(r.dst.clone());
            }
            if let Some(up) = update_of(s)
                && narrow(&up.buffer)
            {
                found.insert(up.buffer);
            }
        });
    }
    // Instructions take the type that their registers have.
    for name in held_by_instructions(body) {
        found.remove(&name);
    }
    found
}

fn stmt(wide: &BTreeSet<Name>, s: DStmt) -> DStmt {
    match s {
        DStmt::Store { buffer, indices, value, hint } if wide.contains(&buffer) => {
            DStmt::Store { value: widen(&value), buffer, indices, hint }
        }
        DStmt::Reduce(r) => DStmt::Reduce(Box::new(reduce(wide, *r))),
        s => s,
    }
}

fn reduce(wide: &BTreeSet<Name>, r: ThreadReduce) -> ThreadReduce {
    let (term, start) = (widen(&r.term), r.start.as_ref().map(widen));
    let identity = if wide.contains(&r.dst) { widen(&r.identity) } else { r.identity.clone() };
    ThreadReduce { term, start, identity, ..r }
}

/// Loads of promoted buffers, rounded to the type they had.
fn read(wide: &BTreeSet<Name>, e: &Expr) -> Expr {
    let e = e.map_children(|c| read(wide, c));
    if let ExprKind::Load { buffer, indices, dtype } = e.kind()
        && wide.contains(buffer)
    {
        return Expr::cast(*dtype, Expr::load(buffer.clone(), indices.clone(), DType::F32));
    }
    e
}

/// A 16-bit float expression computed in float32.
fn widen(e: &Expr) -> Expr {
    if accumulator(e.dtype()) == e.dtype() {
        return e.clone();
    }
    match e.kind() {
        ExprKind::Float { bits, .. } => Expr::new(ExprKind::Float { bits: *bits, dtype: DType::F32 }),
        ExprKind::Cast { arg, .. } if arg.dtype() == DType::F32 => arg.clone(),
        ExprKind::Binary { op: op @ (BinOp::Add | BinOp::Sub | BinOp::Mul | BinOp::Max | BinOp::Min), a, b } => {
            Expr::binary(*op, widen(a), widen(b))
        }
        ExprKind::Select { cond, then, otherwise } => {
            Expr::new(ExprKind::Select { cond: cond.clone(), then: widen(then), otherwise: widen(otherwise) })
        }
        ExprKind::IfThenElse { cond, then, otherwise } => {
            Expr::new(ExprKind::IfThenElse { cond: cond.clone(), then: widen(then), otherwise: widen(otherwise) })
        }
        ExprKind::Int { .. }
        | ExprKind::Str(_)
        | ExprKind::Var { .. }
        | ExprKind::Load { .. }
        | ExprKind::Unary { .. }
        | ExprKind::Binary { .. }
        | ExprKind::Cast { .. }
        | ExprKind::Reinterpret { .. }
        | ExprKind::Call { .. }
        | ExprKind::Extern { .. }
        | ExprKind::Let { .. } => Expr::cast(DType::F32, e.clone()),
    }
}

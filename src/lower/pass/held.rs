//! Holds private arrays of narrow elements in the type that they are computed in. For the CPU, whose
//! vectors want their elements converted once and not at every use.
//!
//! An array in a task's memory of which every element that is read is widened at once, all to the same
//! type, holds that type; what is stored is converted there, after it was rounded as before.
//!
//! before: `t: float16[64]`, `t[i] = p0[i]`, `acc[0] = acc[0] + float32(t[i])`
//! after:  `t: float32[64]`, `t[i] = float32(p0[i])`, `acc[0] = acc[0] + t[i]`

use crate::ir::device::{DStmt, map_list, map_stmts};
use crate::ir::{DType, Expr, ExprKind, Name};
use crate::lower::nest::Nest;
use std::collections::BTreeMap;

/// Widens the arrays of the launch.
pub fn run(nest: &mut Nest, body: Vec<DStmt>) -> Vec<DStmt> {
    let mut reads = Reads { nest, found: BTreeMap::new() };
    body.iter().for_each(|s| s.visit(&mut |s| reads.stmt(s)));
    let held: BTreeMap<Name, DType> = reads.found.into_iter().filter_map(|(n, to)| Some((n, to?))).collect();
    for (name, to) in &held {
        if let Some(b) = nest.buffers.get_mut(name) {
            b.dtype = *to;
        }
    }
    let loads = map_list(&body, &mut |e| read(&held, e));
    map_stmts(loads, &mut |s| store(&held, s))
}

/// What arrays of narrow elements are widened to where they are read; `None` where that is not one type.
struct Reads<'n, 'a> {
    nest: &'n Nest<'a>,
    found: BTreeMap<Name, Option<DType>>,
}

impl Reads<'_, '_> {
    fn stmt(&mut self, s: &DStmt) {
        s.for_each_expr(|e| self.expr(e, None));
    }

    fn expr(&mut self, e: &Expr, to: Option<DType>) {
        if let ExprKind::Load { buffer, dtype, .. } = e.kind()
            && self.nest.is_local(buffer)
        {
            let to = to.filter(|to| computed_in(*dtype) == Some(*to));
            let known = self.found.entry(buffer.clone()).or_insert(to);
            if *known != to {
                *known = None;
            }
        }
        let to = match e.kind() {
            ExprKind::Cast { dtype, .. } => Some(*dtype),
            _ => None,
        };
        e.for_each_child(|c| self.expr(c, to));
    }
}

/// The type that narrow elements are computed in; it holds every value of theirs.
fn computed_in(dtype: DType) -> Option<DType> {
    match dtype {
        DType::F16 | DType::BF16 | DType::E4M3 | DType::E5M2 | DType::E8M0 => Some(DType::F32),
        DType::I8 | DType::I16 | DType::U8 | DType::U16 => Some(DType::I32),
        _ => None,
    }
}

fn read(held: &BTreeMap<Name, DType>, e: &Expr) -> Expr {
    if let ExprKind::Cast { arg, .. } = e.kind()
        && let ExprKind::Load { buffer, indices, .. } = arg.kind()
        && let Some(to) = held.get(buffer)
    {
        return Expr::load(buffer.clone(), indices.iter().map(|i| read(held, i)).collect(), *to);
    }
    e.map_children(|c| read(held, c))
}

fn store(held: &BTreeMap<Name, DType>, mut s: DStmt) -> DStmt {
    if let DStmt::Store { buffer, value, .. } = &mut s
        && let Some(to) = held.get(buffer)
    {
        *value = widened(value, *to);
    }
    s
}

/// A stored value converted, below the choice between it and another one.
fn widened(value: &Expr, to: DType) -> Expr {
    match value.kind() {
        ExprKind::IfThenElse { cond, then, otherwise } => Expr::new(ExprKind::IfThenElse {
            cond: cond.clone(),
            then: widened(then, to),
            otherwise: widened(otherwise, to),
        }),
        ExprKind::Float { bits, .. } if f64::from_bits(*bits) == 0.0 => Expr::constant(0.0, to),
        _ => Expr::cast(to, value.clone()),
    }
}

//! Replaces sizes throughout a function, and checks that accesses stay in their buffers.

use super::shrink::{Sizes, beside};
use super::{Interval, Ranges, interval, simplify};
use crate::ir::{Block, DType, Expr, ExprKind, PrimFunc, Stmt};

/// The function with every index constant that is a replaced size, or lies beside one, replaced.
pub(super) fn with_sizes(f: &PrimFunc, map: &Sizes) -> PrimFunc {
    let mut g = f.clone();
    for b in &mut g.buffers {
        b.shape.iter_mut().for_each(|e| *e = replace(e, map));
    }
    g.body = f.body.iter().map(|s| s.map_exprs(&mut |e| replace(e, map))).collect();
    g
}

fn replace(e: &Expr, map: &Sizes) -> Expr {
    match e.kind() {
        ExprKind::Int { value, dtype: dtype @ (DType::I32 | DType::I64) } => {
            let small = map.get(value).copied().or_else(|| beside(*value, map));
            small.map_or_else(|| e.clone(), |v| Expr::int(v, *dtype))
        }
        _ => e.map_children(|c| replace(c, map)),
    }
}

/// True when every access that is proven to stay inside in `before` is so in `after`, a function of
/// the same structure.
pub(super) fn in_bounds(before: &PrimFunc, after: &PrimFunc) -> bool {
    let (old, new) = (verdicts(before), verdicts(after));
    old.len() == new.len() && old.iter().zip(&new).all(|(o, n)| *n || !*o)
}

fn verdicts(f: &PrimFunc) -> Vec<bool> {
    let mut check = Check { f, found: vec![] };
    let ranges = Ranges::of_func(f);
    f.body.iter().for_each(|s| check.stmt(s, &ranges));
    check.found
}

/// Judges every access in program order.
struct Check<'a> {
    f: &'a PrimFunc,
    found: Vec<bool>,
}

impl Check<'_> {
    fn list(&mut self, list: &[Stmt], r: &Ranges) {
        list.iter().for_each(|s| self.stmt(s, r));
    }

    fn stmt(&mut self, s: &Stmt, r: &Ranges) {
        s.for_each_expr(|e| self.expr(e, r));
        match s {
            Stmt::For(l) => {
                let mut inside = r.clone();
                inside.enter_loop(l);
                self.list(&l.body, &inside);
            }
            Stmt::Block(b) => self.block(b, r),
            Stmt::If { cond, then, otherwise } => {
                self.list(then, &r.assuming(cond));
                self.list(otherwise, &r.assuming(&Expr::unary(crate::ir::UnOp::Not, cond.clone())));
            }
            Stmt::Store { buffer, indices, .. } => self.access(buffer, indices, r),
            Stmt::While { body, .. } | Stmt::Attr { body, .. } => self.list(body, r),
            Stmt::Let { .. } | Stmt::Evaluate(_) | Stmt::Alloc { .. } => {}
        }
    }

    fn block(&mut self, b: &Block, r: &Ranges) {
        let mut inside = r.clone();
        inside.enter_block(b);
        if let Some(g) = &b.guard {
            inside = inside.assuming(g);
        }
        self.list(&b.init, &inside);
        self.list(&b.body, &inside);
    }

    fn expr(&mut self, e: &Expr, r: &Ranges) {
        match e.kind() {
            ExprKind::Load { buffer, indices, .. } => {
                indices.iter().for_each(|i| self.expr(i, r));
                self.access(buffer, indices, r);
            }
            ExprKind::IfThenElse { cond, then, otherwise } => {
                self.expr(cond, r);
                self.expr(then, &r.assuming(cond));
                self.expr(otherwise, &r.assuming(&Expr::unary(crate::ir::UnOp::Not, cond.clone())));
            }
            _ => e.for_each_child(|c| self.expr(c, r)),
        }
    }

    fn access(&mut self, buffer: &crate::ir::Name, indices: &[Expr], r: &Ranges) {
        let shape = &self.f.buffer(buffer).shape;
        let inside = indices.iter().zip(shape).all(|(i, n)| match n.as_int() {
            Some(n) => interval(&simplify(i, r), r).within(Interval::new(0, n - 1)),
            None => false,
        });
        self.found.push(inside);
    }
}

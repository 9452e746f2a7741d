//! Replaces sizes throughout a function, and checks that it stays what it is.

use crate::analysis::{Interval, Ranges, interval, simplify};
use crate::ir::{BinOp, Block, DType, Expr, ExprKind, Name, PrimFunc, Stmt};
use std::collections::BTreeMap;

/// Sizes this close to another, and within a quarter of it, keep their distance to it: 114 beside 112 is 112
/// padded.
const NEAR: i64 = 3;

/// What each size becomes.
pub type Sizes = BTreeMap<i64, i64>;

/// What a constant beside a replaced size becomes.
pub fn beside(v: i64, map: &Sizes) -> Option<i64> {
    let near = map.range(v - NEAR..=v + NEAR).filter(|(w, _)| 4 * (v - **w).abs() < **w);
    let mut near = near.collect::<Vec<_>>();
    near.sort_by_key(|(w, _)| (*w - v).abs());
    let (w, small) = near.first()?;
    Some(**small + v - **w).filter(|s| *s >= 1)
}

/// The function with every index constant that is a replaced size, or lies beside one, replaced.
pub fn with_sizes(f: &PrimFunc, map: &Sizes) -> PrimFunc {
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

/// True when `after`, a function of the same structure, does at other sizes what `before` does. Every access
/// that is proven to stay inside still is; every store that is proven to reach the first or the last element
/// of a dimension still does, so that what one function writes whole the other does not leave in part; and no
/// index needs more divisions: a split axis that another size made wrap around would be another function.
pub fn keeps(before: &PrimFunc, after: &PrimFunc) -> bool {
    let (old, new) = (indices(before), indices(after));
    old.len() == new.len() && old.iter().zip(&new).all(|(o, n)| n.keeps(o))
}

/// What is proven of one index of an access.
#[derive(Default)]
struct Index {
    /// It stays inside of the dimension.
    inside: bool,
    /// Of a store: it reaches the first element, and the last one.
    reaches: [bool; 2],
    /// Divisions that are left after simplification.
    divisions: usize,
}

impl Index {
    fn of(index: &Expr, extent: &Expr, stored: bool, r: &Ranges) -> Index {
        let index = simplify(index, r);
        let mut divisions = 0;
        index.visit(&mut |e| {
            let divides = matches!(e.kind(), ExprKind::Binary { op: BinOp::FloorDiv | BinOp::FloorMod, .. });
            divisions += usize::from(divides);
        });
        let Some(n) = extent.as_int() else { return Index { divisions, ..Index::default() } };
        let span = interval(&index, r);
        let reaches = [stored && span.lo == 0, stored && span.hi == n - 1];
        Index { inside: span.within(Interval::new(0, n - 1)), reaches, divisions }
    }

    /// Nothing that is proven of `old` is lost.
    fn keeps(&self, old: &Index) -> bool {
        let reached = old.reaches.iter().zip(self.reaches).all(|(old, new)| new || !old);
        (self.inside || !old.inside) && reached && self.divisions <= old.divisions
    }
}

fn indices(f: &PrimFunc) -> Vec<Index> {
    let mut check = Check { f, found: vec![] };
    let ranges = Ranges::of_func(f);
    f.body.iter().for_each(|s| check.stmt(s, &ranges));
    check.found
}

/// Judges every access in program order.
struct Check<'a> {
    f: &'a PrimFunc,
    found: Vec<Index>,
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
            Stmt::Store { buffer, indices, .. } => self.access(buffer, indices, true, r),
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
                self.access(buffer, indices, false, r);
            }
            ExprKind::IfThenElse { cond, then, otherwise } => {
                self.expr(cond, r);
                self.expr(then, &r.assuming(cond));
                self.expr(otherwise, &r.assuming(&Expr::unary(crate::ir::UnOp::Not, cond.clone())));
            }
            _ => e.for_each_child(|c| self.expr(c, r)),
        }
    }

    fn access(&mut self, buffer: &Name, indices: &[Expr], stored: bool, r: &Ranges) {
        let shape = &self.f.buffer(buffer).shape;
        self.found.extend(indices.iter().zip(shape).map(|(i, n)| Index::of(i, n, stored, r)));
    }
}

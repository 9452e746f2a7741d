//! Makes an intermediate buffer one-dimensional, its elements in row-major order.
//!
//! ```text
//! for i_j: b0: v0 = i_j                                  for i_j: b0: v0 = i_j
//!     t0[v0 // 5, v0 % 5] = f(v0)              ->            t0[v0] = f(v0)
//!                            flatten_buffer(t0)
//! ```
//!
//! Preconditions: `buffer_exists`; `not_parameter`: the shape of a parameter is the caller's;
//! `no_alias`: no block views a part of it under another name; `plain_layout`: it has no strides or
//! layout of its own.
//!
//! Effect: one dimension of the product of the extents; every access is at the row-major position of
//! its old indices, simplified. Buffers of one dimension stay as they are.

use super::{Draft, Failure, scope};
use crate::analysis::{Ranges, simplify};
use crate::ir::{DType, Expr, ExprKind, Name, PrimFunc, Stmt};

pub(super) fn apply(d: &mut Draft, buffer: &Name) -> Result<Vec<Name>, Failure> {
    let old = d.find_buffer(buffer)?.clone();
    Failure::unless(!d.func.is_param(buffer), "not_parameter", buffer, || {
        "the shape of a parameter is the caller's".to_string()
    })?;
    Failure::unless(!is_aliased(&d.func, buffer), "no_alias", buffer, || {
        "a block views a part of it under another name".to_string()
    })?;
    Failure::unless(old.strides.is_empty() && old.layout.is_none(), "plain_layout", buffer, || {
        "it has strides or a layout of its own".to_string()
    })?;
    if old.shape.len() == 1 {
        return Ok(vec![]);
    }
    let ranges = scope::everywhere(&d.func);
    let flat = Flat { buffer, shape: &old.shape, ranges: &ranges };
    let len = old.shape.iter().cloned().reduce(|a, b| a * b).unwrap_or(Expr::int(1, DType::I64));
    let body: Vec<Stmt> = d.func.body.iter().map(|s| flat.stmt(s)).collect();
    d.func.body = body;
    for b in d.func.buffers.iter_mut().filter(|b| b.name == *buffer) {
        b.shape = vec![simplify(&len, &ranges)];
    }
    Ok(vec![])
}

fn is_aliased(func: &PrimFunc, buffer: &Name) -> bool {
    let mut found = false;
    func.visit(&mut |s| {
        if let Stmt::Block(b) = s {
            found |= b.matches.iter().any(|(_, region)| region.buffer == *buffer);
        }
    });
    found
}

struct Flat<'a> {
    buffer: &'a Name,
    shape: &'a [Expr],
    ranges: &'a Ranges,
}

impl Flat<'_> {
    fn stmt(&self, s: &Stmt) -> Stmt {
        let mut s = s.map_exprs(&mut |e| self.expr(e));
        self.stores(&mut s);
        s
    }

    fn stores(&self, s: &mut Stmt) {
        if let Stmt::Store { buffer, indices, .. } = s
            && buffer == self.buffer
        {
            *indices = vec![self.index(indices)];
        }
        if let Stmt::Block(b) = s {
            // Declared regions name the old dimensions.
            b.regions = None;
        }
        super::tree::child_lists_mut(s).into_iter().flatten().for_each(|c| self.stores(c));
    }

    fn expr(&self, e: &Expr) -> Expr {
        let e = e.map_children(|c| self.expr(c));
        match e.kind() {
            ExprKind::Load { buffer, indices, dtype } if buffer == self.buffer => {
                Expr::load(buffer.clone(), vec![self.index(indices)], *dtype)
            }
            _ => e,
        }
    }

    fn index(&self, indices: &[Expr]) -> Expr {
        let place = |at: Expr, (i, n): (&Expr, &Expr)| at * super::span::cast(i.dtype(), n) + i.clone();
        let dtype = indices.first().map_or(DType::I64, Expr::dtype);
        let same = |e: &Expr| super::span::cast(dtype, e);
        let indices: Vec<Expr> = indices.iter().map(same).collect();
        simplify(&indices.iter().zip(self.shape).fold(Expr::int(0, dtype), place), self.ranges)
    }
}

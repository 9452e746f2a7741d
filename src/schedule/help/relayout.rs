//! What `flatten_buffer` and `transform_layout` share: other indices for every access to a buffer.

use super::tree;
use crate::ir::{Buffer, DType, Expr, ExprKind, Name, PrimFunc, Stmt};
use crate::schedule::{Draft, Failure};

/// The buffer, if its indices may be others.
///
/// Fails with `not_parameter`, `no_alias` (a block views a part of it under another name, or hands it to a
/// call as a whole) or `plain_layout` (it has strides or a layout of its own).
pub fn movable(d: &Draft, buffer: &Name) -> Result<Buffer, Failure> {
    let old = d.find_buffer(buffer)?.clone();
    Failure::unless(!d.func.is_param(buffer), "not_parameter", buffer, || {
        "the shape of a parameter is the caller's; stage it with cache_read or cache_write".to_string()
    })?;
    Failure::unless(!is_aliased(&d.func, buffer), "no_alias", buffer, || {
        "a block views a part of it under another name, or hands it to a call".to_string()
    })?;
    Failure::unless(old.is_row_major(), "plain_layout", buffer, || {
        "it has strides, an offset or a layout of its own".to_string()
    })?;
    Ok(old)
}

fn is_aliased(func: &PrimFunc, buffer: &Name) -> bool {
    let mut found = false;
    func.visit(&mut |s| {
        if let Stmt::Block(b) = s {
            found |= b.matches.iter().any(|(_, region)| region.buffer == *buffer);
        }
        s.for_each_expr(|e| e.visit(&mut |e| found |= is_handed_over(e, buffer)));
    });
    found
}

/// True for a call that gets the whole buffer.
fn is_handed_over(e: &Expr, buffer: &Name) -> bool {
    let ExprKind::Extern { args, .. } = e.kind() else { return false };
    args.iter()
        .any(|a| matches!(a.kind(), ExprKind::Load { buffer: b, indices, .. } if b == buffer && indices.is_empty()))
}

/// The type of indices or extents taken together: `int64` where one of them is.
pub fn common_dtype(list: &[Expr]) -> DType {
    let narrow = list.iter().all(|e| e.dtype() == DType::I32);
    if narrow { DType::I32 } else { DType::I64 }
}

/// Gives the buffer a new shape, and every access to it the indices that `at` makes of the old ones.
pub fn rewrite(d: &mut Draft, buffer: &Name, shape: Vec<Expr>, at: &dyn Fn(&[Expr]) -> Vec<Expr>) {
    let mut body: Vec<Stmt> = d.func.body.iter().map(|s| s.map_exprs(&mut |e| loads(e, buffer, at))).collect();
    body.iter_mut().for_each(|s| stores(s, buffer, at));
    d.func.body = body;
    reshape(d, buffer, shape);
}

/// The same for the accesses of one block; the shape stays.
pub fn rewrite_block(d: &mut Draft, block: &Name, buffer: &Name, at: &dyn Fn(&[Expr]) -> Vec<Expr>) {
    tree::replace(&mut d.func, block, |s| {
        let mut s = s.map_exprs(&mut |e| loads(e, buffer, at));
        stores(&mut s, buffer, at);
        vec![s]
    });
}

/// Gives the buffer a new shape.
pub fn reshape(d: &mut Draft, buffer: &Name, shape: Vec<Expr>) {
    for b in d.func.buffers.iter_mut().filter(|b| b.name == *buffer) {
        b.shape = shape.clone();
    }
}

fn stores(s: &mut Stmt, of: &Name, at: &dyn Fn(&[Expr]) -> Vec<Expr>) {
    match s {
        Stmt::Store { buffer, indices, .. } if buffer == of => *indices = at(indices),
        // Declared regions name the old dimensions.
        Stmt::Block(b) => b.regions = None,
        _ => {}
    }
    tree::child_lists_mut(s).into_iter().flatten().for_each(|c| stores(c, of, at));
}

fn loads(e: &Expr, of: &Name, at: &dyn Fn(&[Expr]) -> Vec<Expr>) -> Expr {
    let e = e.map_children(|c| loads(c, of, at));
    match e.kind() {
        ExprKind::Load { buffer, indices, dtype } if buffer == of => Expr::load(buffer.clone(), at(indices), *dtype),
        _ => e,
    }
}

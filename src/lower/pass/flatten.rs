//! Gives every buffer one dimension: row-major, or by its declared strides and offset.
//!
//! before: `A[i, j]` of shape `[n, 8]`
//! after:  `A[i * 8 + j]`

use crate::analysis::simplify;
use crate::ir::device::{DStmt, map_list, map_stmts};
use crate::ir::instr::TENSOR_LANES;
use crate::ir::layout::Axis;
use crate::ir::{BinOp, Buffer, Expr, ExprKind, Scope};
use crate::lower::LowerError;
use crate::lower::nest::Nest;
use crate::lower::pass::Way;

const PASS: &str = "flatten";
/// Alignment of a workspace in bytes.
const OWN_ALIGN: u32 = 256;

/// Flattens every access.
pub fn run(nest: &mut Nest, body: Vec<DStmt>) -> Result<Vec<DStmt>, LowerError> {
    let mut error = None;
    let body = map_list(&body, &mut |e| expr(nest, e, &mut error));
    let body = map_stmts(body, &mut |s| store(nest, s, &mut error));
    error.map_or(Ok(body), Err)
}

/// Gives every buffer the one dimension that flat accesses have: of registers with a layout, what one
/// thread holds. Memory that is no parameter is allocated by us, on a boundary that suits any access.
pub fn buffers(nest: &mut Nest, body: Vec<DStmt>) -> Vec<DStmt> {
    for name in nest.buffers.keys().cloned().collect::<Vec<_>>() {
        let flat = length(nest, &nest.buffers[&name]);
        if nest.is_cluster(&name)
            && let Some(part) = part(&nest.buffers[&name])
        {
            nest.parts.insert(name.clone(), part);
        }
        let own = nest.is_global(&name) && !nest.func.is_param(&name);
        if let Some(b) = nest.buffers.get_mut(&name) {
            (b.shape, b.strides, b.elem_offset, b.layout) = (vec![flat], vec![], None, None);
            b.align = if own { Some(OWN_ALIGN) } else { b.align };
        }
    }
    body
}

/// Elements from one step of the first dimension to the next.
fn part(b: &Buffer) -> Option<i64> {
    match b.strides.first() {
        Some(stride) => stride.as_int(),
        None => b.shape.iter().skip(1).map(Expr::as_int).product(),
    }
}

fn expr(nest: &Nest, e: &Expr, error: &mut Option<LowerError>) -> Expr {
    let e = e.map_children(|c| expr(nest, c, error));
    let ExprKind::Load { buffer, indices, dtype } = e.kind() else { return e };
    match nest.buffer(PASS, buffer) {
        Ok(b) => Expr::load(buffer.clone(), vec![offset(nest, b, indices)], *dtype),
        Err(why) => {
            *error = Some(why);
            e
        }
    }
}

fn store(nest: &Nest, mut s: DStmt, error: &mut Option<LowerError>) -> DStmt {
    if let DStmt::Store { buffer, indices, .. } = &mut s {
        match nest.buffer(PASS, buffer) {
            Ok(b) => *indices = vec![offset(nest, b, indices)],
            Err(why) => *error = Some(why),
        }
    }
    s
}

fn offset(nest: &Nest, b: &Buffer, indices: &[Expr]) -> Expr {
    if let Some(at) = in_chunks(nest, b, indices).or_else(|| through_layout(b, indices)) {
        return simplify(&at, &nest.ranges);
    }
    let mut at = Expr::i64(0);
    if b.strides.is_empty() {
        for (i, extent) in indices.iter().zip(&b.shape) {
            at = at * extent.clone() + i.clone();
        }
    } else {
        for (i, stride) in indices.iter().zip(&b.strides) {
            at = at + i.clone() * stride.clone();
        }
    }
    if let Some(first) = &b.elem_offset {
        at = at + first.clone();
    }
    simplify(&at, &nest.ranges)
}

/// The offset in permuted memory of a scheduled function, written so that a run within what moves
/// together is seen as one: the number of the chunk, permuted, and the place in the chunk.
fn in_chunks(nest: &Nest, b: &Buffer, indices: &[Expr]) -> Option<Expr> {
    let swizzle = b.layout.as_ref()?.swizzle().filter(|s| nest.way != Way::Program && s.inner())?;
    let flat = indices.iter().zip(&b.shape).fold(Expr::i64(0), |at, (i, n)| at * n.clone() + i.clone());
    let part = |op, n: i64| simplify(&Expr::binary(op, flat.clone(), Expr::i64(n)), &nest.ranges);
    let (chunk, place) = (part(BinOp::FloorDiv, swizzle.chunk()), part(BinOp::FloorMod, swizzle.chunk()));
    let above = part(BinOp::FloorDiv, swizzle.chunk() << swizzle.atom_len());
    let key = Expr::binary(BinOp::FloorMod, above, Expr::i64(1 << swizzle.swizzle_len()));
    let key = simplify(&key, &nest.ranges);
    let moved = if key.is_int(0) { chunk } else { Expr::binary(BinOp::BitXor, chunk, key) };
    Some(moved * Expr::i64(swizzle.chunk()) + place)
}

/// The offset through a stated layout; of registers, in the holding thread's own part.
fn through_layout(b: &Buffer, indices: &[Expr]) -> Option<Expr> {
    let shape: Vec<i64> = b.shape.iter().map(Expr::as_int).collect::<Option<_>>()?;
    let layout = b.layout.as_ref()?.fit(&shape).ok()?;
    layout.memory_offset(&shape, indices).ok()
}

/// Number of elements of a buffer, over extents: what its strides reach, or the product of its shape.
pub fn length(nest: &Nest, b: &Buffer) -> Expr {
    if let (Scope::Tensor, Some(layout)) = (&b.scope, &b.layout) {
        return Expr::i64((layout.range(Axis::TCol).1 + 1) * TENSOR_LANES);
    }
    if let Some(layout) = &b.layout {
        return Expr::i64(layout.range(Axis::M).1 + 1);
    }
    if b.strides.is_empty() {
        let all = b.shape.iter().fold(Expr::i64(1), |n, e| n * e.clone());
        return simplify(&all, &nest.ranges);
    }
    let last: Vec<Expr> = b.shape.iter().map(|e| e.clone() - Expr::i64(1)).collect();
    simplify(&(offset(nest, b, &last) + Expr::i64(1)), &nest.ranges)
}

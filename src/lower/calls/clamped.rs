//! Rows of a factor that lie outside of its tensor, read as its last row.
//!
//! Nothing that is stored comes of them, so it does not matter what they hold; and loads without conditions are in
//! flight together. Conditions on the reduced axis stay: what lies outside there is zero.
//!
//! before: `if_then_else(n + row < 101 and k < 300, w[n + row, k], 0)`
//! after:  `if_then_else(k < 300, w[min(n + row, 100), k], 0)`

use crate::analysis::simplify;
use crate::ir::device::conjuncts;
use crate::ir::{BinOp, Expr, ExprKind};
use crate::lower::nest::{Nest, is_of_block};

/// The conditions that are left, and the value. `row` is the place of a value's row in its tile.
pub fn rows(nest: &Nest, cond: Option<&Expr>, value: &Expr, row: &Expr) -> (Vec<Expr>, Expr) {
    let (mut left, mut value) = (vec![], value.clone());
    for c in cond.map(|c| conjuncts(&simplify(c, &nest.ranges))).unwrap_or_default() {
        match inside(nest, &c, &value, row) {
            Some(clamped) => value = clamped,
            None => left.push(c),
        }
    }
    (left, value)
}

/// The value with every load from memory at the last row where `cond` fails, which says that an index of that load is
/// inside of its dimension; `None` where it says that of none.
fn inside(nest: &Nest, cond: &Expr, value: &Expr, row: &Expr) -> Option<Expr> {
    let ExprKind::Load { buffer, indices, dtype } = value.kind() else {
        let mut whole = true;
        let e = value.map_children(|c| {
            let clamped = inside(nest, cond, c, row);
            whole &= clamped.is_some();
            clamped.unwrap_or_else(|| c.clone())
        });
        return whole.then_some(e);
    };
    if !nest.is_global(buffer) {
        return Some(value.clone());
    }
    let shape = &nest.buffers.get(buffer)?.shape;
    let is_it = |(i, n): (&Expr, &Expr)| {
        let says = simplify(&Expr::binary(BinOp::Lt, i.clone(), n.clone()), &nest.ranges) == *cond;
        says && of_tile(&simplify(&(i.clone() - row.clone()), &nest.ranges))
    };
    let d = indices.iter().zip(shape).position(is_it)?;
    let last = simplify(&(shape[d].clone() - Expr::i64(1)), &nest.ranges);
    let mut indices = indices.clone();
    indices[d] = Expr::binary(BinOp::Min, indices[d].clone(), last);
    Some(Expr::load(buffer.clone(), indices, *dtype))
}

/// True for what is the same for a whole tile.
fn of_tile(e: &Expr) -> bool {
    !e.any(&|e| e.as_var().is_some_and(|v| !is_of_block(v)))
}

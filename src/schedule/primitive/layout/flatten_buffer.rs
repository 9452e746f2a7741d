//! Makes an intermediate buffer one-dimensional, its elements in row-major order.
//!
//! ```text
//! for i_j: b0: v0 = i_j                                  for i_j: b0: v0 = i_j
//!     t0[v0 // 5, v0 % 5] = f(v0)              ->            t0[v0] = f(v0)
//!                            flatten_buffer(t0)
//! ```
//!
//! Preconditions: `buffer_exists`; `not_parameter`: the shape of a parameter is the caller's;
//! `no_alias`: no block views a part of it under another name or hands it to a call; `plain_layout`: it has
//! no strides, offset or layout of its own.
//!
//! Effect: one dimension of the product of the extents; every access is at the row-major position of
//! its old indices, simplified. Buffers of one dimension stay as they are.

use crate::analysis::simplify;
use crate::ir::{Expr, Name};
use crate::schedule::help::span::cast;
use crate::schedule::help::{relayout, scope};
use crate::schedule::{Draft, Failure};

pub fn apply(d: &mut Draft, buffer: &Name) -> Result<(), Failure> {
    let shape = relayout::movable(d, buffer)?.shape;
    if shape.len() == 1 {
        return Ok(());
    }
    let ranges = scope::everywhere(&d.func);
    let dtype = relayout::common_dtype(&shape);
    let len = shape.iter().fold(Expr::int(1, dtype), |len, n| len * cast(dtype, n));
    let flat = |indices: &[Expr]| vec![simplify(&row_major(indices, &shape), &ranges)];
    relayout::rewrite(d, buffer, vec![simplify(&len, &ranges)], &flat);
    Ok(())
}

/// The position of an element among all in row-major order.
fn row_major(indices: &[Expr], shape: &[Expr]) -> Expr {
    let dtype = relayout::common_dtype(indices);
    let place = |at: Expr, (i, n): (&Expr, &Expr)| at * cast(dtype, n) + cast(dtype, i);
    indices.iter().zip(shape).fold(Expr::int(0, dtype), place)
}

//! Puts the elements of an intermediate buffer elsewhere: an affine map takes old indices to new ones.
//!
//! ```text
//! b0: t0[v0, v1] = ...                                    b0: t0[v1, v0 // 4, v0 % 4] = ...
//! b1: ... = t0[v2, v3] + 1                         ->     b1: ... = t0[v3, v2 // 4, v2 % 4] + 1
//!                  transform_layout(t0, [i, j], [j, i // 4, i % 4])
//! ```
//!
//! Preconditions: `buffer_exists`; `not_parameter`: the shape of a parameter is the caller's; `no_alias`: no
//! block views a part of it under another name or hands it to a call; `plain_layout`: it has no strides,
//! offset or layout of its own; `not_placed`: no block asks for its strides or for a swizzle, which name
//! dimensions; `one_name_each`: the map has a name for each index; `affine_map`: new indices are sums of
//! these, their multiples, quotients and remainders by constants; `bijective`: the new indices tell the
//! old ones; `exact`: every place of the new shape gets an element. A map that would need padding is
//! refused, as nobody would write what is there.
//!
//! Effect: the new shape is what the map makes of the ranges of the old indices; every load and store of
//! the buffer is at its new indices, simplified. Loops stay as they are (`transform_block_layout`).

use crate::ir::{Block, Expr, Mark, Name};
use crate::schedule::help::index_map::IndexMap;
use crate::schedule::help::{query, relayout, scope};
use crate::schedule::{Draft, Failure};

pub fn apply(d: &mut Draft, buffer: &Name, from: &[Name], to: &[Expr]) -> Result<(), Failure> {
    let map = IndexMap { from, to };
    let shape = relayout::movable(d, buffer)?.shape;
    not_placed(d, buffer)?;
    map.check_form(buffer, shape.len())?;
    let ranges = scope::everywhere(&d.func);
    let new = map.image(buffer, &shape, &ranges)?;
    relayout::rewrite(d, buffer, new, &|indices| map.at(indices, &ranges));
    Ok(())
}

/// Fails where a writer of the buffer says how its dimensions lie in memory.
fn not_placed(d: &Draft, buffer: &Name) -> Result<(), Failure> {
    let placed = |b: &&Block| Mark::all(&b.attrs).any(|m| matches!(m, Mark::DimAlign(_) | Mark::Swizzle(_)));
    query::writers(&d.func, buffer).into_iter().find(placed).map_or(Ok(()), |b| {
        let why = format!("it says how dimensions of `{buffer}` lie in memory; take this step before that one");
        Err(Failure::new("not_placed", &b.name, why))
    })
}

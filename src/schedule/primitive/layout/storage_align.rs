//! `storage_align`: lengthens the rows of an intermediate buffer in memory.
//!
//! ```text
//! t0_b: t0[v0, v1] = ...      ->    t0_b: T.sblock_attr({"buffer_dim_align": [[0, 0, 32, 1]]})
//!                                         t0[v0, v1] = ...
//! ```
//!
//! Preconditions: `buffer_exists`; `not_parameter`: the memory of a parameter is the caller's;
//! `axis_exists`; `positive_factor`; `has_writer`.
//!
//! Effect: every block that writes the buffer is annotated with the number of the buffer among those it
//! writes, the dimension, the factor and the offset. Lowering gives that dimension a stride that is
//! `offset` more than a multiple of `factor`, counted in elements of what is left of the buffer, so that
//! columns of a tile in shared memory lie in different banks. What is computed stays the same.

use crate::ir::{AttrValue, Mark, Name};
use crate::schedule::help::{query, tree};
use crate::schedule::primitive::loops::annotate;
use crate::schedule::{Draft, Failure};

pub fn apply(d: &mut Draft, buffer: &Name, &axis: &usize, &factor: &i64, &offset: &i64) -> Result<(), Failure> {
    let rank = d.find_buffer(buffer)?.shape.len();
    Failure::unless(!d.func.is_param(buffer), "not_parameter", buffer, || {
        "the strides of a parameter are the caller's; stage it with cache_read or cache_write".to_string()
    })?;
    Failure::unless(axis < rank, "axis_exists", buffer, || format!("it has {rank} dimensions, but not number {axis}"))?;
    let fits = (1..=Mark::MOST).contains(&factor) && offset.unsigned_abs() <= Mark::MOST as u64;
    Failure::unless(fits, "positive_factor", buffer, || match factor {
        ..1 => format!("a stride is no multiple of {factor}"),
        _ => format!("factor and offset are at most {}, here {factor} and {offset}", Mark::MOST),
    })?;
    let writers: Vec<Name> = query::writers(&d.func, buffer).iter().map(|b| b.name.clone()).collect();
    Failure::unless(!writers.is_empty(), "has_writer", buffer, || "no block writes it".to_string())?;
    for block in &writers {
        tree::edit_block(&mut d.func, block, |b| {
            let place = tree::writes(b).iter().position(|n| n == buffer).unwrap_or(0) as i64;
            align(&mut b.attrs, [place, axis as i64, factor, offset]);
        });
    }
    Ok(())
}

/// Adds to what is asked of other dimensions, in place of what was asked of this one.
fn align(attrs: &mut Vec<(String, AttrValue)>, asked: [i64; 4]) {
    let earlier = Mark::all(attrs).find_map(|mark| if let Mark::DimAlign(all) = mark { Some(all) } else { None });
    let mut all = earlier.unwrap_or_default();
    all.retain(|other| other[..2] != asked[..2]);
    all.push(asked);
    let (key, value) = Mark::DimAlign(all).to_attr();
    annotate::set(attrs, key, &value);
}

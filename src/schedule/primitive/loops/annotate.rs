//! `annotate`: attaches a key and a value to a loop or a block.
//!
//! ```text
//! for i in 4:   ->   for i in serial(4, annotations={"pragma_unroll_explicit": 1}):
//! ```
//!
//! Preconditions: `loop_or_block_exists`; `known_value`: a key that lowering reads (`ir::Mark`) has a value that
//! it knows.
//!
//! Effect: the value of the key is set; a key that is there already keeps its place.

use crate::ir::{AttrValue, Mark, Name};
use crate::schedule::help::tree;
use crate::schedule::{Draft, Failure};

/// Sets `key` to `value` on the loop or block `at`.
pub fn apply(d: &mut Draft, at: &Name, key: &str, value: &AttrValue) -> Result<(), Failure> {
    d.find_loop_or_block(at)?;
    Mark::from_attr(key, value)
        .map_err(|wanted| Failure::new("known_value", at, format!("the value of \"{key}\" is {wanted}")))?;
    tree::edit_loop(&mut d.func, at, |l| set(&mut l.annotations, key, value));
    tree::edit_block(&mut d.func, at, |b| set(&mut b.attrs, key, value));
    Ok(())
}

/// Gives `key` a value among annotations; a key that is there already keeps its place.
pub fn set(list: &mut Vec<(String, AttrValue)>, key: &str, value: &AttrValue) {
    match list.iter_mut().find(|(k, _)| k == key) {
        Some((_, old)) => *old = value.clone(),
        None => list.push((key.to_string(), value.clone())),
    }
}

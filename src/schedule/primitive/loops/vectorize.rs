//! `vectorize`: the iterations of a loop become lanes of a vector.
//!
//! ```text
//! for i in 8:   ->   for i in vectorized(8):
//! ```
//!
//! Preconditions: `serial_loop`, `zero_min`, `constant_extent`, `known_iterators`, `spatial_only`,
//! `own_results`, `own_data`.
//!
//! Effect: the loop's kind changes.

use crate::ir::{ForKind, Name};
use crate::schedule::help::{checks, flow, tree};
use crate::schedule::{Draft, Failure};

/// Vectorises loop `at`.
pub fn apply(d: &mut Draft, at: &Name) -> Result<(), Failure> {
    let l = d.find_loop(at)?;
    checks::serial_loop(l)?;
    checks::zero_min(l)?;
    checks::constant_extent(l)?;
    checks::known_iterators(l)?;
    checks::spatial_only(l)?;
    flow::own_results(l)?;
    flow::own_data(&d.func, l)?;
    tree::edit_loop(&mut d.func, at, |l| l.kind = ForKind::Vectorized);
    Ok(())
}

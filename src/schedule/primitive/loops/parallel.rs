//! `parallel`: the iterations of a loop run on several cores.
//!
//! ```text
//! for i in n:   ->   for i in parallel(n):
//! ```
//!
//! Preconditions: `serial_loop`, `known_iterators`, `spatial_only`,
//! `own_results`, `own_data`.
//!
//! Effect: the loop's kind changes.

use crate::ir::{ForKind, Name};
use crate::schedule::help::{checks, flow, tree};
use crate::schedule::{Draft, Failure};

/// Makes loop `at` parallel.
pub fn apply(d: &mut Draft, at: &Name) -> Result<(), Failure> {
    let l = d.find_loop(at)?;
    checks::serial_loop(l)?;
    checks::known_iterators(l)?;
    checks::spatial_only(l)?;
    flow::own_results(l)?;
    flow::own_data(&d.func, l)?;
    tree::edit_loop(&mut d.func, at, |l| l.kind = ForKind::Parallel);
    Ok(())
}

//! `unroll`: the body of a loop is repeated in the code.
//!
//! ```text
//! for i in 4:   ->   for i in unroll(4):
//! ```
//!
//! Preconditions: `serial_loop`, `constant_extent`.
//!
//! Effect: the loop's kind changes.

use crate::ir::{ForKind, Name};
use crate::schedule::help::{checks, tree};
use crate::schedule::{Draft, Failure};

/// Unrolls loop `at`.
pub fn apply(d: &mut Draft, at: &Name) -> Result<(), Failure> {
    let l = d.find_loop(at)?;
    checks::serial_loop(l)?;
    checks::constant_extent(l)?;
    tree::edit_loop(&mut d.func, at, |l| l.kind = ForKind::Unrolled);
    Ok(())
}

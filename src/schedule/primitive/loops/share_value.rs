//! Computes once what several blocks make of elements of the same buffers, in a block and a buffer of its own.
//!
//! ```text
//! for i, k: b0: t0[v0] = t0[v0] + (p0[v0, v1] + p1[v0, v1])       for i, k: b0_value_local_b: b0_value_local[v0, v1] = p0[v0, v1] + p1[v0, v1]
//! for i, j: b1: p2[v2, v3] = (p0[v2, v3] + p1[v2, v3]) * t0[v2]   ->   for i, k: b0: ... b0_value_local[v0, v1]
//!                                                                 for i, j: b1: ... b0_value_local[v2, v3]
//!                        share_value([b0, b1], [p0, p1], "local")
//! ```
//!
//! What is shared is the largest expression that all blocks compute alike and that loads elements of all of these
//! buffers, and of no others: less is kept than with each buffer by itself (`share`).
//!
//! Preconditions: `same_value`: each block has such a value, computed under no condition. The others, and what it does, are
//! those of the primitive share.

use super::share::{Wanted, shared};
use crate::ir::{Name, Scope};
use crate::schedule::{Draft, Failure};

pub fn apply(d: &mut Draft, blocks: &[Name], buffers: &[Name], scope: &Scope) -> Result<Name, Failure> {
    shared(d, blocks, &Wanted::Elements(buffers), scope)
}

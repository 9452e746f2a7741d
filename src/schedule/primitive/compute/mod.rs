//! Primitives that move a block under a loop of another, or into it.

pub mod compute_at;
pub mod compute_inline;
pub mod reverse_compute_at;
pub mod reverse_compute_inline;

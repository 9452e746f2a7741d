//! Primitives that move a block under a loop of another, or into it, or change where its values are rounded.

pub mod compute_at;
pub mod compute_inline;
pub mod keep_float32;
pub mod reverse_compute_at;
pub mod reverse_compute_inline;

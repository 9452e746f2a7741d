//! Primitives on loops: their extents, order, kind and annotations.

pub mod add_unit_loop;
pub mod align_loop;
pub mod annotate;
pub mod bind;
pub mod fuse;
pub mod merge_loops;
pub mod parallel;
pub mod reorder;
pub mod share;
pub mod share_value;
pub mod split;
pub mod unroll;
pub mod vectorize;

//! Primitives that put a copy between a block and a buffer.

pub mod cache_read;
pub mod cache_write;
pub mod reindex;
pub mod stage_write;

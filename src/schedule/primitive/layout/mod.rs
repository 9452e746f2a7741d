//! Primitives that change where elements lie, or what a block is.

pub mod blockize;
pub mod flatten_buffer;
pub mod set_dtype;
pub mod set_scope;
pub mod storage_align;
pub mod transform_block_layout;
pub mod transform_layout;

//! Primitives that take reductions apart or together.

pub mod decompose_reduction;
pub mod merge_reductions;
pub mod online_reductions;
pub mod pad_einsum;
pub mod relax_arithmetic;
pub mod replicate;
pub mod rfactor;

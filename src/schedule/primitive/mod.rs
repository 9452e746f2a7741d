//! The schedule primitives, one file each, in the groups of the TVM documents.

pub mod cache;
pub mod compute;
pub mod layout;
pub mod loops;
pub mod reduction;

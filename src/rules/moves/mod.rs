//! Functions without a reduction: transposes, and everything elementwise.

pub mod fallback;
pub mod outline;
pub mod transpose;
pub mod transpose_cpu;

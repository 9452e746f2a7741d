//! From a log to kernels, a manifest and Rust bindings.

//! Uses kernels that the build script compiled in.

/// Typed launch functions, one per function and kind of target.
pub mod kernels {
    include!(concat!(env!("OUT_DIR"), "/kernels.rs"));
}

//! Windows: pooling and depthwise convolutions, up to 256 steps per output.

pub mod outline;
pub mod rule;

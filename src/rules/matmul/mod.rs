//! Matrix products of any layout, batched ones and convolutions: tensor cores, CUDA cores, CPU.

pub mod block_scale;
pub mod cpu;
pub mod decoded;
pub mod exchange;
pub mod fma;
pub mod mma;
pub mod mma_tf32x3;
mod multicast;
pub mod outline;
pub mod outline_cpu;
mod outline_stream;
mod outline_tensor;
pub mod pack;
pub mod quant;
pub mod split_k;
pub mod stream;
pub mod tcgen05;
pub mod tcgen05_block_scale;
pub mod tiling;
pub mod wgmma;
pub mod wgmma_quant;
pub mod wgmma_swap_ab;
pub mod wgmma_tf32x3;
pub mod words;

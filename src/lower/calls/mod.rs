//! From marked loops and cross-thread reductions to tile calls, and from calls to the statements of the variant
//! that dispatch chose.

pub mod blocks;
mod clamped;
pub mod cluster;
pub mod cross_thread;
mod decode_bytes;
mod decode_pairs;
pub mod elementwise;
pub mod fills;
pub mod fragments;
mod global_store;
pub mod group_words;
pub mod leaves;
pub mod part_loops;
mod permuted;
pub mod quads;
pub mod runs;
mod shifted;
mod sums;
pub mod thread_arg;
pub mod thread_reduce;
pub mod tiles;
pub mod unpack;
pub mod unpack_pairs;
pub mod warp_rows;
pub mod words;

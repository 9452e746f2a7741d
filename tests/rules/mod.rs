//! Every rule on odd, prime, tiny and larger shapes: the default point and random ones are scheduled,
//! compared with the unscheduled function in the interpreter, lowered and run in the simulator.

mod any;
mod clusters;
mod corpus;
mod harness;
mod matmul;
mod matmul_block_scale;
mod matmul_clusters;
mod matmul_cpu;
mod matmul_mma;
mod matmul_multicast;
mod matmul_pack;
mod matmul_quads;
mod matmul_quant;
mod matmul_stream;
mod matmul_tcgen05;
mod matmul_tcgen05_block_scale;
mod matmul_wgmma;
mod matmul_wgmma_quant;
mod matmul_wgmma_roles;
mod matvec;
mod merge;
mod moves;
mod not_numbers;
mod outlines;
mod piece_texts;
mod pieces;
pub mod products;
mod reductions;
mod row_texts;
mod rows;
mod statistic;
mod texts;
mod tuple;
mod tuple_texts;
mod window;
mod window_texts;

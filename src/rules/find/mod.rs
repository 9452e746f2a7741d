//! What a rule looks for in a function before it accepts: the loops, products, rows and operands.

pub mod einsum;
pub mod factor;
pub mod gemm;
pub mod matvec;
pub mod operands;
pub mod prepared;
pub mod product;
pub mod rows;
pub mod shape;
pub mod statistic;

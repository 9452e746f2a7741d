//! Sums of a block's product that its registers alone do not hold while products go on.

pub mod in_tensor;
pub mod in_two;

//! A matrix times one vector or a few, dense or packed with scales per group.

pub mod dense;
pub mod lanes;
pub mod low_batch_cpu;
pub mod outline;
pub mod quant_cpu;
pub mod quant_inner;
pub mod quant_outer;
pub mod statistic;

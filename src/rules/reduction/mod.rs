//! One pass of reductions over the same axes.

pub mod any;
pub mod cpu;
pub mod inner;
pub mod outer;

//! Rows that are reduced and read again: softmax, norms and their kin.

pub mod cpu;
pub mod online;
mod outline;
mod room;
pub mod rows;

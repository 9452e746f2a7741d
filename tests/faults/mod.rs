//! Ten ways for a candidate to fail, and a tuning run among them. The test does it on the CPU of any
//! machine, the bench of the same name on a GPU too.

mod fault;
pub mod lab;
pub mod texts;
mod watch;

pub use fault::{Fault, Kind};
pub use lab::{Lab, report};

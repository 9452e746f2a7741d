//! Timing under a written policy: seeded inputs, verified outputs, cold buffers, raw samples.
//!
//! A candidate is loaded, run once between guard zones on poisoned outputs, compared with the
//! reference, and only then timed. All of that happens in a worker process ([`worker_main`]) that the
//! parent drives through [`WorkerRunner`]; a candidate that crashes or hangs costs itself alone.

mod bound;
mod buffers;
mod check;
pub mod compare;
mod contest;
pub mod expected;
pub mod inputs;
mod local;
mod noise;
mod remote;
mod sampling;
mod watch;
mod worker;

pub use crate::log::stats;
pub use bound::least_ns;
pub use contest::{Entry, contest, fastest, turn_ns, turns_within};
pub use expected::{Expected, Tolerance};
pub use local::LocalRunner;
pub use noise::{AaReport, AaSettings, aa_test};
pub use remote::WorkerRunner;
pub use sampling::Sampling;
pub use worker::{DeviceChoice, Setup, worker_main};

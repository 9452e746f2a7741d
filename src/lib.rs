//! Daylight finds the fastest correct kernel for a tensor function and compiles it into a program.
//!
//! A function is TVMScript, the text that TVM prints. Rules schedule it in many ways, the candidates are compiled,
//! checked against an interpreter and timed, and every outcome is a line of a log. A build needs that log and
//! nothing else: no GPU, no Python, no TVM. The book in `docs/` begins with a first kernel (`getting-started.md`).
//!
//! # The API
//!
//! | module | for |
//! |---|---|
//! | [`build`] | a `build.rs`: functions and a log in, `kernels.rs` and compiled kernels out |
//! | [`job`] | tuning from Rust: [`job::Tuner`] with a [`tune::TuneConfig`] and a callback, as the command does it |
//! | [`log`](mod@log) | reading logs, and which record of a log wins |
//! | [`apply`] | what [`build`] and `apply-best` write: kernels, `manifest.json`, bindings |
//! | [`report`] | a log as rows, CSV, Markdown and one HTML page; the difference of two logs |
//! | [`ir::read`] | TVMScript as a [`ir::PrimFunc`], which prints as TVMScript |
//! | [`ir::PrimFuncBuilder`] | a [`ir::PrimFunc`] without text |
//! | [`operation`] | functions for common operations, as `daylight new` writes them |
//!
//! Errors are sentences that may be shown to a user as they are. Types that will grow are `#[non_exhaustive]`, and
//! settings have a `Default`.
//!
//! # A kernel without a GPU
//!
//! ```
//! use daylight::build::Build;
//!
//! let folder = tempfile::tempdir()?;
//! let output = Build::new()
//!     .function("examples/mean.py")
//!     .log("examples/consumer/tuning-logs")
//!     .target("cpu:x86-64-v3")
//!     .write(folder.path())?;
//! let kernel = &output.units[0];
//! assert_eq!((kernel.name.as_str(), kernel.target.id.as_str()), ("mean", "cpu:x86-64-v3"));
//! assert!(kernel.measured_us.is_some(), "the log has it");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What is inside
//!
//! All other modules are public so that they can be tested, read and built upon, and change with any release. Those that
//! meet neither compiler nor device are crates of their own (`daylight-ir` and so on), handed on here. In the order that
//! data takes (`docs/architecture.md`):
//!
//! ```text
//! read -> normalize -> rules -> candidates -> lower -> generate -> compile -> verify -> measure -> log
//!                                                                    log -> choose -> apply | report
//! ```
//!
//! # Features
//!
//! `tune`, on by default, has all that a build has no use for: the tuner, the simulator, measuring, reports, the
//! command. A build dependency takes `default-features = false`.

mod files;
mod parallel;

#[doc(inline)]
pub use daylight_ir as ir;

#[doc(inline)]
pub use daylight_operation as operation;

#[doc(inline)]
pub use daylight_analysis as analysis;
#[cfg(feature = "tune")]
#[doc(inline)]
pub use daylight_interp as interp;

#[doc(inline)]
pub use daylight_target as target;

#[doc(inline)]
pub use daylight_schedule as schedule;

#[doc(inline)]
pub use daylight_rules as rules;

#[doc(inline)]
pub use daylight_tile as tile;

#[doc(inline)]
pub use daylight_lower as lower;

#[doc(inline)]
pub use daylight_codegen as codegen;
#[cfg(feature = "tune")]
#[doc(inline)]
pub use daylight_sim as sim;

pub mod backend;
#[cfg(feature = "tune")]
pub mod measure;
#[cfg(feature = "tune")]
pub mod runner;

pub mod log;

pub mod assemble;

#[cfg(feature = "tune")]
pub mod tune;

pub mod machine;

#[cfg(feature = "tune")]
pub mod job;

pub mod apply;
#[cfg(feature = "tune")]
pub mod report;

pub mod build;
#[cfg(feature = "tune")]
pub mod cli;

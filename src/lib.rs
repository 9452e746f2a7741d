//! Daylight: a schedule-based auto-tuner for tensor functions.
//!
//! The modules in the order the data takes:
//!
//! ```text
//! read -> normalize -> rules -> candidates -> lower -> generate -> compile -> verify -> measure -> log
//!                                                                    log -> choose -> apply | report
//! ```

#![warn(missing_docs)]

mod files;
mod parallel;

pub mod ir;

pub mod analysis;
#[cfg(feature = "tune")]
pub mod interp;

pub mod target;

pub mod schedule;

pub mod rules;

pub mod tile;

pub mod lower;

pub mod codegen;
#[cfg(feature = "tune")]
pub mod sim;

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

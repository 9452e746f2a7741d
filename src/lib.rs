//! Daylight: a schedule-based auto-tuner for tensor functions.
//!
//! The modules in the order the data takes:
//!
//! ```text
//! read -> normalize -> rules -> candidates -> lower -> generate -> compile -> verify -> measure -> log
//!                                                                    log -> choose -> apply | report
//! ```

pub mod ir;

pub mod analysis;
pub mod interp;

pub mod target;

pub mod schedule;

pub mod rules;

pub mod tile;

pub mod lower;

pub mod codegen;
pub mod sim;

pub mod backend;
pub mod measure;

pub mod log;

pub mod assemble;

pub mod tune;

pub mod machine;

pub mod job;

pub mod apply;
pub mod report;

pub mod build;
pub mod cli;

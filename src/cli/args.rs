//! What may be typed.

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Finds the fastest correct kernel for a tensor function and remembers it.
#[derive(Parser, Debug)]
#[command(name = "daylight", version, about, max_term_width = 100)]
#[command(after_help = "Exit codes: 0 done, 1 the work failed, 2 usage, 3 input not understood or refused, \
4 device or tool missing.\n\nExample:\n  daylight tune examples/mean.py --trials 64")]
pub struct Cli {
    #[command(flatten)]
    pub common: Common,
    #[command(subcommand)]
    pub command: Command,
}

/// Options of every command.
#[derive(Args, Debug, Default)]
pub struct Common {
    /// One JSON object per function on standard output; everything else goes to standard error
    #[arg(long, global = true)]
    pub json: bool,
    /// Values of symbolic extents, such as n=512,m=8
    #[arg(long, global = true, value_name = "N=V,...")]
    pub bind: Vec<String>,
    /// Folder of knob tables that replace the built-in ones of the same rule
    #[arg(long, global = true, value_name = "DIR")]
    pub schedules: Option<PathBuf>,
    /// Folder for compiled artifacts and fetched tools [default: ~/.cache/daylight]
    #[arg(long, global = true, value_name = "DIR")]
    pub cache: Option<PathBuf>,
}

/// The commands.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Say what was found on this machine, what is missing and how to get it
    #[command(after_help = "Example:\n  daylight doctor --fetch-nvrtc")]
    Doctor(Doctor),
    /// Read tuning logs
    #[command(after_help = "Example:\n  daylight log show tuning-logs --best")]
    Log(Log),
    /// Serve as a worker process of another daylight
    #[command(hide = true, after_help = "Example:\n  daylight worker compile")]
    Worker {
        /// What to do
        kind: WorkerKind,
    },
}

/// What a worker does.
#[derive(ValueEnum, Clone, Copy, Debug)]
pub enum WorkerKind {
    /// Compile programs
    Compile,
    /// Check and time candidates
    Measure,
}

#[derive(Args, Debug)]
pub struct Doctor {
    /// Fetch NVRTC and its disassembler into the cache, through pip
    #[arg(long)]
    pub fetch_nvrtc: bool,
}

#[derive(Args, Debug)]
pub struct Log {
    #[command(subcommand)]
    pub action: LogAction,
}

#[derive(Subcommand, Debug)]
pub enum LogAction {
    /// List the records of a log
    #[command(after_help = "Example:\n  daylight log show tuning-logs/cuda-sm_90a.jsonl --workload mean")]
    Show(LogShow),
}

#[derive(Args, Debug)]
pub struct LogShow {
    /// Log files or folders of them
    #[arg(required = true, value_name = "LOG")]
    pub logs: Vec<PathBuf>,
    /// Only the winner of each workload, target, machine and policy
    #[arg(long)]
    pub best: bool,
    /// Only workloads whose name or key starts with this
    #[arg(long, value_name = "NAME")]
    pub workload: Option<String>,
}

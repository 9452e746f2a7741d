//! The `daylight` command: reads arguments, environment and clock, and passes them down as values.
//!
//! `args` says what may be typed, one file per command does it, mostly through `job`. Exit codes: 0 done, 1 the work failed, 2 usage, 3 input refused, 4 device or tool missing.

mod apply_best;
mod args;
mod bench;
mod cache;
mod check;
mod context;
mod doctor;
mod explain;
mod import;
mod log;
mod new;
pub mod npy;
mod output;
mod predict;
mod progress;
mod report;
mod run;
mod shell;
mod simulate;
mod standing;
mod tune;
mod verify;

use crate::job::{Exit, Failure};
use args::{Cli, Command, WorkerKind};
use clap::Parser;
use context::Context;

use std::sync::atomic::AtomicBool;

/// Runs the command of this process and gives its exit code. The first Ctrl-C after a call of `stop` sets the flag
/// that it gives, and does no more.
pub fn main(stop: fn() -> &'static AtomicBool) -> u8 {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(e) => {
            // Prints help and version to standard output, errors to standard error.
            let _ = e.print();
            return if e.use_stderr() { Exit::Usage.code() } else { Exit::Done.code() };
        }
    };
    let outcome = Context::new(&cli.common, stop).and_then(|cx| dispatch(&cx, cli.command));
    match outcome {
        Ok(exit) => exit.code(),
        Err(Failure { exit, message }) => {
            output::note(&format!("daylight: {message}"));
            exit.code()
        }
    }
}

fn dispatch(cx: &Context, command: Command) -> Result<Exit, Failure> {
    match command {
        Command::Check(a) => check::run(cx, &a),
        Command::Explain(a) => explain::run(cx, &a),
        Command::New(a) => new::run(cx, &a),
        Command::Tune(a) => tune::run(cx, &a),
        Command::Import(a) => import::run(cx, &a),
        Command::Run(a) => run::run(cx, &a),
        Command::Verify(a) => verify::run(cx, &a),
        Command::Bench(a) => bench::run(cx, &a),
        Command::ApplyBest(a) => apply_best::run(cx, &a),
        Command::Report(a) => report::run(cx, &a),
        Command::Doctor(a) => doctor::run(cx, &a),
        Command::Log(a) => log::run(cx, &a),
        Command::Simulate(a) => simulate::run(cx, &a),
        Command::Cache(a) => cache::run(cx, &a),
        Command::Completions(a) => shell::completions(&a),
        Command::Man(a) => shell::man(&a),
        Command::Worker { kind } => {
            // A terminal's Ctrl-C reaches workers too; who started them ends them.
            cx.stop();
            worker(kind)
        }
    }
}

fn worker(kind: WorkerKind) -> Result<Exit, Failure> {
    let served = match kind {
        WorkerKind::Compile => crate::runner::worker::compile_main(),
        WorkerKind::Measure => crate::measure::worker_main(),
    };
    served.map(|()| Exit::Done).map_err(|e| Failure::new(Exit::Failed, e))
}

//! The `daylight` command.

mod interrupt;

use daylight::job::Exit;
use std::process::ExitCode;

fn main() -> ExitCode {
    let code = daylight::cli::main(interrupt::flag);
    // What ended because it was told to, says so as shells do: 128 and the number of the signal.
    ExitCode::from(if code == Exit::Interrupted.code() && interrupt::by_sigterm() { 143 } else { code })
}

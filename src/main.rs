//! The `daylight` command.

mod interrupt;

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(daylight::cli::main(interrupt::flag))
}

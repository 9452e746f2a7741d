//! The ten faults of `tests/faults.rs` on a device: what became of each and what it cost.
//!
//! `faults DEVICE --worker DAYLIGHT [--limit SECONDS] [--between]`: `DEVICE` is `cpu`, `cuda` or
//! `cuda:N`, `DAYLIGHT` the command whose workers compile and measure, `SECONDS` the time limit of
//! compiling and of checking a candidate (3). A kernel on a GPU cannot exit or abort its process, nor
//! write to its pipes: there this program stands in front of the measuring worker, passes on what both
//! sides say and does these three faults to itself when a candidate of that name comes along. On the
//! CPU it does so with `--between`, else the kernels do it. Exit code 1 if anything is not as it has
//! to be.

#[path = "../tests/common/mod.rs"]
mod common;
#[path = "../tests/faults/mod.rs"]
mod kit;

use daylight::runner::WorkerCommand;
use kit::{Fault, Lab, report};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::time::Duration;

const USAGE: &str = "usage: faults cpu|cuda|cuda:N --worker DAYLIGHT [--limit SECONDS] [--between]";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    if let [flag, worker, kind] = &args[..]
        && flag == "--go-between"
    {
        return go_between(worker, kind);
    }
    match lab(&args).and_then(|lab| print(&lab)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            println!("faults: {why}");
            // A plain `cargo bench` asks for no device.
            if args.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
    }
}

/// The lab that the arguments ask for.
fn lab(args: &[String]) -> Result<Lab, String> {
    let usage = || USAGE.to_string();
    let after = |flag: &str| args.iter().position(|a| a == flag).and_then(|i| args.get(i + 1));
    let cuda = match args.first().map(String::as_str) {
        Some("cpu") => None,
        Some("cuda") => Some(0),
        Some(name) => Some(name.strip_prefix("cuda:").and_then(|n| n.parse().ok()).ok_or_else(usage)?),
        None => return Err(usage()),
    };
    let worker = after("--worker").ok_or_else(usage)?;
    let seconds: f64 = after("--limit").map_or(Ok(3.0), |s| s.parse()).map_err(|_| usage())?;
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let between = WorkerCommand { program, args: ["--go-between", worker, "measure"].map(Into::into).to_vec() };
    let between = (cuda.is_some() || args.iter().any(|a| a == "--between")).then_some(between);
    Lab::new(cuda, worker.into(), between, Duration::from_secs_f64(seconds))
}

/// Prints the table; true if all is as it has to be.
fn print(lab: &Lab) -> Result<bool, String> {
    let (rows, problems) = report(lab)?;
    println!("| fault | outcome | seconds | at most | | reason |\n|---|---|---|---|---|---|");
    rows.iter().for_each(|row| println!("{row}"));
    problems.iter().for_each(|p| println!("FAILED: {p}"));
    let good = problems.is_empty() && rows.iter().all(|r| r.problems.is_empty());
    println!(
        "{}",
        if good {
            "All other candidates have their records, and the winner is the one without faults."
        } else {
            "FAILED"
        }
    );
    Ok(good)
}

/// A worker that passes requests and replies on to the real one, except those that make it fail.
fn go_between(worker: &str, kind: &str) -> ExitCode {
    let mut real = Command::new(worker);
    real.args(["worker", kind]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let Ok(mut real) = real.spawn() else {
        eprintln!("{worker} could not be started");
        return ExitCode::FAILURE;
    };
    let (input, output) = (real.stdin.take(), real.stdout.take());
    let (Some(mut input), Some(output)) = (input, output) else { return ExitCode::FAILURE };
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            println!("{line}");
        }
        end_as(real.wait().ok());
    });
    for line in std::io::stdin().lines().map_while(Result::ok) {
        let is = |fault: Fault| line.contains("\"execute\"") && line.contains(&format!("\"{}\"", fault.name()));
        if is(Fault::Exit) {
            std::process::exit(0);
        }
        if is(Fault::Abort) {
            std::process::abort();
        }
        if is(Fault::Garbage) {
            println!("garbage");
        }
        if writeln!(input, "{line}").and_then(|()| input.flush()).is_err() {
            break;
        }
    }
    ExitCode::SUCCESS
}

/// Ends this process as the real worker ended.
fn end_as(status: Option<ExitStatus>) -> ! {
    if let Some(signal) = status.and_then(|s| s.signal()) {
        let killed = Command::new("/bin/sh").args(["-c", &format!("kill -{signal} $$")]).exec();
        eprintln!("the shell could not be started: {killed}");
    }
    std::process::exit(status.and_then(|s| s.code()).unwrap_or(1))
}

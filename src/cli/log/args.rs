//! What may be typed after `daylight log`.

use crate::log::Outcome;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

#[derive(Args, Debug)]
pub struct Log {
    #[command(subcommand)]
    pub action: Action,
}

/// What to do with logs.
#[derive(Subcommand, Debug)]
pub enum Action {
    /// List records, winners, or what failed and why
    #[command(after_help = "Example:\n  daylight log show tuning-logs/cuda-sm_90a.jsonl --workload mean --best")]
    Show(Show),
    /// Compare two logs: which functions became slower or faster, beyond chance
    #[command(after_help = "Example:\n  daylight log diff main.jsonl branch.jsonl --fail-above 5%

Compared are the winners of each function on the same target, device and policy. A change is beyond the 95 % \
interval of the samples, 2 %, and 3.5 times what functions differ by from run to run.")]
    Diff(Diff),
    /// Join logs into one file that holds every record once, whatever their order
    #[command(after_help = "Example:\n  daylight log merge parts/1.jsonl parts/2.jsonl --out all.jsonl

An input is never overwritten: a run may be appending to it. Another file is replaced only when \
the result holds every record in it.")]
    Merge(Merge),
    /// Write a smaller log that gives the same choices
    #[command(after_help = "Example:\n  daylight log compact cpu.jsonl --drop-traces --out cpu.jsonl.gz")]
    Compact(Compact),
    /// Check checksums, layout, and that outcomes agree with fields; exit code 1 where anything is wrong
    #[command(after_help = "Example:\n  daylight log verify tuning-logs")]
    Verify(Verify),
    /// Write records as a table or in the format of other tuners
    #[command(after_help = "Example:\n  daylight log export tuning-logs --format csv --out log.csv
  daylight log export tuning-logs --format t4 --workload mean --out mean.json")]
    Export(Export),
}

/// Which records count.
#[derive(Args, Debug, Default)]
pub struct Filter {
    /// Only workloads whose name or key starts with this
    #[arg(long, value_name = "NAME")]
    pub workload: Option<String>,
    /// Only this target, or all targets of cuda or cpu
    #[arg(long, value_name = "T")]
    pub target: Option<String>,
    /// Only this outcome
    #[arg(long, value_name = "OUTCOME", value_parser = outcome())]
    pub outcome: Option<Outcome>,
    /// Only this rule, or one of its forms
    #[arg(long, value_name = "R")]
    pub rule: Option<String>,
}

fn outcome() -> impl TypedValueParser<Value = Outcome> {
    let names = PossibleValuesParser::new(Outcome::ALL.map(Outcome::name));
    names.try_map(|name| Outcome::named(&name).ok_or("no outcome has this name"))
}

#[derive(Args, Debug)]
pub struct Show {
    /// Log files or folders of them
    #[arg(required = true, value_name = "LOG")]
    pub logs: Vec<PathBuf>,
    #[command(flatten)]
    pub filter: Filter,
    /// Only the winner of each workload, target, machine and policy
    #[arg(long, conflicts_with = "losers")]
    pub best: bool,
    /// What failed, by reason: how often, and an example
    #[arg(long)]
    pub losers: bool,
    /// At most so many lines
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
}

#[derive(Args, Debug)]
pub struct Diff {
    /// Log file or folder of before
    #[arg(value_name = "BEFORE")]
    pub before: PathBuf,
    /// Log file or folder of after
    #[arg(value_name = "AFTER")]
    pub after: PathBuf,
    /// End with exit code 1 where a function became slower by more than this, or has no kernel any more
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub fail_above: Option<f64>,
    /// Write Markdown
    #[arg(long)]
    pub markdown: bool,
    /// List functions that did not change as well
    #[arg(long, conflicts_with = "markdown")]
    pub all: bool,
}

/// `5%` or `5`.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches('%').trim_end().parse::<f64>().ok().filter(|p| p.is_finite() && *p >= 0.0);
    number.ok_or_else(|| "expected percent, such as 5%".to_string())
}

#[derive(Args, Debug)]
pub struct Merge {
    /// Log files or folders of them
    #[arg(required = true, value_name = "LOG")]
    pub logs: Vec<PathBuf>,
    /// The file to write; compressed when its name ends in .gz
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
}

#[derive(Args, Debug)]
pub struct Compact {
    /// Log file or folder
    #[arg(value_name = "LOG")]
    pub log: PathBuf,
    /// The file to write; compressed when its name ends in .gz
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// Leave out the schedule steps of candidates that lost
    #[arg(long)]
    pub drop_traces: bool,
}

#[derive(Args, Debug)]
pub struct Verify {
    /// Log files or folders of them
    #[arg(required = true, value_name = "LOG")]
    pub logs: Vec<PathBuf>,
}

#[derive(Args, Debug)]
pub struct Export {
    /// Log files or folders of them
    #[arg(required = true, value_name = "LOG")]
    pub logs: Vec<PathBuf>,
    #[command(flatten)]
    pub filter: Filter,
    /// What to write
    #[arg(long, value_enum)]
    pub format: Format,
    /// The file to write; for t4 also a folder, which gets a file for each workload and machine
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
}

/// Formats of other programs.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// Kernel Tuner's T4 results, as JSON
    T4,
    /// One row for each record, one column for each knob
    Csv,
}

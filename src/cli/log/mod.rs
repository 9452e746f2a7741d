//! `daylight log`: reads, compares, joins, shrinks, checks and exports tuning logs. One file for each action.

pub mod args;
mod compact;
mod diff;
mod export;
mod losers;
mod merge;
mod show;
mod verify;

use super::context::Context;
use super::output;
use crate::job::{Exit, Failure};
use crate::log::{self, LogFile, Record};
use crate::rules::is_form_of;
use args::{Action, Filter};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Runs the command.
pub fn run(cx: &Context, a: &args::Log) -> Result<Exit, Failure> {
    match &a.action {
        Action::Show(a) => show::run(cx, a),
        Action::Diff(a) => diff::run(cx, a),
        Action::Merge(a) => merge::run(cx, a),
        Action::Compact(a) => compact::run(cx, a),
        Action::Verify(a) => verify::run(cx, a),
        Action::Export(a) => export::run(cx, a),
    }
}

/// Reads logs and says which lines were left out.
fn read(paths: &[PathBuf]) -> Result<Vec<LogFile>, Failure> {
    let mut logs = vec![];
    for path in paths {
        let log = log::read(path).map_err(Failure::usage)?;
        log.skipped.iter().for_each(|s| output::note(&s.to_string()));
        logs.push(log);
    }
    Ok(logs)
}

/// Reads all records of some logs.
fn records(paths: &[PathBuf]) -> Result<Vec<Record>, Failure> {
    Ok(read(paths)?.into_iter().flat_map(|l| l.records).collect())
}

/// True when the record is about what was asked for, whatever its outcome.
fn is_about(r: &Record, f: &Filter, cx: &Context) -> bool {
    let starts = |w: &String| r.workload.name.starts_with(w) || r.workload.key.starts_with(w);
    let of_kind = |t: &String| r.target == *t || r.target.split(':').next() == Some(t);
    f.workload.as_ref().is_none_or(starts)
        && f.target.as_ref().is_none_or(of_kind)
        && f.rule.as_ref().is_none_or(|rule| is_form_of(&r.rule, rule))
        && cx.reading.bind.iter().all(|(name, value)| r.bind.get(name) == Some(value))
}

/// True when the record has the outcome that was asked for.
fn has_outcome(r: &Record, f: &Filter) -> bool {
    f.outcome.is_none_or(|o| r.outcome == o)
}

/// Fails when the file to write is one of the logs that are read.
fn not_an_input(out: &Path, logs: &[PathBuf]) -> Result<(), Failure> {
    let Ok(real) = out.canonicalize() else { return Ok(()) };
    for log in logs {
        for file in log::files(log).map_err(Failure::usage)? {
            if file.canonicalize().is_ok_and(|f| f == real) {
                let message = "it is one of the logs that are read, and a run may be appending to it; \
                               name another file with --out";
                return Err(Failure::usage(format!("cannot write {}: {message}", out.display())));
            }
        }
    }
    Ok(())
}

/// Fails when the file to write holds something that is not among `records`, which would be lost.
/// `identity` says which records are the same.
fn loses_nothing(out: &Path, records: &[Record], identity: fn(&Record) -> String) -> Result<(), Failure> {
    if !out.is_file() {
        return Ok(());
    }
    let there = log::read(out).map_err(Failure::usage)?;
    let known: BTreeSet<String> = records.iter().map(identity).collect();
    let lost = there.skipped.len() + there.records.iter().filter(|r| !known.contains(&identity(r))).count();
    if lost == 0 {
        return Ok(());
    }
    let message =
        format!("it holds {lost} lines that the result would lose; remove it or name another file with --out");
    Err(Failure::usage(format!("cannot replace {}: {message}", out.display())))
}

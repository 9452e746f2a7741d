//! `daylight log compact`: a smaller log that gives the same choices.

use super::super::context::Context;
use super::super::output;
use super::{args, loses_nothing, not_an_input, read};
use crate::job::{Exit, Failure};
use crate::log::{self, Record};
use serde_json::json;
use std::path::Path;

pub fn run(cx: &Context, a: &args::Compact) -> Result<Exit, Failure> {
    let logs = std::slice::from_ref(&a.log);
    not_an_input(&a.out, logs)?;
    let read = read(logs)?;
    let (found, skipped): (usize, usize) = (read[0].records.len(), read[0].skipped.len());
    let all = log::merge(&read);
    loses_nothing(&a.out, &all, without_trace)?;
    let kept = log::compact(&all, a.drop_traces);
    log::write(&a.out, &kept).map_err(Failure::usage)?;
    let before: u64 = log::files(&a.log).map_err(Failure::usage)?.iter().map(|f| size(f)).sum();
    let (records, dropped, after, out) = (kept.len(), found - kept.len(), size(&a.out), a.out.display());
    if cx.json {
        let counts = json!({
            "schema": 1, "out": out.to_string(), "records": records, "dropped": dropped, "skipped": skipped,
            "bytes_before": before, "bytes": after,
        });
        output::line(&counts.to_string());
    }
    output::note(&format!(
        "{out}: {records} records; {dropped} that decide nothing and {skipped} damaged lines left out; \
         {before} bytes became {after}"
    ));
    Ok(Exit::Done)
}

/// What an earlier compaction may have changed does not count.
fn without_trace(r: &Record) -> String {
    Record { trace: vec![], variants: vec![], ..r.clone() }.to_line()
}

fn size(file: &Path) -> u64 {
    std::fs::metadata(file).map_or(0, |m| m.len())
}

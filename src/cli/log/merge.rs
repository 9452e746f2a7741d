//! `daylight log merge`: the union of logs.

use super::super::context::Context;
use super::super::output;
use super::{args, loses_nothing, not_an_input, read};
use crate::job::{Exit, Failure};
use crate::log::{self, Record};
use serde_json::json;

pub fn run(cx: &Context, a: &args::Merge) -> Result<Exit, Failure> {
    not_an_input(&a.out, &a.logs)?;
    let logs = read(&a.logs)?;
    let found: usize = logs.iter().map(|l| l.records.len()).sum();
    let skipped: usize = logs.iter().map(|l| l.skipped.len()).sum();
    let merged = log::merge(&logs);
    loses_nothing(&a.out, &merged, Record::to_line)?;
    log::write(&a.out, &merged).map_err(Failure::usage)?;
    let (records, duplicates) = (merged.len(), found - merged.len());
    if cx.json {
        let out = a.out.display().to_string();
        let counts =
            json!({ "schema": 1, "out": out, "records": records, "duplicates": duplicates, "skipped": skipped });
        output::line(&counts.to_string());
    }
    let out = a.out.display();
    output::note(&format!("{out}: {records} records; {duplicates} duplicates and {skipped} damaged lines left out"));
    Ok(Exit::Done)
}

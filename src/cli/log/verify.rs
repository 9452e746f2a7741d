//! `daylight log verify`: what is wrong with logs.

use super::super::context::Context;
use super::super::output;
use super::args;
use crate::job::{Exit, Failure};
use crate::log;
use serde_json::json;

pub fn run(cx: &Context, a: &args::Verify) -> Result<Exit, Failure> {
    let (mut records, mut problems) = (0, 0);
    for path in &a.logs {
        let checked = log::verify(path).map_err(Failure::usage)?;
        records += checked.records;
        problems += checked.problems.len();
        for p in &checked.problems {
            let file = p.file.display().to_string();
            output::line(&if cx.json {
                json!({ "schema": 1, "file": file, "line": p.line, "problem": p.why }).to_string()
            } else {
                format!("{file}:{}: {}", p.line, p.why)
            });
        }
    }
    output::note(&format!("{records} records, {problems} problems"));
    Ok(if problems == 0 { Exit::Done } else { Exit::Failed })
}

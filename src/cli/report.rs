//! `daylight report`: a log as a page, and as tables in CSV and Markdown.

use super::args;
use super::context::Context;
use super::output;
use crate::job::{Exit, Failure};
use crate::{apply, log, report};
use serde_json::json;
use std::collections::BTreeMap;

/// Runs the command: writes `report.html`, `report.csv` and `report.md`.
pub fn run(cx: &Context, a: &args::Report) -> Result<Exit, Failure> {
    let log = log::read(&a.log).map_err(Failure::usage)?;
    log.skipped.iter().for_each(|s| output::note(&s.to_string()));
    let rows = report::rows(&log.records);
    let table = report::csv(&rows).map_err(Failure::usage)?;
    let files = BTreeMap::from([
        ("report.csv".to_string(), table.into_bytes()),
        ("report.html".to_string(), report::html(&rows).into_bytes()),
        ("report.md".to_string(), report::markdown(&rows).into_bytes()),
    ]);
    apply::write(&files, &a.out).map_err(Failure::usage)?;
    let path = a.out.join("report.html");
    for row in &rows {
        if cx.json {
            output::line(&line(row).to_string());
        }
    }
    output::note(&format!("{} rows in {}", rows.len(), path.display()));
    Ok(Exit::Done)
}

fn line(row: &report::Row<'_>) -> serde_json::Value {
    json!({
        "schema": 1,
        "name": row.any.workload.name,
        "workload": row.any.workload.key,
        "bind": row.any.bind,
        "target": row.any.target,
        "gpu": row.any.env.gpu,
        "default_us": row.default_us,
        "best_us": row.best_us,
        "rule": row.best.map(|b| &b.rule),
        "knobs": row.best.map(|b| &b.knobs),
    })
}

//! `daylight report`: a log as a page, and as tables in CSV and Markdown.

use super::args;
use super::context::Context;
use super::output;
use crate::analysis::work;
use crate::job::{Exit, Failure, Input};
use crate::{apply, log, report};
use serde_json::json;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Runs the command: writes `report.html`, `report.csv`, `report.md` and `roofline.svg`.
pub fn run(cx: &Context, a: &args::Report) -> Result<Exit, Failure> {
    let log = log::read(&a.log).map_err(Failure::usage)?;
    log.skipped.iter().for_each(|s| output::note(&s.to_string()));
    let mut benches = vec![];
    for path in &a.bench {
        benches.extend(report::read_bench(path).map_err(Failure::usage)?);
    }
    let mut rows = report::rows(&log.records);
    report::join(&mut rows, &benches);
    let worst = add_work(cx, &a.functions, &mut rows)?;
    let table = report::csv(&rows).map_err(Failure::usage)?;
    let files = BTreeMap::from([
        ("report.csv".to_string(), table.into_bytes()),
        ("report.html".to_string(), report::html(&rows).into_bytes()),
        ("report.md".to_string(), report::markdown(&rows).into_bytes()),
        ("roofline.svg".to_string(), report::roofline(&rows).into_bytes()),
    ]);
    apply::write(&files, &a.out).map_err(Failure::usage)?;
    let path = a.out.join("report.html");
    for row in &rows {
        if cx.json {
            output::line(&line(row).to_string());
        }
    }
    output::note(&format!("{} rows in {}", rows.len(), path.display()));
    Ok(worst)
}

/// Works out what there is to do where the records do not say so, from the functions themselves.
fn add_work(cx: &Context, files: &[PathBuf], rows: &mut [report::Row<'_>]) -> Result<Exit, Failure> {
    let mut worst = Exit::Done;
    let mut known: BTreeMap<String, Input> = BTreeMap::new();
    for input in cx.load(files)? {
        match input {
            Ok(input) => drop(known.insert(input.key.clone(), input)),
            Err(bad) => {
                output::note(&format!("daylight: {}", bad.failure.message));
                worst = worst.max(bad.failure.exit);
            }
        }
    }
    for row in rows.iter_mut().filter(|row| row.work.is_none()) {
        let Some(input) = known.get(&row.any.workload.key) else { continue };
        let found = work(&input.original.bind(&row.any.bind));
        row.work = log::Work::of(found.flops, found.bytes);
    }
    Ok(worst)
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

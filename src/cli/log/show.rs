//! `daylight log show`: the records of a log, one line each.

use super::super::context::Context;
use super::super::output;
use super::{args, has_outcome, is_about, losers, records};
use crate::job::{Exit, Failure};
use crate::log::{self, Outcome, Record, Warning};
use serde_json::json;

pub fn run(cx: &Context, a: &args::Show) -> Result<Exit, Failure> {
    let all = records(&a.logs)?;
    let about: Vec<&Record> = all.iter().filter(|r| is_about(r, &a.filter, cx)).collect();
    // A winner is chosen among all outcomes: a candidate that was once wrong is out.
    let mut shown = if a.best { winners(&about) } else { about };
    shown.retain(|r| has_outcome(r, &a.filter));
    let limit = a.limit.unwrap_or(usize::MAX);
    if a.losers {
        reasons(cx, &shown, limit);
        return Ok(Exit::Done);
    }
    let found = shown.len();
    shown.truncate(limit);
    for r in &shown {
        output::line(&if cx.json { r.to_line().trim_end().to_string() } else { text(r) });
    }
    let cut = if shown.len() < found { format!(", {} shown", shown.len()) } else { String::new() };
    output::note(&format!("{found} of {} records{cut}", all.len()));
    Ok(Exit::Done)
}

/// The winner of each group of records that may be compared.
fn winners<'a>(records: &[&'a Record]) -> Vec<&'a Record> {
    let groups = log::selections(records.iter().copied());
    groups.values().filter_map(|g| log::choose(g)).map(|t| t.record).collect()
}

/// Prints failures by reason.
fn reasons(cx: &Context, shown: &[&Record], limit: usize) {
    let groups = losers::groups(shown);
    let failed: usize = groups.iter().map(|g| g.count).sum();
    for g in groups.iter().take(limit) {
        output::line(&if cx.json {
            let outcome = g.outcome.name();
            json!({ "schema": 1, "outcome": outcome, "reason": g.reason, "count": g.count, "example": g.example })
                .to_string()
        } else {
            format!("{:>6} x {:<14}  {}; such as {}", g.count, g.outcome.name(), g.reason, text(g.example).trim_start())
        });
    }
    output::note(&format!("{failed} failures of {} records, {} reasons", shown.len(), groups.len()));
}

fn text(r: &Record) -> String {
    let bind: Vec<String> = r.bind.iter().map(|(k, v)| format!("{k}={v}")).collect();
    let reason = r.reason.as_deref().map(|s| format!("  {}", s.lines().next().unwrap_or(""))).unwrap_or_default();
    let default = if r.default { "  (default)" } else { "" };
    let name = [r.workload.name.clone(), bind.join(",")].into_iter().filter(|s| !s.is_empty()).collect::<Vec<_>>();
    let (name, knobs) = (name.join(" "), log::pairs(&r.knobs));
    let names: Vec<&str> = r.warnings.iter().map(Warning::name).collect();
    let warnings = if names.is_empty() { String::new() } else { format!("  (warnings: {})", names.join("; ")) };
    format!("{:>14}  {name}  {}  {} {knobs}{default}{warnings}{reason}", result(r), r.target, r.rule)
}

/// The time, the rank, or how it failed.
fn result(r: &Record) -> String {
    match (log::median(&r.samples_ns), r.outcome, r.score) {
        (Some(ns), _, _) => format!("{:.3} us", ns / 1e3),
        (None, Outcome::Predicted, Some(score)) => format!("rank {score:.3e}"),
        (None, outcome, _) => outcome.name().to_string(),
    }
}

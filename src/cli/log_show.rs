//! `daylight log show`: the records of a log, one line each.

use super::args;
use super::context::Context;
use super::exit::{Exit, Failure};
use super::output;
use crate::log::{self, Record};
use std::collections::BTreeMap;

/// Runs the command.
pub fn run(cx: &Context, a: &args::Log) -> Result<Exit, Failure> {
    match &a.action {
        args::LogAction::Show(a) => show(cx, a),
    }
}

fn show(cx: &Context, a: &args::LogShow) -> Result<Exit, Failure> {
    let mut records = vec![];
    for path in &a.logs {
        let log = log::read(path).map_err(Failure::usage)?;
        log.skipped.iter().for_each(|s| output::note(&s.to_string()));
        records.extend(log.records);
    }
    if let Some(wanted) = &a.workload {
        records.retain(|r| r.workload.name.starts_with(wanted) || r.workload.key.starts_with(wanted));
    }
    let shown = if a.best { winners(&records) } else { records.iter().collect() };
    for r in &shown {
        output::line(&if cx.json { r.to_line().trim_end().to_string() } else { text(r) });
    }
    output::note(&format!("{} of {} records", shown.len(), records.len()));
    Ok(Exit::Done)
}

/// The winner of each group of records that may be compared.
fn winners(records: &[Record]) -> Vec<&Record> {
    let mut groups: BTreeMap<_, Vec<&Record>> = BTreeMap::new();
    for r in records {
        groups.entry((&r.workload.key, &r.bind, &r.target, &r.env, &r.policy)).or_default().push(r);
    }
    groups.values().filter_map(|g| log::choose(g)).map(|t| t.record).collect()
}

fn text(r: &Record) -> String {
    let knobs: Vec<String> = r.knobs.iter().map(|(k, v)| format!("{k}={v}")).collect();
    let bind: Vec<String> = r.bind.iter().map(|(k, v)| format!("{k}={v}")).collect();
    let time = log::median(&r.samples_ns).map_or(r.outcome.name().to_string(), |ns| format!("{:.3} us", ns / 1e3));
    let reason = r.reason.as_deref().map(|s| format!("  {}", s.lines().next().unwrap_or(""))).unwrap_or_default();
    let default = if r.default { "  (default)" } else { "" };
    let name = [r.workload.name.clone(), bind.join(",")].into_iter().filter(|s| !s.is_empty()).collect::<Vec<_>>();
    format!("{:>14}  {}  {}  {} {}{default}{reason}", time, name.join(" "), r.target, r.rule, knobs.join(" "))
}

//! `daylight log diff`: what became slower or faster from one log to another.

use super::super::context::Context;
use super::super::output;
use super::{args, records};
use crate::job::{Exit, Failure};
use crate::log::{Record, Timing, pairs};
use crate::report::{self, Change, Diff};
use serde_json::{Value, json};

pub fn run(cx: &Context, a: &args::Diff) -> Result<Exit, Failure> {
    let before = records(std::slice::from_ref(&a.before))?;
    let after = records(std::slice::from_ref(&a.after))?;
    let diff = report::diff(&before, &after);
    if diff.changes.is_empty() {
        let message = "no function has a time in both logs on the same target, device and policy; `daylight log show --best` lists \
                       those of one";
        return Err(Failure::usage(message));
    }
    match (cx.json, a.markdown) {
        (true, _) => diff.changes.iter().for_each(|c| output::line(&line(c).to_string())),
        (_, true) => output::text(&report::diff_markdown(&diff)),
        _ => table(&diff, a.all),
    }
    output::note(&summary(&diff));
    list("without a time now", &diff.lost);
    list("only before", &diff.only_before);
    list("only after", &diff.only_after);
    match a.fail_above {
        Some(percent) if diff.fails_above(percent / 100.0) => {
            output::note(&format!("daylight: slower by more than {percent} %, or without a kernel"));
            Ok(Exit::Failed)
        }
        _ => Ok(Exit::Done),
    }
}

/// The changes, a line each: those beyond chance, or all.
fn table(diff: &Diff, all: bool) {
    let shown: Vec<&Change> = if all { diff.changes.iter().collect() } else { diff.changed().collect() };
    if shown.is_empty() {
        return;
    }
    output::line(&format!("{:>10} {:>10} {:>8} {:>7}  {:<7} function", "before us", "after us", "change", "+-", ""));
    for c in shown {
        let r = c.after.record;
        let sizes = if r.bind.is_empty() { String::new() } else { format!(" {}", pairs(&r.bind)) };
        output::line(&format!(
            "{:>10.3} {:>10.3} {:>+6.1} % {:>5.1} %  {:<7} {}{sizes} on {}{}",
            c.before.median_ns / 1e3,
            c.after.median_ns / 1e3,
            c.change.value * 100.0,
            c.margin() * 100.0,
            c.verdict.name(),
            r.workload.name,
            r.target,
            kernels(c)
        ));
    }
}

/// What another candidate won with.
fn kernels(c: &Change) -> String {
    let (was, is) = (c.before.record, c.after.record);
    match was.candidate() == is.candidate() {
        true => String::new(),
        false if was.rule == is.rule => format!(", {} with other knobs", is.rule),
        false => format!(", {} instead of {}", is.rule, was.rule),
    }
}

fn summary(diff: &Diff) -> String {
    let spread = match diff.spread > 0.0 {
        true => format!("; times differ by {:.1} % from run to run", diff.spread * 100.0),
        false => String::new(),
    };
    let (functions, mean) = (diff.changes.len(), (diff.mean() - 1.0) * 100.0);
    format!("{functions} functions: {}; {mean:+.1} % in the geometric mean{spread}", diff.verdicts())
}

fn list(what: &str, records: &[&Record]) {
    if !records.is_empty() {
        let names: Vec<&str> = records.iter().take(5).map(|r| r.workload.name.as_str()).collect();
        let more = if records.len() > 5 { ", ..." } else { "" };
        output::note(&format!("{} {what}: {}{more}", records.len(), names.join(", ")));
    }
}

fn line(c: &Change) -> Value {
    let r = c.after.record;
    let side = |t: &Timing| {
        json!({ "us": t.median_ns / 1e3, "rule": t.record.rule, "knobs": t.record.knobs, "daylight": t.record.env.daylight,
                "driver": t.record.env.driver, "compiler": t.record.env.nvrtc })
    };
    json!({
        "schema": 1, "name": r.workload.name, "workload": r.workload.key, "bind": r.bind, "target": r.target, "gpu": r.env.gpu,
        "policy": r.policy.id, "before": side(&c.before), "after": side(&c.after), "change": c.change.value,
        "low": c.change.low, "high": c.change.high, "verdict": c.verdict.name(),
    })
}

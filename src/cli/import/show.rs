//! What is said of a step: its calls, and what they took before and after.

use crate::assemble::label;
use crate::job::{Called, Report, Step};
use serde_json::{Value, json};
use std::path::Path;

/// A step of a module.
pub struct Shown {
    /// The module's file, as it was named.
    pub file: String,
    /// What is called.
    pub step: Step,
}

/// What tuning gave.
pub struct Tuned<'t> {
    /// One for each function at each size that could be tuned.
    pub reports: &'t [Report],
    /// Why others could not.
    pub failed: &'t [String],
    /// The log.
    pub log: &'t Path,
}

/// One function at one size: microseconds of one call.
struct Row<'s> {
    called: &'s Called,
    times: Option<(f64, f64)>,
}

impl Row<'_> {
    fn name(&self) -> String {
        let input = &self.called.input;
        input.unbound().iter().fold(label(&input.name, &input.bind), |text, open| format!("{text} {open}=?"))
    }

    /// Microseconds per step, untuned and tuned.
    fn per_step(&self) -> Option<(f64, f64)> {
        let calls = self.called.calls as f64;
        self.times.map(|(default, best)| (calls * default, calls * best))
    }
}

impl Shown {
    fn rows(&self, tuned: Option<&Tuned<'_>>) -> Vec<Row<'_>> {
        let row = |called| Row { called, times: tuned.and_then(|t| times(t.reports, called)) };
        self.step.called.iter().map(row).collect()
    }

    /// The functions with their calls, a line each, and what is not among them.
    pub fn list(&self) -> Vec<String> {
        let rows = self.rows(None);
        let calls: u64 = rows.iter().map(|r| r.called.calls).fold(0, u64::saturating_add);
        let width = width(&rows);
        let (file, entry) = (&self.file, &self.step.entry);
        let mut out = vec![format!("{entry} of {file}: {calls} calls of {} tensor functions", rows.len())];
        out.push(format!("{:<width$} {:>7}  first call", "function", "calls"));
        for r in &rows {
            let (line, column) = r.called.at;
            out.push(format!("{:<width$} {:>7}  {file}:{line}:{column}", r.name(), r.called.calls));
        }
        out.extend(self.left_out());
        out
    }

    /// What a step does besides, and what it never calls.
    fn left_out(&self) -> Vec<String> {
        let mut out = vec![];
        if !self.step.others.is_empty() {
            let others: Vec<String> = self.step.others.iter().map(|(name, n)| format!("{name} ({n})")).collect();
            out.push(format!("not counted, no tensor functions: {}", others.join(", ")));
        }
        if !self.step.idle.is_empty() {
            out.push(format!("not called by {}: {}", self.step.entry, self.step.idle.join(", ")));
        }
        out
    }

    /// Where the time of a step goes, the longest first, and how long a step is before and after.
    pub fn table(&self, tuned: &Tuned<'_>) -> Vec<String> {
        let mut rows = self.rows(Some(tuned));
        let (default, best) = sums(&rows);
        rows.sort_by(|a, b| per_step(b).total_cmp(&per_step(a)));
        let width = width(&rows);
        let mut out = vec![format!(
            "{:<width$} {:>7} {:>12} {:>12} {:>12} {:>8}",
            "function", "calls", "default us", "best us", "us per step", "of step"
        )];
        for r in &rows {
            let (name, calls) = (r.name(), r.called.calls);
            out.push(match (r.times, r.per_step()) {
                (Some((default, tuned)), Some((_, step))) => {
                    let share = 100.0 * step / best;
                    format!("{name:<width$} {calls:>7} {default:>12.2} {tuned:>12.2} {step:>12.2} {share:>6.1} %")
                }
                _ => format!("{name:<width$} {calls:>7} {:>12} {:>12}  not in the sum", "-", "-"),
            });
        }
        out.push(match best > 0.0 {
            true => {
                let (entry, times) = (&self.step.entry, default / best);
                format!("a step of {entry}: {default:.2} us before, {best:.2} us after, {times:.2} times as fast")
            }
            false => format!("a step of {}: nothing could be timed", self.step.entry),
        });
        out.extend(self.left_out());
        out
    }

    /// All of it as one object; times are null where nothing was tuned.
    pub fn json(&self, tuned: Option<&Tuned<'_>>) -> String {
        let rows = self.rows(tuned);
        let (default, best) = sums(&rows);
        let step = |us: f64| (us > 0.0).then_some(us);
        let function = |r: &Row<'_>| {
            let input = &r.called.input;
            json!({
                "name": input.name,
                "bind": input.bind,
                "unbound": input.unbound(),
                "calls": r.called.calls,
                "line": r.called.at.0,
                "column": r.called.at.1,
                "default_us": r.times.map(|t| t.0),
                "best_us": r.times.map(|t| t.1),
                "share": r.per_step().map(|(_, us)| us / best),
            })
        };
        let others = self.step.others.iter().map(|(name, calls)| json!({ "name": name, "calls": calls }));
        let report = tuned.and_then(|t| t.reports.first());
        let object = json!({
            "schema": 1,
            "file": self.file,
            "entry": self.step.entry,
            "target": report.map(|r| &r.target),
            "device": report.map(|r| &r.device),
            "functions": rows.iter().map(function).collect::<Vec<Value>>(),
            "others": others.collect::<Vec<Value>>(),
            "idle": self.step.idle,
            "failed": tuned.map_or(&[][..], |t| t.failed),
            "default_us": step(default),
            "best_us": step(best),
            "log": tuned.map(|t| t.log.display().to_string()),
        });
        object.to_string()
    }
}

fn times(reports: &[Report], called: &Called) -> Option<(f64, f64)> {
    let found = reports.iter().find(|r| r.name == called.input.name && r.bind == called.input.bind)?;
    found.default_us.zip(found.best_us)
}

/// Microseconds of a step, untuned and tuned.
fn sums(rows: &[Row<'_>]) -> (f64, f64) {
    rows.iter().filter_map(Row::per_step).fold((0.0, 0.0), |(d, b), (default, best)| (d + default, b + best))
}

fn per_step(row: &Row<'_>) -> f64 {
    row.per_step().map_or(0.0, |(_, best)| best)
}

fn width(rows: &[Row<'_>]) -> usize {
    rows.iter().map(|r| r.name().chars().count()).max().unwrap_or(0).max(8)
}

//! What tuning one function gave, and what all of them mean for the user's program.

use crate::assemble::label;
use crate::log::{self, Setting};
use serde::Serialize;
use std::collections::BTreeMap;

/// The result for one function; the order of the fields is the order in the JSON.
#[derive(Serialize, Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Report {
    /// Layout of this object.
    pub schema: u32,
    /// The file, as it was named.
    pub file: String,
    /// The function's name.
    pub name: String,
    /// Key of the workload.
    pub workload: String,
    /// Values of the bound extents.
    pub bind: BTreeMap<String, i64>,
    /// Target id.
    pub target: String,
    /// Name of the device.
    pub device: String,
    /// The winner's rule; `None` where no candidate survived.
    pub rule: Option<String>,
    /// The winner's knobs.
    pub knobs: BTreeMap<String, Setting>,
    /// The winner's tile variants.
    pub variants: Vec<log::Variant>,
    /// Calls per step, as the weights say.
    pub calls: f64,
    /// Time of the untuned choice in microseconds.
    pub default_us: Option<f64>,
    /// Time of the winner in microseconds.
    pub best_us: Option<f64>,
    /// How many times as fast as the default the winner is, from samples of both taken turn by turn.
    pub speedup: Option<f64>,
    /// Ends of the 95 % interval of that.
    pub speedup_interval: Option<[f64; 2]>,
    /// Spread of the default's samples then, as a share: what this machine's readings scatter by.
    pub spread: Option<f64>,
    /// Time that a good kernel needs in microseconds.
    pub floor_us: Option<f64>,
    /// Points tried by this run.
    pub candidates: usize,
    /// Points ruled out before or after compiling.
    pub pruned: usize,
    /// Points compiled.
    pub compiled: usize,
    /// Points right and timed.
    pub measured: usize,
    /// Points that failed, by outcome.
    pub failed: BTreeMap<String, usize>,
    /// Points ruled out, by predicate.
    pub pruned_by: BTreeMap<String, usize>,
    /// The knob space.
    pub space: SpaceReport,
    /// Points that the log knew.
    pub resumed: usize,
    /// Why the search ended; `None` after an interruption.
    pub stop: Option<String>,
    /// Share of the time after the first candidate in which the device checked and timed.
    pub device_busy: Option<f64>,
    /// Seconds in which devices checked and timed.
    pub device_busy_s: f64,
    /// Seconds of building and compiling, all threads together.
    pub compile_s: f64,
    /// Seconds that the device waited, by what for.
    pub device_waited_s: BTreeMap<String, f64>,
    /// The untuned choice, rule and knobs.
    pub default: Option<String>,
    /// One example of each reason that made points fail, by reason.
    pub examples: BTreeMap<String, String>,
    /// True when it ended early by request.
    pub interrupted: bool,
    /// Seconds taken.
    pub seconds: f64,
}

impl Report {
    /// The report of a run that went on where `before` ended: what both tried.
    pub fn after(self, before: &Report) -> Report {
        Report {
            candidates: self.candidates + before.candidates,
            pruned: self.pruned + before.pruned,
            compiled: self.compiled + before.compiled,
            measured: self.measured + before.measured,
            failed: sum(&self.failed, &before.failed),
            pruned_by: sum(&self.pruned_by, &before.pruned_by),
            resumed: before.resumed,
            seconds: self.seconds + before.seconds,
            ..self
        }
    }
}

fn sum(a: &BTreeMap<String, usize>, b: &BTreeMap<String, usize>) -> BTreeMap<String, usize> {
    let mut out = a.clone();
    b.iter().for_each(|(k, n)| *out.entry(k.clone()).or_default() += n);
    out
}

/// How large a knob space is and what keeps points out of it.
#[derive(Serialize, Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct SpaceReport {
    /// All combinations of the tables' values.
    pub points: u64,
    /// Those that break no condition.
    pub legal: u64,
    /// The others, by the condition that they break first.
    pub ruled_out: BTreeMap<String, u64>,
}

/// One function's part in the time of a step.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Part {
    /// The function, with its sizes.
    pub name: String,
    /// Calls per step.
    pub calls: f64,
    /// Microseconds per step, untuned.
    pub default_us: f64,
    /// Microseconds per step, tuned.
    pub best_us: f64,
}

/// Where the time of a step goes and what tuning saved.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Totals {
    /// The functions that have times, the one that takes longest first.
    pub parts: Vec<Part>,
}

impl Totals {
    /// The totals of some functions.
    pub fn of(reports: &[Report]) -> Totals {
        let part = |r: &Report| {
            let (default, best) = (r.default_us?, r.best_us?);
            Some(Part {
                name: label(&r.name, &r.bind),
                calls: r.calls,
                default_us: r.calls * default,
                best_us: r.calls * best,
            })
        };
        let mut parts: Vec<Part> = reports.iter().filter_map(part).collect();
        parts.sort_by(|a, b| b.best_us.total_cmp(&a.best_us).then_with(|| a.name.cmp(&b.name)));
        Totals { parts }
    }

    /// Microseconds per step, untuned and tuned.
    pub fn sums(&self) -> (f64, f64) {
        (self.parts.iter().map(|p| p.default_us).sum(), self.parts.iter().map(|p| p.best_us).sum())
    }

    /// The table for people, a line each.
    pub fn table(&self) -> Vec<String> {
        let (default, best) = self.sums();
        let width = self.parts.iter().map(|p| p.name.chars().count()).max().unwrap_or(0).max(8);
        let line = |name: &str, calls: &str, default: f64, tuned: f64, share: f64| {
            let saved = default - tuned;
            format!("{name:<width$} {calls:>7} {default:>12.2} {tuned:>12.2} {saved:>12.2} {:>6.1} %", 100.0 * share)
        };
        let mut out = vec![format!(
            "{:<width$} {:>7} {:>12} {:>12} {:>12} {:>8}",
            "per step", "calls", "default us", "tuned us", "saved us", "of time"
        )];
        for p in &self.parts {
            // Where nothing is ever called there is no time to have a share of.
            let share = if best > 0.0 { p.best_us / best } else { 0.0 };
            out.push(line(&p.name, &p.calls.to_string(), p.default_us, p.best_us, share));
        }
        out.push(line("all", "", default, best, 1.0));
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_says_where_the_time_goes() {
        let part = |name: &str, calls: f64, default: f64, best: f64| Part {
            name: name.into(),
            calls,
            default_us: calls * default,
            best_us: calls * best,
        };
        let totals = Totals { parts: vec![part("gemv", 32.0, 12.0, 10.0), part("mean", 1.0, 90.0, 80.0)] };
        assert_eq!(totals.sums(), (474.0, 400.0));
        let table = totals.table().join("\n");
        assert_eq!(
            table,
            "\
per step   calls   default us     tuned us     saved us  of time
gemv          32       384.00       320.00        64.00   80.0 %
mean           1        90.00        80.00        10.00   20.0 %
all                    474.00       400.00        74.00  100.0 %"
        );
        let never = Totals { parts: vec![part("mean", 0.0, 90.0, 80.0)] };
        assert!(never.table()[1].ends_with("0.00    0.0 %"), "{:?}", never.table());
    }
}

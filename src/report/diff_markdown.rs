//! A comparison of two logs as Markdown, for comments of pull requests.

use super::diff::Diff;
use super::markdown::line;
use crate::log::pairs;

/// The changes beyond chance as a table, and how many there are of each kind.
pub fn diff_markdown(diff: &Diff) -> String {
    let mut out = format!("{}\n", diff.verdicts());
    let rows: Vec<String> = diff
        .changed()
        .map(|c| {
            let r = c.after.record;
            line(&[
                &r.workload.name,
                &pairs(&r.bind),
                &r.target,
                &format!("{:.3}", c.before.median_ns / 1e3),
                &format!("{:.3}", c.after.median_ns / 1e3),
                &format!("{:+.1} % ± {:.1}", c.change.value * 100.0, c.margin() * 100.0),
                c.verdict.name(),
                &format!("{} {}", r.rule, pairs(&r.knobs)),
            ])
        })
        .collect();
    if !rows.is_empty() {
        out += "\n| function | sizes | target | before (µs) | after (µs) | change | | kernel now |\n|---|---|---|---:|---:|---:|---|---|\n";
    }
    out + &rows.concat()
}

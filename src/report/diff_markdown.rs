//! A comparison of two logs as Markdown, for comments of pull requests.

use super::diff::{Diff, Verdict};
use super::markdown::line;
use crate::log::pairs;

/// The changes beyond chance as a table, and how many there are of each kind.
pub fn diff_markdown(diff: &Diff) -> String {
    let [slower, faster, same] = [Verdict::Slower, Verdict::Faster, Verdict::Same].map(|v| diff.count(v));
    let mut out = format!("{slower} slower, {faster} faster, {same} the same within chance\n");
    let shown = diff.changes.iter().filter(|c| c.verdict != Verdict::Same);
    let rows: Vec<String> = shown
        .map(|c| {
            let (r, half) = (c.after.record, (c.change.high - c.change.low) / 2.0);
            line(&[
                &r.workload.name,
                &pairs(&r.bind),
                &r.target,
                &format!("{:.3}", c.before.median_ns / 1e3),
                &format!("{:.3}", c.after.median_ns / 1e3),
                &format!("{:+.1} % ± {:.1}", c.change.value * 100.0, half * 100.0),
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

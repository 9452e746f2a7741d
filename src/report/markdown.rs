//! The report as Markdown: what was gained, who lost and why, where it was measured.
//!
//! Names and reasons in a log are untrusted: nothing of them is read as markup.

use super::{Row, losers, places};
use crate::log::pairs;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The report as Markdown. The same records give the same bytes, in any order.
pub fn markdown(rows: &[Row<'_>]) -> String {
    let mut out = String::from("# Daylight report\n\n## Functions\n\n");
    out += "Times are medians of the log's samples, in microseconds; the floor's share is floor over best.\n\n";
    out += "| function | sizes | target | default (µs) | best (µs) | speedup | floor (µs) | floor's share | rule | knobs |\n";
    out += "|---|---|---|---:|---:|---:|---:|---:|---|---|\n";
    rows.iter().for_each(|row| out += &function(row));
    out + &against(rows) + &lost(rows) + &measured(rows)
}

fn function(row: &Row<'_>) -> String {
    let floor = row.best.and_then(|b| b.floor_us);
    let ratio = |a: Option<f64>, b: Option<f64>| Some(a? / b?);
    let share = ratio(floor, row.best_us).map(|s| match s > 1.0 {
        true => "cache-resident".to_string(),
        false => format!("{:.1} %", s * 100.0),
    });
    line(&[
        &row.any.workload.name,
        &pairs(&row.any.bind),
        &row.any.target,
        &number(row.default_us),
        &number(row.best_us),
        &number(ratio(row.default_us, row.best_us)),
        &number(floor),
        &share.unwrap_or_default(),
        row.best.map(|b| b.rule.as_str()).unwrap_or_default(),
        &row.best.map(|b| pairs(&b.knobs)).unwrap_or_default(),
    ])
}

/// The contenders of the benches that were joined; nothing without them.
fn against(rows: &[Row<'_>]) -> String {
    let mut out = String::new();
    for row in rows {
        for peer in row.peers() {
            let (any, us, over) = (row.any, number(Some(peer.us)), number(peer.over_tuned));
            out += &line(&[&any.workload.name, &pairs(&any.bind), &any.target, peer.name, &us, &over]);
        }
    }
    if out.is_empty() {
        return out;
    }
    let head = "\n## Against others\n\nContenders of `daylight bench`, timed turn by turn in one run; the last column is its time over that of the \
                tuned kernel, turn by turn.\n\n| function | sizes | target | contender | time (µs) | over tuned |\n|---|---|---|---|---:|---:|\n";
    head.to_string() + &out
}

/// Candidates of all functions that have no time, by what became of them and why.
fn lost(rows: &[Row<'_>]) -> String {
    let mut counts: BTreeMap<_, usize> = BTreeMap::new();
    for (why, n) in rows.iter().flat_map(|row| losers(&row.group)) {
        *counts.entry(why).or_default() += n;
    }
    let mut out = String::from("\n## Candidates without a time\n\n| outcome | reason | candidates |\n|---|---|---:|\n");
    counts.iter().for_each(|((outcome, reason), n)| out += &line(&[outcome, reason, &n.to_string()]));
    out
}

fn measured(rows: &[Row<'_>]) -> String {
    let mut out = String::from("\n## Measured on\n\n| target | GPU | driver | NVRTC | Daylight | policy |\n");
    out += "|---|---|---|---|---|---|\n";
    places(rows).iter().for_each(|p| out += &line(p));
    out
}

/// A row of a table, its cells as text.
pub(super) fn line(cells: &[&str]) -> String {
    let mut out = String::from("|");
    for cell in cells {
        write!(out, " {} |", escape(cell)).expect("a String takes all");
    }
    out + "\n"
}

/// Text that Markdown shows as it is: what marks is escaped, lines are spaces.
fn escape(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' | '<' | '>' | '|' => write!(out, "&#{};", u32::from(c)).expect("a String takes all"),
            '`' | '*' | '_' | '[' | ']' | '\\' | '~' => out.extend(['\\', c]),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

fn number(x: Option<f64>) -> String {
    x.map(|x| format!("{x:.3}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::{Outcome, Record, Workload};
    use crate::report::rows;

    fn record(name: &str, x: i64, us: f64, outcome: Outcome) -> Record {
        let workload = Workload { key: "k".repeat(32), name: name.into() };
        Record {
            rule: "gemv".into(),
            knobs: [("threads".to_string(), x.into())].into(),
            samples_ns: if outcome == Outcome::Ok { vec![us * 1e3] } else { vec![] },
            reason: (outcome != Outcome::Ok).then(|| "a | b".to_string()),
            default: x == 1,
            floor_us: Some(15.0),
            ..Record::new(workload, BTreeMap::new(), "cuda:sm_90a", outcome)
        }
    }

    #[test]
    fn functions_and_losers_in_any_order_of_records() {
        let mut log = vec![record("f", 1, 40.0, Outcome::Ok), record("f", 2, 20.0, Outcome::Ok)];
        log.push(record("f", 3, 0.0, Outcome::WrongResult));
        let text = markdown(&rows(&log));
        let want = "| f |  | cuda:sm\\_90a | 40.000 | 20.000 | 2.000 | 15.000 | 75.0 % | gemv | threads=2 |";
        assert!(text.contains(want), "{text}");
        assert!(text.contains("| a &#124; b | 1 |"), "{text}");
        log.reverse();
        assert_eq!(markdown(&rows(&log)), text);
    }

    #[test]
    fn a_hostile_name_stays_text() {
        let text = markdown(&rows(&[record("</script><img onerror=x>\n| [a](b)", 1, 1.0, Outcome::Ok)]));
        assert!(!text.contains('<') && !text.contains(" [a]") && !text.contains("\n| ["), "{text}");
    }
}

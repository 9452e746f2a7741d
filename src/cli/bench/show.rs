//! What a bench found, for people and as JSON.

use crate::cli::output;
use crate::log::pairs;
use crate::report::{Bench, Contender};

/// The line of a function.
pub fn line(bench: &Bench) -> String {
    serde_json::to_string(bench).expect("a bench holds only what JSON can say")
}

/// Prints a function's result; why others have no time goes to standard error too.
pub fn print(json: bool, bench: &Bench) {
    if json {
        output::line(&line(bench));
    } else {
        table(bench).iter().for_each(|l| output::line(l));
    }
    for c in bench.contenders.iter().filter(|c| c.status != "ok") {
        let reason = c.reason.as_deref().unwrap_or_default();
        output::note(&format!("  {}: {}: {reason}", c.contender, c.status));
    }
}

fn table(bench: &Bench) -> Vec<String> {
    let bind: Vec<String> = bench.bind.iter().map(|(k, v)| format!(" {k}={v}")).collect();
    let floor = bench.floor_us.map(|us| format!(", floor {us:.2} us")).unwrap_or_default();
    let name = |c: &Contender| c.contender.chars().count();
    let width = bench.contenders.iter().map(name).max().unwrap_or(0).max(9);
    let mut out = vec![format!("{}{} ({}) on {}{floor}", bench.name, bind.concat(), bench.file, bench.target)];
    let head = format!(
        "  {:<width$} {:>12} {:>23} {:>8} {:>17} {:>9}",
        "contender", "median us", "95 of 100 cases", "to best", "", "of floor"
    );
    out.push(head);
    out.extend(bench.contenders.iter().map(|c| row(c, width)));
    out
}

fn row(c: &Contender, width: usize) -> String {
    let (Some(us), Some([low, high])) = (c.median_us, c.interval_us) else {
        return format!("  {:<width$} {:>12}", c.contender, c.status);
    };
    let between = |[low, high]: [f64; 2], digits: usize| format!("{low:.digits$} to {high:.digits$}");
    let ratio = c.ratio.map(|r| format!("{r:.3} x")).unwrap_or_default();
    let ends = c.ratio_interval.map(|ends| between(ends, 3)).unwrap_or_default();
    let share = c.floor_share.map(|s| if s > 1.0 { "cached".into() } else { format!("{:.0} %", 100.0 * s) });
    let share = share.unwrap_or_default();
    let kernel = c.rule.as_ref().map(|rule| format!("{rule}: {}", pairs(&c.knobs)));
    let kernel = kernel.or_else(|| c.detail.clone()).unwrap_or_default();
    let line = format!(
        "  {:<width$} {us:>12.2} {:>23} {ratio:>8} {ends:>17} {share:>9}  {kernel}",
        c.contender,
        between([low, high], 2)
    );
    line.trim_end().to_string()
}

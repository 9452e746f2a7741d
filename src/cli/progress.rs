//! The progress bar: how far, and the first readings. What the best gains is told when it was timed beside the default,
//! turn by turn: the best of many first readings is partly the luckiest.

use super::output;
use crate::tune::Progress;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// How often a line is written where there is no terminal.
const EVERY: Duration = Duration::from_secs(10);

/// A bar on standard error, or a line now and then where that is no terminal.
pub struct Bar {
    bar: ProgressBar,
    title: String,
    since: Instant,
    /// When the last line was written; `None` on a terminal.
    written: Option<Instant>,
}

impl Bar {
    /// A bar for the `k`th of `n` functions.
    pub fn new(name: &str, k: usize, n: usize) -> Bar {
        let bar = ProgressBar::new(0);
        let style = ProgressStyle::with_template("{prefix} [{bar:24}] {pos}/{len} {elapsed}, {eta} left, {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
        let title = if n > 1 { format!("{k} of {n}: {name}") } else { name.to_string() };
        bar.set_prefix(title.clone());
        Bar { bar, title, since: Instant::now(), written: (!std::io::stderr().is_terminal()).then(Instant::now) }
    }

    /// Shows how far it is.
    pub fn show(&mut self, p: &Progress) {
        if let Some(written) = self.written.as_mut().filter(|at| at.elapsed() >= EVERY) {
            *written = Instant::now();
            let (done, left) = (p.done.min(p.total), left(self.since.elapsed(), p));
            output::note(&format!("{}: {done} of {} candidates{left}, {}", self.title, p.total, message(p)));
        }
        self.bar.set_length(p.total as u64);
        self.bar.set_position(p.done.min(p.total) as u64);
        self.bar.set_message(message(p));
    }

    /// Takes the bar away.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}

/// How long the rest takes if it goes on as so far.
fn left(elapsed: Duration, p: &Progress) -> String {
    if p.done == 0 || p.done >= p.total {
        return String::new();
    }
    let seconds = elapsed.as_secs_f64() * (p.total - p.done) as f64 / p.done as f64;
    format!(", about {:.0} s left", seconds.ceil())
}

fn message(p: &Progress) -> String {
    match (p.best_us, p.default_us) {
        (Some(best), Some(default)) => {
            format!("{}: first readings {best:.2} us, default {default:.2} us", p.phase)
        }
        (Some(best), None) => format!("{}: first readings {best:.2} us", p.phase),
        (None, _) => p.phase.to_string(),
    }
}

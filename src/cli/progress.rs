//! The progress bar: how far, best so far against the default.

use crate::tune::Progress;
use indicatif::{ProgressBar, ProgressStyle};

/// A bar on standard error; nothing where that is not a terminal.
pub struct Bar {
    bar: ProgressBar,
}

impl Bar {
    /// A bar for one function.
    pub fn new(name: &str) -> Bar {
        let bar = ProgressBar::new(0);
        let style = ProgressStyle::with_template("{prefix} [{bar:24}] {pos}/{len} {elapsed} {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
        bar.set_prefix(name.to_string());
        Bar { bar }
    }

    /// Shows how far it is.
    pub fn show(&self, p: &Progress) {
        self.bar.set_length(p.total as u64);
        self.bar.set_position(p.done.min(p.total) as u64);
        self.bar.set_message(message(p));
    }

    /// Takes the bar away.
    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}

fn message(p: &Progress) -> String {
    match (p.best_us, p.default_us) {
        (Some(best), Some(default)) => {
            format!("{}: best {best:.2} us, default {default:.2} us, {:.2}x", p.phase, default / best)
        }
        (Some(best), None) => format!("{}: best {best:.2} us", p.phase),
        (None, _) => p.phase.to_string(),
    }
}

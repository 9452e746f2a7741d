//! `daylight simulate --defaults`: how the default of each function stands against the best that a log knows.

use super::context::Context;
use super::output;
use crate::tune::Arms;
use crate::tune::replay::Replay;
use crate::tune::standing::{Shares, Standing, WITHIN};
use serde_json::json;

/// What was found of all functions so far.
#[derive(Default)]
pub struct Sums {
    /// Times over those of the best: of defaults that the log knows.
    known: Vec<f64>,
    /// Of the measured points of which the prior promises most.
    among: Vec<f64>,
    /// Functions.
    functions: usize,
}

impl Sums {
    /// Prints one function and counts it.
    pub fn add(&mut self, cx: &Context, name: &str, arms: &Arms, replay: &Replay) {
        let Some(s) = Standing::of(arms, replay) else { return };
        self.functions += 1;
        self.known.extend(s.ratio);
        self.among.extend(s.among);
        output::line(&if cx.json { object(name, arms, &s) } else { plain(name, arms, &s) });
    }

    /// The shares of all.
    pub fn print(&self, cx: &Context) {
        if cx.json {
            return;
        }
        let unknown = self.functions - self.known.len();
        output::line(&format!("{} functions; the log knows no time of {unknown} defaults", self.functions));
        for (what, ratios) in [("defaults", &self.known), ("first by the prior of those measured", &self.among)] {
            if let Some(s) = Shares::of(ratios) {
                output::line(&format!("{what}: {}", shares(&s)));
            }
        }
    }
}

fn shares(s: &Shares) -> String {
    let within = WITHIN.iter().zip(s.within);
    let within: Vec<String> = within.map(|(w, n)| format!("{:.0} % within {:.0} %", 100.0 * n, 100.0 * w)).collect();
    format!("N = {}, {:.3} of the best, worst {:.3}; {}", s.functions, s.speed, s.worst, within.join(", "))
}

fn times(ratio: Option<f64>) -> String {
    ratio.map_or("-".into(), |r| format!("{r:.3}"))
}

fn plain(name: &str, arms: &Arms, s: &Standing) -> String {
    let show = |p| format!("{} {}", arms.of(p).space.form, arms.of(p).space.show(&p.knobs));
    format!(
        "{name}: {} ({} of those measured; N = {}); {}; best {}",
        times(s.ratio),
        times(s.among),
        s.measured,
        show(&s.default),
        show(&s.best)
    )
}

fn object(name: &str, arms: &Arms, s: &Standing) -> String {
    let point = |p| {
        let space = &arms.of(p).space;
        json!({ "rule": space.form, "knobs": space.settings::<crate::log::Setting>(&p.knobs) })
    };
    json!({
        "schema": 1, "name": name, "default": point(&s.default), "best": point(&s.best),
        "default_over_best": s.ratio, "first_over_best": s.among, "measured": s.measured,
    })
    .to_string()
}

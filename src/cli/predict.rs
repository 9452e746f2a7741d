//! `daylight tune --target T --no-measure`: ranks candidates for a target that is not there.

use super::args;
use super::context::Context;
use super::output;
use crate::job::{Exit, Failure, Prediction, Predictor, load};
use crate::log::{self, Writer};
use crate::tune::TuneConfig;
use std::sync::atomic::Ordering;

/// Runs the command. A GPU's tools are needed, a GPU is not.
///
/// # Errors
/// No target, no compiler for it, a log that cannot be written.
pub fn run(cx: &Context, a: &args::Tune, target: &str, config: &TuneConfig) -> Result<Exit, Failure> {
    let target = cx.target(target)?;
    let path = log::path_for(&a.log, &target.id);
    let inputs = load(&cx.bind, &a.files)?;
    let predictor = Predictor::open(&cx.machine, target, cx.spaces.clone(), config)?;
    let mut writer = Writer::open(&path).map_err(Failure::usage)?;
    let mut worst = Exit::Done;
    for input in inputs {
        if cx.stop.load(Ordering::Relaxed) {
            output::note("stopped; the functions that are left were not ranked");
            break;
        }
        let done = input.map_err(|e| e.failure).and_then(|input| predictor.predict(&input, &mut writer));
        match done {
            Ok(p) => {
                if p.ranked == 0 {
                    worst = worst.max(Exit::Failed);
                }
                show(cx, &p);
            }
            Err(f) => {
                output::note(&format!("daylight: {}", f.message));
                worst = worst.max(f.exit);
            }
        }
    }
    output::note(&format!("nothing was measured; ranking logged to {}", path.display()));
    Ok(worst)
}

fn show(cx: &Context, p: &Prediction) {
    if cx.json {
        output::line(&serde_json::to_string(p).expect("a ranking holds only what JSON can say"));
        return;
    }
    let knobs: Vec<String> = p.knobs.iter().map(|(k, v)| format!("{k}={v}")).collect();
    output::line(&format!("{} ({}) on {}, not measured", p.name, p.file, p.target));
    output::line(&format!(
        "  first of {} ranked  {}: {}",
        p.ranked,
        p.rule.as_deref().unwrap_or("none"),
        knobs.join(" ")
    ));
    if let Some(r) = p.relative {
        output::line(&format!("  score {r:.2} of the default's (a ranking, no time)"));
    }
    for (reason, n) in &p.failed {
        output::line(&format!("  {n} x {reason}"));
    }
    let how = if p.sass { "and instruction counts" } else { "without instruction counts: nvdisasm was not found" };
    output::line(&format!("  by the prior over {} legal points, then registers, spills {how}", p.legal));
}

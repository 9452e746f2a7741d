//! `daylight tune --target T --no-measure`: ranks candidates for a target that is not there.

use super::args;
use super::context::Context;
use super::output;
use crate::job::{Exit, Failure, Input, Prediction, Predictor, deal, guarded};
use crate::log::{self, Writer};
use crate::tune::{Occupancy, TuneConfig};
use std::sync::atomic::Ordering;

/// Runs the command. A GPU's tools are needed, a GPU is not.
///
/// # Errors
/// No target, no compiler for it, a log that cannot be written.
pub fn run(cx: &Context, a: &args::Tune, target: &str, config: &TuneConfig) -> Result<Exit, Failure> {
    let target = cx.target(target)?;
    let path = log::path_for(&a.log, &target.id);
    let inputs = cx.load_sizes(&a.files)?;
    let predictor = Predictor::open(&cx.machine, target, cx.spaces.clone(), config)?;
    let mut writer = Writer::open(&path).map_err(Failure::usage)?;
    let past = log::past(&path).map_err(Failure::usage)?;
    past.skipped.iter().for_each(|s| output::note(&s.to_string()));
    let mut worst = Exit::Done;
    let mut complain = |f: &Failure| {
        output::note(&format!("daylight: {}", f.message));
        worst = worst.max(f.exit);
    };
    inputs.iter().filter_map(|i| i.as_ref().err()).for_each(|bad| complain(&bad.failure));
    let inputs: Vec<Input> = inputs.into_iter().flatten().collect();
    for group in deal(&inputs, &[], config.shard) {
        if cx.stop().load(Ordering::Relaxed) {
            output::note("stopped; the functions that are left were not ranked");
            break;
        }
        let first = &inputs[group[0]];
        match guarded(&first.name, || predictor.predict(first, &past.records, &mut writer)) {
            Ok(p) if p.ranked == 0 => {
                complain(&Failure::new(Exit::Failed, format!("{}: no candidate could be compiled", p.name)));
                show(cx, &p);
            }
            Ok(p) => {
                let own = |i: &usize| (inputs[*i].file.clone(), inputs[*i].name.clone());
                let each = group.iter().map(own);
                each.for_each(|(file, name)| show(cx, &Prediction { file, name, ..p.clone() }));
            }
            Err(f) => complain(&f),
        }
    }
    output::note(&format!("nothing was measured; ranking logged to {}", path.display()));
    Ok(cx.ended(worst))
}

fn show(cx: &Context, p: &Prediction) {
    if cx.json {
        output::line(&serde_json::to_string(p).expect("a ranking holds only what JSON can say"));
        return;
    }
    output::line(&format!("{} ({}) on {}, not measured", p.name, p.file, p.target));
    output::line(&format!(
        "  first of {} ranked  {}: {}",
        p.ranked,
        p.rule.as_deref().unwrap_or("none"),
        log::pairs(&p.knobs)
    ));
    if let Some(r) = p.relative {
        output::line(&format!("  score {r:.2} of the default's (a ranking, no time)"));
    }
    if let Some(o) = &p.occupancy {
        output::line(&format!("  {}", taken(o)));
    }
    for (reason, n) in &p.failed {
        output::line(&format!("  {n} x {reason}"));
    }
    let compiled = match p.sass {
        true => ", then registers, spills and instruction counts",
        false if p.target.starts_with("cpu") => "",
        false => ", then registers and spills; without instruction counts: nvdisasm was not found",
    };
    output::line(&format!("  by the prior over {} legal points{compiled}", p.legal));
}

fn taken(o: &Occupancy) -> String {
    let spilled = if o.spilled > 0 { format!("{} bytes spilled, ", o.spilled) } else { String::new() };
    format!(
        "{} registers, {spilled}{} bytes of shared memory; {} blocks of {} threads on a multiprocessor, {:.0} % of its threads; {:.1} waves",
        o.registers,
        o.shared_bytes,
        o.resident_blocks,
        o.threads,
        100.0 * o.occupancy,
        o.waves
    )
}

//! `daylight import`: the functions of a whole module with their calls, tuned as one job.

pub mod args;
mod show;

use super::context::Context;
use super::output;
use super::tune;
use crate::assemble::label;
use crate::job::{Exit, Failure, Input, Report, Step};
use crate::target::nearest;
use crate::tune::TuneConfig;
use args::Import;
use show::{Shown, Tuned};

/// Runs the command.
pub fn run(cx: &Context, a: &Import) -> Result<Exit, Failure> {
    cx.one_size()?;
    let mut step = Step::read(&a.module, a.entry.as_deref(), &cx.reading)?;
    only(&mut step, &cx.reading.functions, &a.skip)?;
    if a.time_limit.is_some_and(|s| !(s.is_finite() && s > 0.0)) {
        return Err(Failure::usage("--time-limit: expected a positive number of seconds"));
    }
    let shown = Shown { file: a.module.display().to_string(), step };
    if a.list || (a.trials.is_none() && a.time_limit.is_none()) {
        if cx.json {
            output::line(&shown.json(None))
        } else {
            shown.list().iter().for_each(|l| output::line(l))
        }
        return Ok(Exit::Done);
    }
    require_sizes(&shown.step)?;
    let inputs: Vec<Input> = shown.step.called.iter().map(|c| c.input.clone()).collect();
    let mut failed = vec![];
    let mut worst = Exit::Done;
    let mut watch = |outcome: Result<&Report, &Failure>| match outcome {
        Ok(report) => {
            if report.best_us.is_none() {
                worst = worst.max(Exit::Failed);
            }
        }
        Err(failure) => {
            output::note(&format!("daylight: {}", failure.message));
            failed.push(failure.message.clone());
            worst = worst.max(failure.exit);
        }
    };
    let (reports, log) = tune::tuned(cx, config(cx, a, &shown.step), &inputs, &mut watch)?;
    let tuned = Tuned { reports: &reports, failed: &failed, log: &log };
    if cx.json {
        output::line(&shown.json(Some(&tuned)));
    } else {
        shown.table(&tuned).iter().for_each(|l| output::line(l));
        output::note(&format!("logged to {}", log.display()));
    }
    Ok(cx.ended(worst))
}

/// Leaves the functions of these names, all where there are none, but for those that are skipped.
fn only(step: &mut Step, names: &[String], skipped: &[String]) -> Result<(), Failure> {
    let known = |name: &String| step.called.iter().any(|c| c.input.name == *name);
    let mut words = names.iter().map(|n| ("function", n)).chain(skipped.iter().map(|n| ("skip", n)));
    if let Some((option, name)) = words.find(|(_, n)| !known(n)) {
        let near = nearest(name, step.called.iter().map(|c| c.input.name.as_str()));
        let near = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
        return Err(Failure::usage(format!(
            "--{option} {name}: `{}` calls no function of that name{near}",
            step.entry
        )));
    }
    step.called.retain(|c| (names.is_empty() || names.contains(&c.input.name)) && !skipped.contains(&c.input.name));
    if step.called.is_empty() {
        return Err(Failure::usage(format!("`{}` calls no tensor function", step.entry)));
    }
    Ok(())
}

/// Refuses a step whose calls are of sizes that nobody gave.
fn require_sizes(step: &Step) -> Result<(), Failure> {
    let Some(open) = step.called.iter().find(|c| !c.input.unbound().is_empty()) else { return Ok(()) };
    let (line, column) = open.at;
    let names = open.input.unbound();
    let example: Vec<String> = names.iter().map(|n| format!("{n}=512")).collect();
    Err(Failure::usage(format!(
        "{}:{line}:{column}: `{}` is called at a size that only runs tell ({}); give `{}` its sizes with --bind {}",
        open.input.file,
        open.input.name,
        names.join(", "),
        step.entry,
        example.join(",")
    )))
}

fn config(cx: &Context, a: &Import, step: &Step) -> TuneConfig {
    let calls = step.called.iter().map(|c| (label(&c.input.name, &c.input.bind), c.calls as f64));
    TuneConfig {
        device: a.device.clone(),
        log: a.log.clone(),
        worker: Some(cx.program.clone()),
        schedules: cx.schedules.clone(),
        all_trials: a.trials.map(|n| n as usize),
        // Where the time ends the search nothing else has to.
        trials: a.trials.map_or(usize::MAX, |n| n as usize),
        time_limit: a.time_limit,
        seed: a.seed,
        jobs: a.jobs.unwrap_or(cx.machine.host.cores) as usize,
        weights: calls.collect(),
        ..TuneConfig::default()
    }
}

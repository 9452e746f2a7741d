//! `daylight tune`: the main job.

use super::args;
use super::context::Context;
use super::output;
use super::progress::Bar;
use crate::job::{Event, Exit, Failure, Input, Report, Totals, Tuner, Weights};
use crate::log::pairs;
use crate::tune::TuneConfig;
use serde_json::json;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Runs the command.
pub fn run(cx: &Context, a: &args::Tune) -> Result<Exit, Failure> {
    let mut config = config(cx, a)?;
    crate::tune::search::by_name(&config.search, 0).map_err(Failure::usage)?;
    if let Some(target) = a.target.as_deref().filter(|_| a.no_measure) {
        return super::predict::run(cx, a, target, &config);
    }
    if let (Some(target), "auto") = (&a.target, a.device.as_str()) {
        let text = "name the device that runs its candidates, such as --device cpu, or rank them with --no-measure";
        return Err(Failure::usage(format!("--target {target}: {text}")));
    }
    let inputs = cx.load_sizes(&a.files)?;
    let mut worst = Exit::Done;
    for bad in inputs.iter().filter_map(|i| i.as_ref().err()) {
        complain(cx, Some(&bad.file), &bad.failure, &mut worst);
        // Its weight and its constant tensors are no mistake, and the others are tuned all the same.
        let stem = Path::new(&bad.file).file_stem();
        config.weights.retain(|name, _| stem != Some(OsStr::new(name)));
        config.constant.retain(|c| stem != Some(OsStr::new(&c.function)));
    }
    let inputs: Vec<Input> = inputs.into_iter().flatten().collect();
    if inputs.is_empty() {
        return Ok(worst);
    }
    let mut watch = |outcome: Result<&Report, &Failure>| match outcome {
        Ok(report) => {
            show(cx, report);
            if report.best_us.is_none() {
                worst = worst.max(Exit::Failed);
            }
        }
        Err(failure) => complain(cx, None, failure, &mut worst),
    };
    let (reports, log) = tuned(cx, config, &inputs, &mut watch)?;
    if reports.len() > 1 {
        Totals::of(&reports).table().iter().for_each(|l| if cx.json { output::note(l) } else { output::line(l) });
    }
    if !cx.json && !reports.is_empty() {
        output::note(&format!("logged to {}", log.display()));
    }
    Ok(cx.ended(worst))
}

/// Tunes functions, with a bar that moves; `watch` is told of each that is done. Gives the reports and the log.
///
/// # Errors
/// As of [`Tuner::open`].
pub fn tuned(
    cx: &Context,
    config: TuneConfig,
    inputs: &[Input],
    watch: &mut dyn FnMut(Result<&Report, &Failure>),
) -> Result<(Vec<Report>, PathBuf), Failure> {
    let mut bar: Option<(String, Bar)> = None;
    let mut begun: Vec<String> = vec![];
    let mut watcher = |event: Event<'_>| match event {
        Event::Note(text) => output::note(text),
        Event::Progress(p) => {
            if bar.as_ref().is_none_or(|(name, _)| *name != p.name) {
                // Some come again, with what time others left.
                let known = begun.iter().position(|name| *name == p.name);
                let k = known.unwrap_or(begun.len());
                begun.extend(known.is_none().then(|| p.name.clone()));
                bar = Some((p.name.clone(), Bar::new(&p.name, k + 1, inputs.len())));
            }
            bar.iter_mut().for_each(|(_, b)| b.show(p));
        }
        Event::Tuned(report) => {
            bar.take().iter().for_each(|(_, b)| b.end());
            watch(Ok(report));
        }
        Event::Failed(failure) => {
            bar.take().iter().for_each(|(_, b)| b.end());
            watch(Err(failure));
        }
    };
    let mut tuner = Tuner::open(&cx.machine, config, cx.stop(), &mut watcher)?;
    let reports = tuner.tune(inputs, &mut watcher);
    Ok((reports, tuner.log().to_path_buf()))
}

/// Says why something could not be tuned; as JSON in place of its result.
fn complain(cx: &Context, file: Option<&str>, f: &Failure, worst: &mut Exit) {
    if cx.json {
        let object =
            json!({ "schema": 1, "file": file, "status": "failed", "exit": f.exit.code(), "message": f.message });
        output::line(&object.to_string());
    }
    output::note(&format!("daylight: {}", f.message));
    *worst = (*worst).max(f.exit);
}

/// Candidates that are compiled for a function of which nothing is measured: docs/blackwell.md says what more of them are worth.
const RANKED: usize = 4;

fn config(cx: &Context, a: &args::Tune) -> Result<TuneConfig, Failure> {
    let bad = || Failure::usage(format!("--shard {}: expected K/N with 1 <= K <= N, such as 1/4", a.shard));
    let (k, n) = a.shard.split_once('/').ok_or_else(bad)?;
    let (k, n): (u64, u64) = (k.parse().map_err(|_| bad())?, n.parse().map_err(|_| bad())?);
    if k < 1 || k > n {
        return Err(bad());
    }
    if a.time_limit.is_some_and(|s| !(s.is_finite() && s > 0.0)) {
        return Err(Failure::usage("--time-limit: expected a positive number of seconds"));
    }
    let weights = a.weights.as_deref().map(Weights::read).transpose()?.unwrap_or_default();
    Ok(TuneConfig {
        device: a.device.clone(),
        target: a.target.clone(),
        log: a.log.clone(),
        worker: Some(cx.program.clone()),
        schedules: cx.schedules.clone(),
        trials: a.trials.map_or(if a.no_measure { RANKED } else { TuneConfig::default().trials }, |n| n as usize),
        time_limit: a.time_limit,
        seed: a.seed,
        search: a.search.clone(),
        jobs: a.jobs.unwrap_or(cx.machine.host.cores) as usize,
        shard: (k, n),
        weights: weights.into_map(),
        patience: a.patience.map(|n| n as usize),
        retry: a.retry_failed,
        overlap: a.overlap,
        constant: a.constant.clone(),
        ..TuneConfig::default()
    })
}

/// One function's result, as JSON or for people.
fn show(cx: &Context, r: &Report) {
    for (reason, example) in &r.examples {
        let n = r.failed.get(reason).or(r.pruned_by.get(reason)).copied().unwrap_or(0);
        output::note(&format!("  {n} x {reason}, such as: {}", example.lines().next().unwrap_or("")));
    }
    if r.best_us.is_none() && !r.interrupted {
        output::note(&format!("daylight: {}: no candidate survived", r.name));
    }
    if let Some(share) = r.spread.filter(|share| *share > NOISY) {
        let (noise, device) = (100.0 * share, r.target.split(':').next().unwrap_or(&r.target));
        output::note(&format!(
            "readings of one kernel scatter by {noise:.0} % on this machine: end what else runs on it, and see \
             `daylight doctor --device {device}`"
        ));
    }
    if r.interrupted {
        let kept = if r.best_us.is_some() { "what was measured is in the log" } else { "nothing was measured yet" };
        output::note(&format!("stopped early; {kept}"));
    }
    if cx.json {
        output::line(&serde_json::to_string(r).expect("a report holds only what JSON can say"));
    } else {
        text(r).iter().for_each(|l| output::line(l));
    }
}

/// Samples of one kernel that scatter by more than this say little about a few percent.
const NOISY: f64 = 0.05;

/// What was found turn by turn, with what it may be by chance.
fn speedup(times: f64, [low, high]: [f64; 2]) -> String {
    let told = if low <= 1.0 && 1.0 <= high { ", which may be chance" } else { "" };
    format!("  speedup {times:10.2} x   {low:.2} to {high:.2} in 95 of 100 cases{told}")
}

fn text(r: &Report) -> Vec<String> {
    let us = |x: Option<f64>| x.map_or("         -".to_string(), |x| format!("{x:10.2} us"));
    let bind: Vec<String> = r.bind.iter().map(|(k, v)| format!(" {k}={v}")).collect();
    let share = r.floor_us.zip(r.best_us).map(|(f, b)| match f > b {
        true => "  cache-resident: faster than from memory".to_string(),
        false => format!("  best reaches {:.0} % of it", 100.0 * f / b),
    });
    let rule = r.rule.as_deref().unwrap_or("none");
    let mut out = vec![
        format!("{}{} ({}) on {}", r.name, bind.concat(), r.file, r.target),
        format!("  default {}  {}", us(r.default_us), r.default.as_deref().unwrap_or("")),
        format!("  best    {}  {rule}: {}", us(r.best_us), pairs(&r.knobs)),
        format!("  floor   {}{}", us(r.floor_us), share.unwrap_or_default()),
    ];
    let winner = r.rule.as_ref().map(|rule| format!("{rule}: {}", pairs(&r.knobs)));
    match r.speedup.zip(r.speedup_interval) {
        _ if winner.is_some() && winner == r.default => {
            out.push("  speedup       none   the default is the best".into())
        }
        found => out.extend(found.map(|(times, ends)| speedup(times, ends))),
    }
    let failed: usize = r.failed.values().sum();
    let (tried, measured, pruned, known) = (r.candidates, r.measured, r.pruned, r.resumed);
    let stop = r.stop.as_ref().map(|s| format!(": {s}")).unwrap_or_default();
    out.push(format!(
        "  {tried} of {} candidates in {:.1} s ({measured} measured, {pruned} pruned, {failed} failed, {known} known before){stop}",
        r.space.legal, r.seconds
    ));
    if let Some(busy) = r.device_busy {
        let waited: Vec<String> = r.device_waited_s.iter().map(|(cause, s)| format!("{s:.1} s for {cause}")).collect();
        let waited = if waited.is_empty() { "nothing".to_string() } else { waited.join(", ") };
        out.push(format!("  the device was busy {:.0} % of the time and waited {waited}", 100.0 * busy));
    }
    out
}

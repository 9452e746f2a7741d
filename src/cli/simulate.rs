//! `daylight simulate`: searches replayed against the log of an exhaustive run, or defaults against any log. Needs no
//! device.

use super::context::Context;
use super::output;
use super::standing::Sums;
use crate::assemble::{Bindings, label};
use crate::job::select::{self, Choice};
use crate::job::{Exit, Failure, Input, guarded};
use crate::log::{self, Record};
use crate::target::Target;
use crate::tune::Arms;
use crate::tune::replay::{Regret, Replay, as_logged};
use clap::Args;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// What may be typed.
#[derive(Args, Debug)]
pub struct Simulate {
    /// Files or folders of TVMScript
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Log of an exhaustive run, a file or a folder; may be compressed
    #[arg(long, value_name = "LOG")]
    log: PathBuf,
    /// Searches to replay, separated by commas
    #[arg(long, value_name = "NAME,...", default_value = "guided,random")]
    search: String,
    /// Runs of each, with the seeds from 0
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    seeds: u64,
    /// Measurements of each run
    #[arg(long, value_name = "N", default_value_t = 64)]
    trials: usize,
    /// One table in Markdown instead of a paragraph for each
    #[arg(long)]
    markdown: bool,
    /// How the default of each function stands against the best of the log, at every size that the log knows, in place of searches
    #[arg(long, conflicts_with = "markdown")]
    defaults: bool,
}

/// Measurements after which the regret is shown.
const AFTER: [usize; 4] = [8, 16, 32, 64];

/// Operations for each byte that every target does sooner than it moves the byte.
const LITTLE: u64 = 4;

/// One search on one function.
struct Line<'a> {
    name: &'a str,
    search: &'a str,
    points: usize,
    trials: usize,
    regret: Regret,
}

/// Runs the command. Functions that the log knows nothing of are counted and left out.
///
/// # Errors
/// An unknown search, a log that can't be read.
pub fn run(cx: &Context, a: &Simulate) -> Result<Exit, Failure> {
    let searches: Vec<&str> = a.search.split(',').map(str::trim).filter(|s| !s.is_empty()).collect();
    for name in &searches {
        crate::tune::search::by_name(name, 0).map_err(Failure::usage)?;
    }
    let past = log::read(&a.log).map_err(Failure::usage)?;
    past.skipped.iter().for_each(|s| output::note(&s.to_string()));
    if a.markdown && !cx.json {
        output::text(&head(a.trials));
    }
    let (mut worst, mut known, mut unknown, mut sums) = (Exit::Done, 0, 0, Sums::default());
    for input in cx.load(&a.files)? {
        let done = match input {
            Ok(input) if a.defaults => guarded(&input.name, || defaults(cx, &input, &past.records, &mut sums)),
            Ok(input) => guarded(&input.name, || one(cx, a, &input, &past.records, &searches)),
            Err(e) => Err(e.failure),
        };
        match done {
            Ok(true) => known += 1,
            Ok(false) => unknown += 1,
            Err(f) => {
                output::note(&format!("daylight: {}", f.message));
                worst = worst.max(f.exit);
            }
        }
    }
    if a.defaults {
        sums.print(cx);
    }
    if unknown > 0 {
        output::note(&format!("{} holds no record of {unknown} functions", a.log.display()));
    }
    Ok(if known == 0 { worst.max(Exit::Failed) } else { worst })
}

/// A function with what the log says of its points.
struct Replayed {
    /// Its spaces, as the log knew them.
    arms: Arms,
    /// Its times.
    replay: Replay,
}

impl Replayed {
    /// At the size of the input; `None` where the log has no record of it.
    fn of(cx: &Context, input: &Input, all: &[Record]) -> Result<Option<Replayed>, Failure> {
        let records: Vec<&Record> =
            all.iter().filter(|r| r.workload.key == input.key && r.bind == input.bind).collect();
        let Some(first) = records.first() else { return Ok(None) };
        if let Some(other) = records.iter().find(|r| (&r.target, &r.env.gpu) != (&first.target, &first.env.gpu)) {
            let text = format!("{} holds records of {} and {}: replay one", input.name, first.env.gpu, other.env.gpu);
            return Err(Failure::usage(text));
        }
        let target = Target::parse(&first.target, &cx.machine.host).map_err(Failure::usage)?;
        let dram_gbps = dram_gbps(all, first, &target);
        let target = target.measured_as(first.env.sms, 0, dram_gbps);
        let subject = input.schedulable(&target)?;
        let arms = select::arms(&subject, &cx.spaces, &input.name, &Choice::default())?;
        let arms = Arms::new(as_logged(arms, &records), target);
        let replay = Replay::new(&arms, &records)
            .ok_or_else(|| Failure::new(Exit::Failed, format!("{}: no record has a time", input.name)))?;
        Ok(Some(Replayed { arms, replay }))
    }
}

/// Bandwidth of the DRAM of the device that measured `like`, as floors tell it, which are bytes over the bandwidth of a copy
/// where there is little arithmetic; 0 where no record does.
fn dram_gbps(records: &[Record], like: &Record, target: &Target) -> f64 {
    let same = |r: &&Record| (&r.target, &r.env.gpu) == (&like.target, &like.env.gpu);
    let copies = records.iter().filter(same).filter_map(|r| {
        let (work, floor_us) = (r.work.as_ref()?, r.floor_us?);
        (work.flops < LITTLE * work.bytes && floor_us > 0.0).then(|| work.bytes as f64 / floor_us / 1e3)
    });
    let copy = copies.fold(0.0, f64::max);
    if target.copy_gbps > 0.0 { target.dram_gbps * copy / target.copy_gbps } else { 0.0 }
}

/// The defaults of one function, at every size that the log knows; `false` where it knows none.
fn defaults(cx: &Context, input: &Input, records: &[Record], sums: &mut Sums) -> Result<bool, Failure> {
    let own = records.iter().filter(|r| r.workload.key == input.key).map(|r| r.bind.clone());
    let sizes: BTreeSet<Bindings> = own.filter(|b| input.bind.iter().all(|(k, v)| b.get(k) == Some(v))).collect();
    for size in &sizes {
        let input = input.at(size);
        if let Some(replayed) = Replayed::of(cx, &input, records)? {
            sums.add(cx, &label(&input.name, size), &replayed.arms, &replayed.replay);
        }
    }
    Ok(!sizes.is_empty())
}

/// One function; `false` where the log has no record of it.
fn one(cx: &Context, a: &Simulate, input: &Input, records: &[Record], searches: &[&str]) -> Result<bool, Failure> {
    let Some(Replayed { arms, replay }) = Replayed::of(cx, input, records)? else { return Ok(false) };
    let missing = replay.missing(&arms);
    if missing > 0 {
        output::note(&format!("{}: the log lacks {missing} of {} points", input.name, arms.points().len()));
    }
    for search in searches {
        let regret = replay.simulate_all(&arms, search, a.seeds, a.trials.max(1)).map_err(Failure::usage)?;
        let line = Line { name: &input.name, search, points: replay.measured(), trials: a.trials, regret };
        match (cx.json, a.markdown) {
            (true, _) => output::line(&object(&line).to_string()),
            (false, true) => output::line(&row(&line)),
            (false, false) => output::text(&plain(&line)),
        }
    }
    Ok(true)
}

fn percent(x: f64) -> String {
    if x.is_finite() { format!("{:.1}", 100.0 * x) } else { "-".into() }
}

fn count(x: f64) -> String {
    if x.is_finite() { format!("{x:.0}") } else { "-".into() }
}

/// The counts that a run of `trials` measurements reaches.
fn counts(trials: usize) -> impl Iterator<Item = usize> {
    AFTER.into_iter().filter(move |n| *n <= trials)
}

fn head(trials: usize) -> String {
    let after: Vec<String> = counts(trials).map(|n| format!("after {n}")).collect();
    format!(
        "| function | points | search | {} | within 2 % after 32 | measurements to 2 % |\n|---|---:|---|{}---:|---:|\n",
        after.join(" | "),
        "---:|".repeat(after.len())
    )
}

/// Regret in percent, each as median / 95th percentile.
fn row(l: &Line<'_>) -> String {
    let pair = |(m, p): (f64, f64)| format!("{} / {}", percent(m), percent(p));
    let after: Vec<String> = counts(l.trials).map(|n| pair(l.regret.after(n))).collect();
    let (median, high) = l.regret.needed_for_close();
    let share = 100.0 * l.regret.close_after(32);
    format!(
        "| {} | {} | {} | {} | {share:.0} % | {} / {} |",
        l.name,
        l.points,
        l.search,
        after.join(" | "),
        count(median),
        count(high)
    )
}

fn plain(l: &Line<'_>) -> String {
    let mut text = format!("{}: {}, {} measured points\n", l.name, l.search, l.points);
    for n in counts(l.trials) {
        let (median, high) = l.regret.after(n);
        text += &format!(
            "  after {n:>2} measurements {:>5} % over the best (95 % of runs: {:>5} %)\n",
            percent(median),
            percent(high)
        );
    }
    let (median, high) = l.regret.needed_for_close();
    let share = 100.0 * l.regret.close_after(32);
    text += &format!(
        "  within 2 % after {} measurements (95 % of runs: {}); after 32 in {share:.0} % of runs\n",
        count(median),
        count(high)
    );
    text
}

fn object(l: &Line<'_>) -> Value {
    let finite = |x: f64| x.is_finite().then_some(x);
    let after: Vec<Value> = counts(l.trials)
        .map(|n| {
            let (median, p95) = l.regret.after(n);
            json!({ "measurements": n, "median": finite(median), "p95": finite(p95) })
        })
        .collect();
    let (median, p95) = l.regret.needed_for_close();
    json!({
        "schema": 1, "name": l.name, "search": l.search, "points": l.points, "regret": after,
        "close_after_32": l.regret.close_after(32),
        "needed": { "median": finite(median), "p95": finite(p95) },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::{Outcome, Work, Workload};
    use crate::target::HostCpu;

    /// A record of so many bytes and operations on a device that copies 3000 GB/s.
    fn record(target: &Target, bytes: u64, flops: u64) -> Record {
        let mut r = Record::new(Workload::default(), Bindings::default(), &target.id, Outcome::Ok);
        r.floor_us = Some((bytes as f64 / 3e6).max(flops as f64 / 5e7));
        Record { work: Some(Work { flops, bytes }), ..r }
    }

    #[test]
    fn floors_tell_the_bandwidth_where_little_is_computed() {
        let t = Target::parse("cuda:sm_90a", &HostCpu::default()).unwrap();
        let copies = |records: &[Record]| dram_gbps(records, &records[0], &t) / t.dram_gbps * t.copy_gbps;
        let (much, little) = (record(&t, 1 << 20, 1 << 40), record(&t, 1 << 30, 1 << 28));
        assert!((copies(&[much.clone(), little]) - 3000.0).abs() < 1e-6);
        assert_eq!(copies(std::slice::from_ref(&much)), 0.0);
        assert_eq!(copies(&[Record { work: None, ..much }]), 0.0);
    }
}

//! The searches, replayed against exhaustive runs on an H200 that `tests/data` holds: the goal of the
//! guided one, the prior's order, and the table of `docs/search.md`.

use daylight::assemble::Schedulable;
use daylight::job::{self, select};
use daylight::log::{self, Outcome, Record};
use daylight::rules::Spaces;
use daylight::target::{HostCpu, Target};
use daylight::tune::Arms;
use daylight::tune::replay::{Replay, as_logged};
use std::path::{Path, PathBuf};
use std::process::Command;

const FOLDERS: [&str; 2] = ["tests/workloads", "benches/workloads"];
const START: &str = "<!-- the table of `daylight simulate`, written by a test -->\n";
const END: &str = "<!-- end of the table -->\n";

fn root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The table that the command in docs/search.md prints.
fn table() -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_daylight"));
    command.arg("simulate").args(FOLDERS).args(["--log", "tests/data", "--trials", "32", "--markdown"]);
    let o = command.current_dir(root("")).output().expect("daylight starts");
    assert!(o.status.success(), "{}", String::from_utf8_lossy(&o.stderr));
    String::from_utf8(o.stdout).expect("text")
}

/// The share of runs within 2 % after 32 measurements, of each guided row.
fn shares(table: &str) -> Vec<(String, f64)> {
    let cells = |row: &str| row.split('|').map(|c| c.trim().to_string()).collect::<Vec<String>>();
    let rows = table.lines().map(cells).filter(|c| c.len() > 8 && c[3] == "guided");
    rows.map(|c| (c[1].clone(), c[7].trim_end_matches(" %").parse().expect("a share"))).collect()
}

#[test]
fn guided_search_is_near_the_best_after_32_measurements() {
    let table = table();
    let shares = shares(&table);
    assert_eq!(shares.len(), 16, "{table}");
    let mean = shares.iter().map(|s| s.1).sum::<f64>() / shares.len() as f64;
    assert!(mean >= 95.0, "{mean} % of all runs: {shares:?}");
    assert!(shares.iter().all(|s| s.1 >= 90.0), "{shares:?}");
    let docs = root("docs/search.md");
    let text = std::fs::read_to_string(&docs).expect("docs/search.md");
    let (head, rest) = text.split_once(START).expect("the table's first mark");
    let (found, tail) = rest.split_once(END).expect("the table's last mark");
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::write(&docs, format!("{head}{START}{table}{END}{tail}")).expect("write docs/search.md");
    } else {
        assert_eq!(found, table, "run with UPDATE_EXPECT=1 to accept");
    }
}

/// Each function of the log with its spaces and its records.
fn logged() -> Vec<(String, Arms, Vec<Record>)> {
    let records = log::read(&root("tests/data")).expect("the logs").records;
    let files: Vec<PathBuf> = FOLDERS.iter().map(|f| root(f)).collect();
    let mut out = vec![];
    for input in job::load(&job::Bindings::default(), &files).expect("the files").into_iter().flatten() {
        let own: Vec<&Record> =
            records.iter().filter(|r| r.workload.key == input.key && r.bind == input.bind).collect();
        let Some(first) = own.first() else { continue };
        let target = Target::parse(&first.target, &HostCpu::default()).expect("a target");
        let target = target.measured_as(first.env.sms, 0, 0.0);
        let subject = Schedulable::new(&input.func, &input.original, target.clone()).expect("it is accepted");
        let arms = select::arms(&subject, &Spaces::built_in(), &input.name, &select::Choice::default());
        let arms = Arms::new(as_logged(arms.expect("a rule takes it"), &own), target);
        out.push((input.name, arms, own.into_iter().cloned().collect()));
    }
    out
}

fn replay(arms: &Arms, records: &[Record]) -> Replay {
    Replay::new(arms, &records.iter().collect::<Vec<_>>()).expect("times")
}

/// Each function of the log with its spaces and its replay.
fn replays() -> Vec<(String, Arms, Replay)> {
    let of = |(name, arms, records): (String, Arms, Vec<Record>)| {
        let replay = replay(&arms, &records);
        (name, arms, replay)
    };
    logged().into_iter().map(of).collect()
}

/// A search does not measure what spills: such a point has no time, and is told from those that were ruled out otherwise.
#[test]
fn points_that_spill_are_known() {
    let (_, arms, mut records) = logged().remove(0);
    let whole = replay(&arms, &records);
    assert_eq!(whole.spilled().count(), 0);
    let timed = |r: &&mut Record| r.outcome == Outcome::Ok && r.round == 0;
    for (r, why) in records.iter_mut().filter(timed).zip(["spills: 8 bytes of registers", "occupancy: 64 threads"]) {
        (r.outcome, r.reason, r.samples_ns) = (Outcome::Pruned, Some(why.into()), vec![]);
    }
    let without = replay(&arms, &records);
    assert_eq!((without.measured(), without.missing(&arms)), (whole.measured() - 2, 0));
    let spilled: Vec<_> = without.spilled().collect();
    assert_eq!((spilled.len(), without.ns(spilled[0]), whole.ns(spilled[0]).is_some()), (1, None, true));
}

/// A point that was ruled out as another's twin has the text, and the time, of that one.
#[test]
fn points_have_the_texts_that_were_measured() {
    let (_, arms, mut records) = logged().remove(0);
    let mut timed = records.iter_mut().filter(|r| r.outcome == Outcome::Ok && r.round == 0);
    let (first, second) = (timed.next().expect("a time"), timed.next().expect("another"));
    first.source_hash = Some("0123456789abcdef".into());
    (second.outcome, second.samples_ns) = (Outcome::Pruned, vec![]);
    second.source_hash = None;
    second.reason = Some("another point gave the text 0123456789abcdef".into());
    let replay = replay(&arms, &records);
    let of_first: Vec<f64> =
        replay.timed().filter(|(p, _)| replay.text(p) == Some("0123456789abcdef")).map(|t| t.1).collect();
    assert_eq!((of_first.len(), of_first[0]), (2, of_first[1]));
}

/// Ranks of values, from 0.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0.0; values.len()];
    order.iter().enumerate().for_each(|(rank, i)| ranks[*i] = rank as f64);
    ranks
}

fn correlation(a: &[f64], b: &[f64]) -> f64 {
    let mean = (a.len() as f64 - 1.0) / 2.0;
    let product = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(p, q)| (p - mean) * (q - mean)).sum::<f64>();
    product(a, b) / (product(a, a) * product(b, b)).sqrt()
}

#[test]
fn the_prior_orders_points_as_measuring_does() {
    let mut sum = 0.0;
    let replays = replays();
    assert_eq!(replays.len(), 16);
    for (name, arms, replay) in &replays {
        assert_eq!(replay.missing(arms), 0, "{name}: the log lacks points of this space");
        let land = arms.landscape();
        let both: Vec<(f64, f64)> =
            arms.points().iter().zip(&land.prior).filter_map(|(p, prior)| Some((*prior, replay.ns(p)?))).collect();
        let (priors, times): (Vec<f64>, Vec<f64>) = both.iter().copied().unzip();
        let rank = correlation(&ranks(&priors), &ranks(&times));
        let mut sorted = both.clone();
        sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
        let best = times.iter().copied().fold(f64::INFINITY, f64::min);
        let top = |n: usize| sorted.iter().take(n).map(|t| t.1).fold(f64::INFINITY, f64::min) / best;
        println!("| {name} | {rank:.2} | {:.3} | {:.3} | {:.3} |", top(8), top(16), top(32));
        assert!(rank > 0.25, "{name}: rank correlation {rank}");
        assert!(top(32) < 1.05, "{name}: the best of the prior's 32 is {} of the best", top(32));
        sum += rank;
    }
    assert!(sum / replays.len() as f64 > 0.6, "{sum}");
}

/// What stands without a log, over the best of all, as long as nothing is compiled and then.
#[test]
fn the_default_is_near_the_best() {
    let (mut known, mut near, mut worst) = (0, [0, 0], 1.0f64);
    let mut speed = [0.0, 0.0];
    for (name, arms, replay) in &replays() {
        let best = arms.points().iter().filter_map(|p| replay.ns(p)).fold(f64::INFINITY, f64::min);
        let first = arms.defaults().remove(0);
        replay.settle(arms);
        let settled = arms.defaults().remove(0);
        let (Some(before), Some(after)) = (replay.ns(&first), replay.ns(&settled)) else {
            println!("{name}: the log lacks {first} or {settled}");
            continue;
        };
        known += 1;
        for (i, ns) in [before, after].into_iter().enumerate() {
            worst = worst.max(ns / best);
            near[i] += usize::from(ns / best <= 1.1);
            speed[i] += (best / ns).ln();
        }
        println!("{name}: {:.3} {first}, {:.3} {settled}", before / best, after / best);
    }
    let speed = speed.map(|sum| (sum / f64::from(known)).exp());
    println!("{near:?} of {known} are within a tenth of the best, {speed:?} in the mean");
    assert!(known >= 14, "the logs know {known} of the defaults");
    assert!(worst <= 1.31, "a default takes {worst:.3} of the best");
    assert!(near.iter().all(|n| n * 10 >= known as usize * 7), "{near:?} of {known} are within a tenth of the best");
}

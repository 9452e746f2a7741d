//! Writers that are killed at random moments, and writers that share a file.
//!
//! The child processes are this test program itself, started with the name of the log in the
//! environment: they append records as fast as they can and acknowledge each on standard output.
#![cfg(unix)]

use crate::common::record::record;
use daylight::log::{self, Record, Writer};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

const LOG: &str = "DAYLIGHT_TEST_LOG";
const FIRST: &str = "DAYLIGHT_TEST_FIRST";
const COUNT: &str = "DAYLIGHT_TEST_COUNT";

/// Record number `x`. Its length varies up to several pages, which a dying writer may tear.
fn numbered(x: i64) -> Record {
    let step = format!("annotate(i{x}, \"cache_hint\", \"plain\")");
    Record { trace: vec![step; (x * 37 % 400) as usize], ..record(x, &[(x % 1000) as f64 + 0.5]) }
}

fn number(r: &Record) -> i64 {
    r.knobs["threads"].number().expect("a number")
}

/// The body of a child process; does nothing in the parent.
#[test]
fn child() {
    let value = |name: &str| std::env::var(name).ok();
    let Some(path) = value(LOG) else { return };
    let number = |name: &str| value(name).and_then(|v| v.parse::<i64>().ok()).expect("a number");
    let (first, count) = (number(FIRST), number(COUNT));
    let mut writer = Writer::open(Path::new(&path)).expect("the log opens");
    let mut out = std::io::stdout().lock();
    for x in first..first + count {
        writer.append(&numbered(x)).expect("the record is written");
        out.write_all(format!("ack {x}\n").as_bytes()).and_then(|()| out.flush()).expect("the parent listens");
    }
}

/// A child that appends records `first..first + count`, and what it says.
fn start(path: &Path, first: i64, count: i64) -> (Child, BufReader<ChildStdout>) {
    let mut command = Command::new(std::env::current_exe().expect("this test program"));
    command.args(["--exact", "log_crash::child", "--nocapture", "--test-threads=1"]);
    command.env(LOG, path).env(FIRST, first.to_string()).env(COUNT, count.to_string());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("a child starts");
    let out = BufReader::new(child.stdout.take().expect("its output is piped"));
    (child, out)
}

/// The numbers of the records that a child says are written, up to its end.
fn acknowledged(mut out: impl Read) -> BTreeSet<i64> {
    let mut text = String::new();
    out.read_to_string(&mut text).expect("a child writes text");
    // The last line may be torn.
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().filter_map(|l| l.split("ack ").nth(1)?.parse().ok()).collect()
}

/// Kills a child after a random time, mostly while it writes, and gives what it acknowledged.
fn killed(path: &Path, first: i64, rng: &mut StdRng) -> BTreeSet<i64> {
    let (mut child, mut out) = start(path, first, 1_000_000);
    let mut acked = BTreeSet::new();
    if rng.random_range(0..10) > 0 {
        let mut line = String::new();
        while !line.contains("ack ") && out.read_line(&mut line).expect("a child writes text") > 0 {}
        acked.extend(acknowledged(line.as_bytes()));
    }
    // Sleeping takes too long for short times.
    let (start, wait) = (Instant::now(), Duration::from_micros(rng.random_range(0..2000)));
    while start.elapsed() < wait {
        std::hint::spin_loop();
    }
    child.kill().expect("the child is killed");
    child.wait().expect("the child has ended");
    acked.extend(acknowledged(out));
    acked
}

/// The numbers in a log, each with how often it is there, and the lines that were damaged.
fn found(path: &Path) -> (BTreeMap<i64, usize>, usize) {
    let log = log::read(path).expect("the log reads");
    let mut counts = BTreeMap::new();
    for r in &log.records {
        let same = Record { crc32c: String::new(), ..r.clone() };
        assert_eq!(same, numbered(number(r)), "a record is as it was written");
        *counts.entry(number(r)).or_insert(0) += 1;
    }
    (counts, log.skipped.len())
}

/// Kills `kills` writers of one log one after the other; how many tore a line.
fn one_log(kills: usize, seed: u64) -> usize {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("log.jsonl");
    let mut rng = StdRng::seed_from_u64(seed);
    let mut acked = BTreeSet::new();
    for kill in 0..kills {
        acked.extend(killed(&path, kill as i64 * 1_000_000, &mut rng));
    }
    let (counts, damaged) = found(&path);
    assert!(damaged <= kills, "{damaged} damaged lines after {kills} kills (seed {seed})");
    assert!(counts.values().all(|n| *n == 1), "a record is there twice (seed {seed})");
    let lost: Vec<&i64> = acked.iter().filter(|x| !counts.contains_key(x)).collect();
    assert!(lost.is_empty(), "{lost:?} were acknowledged and are gone (seed {seed})");
    // At most the record that was being written is there without having been acknowledged.
    assert!(counts.len() <= acked.len() + kills, "{} records, {} acknowledged", counts.len(), acked.len());
    assert!(acked.len() > kills, "{} records were written before {kills} kills", acked.len());
    damaged
}

#[test]
fn a_thousand_kills_lose_at_most_the_record_being_written() {
    const LOGS: u64 = 20;
    const KILLS: usize = 50;
    let half = |logs: std::ops::Range<u64>| move || logs.map(|seed| one_log(KILLS, seed)).sum::<usize>();
    let other = std::thread::spawn(half(0..LOGS / 2));
    let torn = half(LOGS / 2..LOGS)() + other.join().expect("no log lost anything");
    eprintln!("{} kills tore {torn} lines", LOGS as usize * KILLS);
}

#[test]
fn two_writers_lose_and_tear_nothing() {
    const COUNT: i64 = 2000;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("log.jsonl");
    let writers = [start(&path, 0, COUNT), start(&path, COUNT, COUNT)];
    for (mut child, out) in writers {
        assert_eq!(acknowledged(out).len() as i64, COUNT);
        assert!(child.wait().expect("the child has ended").success());
    }
    let (counts, damaged) = found(&path);
    assert_eq!((counts.len() as i64, damaged), (2 * COUNT, 0));
    assert!(counts.values().all(|n| *n == 1));
}

#[test]
fn a_writer_goes_on_where_another_was_killed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("log.jsonl");
    let mut rng = StdRng::seed_from_u64(7);
    let kills = 40;
    let (mut steady, out) = start(&path, 1_000_000_000, 1_000_000);
    let listener = std::thread::spawn(move || acknowledged(out));
    let mut acked = BTreeSet::new();
    for kill in 0..kills {
        acked.extend(killed(&path, kill * 1_000_000, &mut rng));
    }
    steady.kill().expect("the child is killed");
    steady.wait().expect("the child has ended");
    acked.extend(listener.join().expect("the child wrote text"));
    let (counts, damaged) = found(&path);
    assert!(damaged as i64 <= kills + 1, "{damaged} damaged lines");
    let lost: Vec<&i64> = acked.iter().filter(|x| !counts.contains_key(x)).collect();
    assert!(lost.is_empty(), "{lost:?} were acknowledged and are gone");
}

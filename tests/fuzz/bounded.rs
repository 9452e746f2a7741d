//! Mutants in a process of their own, which may take 4 GiB of memory and 20 seconds for each: what panics, dies, hangs
//! or takes more is reported with the number of the mutant, and the others are still tried.
//!
//! The child processes are this test program itself, as in `log_crash`. One mutant alone:
//! `DAYLIGHT_FUZZ_READER=table DAYLIGHT_FUZZ_FROM=17 DAYLIGHT_FUZZ_UPTO=18 cargo test fuzz::bounded::child -- --nocapture`.

use super::mutate::generator;
use super::readers::{READERS, Reader};
use super::{count, seed};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

const READER: &str = "DAYLIGHT_FUZZ_READER";
const FROM: &str = "DAYLIGHT_FUZZ_FROM";
const UPTO: &str = "DAYLIGHT_FUZZ_UPTO";

/// KiB of address space.
const MEMORY: &str = "4194304";
/// For one mutant.
const TIME: Duration = Duration::from_secs(20);
/// Children that may die before a reader is given up.
const DEATHS: usize = 12;

thread_local! {
    /// The mutant that is being read, for the report.
    static CURRENT: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Notes what is about to be read.
pub fn reading(mutant: &[u8]) {
    CURRENT.with_borrow_mut(|c| *c = String::from_utf8_lossy(mutant).into_owned());
}

/// The body of a child process; does nothing in the parent.
#[test]
fn child() {
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse::<usize>().ok());
    let (Ok(name), Some(from), Some(upto)) = (std::env::var(READER), number(FROM), number(UPTO)) else { return };
    let reader = READERS.iter().find(|r| r.name == name).expect("a reader of that name");
    let mut answered = 0;
    for n in from..upto {
        println!("at {n}");
        let mut rng = generator(seed(), reader.name, n);
        match catch_unwind(AssertUnwindSafe(|| (reader.read)(&mut rng))) {
            Ok(answer) => answered += usize::from(answer),
            Err(_) => CURRENT.with_borrow(|c| println!("panicked {n}\n{}", c.chars().take(3000).collect::<String>())),
        }
    }
    println!("answered {answered}");
}

/// Tries all mutants of a reader, in several processes if some die.
pub fn tried(reader: &Reader) {
    let all = count(reader.usual);
    let folder = tempfile::tempdir().expect("a folder");
    let (mut from, mut answered, mut found) = (0, 0, BTreeMap::new());
    while from < all && found.len() < DEATHS {
        let (end, said) = run(reader, from..all, folder.path());
        answered += last(&said, "answered ").unwrap_or(0);
        for part in said.split("\nthread '").filter(|p| p.contains("\npanicked ")) {
            let place = part.split_once("panicked at ").map_or(part, |(_, p)| p);
            let place = place.lines().next().unwrap_or_default().to_string();
            found.entry(place).or_insert(part.to_string());
        }
        let at = last(&said, "at ").unwrap_or(from);
        if let Err(why) = end {
            let tail: String = said.lines().rev().take(4).collect::<Vec<_>>().join("\n");
            found.insert(format!("mutant {at}: {why}"), tail);
        }
        from = at + 1;
    }
    eprintln!("{}: {all} mutants, {answered} of them answered, seed {}", reader.name, seed());
    let text: Vec<String> = found.iter().map(|(place, said)| format!("{place}\n{said}")).collect();
    assert!(found.is_empty(), "{}: {} findings\n{}", reader.name, found.len(), text.join("\n----\n"));
    assert!(answered > 0 && answered < all, "{}: {answered} of {all} mutants were answered", reader.name);
}

/// The last number behind a word at the beginning of a line.
fn last(said: &str, word: &str) -> Option<usize> {
    said.lines().filter_map(|l| l.strip_prefix(word)?.trim().parse().ok()).next_back()
}

/// Mutants in one process: how it ended, and what it said.
fn run(reader: &Reader, mutants: std::ops::Range<usize>, folder: &Path) -> (Result<(), String>, String) {
    let path = folder.join("said");
    let said = File::create(&path).expect("a file");
    let program = std::env::current_exe().expect("this test program");
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -v \"$0\"; ulimit -c 0; exec \"$@\"", MEMORY]).arg(program);
    command.args(["--exact", "fuzz::bounded::child", "--nocapture", "--test-threads=1"]);
    command.env(READER, reader.name).env(FROM, mutants.start.to_string()).env(UPTO, mutants.end.to_string());
    command.env("RUST_BACKTRACE", "0").stdout(said.try_clone().expect("a file")).stderr(said);
    let end = ended(command.spawn().expect("a child starts"), &path);
    (end, String::from_utf8_lossy(&std::fs::read(&path).expect("what it said")).into_owned())
}

/// Waits for the end of a child; kills it when it says nothing new for too long.
fn ended(mut child: Child, said: &Path) -> Result<(), String> {
    let (mut length, mut since) = (0, Instant::now());
    loop {
        if let Some(status) = child.try_wait().expect("a child") {
            return well(status);
        }
        let now = std::fs::metadata(said).map_or(0, |m| m.len());
        if now != length {
            (length, since) = (now, Instant::now());
        } else if since.elapsed() > TIME {
            child.kill().and_then(|()| child.wait()).expect("it ends");
            return Err(format!("takes more than {} s", TIME.as_secs()));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn well(status: ExitStatus) -> Result<(), String> {
    if status.success() { Ok(()) } else { Err(format!("the process ended with {status}")) }
}

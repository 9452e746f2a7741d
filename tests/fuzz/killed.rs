//! Runs that are killed at any moment, half of them while they tune on the CPU and half while they write a package: the log
//! reads without a damaged line, a package is the old one or the new one in each of its files, and what is left behind
//! by the dead is gone after the next run.

use super::mutate::generator;
use super::{count, seed};
use daylight::log;
use rand::RngExt;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const FUNCTION: &str = "from tvm.script import tirx as T
@T.prim_func(s_tir=True)
def sums(A: T.Buffer((64, 96), \"float32\"), B: T.Buffer((64,), \"float32\")):
    for i, k in T.grid(64, 96):
        with T.sblock(\"b\"):
            v, w = T.axis.remap(\"SR\", [i, k])
            with T.init():
                B[v] = T.float32(0)
            B[v] = B[v] + A[v, w]
";

/// A command in a folder with temporary files of its own.
fn daylight(at: &Path, args: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_daylight"));
    command.args(args.split_whitespace()).args(["--cache", "cache"]).current_dir(at).env("TMPDIR", at.join("tmp"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Runs to the end; how long that takes.
fn whole(at: &Path, args: &str) -> Duration {
    let start = Instant::now();
    assert!(daylight(at, args).status().expect("daylight starts").success(), "{args}");
    start.elapsed()
}

/// Kills the process, and nobody else, after a part of the time.
fn killed(at: &Path, args: &str, after: Duration) {
    let mut child = daylight(at, args).spawn().expect("daylight starts");
    std::thread::sleep(after);
    child.kill().and_then(|()| child.wait()).expect("it ends");
}

/// Names in a folder, hidden ones too.
fn names(folder: &Path) -> Vec<String> {
    let Ok(list) = std::fs::read_dir(folder) else { return vec![] };
    list.map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
}

/// Hidden files anywhere below a folder.
fn hidden(folder: &Path) -> Vec<String> {
    let below = |n: &String| [vec![n.clone()], hidden(&folder.join(n))].concat();
    names(folder).iter().flat_map(below).filter(|n| n.starts_with('.')).collect()
}

#[test]
fn killed_runs_leave_a_log_that_reads_and_whole_packages() {
    let kills = count(12);
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    std::fs::create_dir(at.join("tmp")).expect("made");
    std::fs::write(at.join("f.py"), FUNCTION).expect("written");
    let tune = |trials: usize| format!("tune f.py --device cpu --log log --trials {trials}");
    whole(at, &tune(1));
    let tuning = whole(at, &tune(3));
    let apply = "apply-best f.py --log log --target cpu --out out";
    let (other, applying) = ("apply-best f.py --log tmp --target cpu,cuda:sm_90a --out out", whole(at, apply));
    let mut rng = generator(seed(), "killed", 0);
    let mut read = 0;
    for kill in 0..kills {
        let part = |of: Duration, rng: &mut rand::rngs::StdRng| of.mul_f64(rng.random_range(0.0..1.3));
        match kill % 2 {
            // The more is known the longer it takes until something is measured.
            0 => killed(at, &tune(4 + kill), part(tuning + Duration::from_millis(200), &mut rng)),
            _ => killed(at, if kill % 4 == 1 { apply } else { other }, part(applying, &mut rng)),
        }
        let log = log::read(&at.join("log")).expect("the log reads");
        assert!(log.skipped.is_empty(), "kill {kill}: {:?}", log.skipped);
        assert!(log.records.len() >= read, "kill {kill}: records are gone");
        read = log.records.len();
    }
    settled(at, apply);
    eprintln!("{kills} kills, seed {}: {read} records, none torn", seed());
}

/// Nothing of the dead is left once everything has run to its end again, and the package is what a run in a fresh
/// folder writes.
fn settled(at: &Path, apply: &str) {
    let start = Instant::now();
    // Workers whose parent is dead end by themselves.
    while !names(&at.join("tmp")).is_empty() && start.elapsed() < Duration::from_secs(10) {
        whole(at, "verify f.py --target sim:sm_90 --candidates 0");
        whole(at, "tune f.py --device cpu --log other --trials 1");
    }
    whole(at, apply);
    whole(at, &apply.replace("--out out", "--out fresh"));
    let files = |folder: &str| -> BTreeMap<String, Vec<u8>> {
        let all = names(&at.join(folder)).into_iter();
        all.map(|n| (n.clone(), std::fs::read(at.join(folder).join(n)).expect("a file"))).collect()
    };
    let (now, fresh) = (files("out"), files("fresh"));
    assert!(fresh.iter().all(|(name, bytes)| now.get(name) == Some(bytes)), "the package is not what a fresh one is");
    let left: Vec<String> = ["tmp", "out", "cache", "log"].iter().flat_map(|f| hidden(&at.join(f))).collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}

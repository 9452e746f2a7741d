//! What is said of kernels that are not tuned for their target and size: on standard error by `apply-best`, as
//! warnings of cargo by a build.

use crate::common;
use daylight::assemble::Schedulable;
use daylight::build::Build;
use daylight::job::{self, select};
use daylight::log::{self, Outcome, Record};
use daylight::rules::Spaces;
use daylight::target::{HostCpu, Target};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Sums of rows, at a size that is bound or not.
pub const SUMS: &str = r#"
from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def sums(a: T.handle, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n, 64))
    B = T.match_buffer(b, (n,))
    for i, k in T.grid(n, 64):
        with T.sblock("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
"#;

/// The record of a measured kernel of a file's function at a size.
pub fn record(file: &Path, n: i64, name: &str, set: &[&str]) -> Record {
    record_at(file, BTreeMap::from([("n".to_string(), n)]), name, set)
}

/// The same at several extents.
pub fn record_at(file: &Path, bind: BTreeMap<String, i64>, name: &str, set: &[&str]) -> Record {
    let input = job::load(&bind, &[file.to_path_buf()]).expect("the file").remove(0).expect("the function");
    let target = Target::parse(name, &HostCpu::default()).expect("a target");
    let subject = Schedulable::new(&input.func, &input.original, target).expect("it is accepted");
    let choice = select::Choice { rule: None, set: set.iter().map(|s| s.to_string()).collect() };
    let arms = select::arms(&subject, &Spaces::built_in(), &input.name, &choice).expect("a rule takes it");
    let (arm, knobs) = select::point(&arms, &choice).expect("a legal point");
    let made = subject.candidate(arm, &knobs).expect("a kernel");
    let hash = format!("{:032x}", xxhash_rust::xxh3::xxh3_128(made.source.text.as_bytes()));
    Record {
        workload: log::Workload { key: input.key, name: input.name },
        bind,
        target: name.into(),
        rule: arm.space.form.into(),
        rule_version: arm.space.version,
        knobs: arm.space.settings(&knobs),
        trace: made.trace,
        source_hash: Some(hash),
        outcome: Outcome::Ok,
        ..common::record::record(1, &[9_000.0])
    }
}

/// A folder with the function and a log of some records.
pub fn place(sizes: &[(i64, &str, &[&str])]) -> (tempfile::TempDir, PathBuf) {
    let place = tempfile::tempdir().expect("a folder");
    let file = place.path().join("sums.py");
    std::fs::write(&file, SUMS).expect("written");
    let records: Vec<Record> = sizes.iter().map(|(n, target, set)| record(&file, *n, target, set)).collect();
    log::write(&place.path().join("log.jsonl"), &records).expect("a log");
    (place, file)
}

fn warnings(place: &Path, file: &Path, n: i64) -> Vec<String> {
    let build = Build::new().function(file).bind("n", n).log(place.join("log.jsonl")).target("cpu:x86-64-v3");
    build.write(&place.join("out")).expect("a build").warnings
}

#[test]
fn a_build_names_what_is_not_tuned_and_what_there_is() {
    let (place, file) = place(&[(32, "cpu:x86-64-v4", &[]), (64, "cpu:x86-64-v3", &[])]);
    let [warning] = warnings(place.path(), &file, 32).try_into().expect("one warning");
    let log = place.path().join("log.jsonl").display().to_string();
    let want = format!(
        "sums is not tuned for cpu:x86-64-v3 at n=32: its kernel is the one of another size; the log has it at n=64 and \
         it for cpu:x86-64-v4; tune it: daylight tune {} --bind n=32 --device cpu --target cpu:x86-64-v3 --log {log}",
        file.display()
    );
    assert_eq!(warning, want);
    assert_eq!(warnings(place.path(), &file, 64), Vec::<String>::new(), "that one is tuned");
}

#[test]
fn apply_best_says_it_too_and_refuses_it_where_only_what_is_tuned_will_do() {
    let (place, _) = place(&[(32, "cpu:x86-64-v4", &[])]);
    let apply = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_daylight"));
        command.args(["apply-best", "sums.py", "--log", "log.jsonl", "--out", "out", "--target", "cpu:x86-64-v3"]);
        let o = command.args(more).current_dir(place.path()).output().expect("daylight starts");
        (o.status.code(), String::from_utf8_lossy(&o.stderr).into_owned())
    };
    let (code, said) = apply(&["--bind", "n=32"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(
        said.contains("sums is not tuned for cpu:x86-64-v3 at n=32: its kernel is the default; the log has it for")
    );
    assert!(said.contains("tune it: daylight tune sums.py --bind n=32 --device cpu --target cpu:x86-64-v3"), "{said}");
    let (code, said) = apply(&["--bind", "n=32", "--require-exact"]);
    assert!(code == Some(1) && said.contains("is \"default\", not \"exact\""), "{code:?}: {said}");
}

/// The crate in `examples/consumer` has kernels that were measured for what it is built for.
#[test]
fn the_example_ships_tuned_kernels() {
    let place = tempfile::tempdir().expect("a folder");
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let build = Build::new().function(examples.join("mean.py")).function(examples.join("consumer/kernels"));
    let build = build.bind("n", 64).bind("rows", [1, 16, 128, 1024]).log(examples.join("consumer/tuning-logs"));
    let built = build.target("cpu:x86-64-v3").write(place.path()).expect("a build");
    assert_eq!(built.warnings, Vec::<String>::new());
    assert!(built.units.len() >= 7, "one for each of two functions, and those of the third for each size and between");
}

//! `daylight log` from the outside: what it prints, writes, refuses, and its exit codes.

use crate::common::record::{failure, full, predicted, record};
use daylight::log::{self, Outcome, Record, SCHEMA, Workload, Writer};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Command;

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().expect("a temporary folder"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn log(&self, name: &str, records: &[Record]) -> &Place {
        let mut writer = Writer::open(&self.path(name)).expect("the log opens");
        records.iter().for_each(|r| writer.append(r).expect("the record is written"));
        self
    }

    /// Exit code, standard output, standard error of `daylight log` with these words.
    fn run(&self, words: &str) -> (i32, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_daylight"));
        command.arg("log").args(words.split_whitespace()).current_dir(self.0.path());
        let o = command.output().expect("daylight starts");
        let text = |b: Vec<u8>| String::from_utf8_lossy(&b).into_owned();
        (o.status.code().unwrap_or(-1), text(o.stdout), text(o.stderr))
    }

    fn good(&self, words: &str) -> String {
        let (code, out, error) = self.run(words);
        assert_eq!(code, 0, "{words}: {error}");
        out
    }

    fn fails(&self, words: &str, code: i32, says: &str) {
        let (got, _, error) = self.run(words);
        assert!(got == code && error.contains(says), "{words}: exit {got}, expected {code}: {error}");
    }

    fn json(&self, words: &str) -> Vec<Value> {
        let out = self.good(&format!("{words} --json"));
        out.lines().map(|l| serde_json::from_str(l).expect("JSON")).collect()
    }

    fn records(&self, name: &str) -> Vec<Record> {
        log::read(&self.path(name)).expect("the log reads").records
    }
}

fn named(name: &str, r: Record) -> Record {
    let key = format!("{:032x}", name.len());
    Record { workload: Workload { key, name: name.into() }, ..r }
}

/// A log with several workloads, rules, outcomes and targets.
fn mixed() -> Vec<Record> {
    let gemv = |r: Record| named("gemv", Record { rule: "gemv.inner".into(), ..r });
    vec![
        record(1, &[10_000.0]),
        record(2, &[9_000.0]),
        failure(3, Outcome::Pruned, "shared_memory: needs 65536 bytes of 49152"),
        failure(4, Outcome::Pruned, "shared_memory: needs 99999 bytes of 49152"),
        failure(5, Outcome::WrongResult, "wrong result: parameter 1 holds 3.5 where 2 was expected"),
        gemv(record(1, &[20_000.0])),
        Record { target: "cpu:x86-64-v3".into(), ..gemv(record(7, &[30_000.0])) },
        gemv(predicted(8, 0.25)),
    ]
}

#[test]
fn every_help_has_an_example() {
    let place = Place::new();
    for action in ["", "show ", "merge ", "compact ", "verify ", "export "] {
        let out = place.good(&format!("{action}--help"));
        assert!(out.contains("Example:\n  daylight log "), "{out}");
    }
}

#[test]
fn show_filters() {
    let place = Place::new();
    place.log("a.jsonl", &mixed());
    let count = |words: &str| place.good(&format!("show a.jsonl {words}")).lines().count();
    let cases = [
        ("", 8),
        ("--workload mean", 5),
        ("--workload me", 5),
        ("--workload nothing", 0),
        ("--target cuda:sm_90a", 7),
        ("--target cpu", 1),
        ("--outcome ok", 4),
        ("--outcome wrong_result", 1),
        ("--rule gemv", 3),
        ("--rule gemv.inner --outcome ok --target cuda", 1),
        ("--limit 3", 3),
        ("--bind n=512", 8),
        ("--bind n=511", 0),
        ("--best", 3),
        ("--best --workload gemv", 2),
    ];
    for (words, want) in cases {
        assert_eq!(count(words.trim()), want, "{words}");
    }
    let best = place.json("show a.jsonl --best --workload mean");
    assert_eq!((best.len(), &best[0]["knobs"]), (1, &json!({ "threads": 2 })));
    assert!(place.good("show a.jsonl --workload gemv").contains("rank 2.500e-1  gemv n=512"));
    place.fails("show a.jsonl --outcome okay", 2, "ok");
    place.fails("show a.jsonl --best --losers", 2, "cannot be used with");
}

#[test]
fn show_groups_what_failed_by_reason() {
    let place = Place::new();
    place.log("a.jsonl", &mixed());
    let out = place.good("show a.jsonl --losers");
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.len(), 2);
    assert!(lines[0].starts_with("     2 x pruned          shared_memory; such as pruned  mean n=512"), "{out}");
    assert!(lines[0].ends_with("threads=3  shared_memory: needs 65536 bytes of 49152"), "{out}");
    assert!(lines[1].contains("1 x wrong_result    wrong result: parameter # holds # where # was expected;"), "{out}");
    let groups = place.json("show a.jsonl --losers --limit 1");
    assert_eq!((groups.len(), &groups[0]["count"], &groups[0]["outcome"]), (1, &json!(2), &json!("pruned")));
    assert_eq!(groups[0]["example"]["knobs"]["threads"], 3);
}

#[test]
fn merge_joins_and_loses_nothing() {
    let place = Place::new();
    place.log("1.jsonl", &[record(1, &[1.0]), record(2, &[2.0])]).log("2.jsonl", &[record(2, &[2.0]), full()]);
    let torn = std::fs::read_to_string(place.path("1.jsonl")).expect("the log reads")[..99].to_string();
    std::fs::write(place.path("3.jsonl"), torn).expect("write the log");
    let counts = place.json("merge 1.jsonl 2.jsonl 3.jsonl --out all.jsonl");
    let want = json!({ "schema": 1, "out": "all.jsonl", "records": 3, "duplicates": 1, "skipped": 1 });
    assert_eq!(counts, [want]);
    let (_, out, error) = place.run("merge 2.jsonl 1.jsonl 3.jsonl --out all.jsonl.gz");
    assert!(
        out.is_empty()
            && error.contains("3.jsonl:1: skipped")
            && error.contains("3 records; 1 duplicates and 1 damaged"),
        "{error}"
    );
    assert_eq!(place.records("all.jsonl"), place.records("all.jsonl.gz"));
    // Again gives the same bytes, and a result that holds more may replace one that holds less.
    let before = std::fs::read(place.path("all.jsonl")).expect("the log reads");
    place.good("merge 2.jsonl 1.jsonl --out all.jsonl");
    assert_eq!(std::fs::read(place.path("all.jsonl")).expect("the log reads"), before);
    place.log("4.jsonl", &[record(9, &[1.0])]).good("merge all.jsonl.gz 4.jsonl --out new.jsonl");
    assert_eq!(place.records("new.jsonl").len(), 4);
}

#[test]
fn merge_refuses_to_lose_what_is_there() {
    let place = Place::new();
    place.log("1.jsonl", &[record(1, &[1.0])]).log("2.jsonl", &[record(2, &[2.0])]);
    let before = std::fs::read(place.path("2.jsonl")).expect("the log reads");
    place.fails("merge 1.jsonl 2.jsonl --out 2.jsonl", 2, "one of the logs that are read");
    place.fails("merge . --out ./2.jsonl", 2, "one of the logs that are read");
    place.fails("merge 1.jsonl --out 2.jsonl", 2, "it holds 1 lines that the result would lose");
    assert_eq!(std::fs::read(place.path("2.jsonl")).expect("the log reads"), before);
    std::fs::write(place.path("text"), "precious\n").expect("write the file");
    place.fails("merge 1.jsonl --out text", 2, "cannot replace text");
    place.fails("merge nowhere.jsonl --out new.jsonl", 2, "no log at nowhere.jsonl");
    place.fails("merge 1.jsonl --out /dev/null", 2, "it is not a file");
    place.fails("merge 1.jsonl --out /proc/nowhere/x.jsonl", 2, "cannot write /proc/nowhere/x.jsonl");
    assert!(!place.path("new.jsonl").exists());
}

#[test]
fn compact_keeps_the_choices() {
    let place = Place::new();
    let again = Record { unix_s: 1_800_000_000, ..record(1, &[11_000.0]) };
    place.log("a.jsonl", &[mixed(), mixed(), vec![again]].concat());
    let counts = place.json("compact a.jsonl --out b.jsonl.gz --drop-traces");
    assert_eq!(
        (&counts[0]["records"], &counts[0]["dropped"], &counts[0]["skipped"]),
        (&json!(8), &json!(9), &json!(0))
    );
    assert!(counts[0]["bytes"].as_u64() < counts[0]["bytes_before"].as_u64());
    let best = |log: &str| place.good(&format!("show {log} --best"));
    assert_eq!(best("a.jsonl"), best("b.jsonl.gz"));
    let traces: usize = place.records("b.jsonl.gz").iter().filter(|r| !r.trace.is_empty()).count();
    assert_eq!(traces, 4, "three winners and a ranked one");
    place.good("compact a.jsonl --out b.jsonl.gz"); // the same log again
    assert_eq!(place.records("b.jsonl.gz").iter().filter(|r| !r.trace.is_empty()).count(), 8);
    place.fails("compact a.jsonl --out a.jsonl", 2, "one of the logs that are read");
    place.log("c.jsonl", &[full()]).fails("compact a.jsonl --out c.jsonl", 2, "1 lines that the result would lose");
}

#[test]
fn verify_names_file_and_line() {
    let place = Place::new();
    place.log("good.jsonl", &mixed());
    assert_eq!(place.good("verify good.jsonl"), "");
    let next = Record { schema: SCHEMA + 1, ..full() }.to_line();
    let text = format!("{}torn\n{next}{}", record(1, &[5.0]).to_line(), record(2, &[]).to_line());
    std::fs::write(place.path("bad.jsonl"), text).expect("write the log");
    let (code, out, error) = place.run("verify good.jsonl bad.jsonl");
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!((code, lines.len()), (1, 3), "{out}");
    assert_eq!(lines[0], "bad.jsonl:2: the line is torn");
    assert!(lines[1].starts_with("bad.jsonl:3: the record has schema 4") && lines[1].ends_with("update daylight"));
    assert_eq!(lines[2], "bad.jsonl:4: the outcome is ok, but there are no samples");
    assert!(error.contains("10 records, 3 problems"), "{error}");
    let (code, out, _) = place.run("verify bad.jsonl --json");
    let first: Value = serde_json::from_str(out.lines().next().expect("a line")).expect("JSON");
    assert_eq!((code, &first["file"], &first["line"]), (1, &json!("bad.jsonl"), &json!(2)));
    place.fails("verify nowhere", 2, "no log at nowhere");
}

#[test]
fn the_logs_of_this_repository_are_intact() {
    let place = Place::new();
    place.good(&format!("verify {}", concat!(env!("CARGO_MANIFEST_DIR"), "/tuning-logs")));
}

#[test]
fn export_as_csv() {
    let place = Place::new();
    place.log("a.jsonl", &mixed());
    place.good("export a.jsonl --format csv --out a.csv --outcome ok");
    let mut reader = csv::Reader::from_path(place.path("a.csv")).expect("the table is there");
    let header = reader.headers().expect("a header").clone();
    assert_eq!(header.iter().next_back(), Some("knob.threads"));
    assert_eq!(reader.records().count(), 4);
    place.fails("export a.jsonl --format csv --out a.jsonl", 2, "one of the logs that are read");
    place.fails("export a.jsonl --format xml --out a.xml", 2, "t4");
}

#[test]
fn export_as_t4() {
    let place = Place::new();
    place.log("a.jsonl", &mixed());
    let read = |name: &str| -> Value {
        let text = std::fs::read_to_string(place.path(name)).expect("the file is there");
        serde_json::from_str(&text).expect("JSON")
    };
    place.good("export a.jsonl --format t4 --workload mean --out mean.json");
    let t4 = read("mean.json");
    assert_eq!((&t4["schema_version"], t4["results"].as_array().map(Vec::len)), (&json!("1.0.0"), Some(5)));
    place.fails("export a.jsonl --format t4 --out all.json", 2, "3 were asked for: gemv-n512 cpu:x86-64-v3");
    place.fails("export a.jsonl --format t4 --workload none --out all.json", 2, "0 were asked for;");
    place.good("export a.jsonl --format t4 --out t4/");
    let mut files: Vec<String> = std::fs::read_dir(place.path("t4"))
        .expect("the folder is there")
        .map(|e| e.expect("readable").file_name().to_string_lossy().into_owned())
        .collect();
    files.sort();
    let want = [
        "gemv-n512-cpu-x86-64-v3-NVIDIA-H200.json",
        "gemv-n512-cuda-sm_90a-NVIDIA-H200.json",
        "mean-n512-cuda-sm_90a-NVIDIA-H200.json",
    ];
    assert_eq!(files, want);
    assert_eq!(read(&format!("t4/{}", want[2])), t4);
}

#[test]
fn compressed_logs_are_read_everywhere_and_never_appended_to() {
    let place = Place::new();
    place.log("a.jsonl", &mixed()).good("merge a.jsonl --out logs/a.jsonl.gz");
    assert_eq!(place.good("show logs"), place.good("show logs/a.jsonl.gz"));
    assert_eq!(place.good("verify logs"), "");
    let (code, error) = {
        let mut command = Command::new(env!("CARGO_BIN_EXE_daylight"));
        let sum = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/mean.py");
        command.args(["tune", sum, "--device", "cpu", "--trials", "1", "--log", "logs/a.jsonl.gz", "--cache", "c"]);
        let o = command.current_dir(place.0.path()).output().expect("daylight starts");
        (o.status.code(), String::from_utf8_lossy(&o.stderr).into_owned())
    };
    assert!(code == Some(2) && error.contains("it is compressed; unpack it with"), "{error}");
}

#[test]
fn the_page_about_the_log_is_true() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/log.md")).expect("the page is there");
    let all: Value = serde_json::from_str(&full().to_line()).expect("JSON");
    let fields = all.as_object().expect("an object").iter();
    let inner = fields.clone().filter(|(name, _)| !["bind", "knobs"].contains(&name.as_str()));
    let inner = inner.filter_map(|(_, value)| value.as_object()).flatten();
    for (name, _) in fields.chain(inner) {
        assert!(text.contains(&format!("`{name}`")), "docs/log.md does not explain `{name}`");
    }
    let golden = format!("{}/tests/golden/log/schema-{SCHEMA}.jsonl", env!("CARGO_MANIFEST_DIR"));
    for line in std::fs::read_to_string(golden).expect("the golden log").lines() {
        let line: Value = serde_json::from_str(line).expect("JSON");
        for name in line.as_object().expect("an object").keys() {
            assert!(text.contains(&format!("`{name}`")), "docs/log.md does not explain `{name}` of short lines");
        }
    }
    assert!(Outcome::ALL.iter().all(|o| text.contains(&format!("`{}`", o.name()))));
    let place = Place::new();
    place
        .log("tuning-logs/cuda.jsonl", &mixed())
        .log("main.jsonl", &mixed())
        .log("branch.jsonl", &mixed())
        .log("parts/1.jsonl", &mixed()[..4])
        .log("parts/2.jsonl", &mixed()[3..]);
    let commands: Vec<&str> = text.lines().filter_map(|l| l.strip_prefix("daylight log ")).collect();
    assert!(commands.len() >= 9);
    for command in commands {
        let words = command.split('#').next().unwrap_or_default();
        assert!(!place.good(words).is_empty() || !words.starts_with("show"), "{words} shows nothing");
    }
}

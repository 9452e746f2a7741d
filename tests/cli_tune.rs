//! The whole line on the CPU through the command: tune, resume, show, report, run, apply.

use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;

const SUM: &str = r#"
from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def row_sum(A: T.Buffer((96, 512), "float32"), B: T.Buffer((96,), "float32")):
    for i, k in T.grid(96, 512):
        with T.sblock("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
"#;

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        let place = Place(tempfile::tempdir().expect("a temporary folder"));
        std::fs::write(place.path("sum.py"), SUM).expect("write the file");
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Exit code, JSON objects of standard output, standard error.
    fn json(&self, args: &[&str]) -> (i32, Vec<Value>, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_daylight"));
        command.args(args).args(["--json", "--cache", "cache"]).current_dir(self.0.path());
        let o = command.output().expect("daylight starts");
        let out = String::from_utf8_lossy(&o.stdout).into_owned();
        let lines = out.lines().map(|l| serde_json::from_str(l).unwrap_or_else(|e| panic!("{e}: {l}"))).collect();
        (o.status.code().unwrap_or(-1), lines, String::from_utf8_lossy(&o.stderr).into_owned())
    }

    /// The one object of a command that succeeds.
    fn one(&self, args: &[&str]) -> Value {
        let (code, mut lines, error) = self.json(args);
        assert!(code == 0 && lines.len() == 1, "{args:?}: exit {code}, {} lines: {error}", lines.len());
        lines.remove(0)
    }
}

/// A version 1 `.npy` file of floats.
pub fn npy(shape: &str, values: &[f32]) -> Vec<u8> {
    let mut header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}");
    header.push_str(&" ".repeat(127 - 10 - header.len()));
    header.push('\n');
    let mut out = b"\x93NUMPY\x01\x00".to_vec();
    out.extend((header.len() as u16).to_le_bytes());
    out.extend(header.bytes());
    values.iter().for_each(|v| out.extend(v.to_le_bytes()));
    out
}

#[test]
fn the_whole_line() {
    let place = Place::new();
    let tune = ["tune", "sum.py", "--device", "cpu", "--trials", "4", "--log", "log", "--seed", "3"];
    let report = place.one(&tune);
    assert_eq!(
        (&report["name"], &report["measured"], &report["failed"]),
        (&"row_sum".into(), &4.into(), &serde_json::json!({}))
    );
    let (best, default) = (report["best_us"].as_f64().expect("a time"), report["default_us"].as_f64().expect("a time"));
    assert!(best > 0.0 && best <= default, "best {best}, default {default}");

    let again = place.one(&tune);
    assert_eq!((&again["measured"], &again["resumed"], &again["best_us"]), (&0.into(), &4.into(), &report["best_us"]));

    packs(&place);
    let packed = place.one(&tune);
    assert_eq!((&packed["measured"], &packed["resumed"]), (&0.into(), &4.into()));

    let shown = place.one(&["log", "show", "log", "--best"]);
    assert_eq!((&shown["rule"], &shown["knobs"], &shown["outcome"]), (&report["rule"], &report["knobs"], &"ok".into()));

    let row = place.one(&["report", "--log", "log", "--out", "report"]);
    assert_eq!(row["best_us"], report["best_us"]);
    assert!(place.path("report/report.md").is_file());
    let csv = std::fs::read_to_string(place.path("report/report.csv")).expect("the report is there");
    assert_eq!(csv.lines().count(), 2);

    runs(&place, &report);
    applies(&place);

    let more = place.one(&["tune", "sum.py", "--device", "cpu", "--trials", "6", "--log", "log", "--seed", "3"]);
    assert_eq!((&more["measured"], &more["resumed"]), (&2.into(), &4.into()));
}

/// Leaves the target's log compressed alone.
fn packs(place: &Place) {
    let [log] = &daylight::log::files(&place.path("log")).expect("the log")[..] else { panic!("more than one log") };
    let packed = log.with_extension("jsonl.gz");
    place.one(&["log", "merge", &log.display().to_string(), "--out", &packed.display().to_string()]);
    std::fs::remove_file(log).expect("remove the plain log");
}

/// `run` gives the right numbers with the log's best kernel.
fn runs(place: &Place, report: &Value) {
    let a: Vec<f32> = (0..96 * 512).map(|i| ((i * 31) % 17) as f32).collect();
    std::fs::create_dir(place.path("in")).expect("make the folder");
    std::fs::write(place.path("in/00_A.npy"), npy("(96, 512)", &a)).expect("write the input");
    let args = ["run", "sum.py", "--device", "cpu", "--log", "log", "--inputs", "in", "--outputs", "out"];
    let ran = place.one(&args);
    assert_eq!((&ran["kernel"], &ran["knobs"]), (&"logged".into(), &report["knobs"]));
    let bytes = std::fs::read(place.path("out/01_B.npy")).expect("the output is there");
    let b: Vec<f32> =
        bytes[bytes.len() - 96 * 4..].chunks(4).map(|c| f32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect();
    let want: Vec<f32> = a.chunks(512).map(|row| row.iter().sum()).collect();
    assert_eq!(b, want); // integers below 2^24: exact in any order

    std::fs::write(place.path("in/00_A.npy"), npy("(512, 96)", &a)).expect("write the input");
    let (code, _, error) = place.json(&args);
    assert!(code == 3 && error.contains("00_A.npy: shape [512, 96], expected [96, 512]"), "{code}: {error}");
    std::fs::write(place.path("in/00_A.npy"), b"nonsense").expect("write the input");
    assert_eq!(place.json(&args).0, 3);
    std::fs::remove_file(place.path("in/00_A.npy")).expect("remove the input");
    let (code, _, error) = place.json(&args);
    assert!(code == 2 && error.contains("there is no in/00_A.npy for the parameter `A`"), "{code}: {error}");
}

/// `apply-best` writes the measured kernel, the same bytes each time.
fn applies(place: &Place) {
    let apply = |out: &str, more: &[&str]| {
        place.json(&[&["apply-best", "sum.py", "--log", "log", "--out", out, "--target"], more].concat())
    };
    let (code, lines, error) = apply("k1", &["cpu", "--require-exact"]);
    assert_eq!((code, &lines[0]["rung"]), (0, &"exact".into()), "{error}");
    assert_eq!(apply("k2", &["cpu"]).0, 0);
    let mut names: Vec<String> = std::fs::read_dir(place.path("k1"))
        .expect("the folder is there")
        .map(|e| e.expect("readable").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert_eq!(names.len(), 3, "{names:?}");
    assert!(names.contains(&"kernels.rs".to_string()) && names.contains(&"manifest.json".to_string()));
    for name in &names {
        let read = |folder: &str| std::fs::read(place.path(folder).join(name)).expect("the file is there");
        assert_eq!(read("k1"), read("k2"), "{name}");
    }
    let manifest = std::fs::read_to_string(place.path("k1/manifest.json")).expect("the manifest is there");
    let manifest: Value = serde_json::from_str(&manifest).expect("JSON");
    assert_eq!((&manifest["schema"], &manifest["functions"][0]["name"]), (&1.into(), &"row_sum".into()));

    let (code, _, error) = apply("k3", &["cuda:sm_90a", "--require-exact"]);
    assert!(code == 1 && error.contains("the kernel for cuda:sm_90a is \"default\", not \"exact\""), "{code}: {error}");
    let (code, lines, _) = apply("k3", &["cuda:sm_90a"]);
    assert_eq!((code, &lines[0]["rung"]), (0, &"default".into()));
    let (code, _, error) = apply("k4", &["sim:sm_90"]);
    assert!(code == 2 && error.contains("name the GPU: cuda:sm_90a"), "{code}: {error}");
    let (code, _, error) = apply("k4", &["cpu", "--gpu", "Abacus"]);
    assert!(code == 2 && error.contains("no records of \"Abacus\""), "{code}: {error}");
}

#[test]
fn duplicates_are_tuned_once() {
    let place = Place::new();
    std::fs::write(place.path("twin.py"), SUM.replace("row_sum", "other")).expect("write the file");
    let args = ["tune", "sum.py", "twin.py", "--device", "cpu", "--trials", "1", "--log", "log"];
    let (code, lines, error) = place.json(&args);
    assert_eq!((code, lines.len()), (0, 2), "{error}");
    assert_eq!((&lines[1]["name"], &lines[1]["best_us"]), (&"other".into(), &lines[0]["best_us"]));
    assert!(error.contains("other: the same computation as row_sum, tuned once"), "{error}");
    std::fs::write(place.path("bad.py"), "def (").expect("write the file");
    std::fs::write(place.path("calls.csv"), "bad,3\nsum,2\n").expect("write the file");
    let (code, lines, error) = place.json(&[&args[..], &["bad.py", "--weights", "calls.csv"]].concat());
    assert_eq!((code, lines.len(), &lines[1]["calls"]), (3, 3, &2.0.into()), "a bad file costs itself: {error}");
    assert_eq!((&lines[0]["file"], &lines[0]["status"]), (&"bad.py".into(), &"failed".into()));
}

#[test]
fn a_killed_run_loses_nothing_that_was_logged() {
    let place = Place::new();
    let args =
        ["tune", "sum.py", "--device", "cpu", "--search", "exhaustive", "--log", "log.jsonl", "--cache", "cache"];
    let mut child = Command::new(env!("CARGO_BIN_EXE_daylight"))
        .args(args)
        .current_dir(place.0.path())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("daylight starts");
    let records = || daylight::log::read(&place.path("log.jsonl")).map_or(0, |log| log.records.len());
    for _ in 0..600 {
        if records() >= 3 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    child.kill().expect("the run is killed");
    child.wait().expect("the run has ended");
    let before = daylight::log::read(&place.path("log.jsonl")).expect("the log reads");
    assert!(before.records.len() >= 3 && before.skipped.len() <= 1, "{} records", before.records.len());
    let report = place.one(&args[..args.len() - 2]);
    assert_eq!(report["resumed"], before.records.iter().filter(|r| r.round == 0).count());
    assert!(report["best_us"].is_number());
    let bytes = std::fs::metadata(place.path("log.jsonl")).expect("the log").len() as usize;
    let tried = before.records.len() + report["candidates"].as_u64().expect("a count") as usize;
    assert!(tried >= 48 && bytes <= 20_000 * tried / 64, "{bytes} bytes of {tried} candidates in two runs");
}

#[test]
fn sixty_four_candidates_take_at_most_20_kb() {
    let place = Place::new();
    let mean = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/mean.py")).expect("the example");
    std::fs::write(place.path("mean.py"), mean.replace("2048", "64")).expect("write the file");
    let report = place.one(&["tune", "mean.py", "--device", "cpu", "--trials", "64", "--log", "log.jsonl"]);
    let log = daylight::log::read(&place.path("log.jsonl")).expect("the log reads");
    let first = log.records.iter().filter(|r| r.round == 0).count();
    assert_eq!((&report["candidates"], first), (&64.into(), 64));
    assert!(log.records.len() > first, "finalists too");
    let bytes = std::fs::metadata(place.path("log.jsonl")).expect("the log").len();
    assert!(bytes <= 20_000, "{bytes} bytes");
}

#[test]
fn candidates_pass_in_the_simulator_and_on_the_cpu() {
    let place = Place::new();
    for target in ["sim:sm_80", "cpu"] {
        let report = place.one(&["verify", "sum.py", "--target", target, "--candidates", "2"]);
        assert_eq!(report["status"], "ok", "{report}");
        assert!(report["candidates"].as_array().expect("a list").len() >= 3);
    }
}

#[test]
fn text_at_every_stage() {
    let place = Place::new();
    let emit = |target: &str, stage: &str| {
        let object = place.one(&["explain", "sum.py", "--target", target, "--emit", stage]);
        object["text"].as_str().expect("text").to_string()
    };
    assert!(emit("cuda:sm_90a", "tir").contains("@T.prim_func"));
    assert!(emit("cuda:sm_90a", "trace").contains("bind("));
    assert!(emit("cuda:sm_100a", "cuda").contains("__global__"));
    assert!(emit("cpu:aarch64", "c").contains("void row_sum"));
    assert!(!emit("sim:sm_90", "kernel").is_empty());
    let after = |pass: &str| {
        let kernel = ["explain", "sum.py", "--target", "cuda:sm_90a", "--emit", "kernel", "--after", pass];
        // a point that is legal whichever the untuned choice is
        let point = ["rows=1", "threads=256", "min_blocks=4", "unroll=1"].map(|knob| ["--set", knob]).concat();
        let object = place.one(&[&kernel[..], &point].concat());
        object["text"].as_str().expect("text").to_string()
    };
    assert!(after("compact").starts_with("after compact: registers and shared memory shrink to what is touched\n"));
    assert!(after("compact").contains("p0[blockIdx.x, ") && !after("flatten").contains("p0[blockIdx.x, "));
    let decisions = place.one(&["explain", "sum.py", "--target", "cpu"]);
    let rules = decisions["rules"].as_array().expect("a list");
    assert!(rules.iter().any(|r| r["accepted"] == true) && rules.iter().any(|r| r["predicate"].is_string()));
    let untuned: Vec<&Value> = rules.iter().filter(|r| r["untuned"] == true).collect();
    assert!(matches!(untuned[..], [r] if r["accepted"] == true), "{untuned:?}");
}

//! `--strict` and the attribute `daylight.strict`: the same thing said twice; records of the strict function and of the other
//! are never taken for each other.

use serde_json::Value;
use std::process::Command;

const CHAIN: &str = r#"
from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def chain(A: T.Buffer((64, 96), "bfloat16"), B: T.Buffer((64, 96), "bfloat16")):
    # attribute
    for i, j in T.grid(64, 96):
        with T.sblock("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj] * T.bfloat16(0.3) + T.bfloat16(1)
"#;

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        let place = Place(tempfile::tempdir().expect("a temporary folder"));
        place.write("free.py", CHAIN);
        place.write("strict.py", &CHAIN.replace("# attribute", r#"T.func_attr({"daylight.strict": True})"#));
        place.write("off.py", &CHAIN.replace("# attribute", r#"T.func_attr({"daylight.strict": False})"#));
        place
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.path().join(name), text).expect("write the file");
    }

    /// Standard output of a command that succeeds.
    fn run(&self, args: &[&str]) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_daylight"));
        let o = command.args(args).args(["--cache", "cache"]).current_dir(self.0.path()).output().expect("it starts");
        assert!(o.status.success(), "{args:?}: {}", String::from_utf8_lossy(&o.stderr));
        String::from_utf8_lossy(&o.stdout).into_owned()
    }

    fn one(&self, args: &[&str]) -> Value {
        let out = self.run(&[args, &["--json"]].concat());
        serde_json::from_str(out.trim()).unwrap_or_else(|e| panic!("{args:?}: {e}: {out}"))
    }
}

#[test]
fn the_option_and_the_attribute_forbid_the_step() {
    let place = Place::new();
    for target in ["cuda:sm_90a", "cpu:x86-64-v3"] {
        let trace = |args: &[&str]| place.run(&[&["explain", "--target", target, "--emit", "trace"], args].concat());
        for free in [&["free.py"][..], &["off.py"]] {
            assert!(trace(free).contains("keep_float32(b0)"), "{free:?} {target}");
        }
        for strict in [&["free.py", "--strict"][..], &["strict.py"], &["off.py", "--strict"]] {
            assert!(!trace(strict).contains("keep_float32"), "{strict:?} {target}");
        }
    }
}

#[test]
fn records_of_strict_functions_are_their_own() {
    let place = Place::new();
    let tune = |file: &str, more: &[&str]| {
        let all = ["tune", file, "--device", "cpu", "--trials", "2", "--log", "log"];
        place.one(&[&all, more].concat())
    };
    let rung = |file: &str, more: &[&str]| {
        let all = ["apply-best", file, "--target", "cpu", "--log", "log", "--out", "lib"];
        place.run(&[&all, more].concat());
        let manifest = std::fs::read_to_string(place.0.path().join("lib/manifest.json")).expect("a manifest");
        let manifest: Value = serde_json::from_str(&manifest).expect("it is JSON");
        manifest["functions"][0]["rung"].as_str().expect("a rung").to_string()
    };
    tune("free.py", &[]);
    assert_eq!(rung("free.py", &[]), "exact");
    for (file, more) in [("free.py", &["--strict"][..]), ("strict.py", &[])] {
        assert_eq!(rung(file, more), "default", "{file} {more:?}");
    }
    assert!(tune("free.py", &["--strict"])["measured"].as_u64() > Some(0), "nothing of the other is taken for it");
    for (file, more) in [("free.py", &["--strict"][..]), ("strict.py", &[]), ("free.py", &[])] {
        assert_eq!(rung(file, more), "exact", "{file} {more:?}");
    }
    assert_eq!(tune("strict.py", &[])["measured"], 0, "it is the same function");
    let records = place.run(&["log", "show", "log", "--json"]);
    let records: Vec<Value> = records.lines().map(|l| serde_json::from_str(l).expect("it is JSON")).collect();
    let keys: std::collections::BTreeSet<&str> = records.iter().filter_map(|r| r["workload"]["key"].as_str()).collect();
    assert_eq!(keys.len(), 2, "{keys:?}");
}

#[test]
fn results_are_right_and_checked() {
    let place = Place::new();
    for more in [&["free.py"][..], &["free.py", "--strict"]] {
        let said = place.one(&[&["verify", "--target", "sim:sm_90", "--candidates", "2"], more].concat());
        assert_eq!(said["status"], "ok", "{more:?}: {said}");
    }
}

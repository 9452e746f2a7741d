//! Exit codes and sentences of the command for what users get wrong.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const SUM: &str = r#"
from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def row_sum(A: T.Buffer((64, 256), "float32"), B: T.Buffer((64,), "float32")):
    for i, k in T.grid(64, 256):
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
        place.file("sum.py", SUM);
        place
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a file lies in a folder")).expect("make the folder");
        std::fs::write(&path, text).expect("write the file");
        path
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_daylight"));
        command.args(args).current_dir(self.0.path()).arg("--cache").arg(self.0.path().join("cache"));
        command
    }

    /// Exit code, standard output, standard error.
    fn run(&self, args: &[&str]) -> (i32, String, String) {
        read(self.command(args).output().expect("daylight starts"))
    }

    /// Checks the exit code and that standard error says something.
    fn fails(&self, args: &[&str], code: i32, says: &str) {
        let (got, _, error) = self.run(args);
        assert!(got == code && error.contains(says), "{args:?}: exit {got}, expected {code}: {error}");
        assert!(!error.contains("panicked"), "{error}");
    }
}

fn read(o: Output) -> (i32, String, String) {
    let text = |b: Vec<u8>| String::from_utf8_lossy(&b).into_owned();
    (o.status.code().unwrap_or(-1), text(o.stdout), text(o.stderr))
}

#[test]
fn every_help_has_an_example() {
    let place = Place::new();
    let commands: [&[&str]; 12] = [
        &["check"],
        &["explain"],
        &["tune"],
        &["run"],
        &["verify"],
        &["bench"],
        &["apply-best"],
        &["report"],
        &["doctor"],
        &["log"],
        &["log", "show"],
        &[],
    ];
    for command in commands {
        let (code, out, _) = place.run(&[command, &["--help"]].concat());
        assert!(code == 0 && out.contains("Example"), "{command:?}: {out}");
    }
}

#[test]
fn unknown_names_suggest_the_nearest() {
    let place = Place::new();
    place.fails(&["tone", "sum.py"], 2, "'tune'");
    place.fails(&["tune", "sum.py", "--device", "gpu"], 2, "unknown device \"gpu\"");
    place.fails(&["tune", "sum.py", "--device", "cpuu"], 2, "did you mean \"cpu\"?");
    place.fails(&["tune", "sum.py", "--search", "guide"], 2, "did you mean \"guided\"?");
    place.fails(&["explain", "sum.py", "--target", "cuda:sm_95a"], 2, "did you mean \"cuda:sm_90a\"?");
    let rule = ["explain", "sum.py", "--target", "cpu", "--emit", "c", "--rule"];
    place.fails(&[&rule[..], &["reducton"]].concat(), 2, "did you mean `reduction");
    place.fails(
        &["explain", "sum.py", "--target", "cpu", "--emit", "c", "--set", "unrol=4"],
        2,
        "did you mean `unroll`?",
    );
    place.fails(&["explain", "sum.py", "--target", "cpu", "--emit", "c", "--set", "unroll"], 2, "expected knob=value");
    let hint = ["explain", "sum.py", "--target", "cuda:sm_90a", "--emit", "cuda", "--set", "hint=evict_frist"];
    place.fails(&hint, 2, "did you mean `evict_first`?");
    place.fails(&["explain", "sum.py", "--target", "cpu", "--emit", "cuda"], 2, "needs another target than cpu:");
    place.fails(&["explain", "sum.py", "--target", "cuda:sm_90a", "--set", "thread=8"], 2, "did you mean `threads`?");
    for zero in ["threads=0", "rows=-1", "split=0", "min_blocks=0", "unroll=0"] {
        place.fails(&["explain", "sum.py", "--target", "cuda:sm_90a", "--set", zero], 2, "` is at least 1");
    }
    place.fails(&["explain", "sum.py", "--target", "cuda:sm_90a", "--set", "hint=-1"], 2, "of knob `hint`: `-1`");
    let after = ["explain", "sum.py", "--target", "cpu", "--emit", "kernel", "--after"];
    place.fails(&[&after[..], &["pin"]].concat(), 2, "--after pin: no pass for cpu:");
    place.fails(&[&after[..], &["pin"]].concat(), 2, "has this name; they are promote, held, compact, flatten, ");
    let plain = ["explain", "sum.py", "--target", "cpu", "--after", "flatten"];
    place.fails(&plain, 2, "--after shows a kernel on its way down and needs --emit kernel");
    place.fails(&["tune", "sum.py", "--shard", "3/2"], 2, "expected K/N");
    place.fails(&["tune", "sum.py", "--trials", "0"], 2, "--trials");
}

#[test]
fn files_that_cannot_be_read() {
    let place = Place::new();
    std::fs::create_dir(place.0.path().join("empty")).expect("make the folder");
    place.fails(&["check", "nowhere.py"], 2, "cannot read nowhere.py: No such file");
    place.fails(&["check", "empty"], 2, "the folder empty holds no *.py files");
    place.fails(&["report", "--log", "nowhere", "--out", "r"], 2, "no log at nowhere");
    place.fails(&["check", "sum.py", "--schedules", "nowhere"], 2, "nowhere");
    place.file("tables/x.toml", "rule = \"gemv.inner\"\nversion = 1\nknob = 3\n");
    place.fails(&["check", "sum.py", "--schedules", "tables"], 2, "x.toml");
}

#[test]
fn text_that_is_not_understood_or_refused() {
    let place = Place::new();
    place.file("broken.py", "@T.prim_func\ndef f(A: T.Buffer((4,), \"float32\")):\n    A[0] = undefined_name\n");
    place.file("empty.py", "");
    place.file("deep.py", &format!("x = {}1{}\n", "(".repeat(1000), ")".repeat(1000)));
    std::fs::write(place.0.path().join("bytes.py"), [0x66, 0xff, 0xfe, 0x00]).expect("write the file");
    for name in ["broken.py", "empty.py", "deep.py", "bytes.py"] {
        place.fails(&["check", name], 3, &format!("{name}:"));
    }
    let opaque = SUM.replace("B[vi] = B[vi] + A[vi, vk]", "T.evaluate(T.call_extern(\"int32\", \"f\", B[vi]))");
    place.file("extern.py", &opaque);
    let (code, out, _) = place.run(&["check", "extern.py", "--json"]);
    let report: serde_json::Value = serde_json::from_str(out.trim()).expect("one JSON object");
    assert_eq!(
        (code, &report["status"], &report["reason"]["predicate"]),
        (3, &"refused".into(), &"extern_call".into())
    );
    place.fails(&["tune", "extern.py", "--device", "cpu"], 3, "extern_call");
    let symbolic = "from tvm.script.tirx import TypeVar\nn = TypeVar(\"n\")\n".to_string() + &opaque.replace("64", "n");
    place.file("symbolic.py", &symbolic);
    place.fails(&["tune", "symbolic.py", "--device", "cpu"], 3, "extern_call");
}

#[test]
fn every_input_is_tried_and_the_greatest_code_is_returned() {
    let place = Place::new();
    place.file("broken.py", "def f(:\n");
    let (code, out, _) = place.run(&["check", "nowhere.py", "broken.py", "sum.py", "--json"]);
    let lines: Vec<serde_json::Value> = out.lines().map(|l| serde_json::from_str(l).expect("JSON")).collect();
    let status: Vec<&str> = lines.iter().filter_map(|l| l["status"].as_str()).collect();
    assert_eq!((code, status), (3, vec!["error", "error", "ok"]));
    assert_eq!((&lines[1]["line"], &lines[1]["reason"]["predicate"]), (&1.into(), &"syntax".into()));
}

#[test]
fn bindings_that_fit_nothing() {
    let place = Place::new();
    let symbolic = "from tvm.script.tirx import TypeVar\nn = TypeVar(\"n\")\n".to_string() + &SUM.replace("64", "n");
    place.file("sym.py", &symbolic);
    place.fails(&["check", "sym.py", "--bind", "n"], 2, "expected name=value");
    place.fails(&["check", "sym.py", "--bind", "n=x"], 2, "the value is not an integer");
    place.fails(&["check", "sym.py", "--bind", "nn=4"], 2, "did you mean `n`?");
    place.fails(&["check", "sum.py", "--bind", "n=4"], 2, "the functions have no symbolic extents");
    place.fails(&["tune", "sym.py", "--device", "cpu"], 2, "the extent n has no value; give it with --bind n=512");
    let (code, out, _) = place.run(&["check", "sym.py", "--bind", "n=8", "--json"]);
    let report: serde_json::Value = serde_json::from_str(out.trim()).expect("one JSON object");
    assert_eq!(
        (code, &report["flops"], &report["params"][0]["shape"]),
        (0, &2048.into(), &serde_json::json!([8, 256]))
    );
}

#[test]
fn logs_that_cannot_be_written_or_read() {
    let place = Place::new();
    place.fails(&["tune", "sum.py", "--device", "cpu", "--log", "/proc/nowhere/x.jsonl"], 2, "cannot write the log");
    if Path::new("/dev/full").exists() {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("open /dev/full");
        let mut command = place.command(&["check", "sum.py"]);
        let (code, _, error) = read(command.stdout(full).output().expect("daylight starts"));
        assert!(code == 2 && error.contains("cannot write the results"), "{code}: {error}");
        place.fails(
            &["tune", "sum.py", "--device", "cpu", "--log", "/dev/full"],
            2,
            "cannot append to the log /dev/full",
        );
    }
    let blocked = Place::new();
    blocked.file("cache", "a file, not a folder");
    blocked.fails(&["tune", "sum.py", "--device", "cpu"], 2, "name another folder with --cache");
    place.file("bad.jsonl", "{\"schema\":1,\"crc32c\":\"00000000\"\nnot a record\n");
    let (code, _, error) = place.run(&["log", "show", "bad.jsonl"]);
    assert!(code == 0 && error.contains("bad.jsonl:1: skipped") && error.contains("bad.jsonl:2: skipped"), "{error}");
}

#[test]
fn what_is_missing_ends_with_4() {
    let place = Place::new();
    let without_cc = |args: &[&str]| {
        let mut command = place.command(args);
        command.env("PATH", "/nowhere").env_remove("CC");
        read(command.output().expect("daylight starts"))
    };
    let (code, _, error) = without_cc(&["tune", "sum.py", "--device", "cpu"]);
    assert!(code == 4 && error.contains("install gcc or clang"), "{code}: {error}");
    assert_eq!(without_cc(&["doctor"]).0, 4);
    place.file("log.jsonl", "");
    let apply = ["apply-best", "sum.py", "--log", "log.jsonl", "--emit", "c", "--out", "k", "--target"];
    let mut command = place.command(&[&apply[..], &["cuda:sm_90a"]].concat());
    let (code, _, error) = read(command.env("DAYLIGHT_NVRTC", "/nowhere").output().expect("daylight starts"));
    assert!(code == 4 && error.contains("kernels in C are compiled when they are written"), "{code}: {error}");
    place.fails(&[&apply[..], &["cpu:x86-64-v3", "--c-name", "A-b"]].concat(), 2, "cannot name C files and functions");
    if place.run(&["verify", "sum.py", "--target", "cuda:sm_90a"]).0 != 0 {
        place.fails(&["tune", "sum.py", "--device", "cuda:77"], 4, "");
        place.fails(&["verify", "sum.py", "--target", "cuda:sm_80"], 4, "");
    }
}

#[test]
fn kernels_of_a_log_are_simulated_before_they_are_written() {
    let place = Place::new();
    place.file("log.jsonl", "");
    let args = ["apply-best", "sum.py", "--log", "log.jsonl", "--target", "cpu:x86-64-v3", "--out", "k", "--verify"];
    let (code, _, error) = place.run(&args);
    assert!(code == 0 && error.contains("is right in the simulator"), "{code}: {error}");
    assert!(place.0.path().join("k/kernels.rs").exists());
}

#[test]
fn a_refused_function_is_shown_where_it_stands() {
    let place = Place::new();
    place.file("bad.py", &SUM.replace("A[vi, vk]", "A[vi, vk + 1]").replace("def row_sum", "def bad"));
    let (code, out, _) = place.run(&["check", "bad.py"]);
    assert!(code == 3 && out.starts_with("refused  bad.py:7:9: bad: out_of_bounds"), "{code}: {out}");
    let (_, out, _) = place.run(&["check", "bad.py", "--json"]);
    assert!(out.contains("\"line\":7,\"column\":9"), "{out}");
}

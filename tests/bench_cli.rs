//! `daylight bench` on the CPU: who takes part, what is right, what is written, and what the report makes of it.

use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;

const SUM: &str = r#"
from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def row_sum(a: T.handle, B: T.Buffer((96,), "float32")):
    n = T.int64()
    A = T.match_buffer(a, (96, n))
    for i, k in T.grid(96, n):
        with T.sblock("B"):
            vi, vk = T.axis.remap("SR", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
"#;

const PRODUCT: &str = r#"
from tvm.script import tirx as T

@T.prim_func(s_tir=True)
def product(A: T.Buffer((16, 32), "float32"), B: T.Buffer((8, 32), "float32"), C: T.Buffer((16, 8), "float32")):
    for i, j, k in T.grid(16, 8, 32):
        with T.sblock("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vj, vk]
"#;

/// Three functions: a right one, one that leaves an element out, one that ends its process.
const KERNELS: &str = r#"// daylight: grid=(n * 96 / n,1,1)
#include <stdint.h>
static void sum(void *const *buffers, int64_t begin, int64_t end, int64_t steps) {
    const float *a = buffers[0];
    float *b = buffers[1];
    for (int64_t i = begin; i < end; i++) {
        float s = 0;
        for (int64_t k = 0; k < steps; k++) s += a[i * 512 + k];
        b[i] = s;
    }
}
void right(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end) { sum(buffers, begin, end, 512); }
void wrong(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end) { sum(buffers, begin, end, 511); }
void dead(void *const *buffers, const int64_t *scalars, int64_t begin, int64_t end) { *(volatile int *)8 = 1; }
"#;

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        let place = Place(tempfile::tempdir().expect("a temporary folder"));
        for (name, text) in [("sum.py", SUM), ("product.py", PRODUCT), ("k.c", KERNELS)] {
            std::fs::write(place.path(name), text).expect("write the file");
        }
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Exit code, standard output, standard error.
    fn run(&self, args: &[&str]) -> (i32, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_daylight"));
        let o =
            command.args(args).args(["--cache", "cache"]).current_dir(self.0.path()).output().expect("daylight starts");
        let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
        (o.status.code().unwrap_or(-1), text(&o.stdout), text(&o.stderr))
    }

    /// A bench of the sum with these baselines and more arguments.
    fn bench(&self, baseline: &str, more: &[&str]) -> (i32, String, String) {
        let args = ["bench", "sum.py", "--bind", "n=512", "--device", "cpu", "--baseline", baseline];
        self.run(&[&args[..], more].concat())
    }
}

fn object(text: &str) -> Value {
    serde_json::from_str(text.trim()).unwrap_or_else(|e| panic!("{e}: {text}"))
}

/// Name and status of each contender.
fn statuses(bench: &Value) -> Vec<(String, String)> {
    let text = |v: &Value| v.as_str().unwrap_or_default().to_string();
    let all = bench["contenders"].as_array().expect("a list");
    all.iter().map(|c| (text(&c["contender"]), text(&c["status"]))).collect()
}

fn named(list: &[(&str, &str)]) -> Vec<(String, String)> {
    list.iter().map(|(a, b)| (a.to_string(), b.to_string())).collect()
}

#[test]
fn all_contenders_under_one_clock_and_in_the_report() {
    let place = Place::new();
    let tune = ["tune", "sum.py", "--bind", "n=512", "--device", "cpu", "--trials", "3", "--log", "log"];
    assert_eq!(place.run(&tune).0, 0);
    let more = ["--log", "log", "--set", "unroll=2", "--out", "bench.jsonl", "--json"];
    let (code, out, error) = place.bench("default,k.c:right,log,cublas,default", &more);
    let bench = object(&out);
    let want = [
        ("tuned", "ok"),
        ("picked", "ok"),
        ("default", "ok"),
        ("k.c:right", "ok"),
        ("log", "ok"),
        ("cublas", "declined"),
    ];
    assert_eq!((code, statuses(&bench)), (0, named(&want)), "{error}");
    assert_eq!(std::fs::read_to_string(place.path("bench.jsonl")).expect("written"), out);
    checks(&bench);

    let report = ["report", "--log", "log", "--out", "report", "--bench", "bench.jsonl"];
    assert_eq!(place.run(&report).0, 0);
    let read = |name: &str| std::fs::read_to_string(place.path("report").join(name)).expect("it is there");
    let (csv, page, roof) = (read("report.csv"), read("report.html"), read("roofline.svg"));
    assert!(csv.lines().next().is_some_and(|l| l.contains("bench.k.c:right_us,bench.k.c:right_over_tuned")), "{csv}");
    assert!(read("report.md").contains("| row\\_sum | n=512 | cpu") && read("report.md").contains("| k.c:right |"));
    assert!(page.contains("\"name\":\"k.c:right\"") && page.contains("class=\"roofline\""));
    // The records say what there is to do.
    assert!(roof.matches("<circle").count() == 1 && roof.contains("row_sum n=512"), "{roof}");
    older_records(&place);
}

/// Records that do not say what there is to do have a point where their function is at hand.
fn older_records(place: &Place) {
    let mut records = daylight::log::read(&place.path("log")).expect("the log").records;
    records.iter_mut().for_each(|r| r.work = None);
    daylight::log::write(&place.path("old.jsonl"), &records).expect("written");
    let points = |more: &[&str]| {
        let report = ["report", "--log", "old.jsonl", "--out", "old"];
        assert_eq!(place.run(&[&report[..], more].concat()).0, 0);
        let roof = std::fs::read_to_string(place.path("old/roofline.svg")).expect("it is there");
        (roof.matches("<circle").count(), roof.contains("0.250 flop/byte"))
    };
    assert_eq!((points(&[]), points(&["--functions", "sum.py"])), ((0, false), (1, true)));
}

/// What holds of every bench, whatever the times.
fn checks(bench: &Value) {
    let timed: Vec<&Value> =
        bench["contenders"].as_array().expect("a list").iter().filter(|c| c["status"] == "ok").collect();
    let samples = |c: &Value| c["samples_ns"].as_array().map(Vec::len).expect("samples");
    assert!(samples(timed[0]) >= 5 && timed.iter().all(|c| samples(c) == samples(timed[0])), "turn by turn");
    let medians: Vec<f64> = timed.iter().map(|c| c["median_us"].as_f64().expect("a time")).collect();
    let best = medians.iter().copied().fold(f64::INFINITY, f64::min);
    for (c, us) in timed.iter().zip(&medians) {
        let share = c["floor_share"].as_f64().expect("a share");
        assert!((share * us / bench["floor_us"].as_f64().expect("a floor") - 1.0).abs() < 1e-9, "{c}");
        assert!(*us != best || c["ratio"] == 1.0, "{c}");
        assert!(c["err"]["l2"].as_f64().is_some_and(|e| e < 1e-4) && c["interval_us"].is_array(), "{c}");
    }
    assert_eq!(bench["work"], serde_json::json!({ "flops": 96 * 512, "bytes": 4 * (96 * 512 + 96) }));
}

#[test]
fn what_is_wrong_or_dies_has_no_time_and_the_others_have() {
    let place = Place::new();
    let (code, out, error) = place.bench("k.c:wrong,default,k.c:dead,k.c:right", &["--json"]);
    let bench = object(&out);
    let want = [
        ("tuned", "absent"),
        ("k.c:wrong", "wrong_result"),
        ("default", "ok"),
        ("k.c:dead", "crashed"),
        ("k.c:right", "ok"),
    ];
    assert_eq!((code, statuses(&bench)), (1, named(&want)), "{error}");
    assert!(error.contains("k.c:wrong: wrong_result: `B` is wrong"), "{error}");
    for c in bench["contenders"].as_array().expect("a list").iter().filter(|c| c["status"] != "ok") {
        assert!(c["median_us"].is_null() && c["ratio"].is_null() && c["samples_ns"] == serde_json::json!([]), "{c}");
        assert!(c["reason"].is_string(), "{c}");
    }
    let (code, table, _) = place.bench("k.c:wrong,default", &[]);
    let line = |name: &str| table.lines().find(|l| l.trim_start().starts_with(name)).unwrap_or_default().to_string();
    assert!(code == 1 && line("k.c:wrong").trim_end().ends_with("wrong_result"), "{table}");
    // A machine whose caches hold it may be faster than the floor of its memory.
    let share = |line: &str| line.contains(" %") || line.contains(" cached ");
    assert!(
        line("default").contains(" x ") && share(&line("default")) && line("contender").contains("median us"),
        "{table}"
    );
}

#[test]
fn a_product_asks_for_a_library_that_a_cpu_has_not() {
    let place = Place::new();
    let (code, out, error) =
        place.run(&["bench", "product.py", "--device", "cpu", "--baseline", "cublas,default", "--json"]);
    assert_eq!(
        (code, statuses(&object(&out))),
        (4, named(&[("tuned", "absent"), ("cublas", "missing"), ("default", "ok")]))
    );
    assert!(error.contains("cuBLAS runs on CUDA devices"), "{error}");
}

#[test]
fn what_is_typed_wrong_is_said() {
    let place = Place::new();
    std::fs::write(place.path("no.c"), "void f(void) {}").expect("write");
    std::fs::write(place.path("bad.c"), "// daylight: grid=(1)\nint f(").expect("write");
    for (baseline, code, says) in [
        ("cublass", 2, "--baseline cublass: expected default, cublas, FILE.cu:SYMBOL"),
        ("k.cu:f", 2, "takes a function in C, FILE.c"),
        ("none.c:f", 2, "--baseline none.c: No such file"),
        ("no.c:f", 2, "none of its first 20 lines says its launch; expected a comment such as // daylight: grid="),
        ("none.jsonl", 2, "no log at none.jsonl"),
        ("bad.c:f", 1, "bad.c:f: compile_failed"),
        ("k.c:nothing", 1, "has no function `nothing`"),
    ] {
        let (got, _, error) = place.bench(baseline, &[]);
        assert!(got == code && error.contains(says) && !error.contains("panicked"), "{baseline}: exit {got}: {error}");
    }
    std::fs::write(place.path("bench.jsonl"), "{}\n").expect("write");
    std::fs::create_dir(place.path("log")).expect("make the folder");
    let (code, _, error) = place.run(&["report", "--log", "log", "--out", "r", "--bench", "bench.jsonl"]);
    assert!(code == 2 && error.contains("bench.jsonl:1: no line of `daylight bench --out`"), "{code}: {error}");
}

//! `daylight import`: which functions a step calls, how often, at which sizes, and a module tuned as one job.

use crate::common::golden;
use daylight::job::{Reading, Step};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};

/// A tensor function of `n` elements and one of a scalar size, and relax functions around them.
const MODULE: &str = r#"
n = TypeVar("n")
m = TypeVar("m")
@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def double(x: T.Buffer((n, T.int64(4)), "float32"), y: T.Buffer((n, T.int64(4)), "float32")):
        for i, j in T.grid(n, T.int64(4)):
            with T.sblock("double"):
                vi, vj = T.axis.remap("SS", [i, j])
                y[vi, vj] = x[vi, vj] * T.float32(2)

    @T.prim_func(s_tir=True)
    def halves(x: T.Buffer((n,), "float32"), a: T.Buffer((n,), "float32"), b: T.Buffer((n,), "float32")):
        for i in range(n):
            with T.sblock("halves"):
                v = T.axis.spatial(n, i)
                a[v] = x[v] * T.float32(0.5)
                b[v] = x[v] * T.float32(0.5)

    @T.prim_func(s_tir=True)
    def never(x: T.Buffer((T.int64(8),), "float32"), y: T.Buffer((T.int64(8),), "float32")):
        for i in range(T.int64(8)):
            with T.sblock("copy"):
                v = T.axis.spatial(T.int64(8), i)
                y[v] = x[v]

    @R.function(private=True)
    def layer(x: R.Tensor((m, 4), dtype="float32"), w: R.Tuple(R.Tensor((m,), dtype="float32"), R.Object)) -> R.Tensor((m, 4), dtype="float32"):
        cls = Module
        with R.dataflow():
            lv = R.call_tir(cls.double, (x,), out_ty=R.Tensor((m, 4), dtype="float32"))
            lv1 = w[0]
            lv2 = R.call_tir(cls.halves, (lv1,), out_sinfo=[R.Tensor((m,), dtype="float32"), R.Tensor((m,), dtype="float32")])
            lv3 = lv2[1]
            lv4 = R.call_tir(cls.halves, lv3, out_ty=[R.Tensor((m,), dtype="float32"), R.Tensor((m,), dtype="float32")])
            gv = R.call_tir(cls.double, (lv,), out_ty=R.Tensor((m, 4), dtype="float32"))
            R.output(gv)
        return gv

    @R.function
    def main(x: R.Tensor((n, 4), dtype="float32"), p: R.Tuple(R.Tensor((n,), dtype="float32"), R.Object), z: R.Tensor((4, 4), dtype="float32")) -> R.Tensor((n, 4), dtype="float32"):
        R.func_attr({"num_input": 1})
        cls = Module
        y: R.Tensor((n, 4), dtype="float32") = cls.layer(x, p)
        y1: R.Tensor((n, 4), dtype="float32") = cls.layer(y, p)
        s = R.call_tir(cls.double, (z,), out_ty=R.Tensor((4, 4), dtype="float32"))
        t: R.Tensor((n * 2, 4), dtype="float32") = R.concat((y, y1), axis=0)
        u = R.call_tir_inplace(cls.double, (t,), out_ty=R.Tensor((n * 2, 4), dtype="float32"), inplace_indices=[0])
        k = R.call_dps_packed("my.kernel", (u,), out_ty=R.Tensor((n * 2, 4), dtype="float32"))
        c: R.Tensor((4,), dtype="float32") = metadata["ir.GenericConst"][0]
        return k
"#;

fn step(text: &str, entry: Option<&str>, bind: &[(&str, i64)]) -> Result<Step, String> {
    let place = tempfile::tempdir().expect("a folder");
    let file = place.path().join("m.py");
    std::fs::write(&file, text).expect("a file");
    let bind: BTreeMap<String, i64> = bind.iter().map(|(name, n)| (name.to_string(), *n)).collect();
    let folder = format!("{}/", place.path().display());
    Step::read(&file, entry, &Reading { bind, ..Reading::default() }).map_err(|f| f.message.replace(&folder, ""))
}

/// Name, sizes and calls of each function.
fn calls(step: &Step) -> Vec<(String, u64)> {
    let call = |c: &daylight::job::Called| (daylight::assemble::label(&c.input.name, &c.input.bind), c.calls);
    let mut out: Vec<(String, u64)> = step.called.iter().map(call).collect();
    out.sort();
    out
}

fn owned(calls: &[(&str, u64)]) -> Vec<(String, u64)> {
    calls.iter().map(|(name, n)| (name.to_string(), *n)).collect()
}

#[test]
fn calls_are_counted_at_each_size() {
    let step = step(MODULE, None, &[("n", 3)]).expect("a step");
    assert_eq!(step.entry, "main");
    // Two layers of two calls each at the size of `n`; one call at 4, one at 2 n.
    assert_eq!(calls(&step), owned(&[("double n=3", 4), ("double n=4", 1), ("double n=6", 1), ("halves n=3", 4)]));
    assert_eq!(step.idle, ["never"]);
    let others: Vec<(&str, u64)> = step.others.iter().map(|(name, n)| (name.as_str(), *n)).collect();
    assert_eq!(others, [("R.concat", 1), ("my.kernel", 1)]);
    // The place of the first call, within the function that makes it.
    let first = &step.called[0];
    let line = MODULE.lines().nth(first.at.0 - 1).expect("a line");
    assert!(line[first.at.1 - 1..].starts_with("R.call_tir(cls.double, (x,)"), "{line}");
}

#[test]
fn sizes_that_nobody_knows_stay_open() {
    let found = step(MODULE, None, &[]).expect("a step");
    assert_eq!(calls(&found), owned(&[("double", 5), ("double n=4", 1), ("halves", 4)]));
    let layer = step(MODULE, Some("layer"), &[("m", 7)]).expect("a step");
    assert_eq!(calls(&layer), owned(&[("double n=7", 2), ("halves n=7", 2)]));
}

#[test]
fn nested_calls_multiply() {
    let mut text = MODULE.replace("    @R.function\n    def main", "    @R.function\n    def last");
    for k in 0..40 {
        let inner = if k == 0 { "last".to_string() } else { format!("twice{}", k - 1) };
        text.push_str(&format!(
            "\n    @R.function(private=True)\n    def twice{k}(x: R.Tensor((n, 4), dtype=\"float32\"), p: R.Object, z: R.Object):\n        \
             cls = Module\n        a = cls.{inner}(x, p, z)\n        b = cls.{inner}(x, p, z)\n        return b\n"
        ));
    }
    let step = step(&text, Some("twice39"), &[("n", 3)]).expect("a step");
    // `z` is not said to be a tensor of 4 rows here, but `last` says so itself.
    assert!(calls(&step).contains(&("double n=4".to_string(), 1 << 40)), "{:?}", calls(&step));
}

/// What TVM lifts out of a step is none.
#[test]
fn what_prepares_weights_is_no_step() {
    let prepares = "\n    @R.function\n    def decode_transform_params(w: R.Object):\n        return w\n";
    let text = MODULE.replace("def main", "def decode") + prepares;
    assert_eq!(step(&text, None, &[]).expect("a step").entry, "decode");
}

#[test]
fn scalar_sizes_are_read() {
    let text = r#"
@I.ir_module
class Module:
    @T.prim_func(s_tir=True)
    def fill(y: T.handle, n: T.int64):
        m = T.int64()
        Y = T.match_buffer(y, (m,), "float32")
        for i in range(m):
            with T.sblock("fill"):
                v = T.axis.spatial(m, i)
                Y[v] = T.Cast("float32", v + n)

    @R.function
    def main(x: R.Tensor((n, 4), dtype="float32")) -> R.Tensor((n,), dtype="float32"):
        cls = Module
        gv = R.call_tir(cls.fill, R.tuple(), out_ty=R.Tensor((n,), dtype="float32"), tir_vars=R.shape([n]))
        return gv
"#;
    let step = step(text, None, &[("n", 5)]).expect("a step");
    assert_eq!(calls(&step), owned(&[("fill m=5 n=5", 1)]));
}

#[test]
fn what_is_wrong_with_a_module_is_said() {
    let without = MODULE.split("    @R.function(private").next().expect("some text").to_string();
    let error = |text: &str, entry: Option<&str>, bind: &[(&str, i64)]| step(text, entry, bind).expect_err("an error");
    let none = error(&without, None, &[]);
    assert!(none.starts_with("m.py:1:1: no relax function here says what a step calls"), "{none}");
    let several = error(&MODULE.replace("def main", "def decode").replace("(private=True)", ""), None, &[]);
    assert_eq!(several, "m.py has several relax functions: layer, decode; name one with --entry");
    let near = error(MODULE, Some("mian"), &[]);
    assert_eq!(near, "--entry mian: m.py has no such relax function; did you mean `main`?");
    let absent = error(&MODULE.replace("R.call_tir(cls.double, (z,)", "R.call_tir(cls.triple, (z,)"), None, &[]);
    assert!(absent.contains(": `triple` is no tensor function of this module"), "{absent}");
    let unknown = error(&MODULE.replace("cls.layer(y, p)", "cls.lair(y, p)"), None, &[]);
    assert!(unknown.contains(": `lair` is no relax function of this module"), "{unknown}");
    let endless = error(&MODULE.replace("lv1 = w[0]", "lv1 = cls.layer(x, w)"), None, &[]);
    assert!(endless.contains(": `layer` calls itself"), "{endless}");
    assert_eq!(error(MODULE, None, &[("k", 3)]), "--bind k: `main` has no such size; it has n");
    let odd = error(&MODULE.replace("R.call_tir(cls.double, (z,)", "R.call_tir(cls.double"), None, &[]);
    assert!(odd.contains("a call of a tensor function is written R.call_tir(cls.f, (x, y), out_ty=...)"), "{odd}");
    let place = MODULE.lines().position(|l| l.contains("(z,)")).expect("a line") + 1;
    assert!(odd.starts_with(&format!("m.py:{place}:13: ")), "{odd}");
}

#[test]
fn calls_without_end_in_sight_are_refused() {
    let mut text = MODULE.replace("def main", "def last");
    for k in 0..3000 {
        let inner = if k == 0 { "last".to_string() } else { format!("f{}", k - 1) };
        text.push_str(&format!(
            "\n    @R.function\n    def f{k}(x: R.Object):\n        cls = Module\n        y = cls.{inner}(x)\n"
        ));
    }
    let error = step(&text, Some("f2999"), &[]).expect_err("too deep");
    assert!(error.contains("relax functions call each other more than 100 deep"), "{error}");
}

/// Whatever is cut off or put elsewhere, there is a step or a sentence.
#[test]
fn nothing_in_a_module_makes_it_panic() {
    let bytes = MODULE.len();
    for k in 0..300 {
        let (from, to) = (k * 7919 % bytes, k * 104729 % bytes);
        let (from, to) = (from.min(to), from.max(to));
        for text in [
            &MODULE[..to],
            &MODULE.replace(&MODULE[from..to.min(from + 9)], ""),
            &MODULE.replace(", ", &MODULE[from..to.min(from + 3)]),
        ] {
            if let Err(e) = step(text, Some("main"), &[("n", 3)]) {
                assert!(!e.contains("this is a bug"), "{e}\n{text}");
            }
        }
    }
}

fn import(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_daylight"));
    command.current_dir(folder).arg("import").args(words).output().expect("the binary runs")
}

#[test]
fn a_list_names_calls_and_places() {
    let place = tempfile::tempdir().expect("a folder");
    std::fs::write(place.path().join("m.py"), MODULE).expect("a file");
    let text = |words: &[&str]| {
        let out = import(place.path(), words);
        format!(
            "$ {}\n{}{}",
            words.join(" "),
            String::from_utf8_lossy(&out.stdout),
            String::from_utf8_lossy(&out.stderr)
        )
    };
    let all = [
        text(&["m.py"]),
        text(&["m.py", "--bind", "n=3", "--list", "--trials", "4"]),
        text(&["m.py", "--bind", "n=3", "--json", "--skip", "halves"]),
        text(&["m.py", "--trials", "4", "--device", "cpu"]),
        text(&["m.py", "--bind", "n=3,5"]),
        text(&["m.py", "--skip", "halve"]),
    ];
    golden("golden/cli/import.txt", &all.join("\n"));
}

/// Seven candidates for four functions at their sizes: each has its default, three are shared.
#[test]
fn a_module_is_tuned_as_one_job() {
    let place = tempfile::tempdir().expect("a folder");
    std::fs::write(place.path().join("m.py"), MODULE).expect("a file");
    let words = ["m.py", "--bind", "n=512", "--device", "cpu", "--trials", "7", "--log", "log.jsonl", "--json"];
    let out = import(place.path(), &words);
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{said}");
    let step: serde_json::Value = serde_json::from_slice(&out.stdout).expect("one object");
    let functions = step["functions"].as_array().expect("functions");
    assert_eq!(functions.len(), 4);
    let number = |v: &serde_json::Value| v.as_f64().unwrap_or_else(|| panic!("{step}"));
    let sum: f64 = functions.iter().map(|f| number(&f["calls"]) * number(&f["best_us"])).sum();
    assert!((sum / number(&step["best_us"]) - 1.0).abs() < 1e-9, "{step}");
    let shares: f64 = functions.iter().map(|f| number(&f["share"])).sum();
    assert!((shares - 1.0).abs() < 1e-9, "{step}");
    assert!(number(&step["default_us"]) > 0.0 && step["target"].as_str().is_some_and(|t| t.starts_with("cpu:")));
    let log = daylight::log::read(&place.path().join("log.jsonl")).expect("the log reads");
    let mut points: Vec<(String, String)> = vec![];
    for r in &log.records {
        points.push((format!("{}{:?}", r.workload.key, r.bind), format!("{}{:?}", r.rule, r.knobs)));
    }
    points.sort();
    points.dedup();
    let functions: std::collections::BTreeSet<&String> = points.iter().map(|(f, _)| f).collect();
    assert_eq!(functions.len(), 4, "{points:?}");
    assert_eq!(points.len(), 7, "{points:?}");
}

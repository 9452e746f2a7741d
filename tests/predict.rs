//! Ranking without a device: the default and the best by the prior, compiled; no times; a rung of its own.

use crate::common;
use daylight::assemble::Schedulable;
use daylight::backend::{Artifact, CompileError, Compiler, Language, Places, Source, Tools};
use daylight::job::{self, select};
use daylight::rules::Spaces;
use daylight::runner::fake::FakeCompiler;
use daylight::target::{HostCpu, Target};
use daylight::tune::predict::predict;
use daylight::tune::{Arms, RuleBuild};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

const MEAN: &str = "benches/workloads/mean_last-2048x8192-f32.py";

fn root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The mean of rows, and the rules that take it on a Blackwell GPU.
fn mean() -> (Schedulable, Arms) {
    let input = job::load(&job::Bindings::default(), &[root(MEAN)]).expect("the file").remove(0).expect("the function");
    let target = Target::parse("cuda:sm_100a", &HostCpu::default()).expect("a target");
    let subject = Schedulable::new(&input.func, &input.original, target.clone()).expect("it is accepted");
    let arms = select::arms(&subject, &Spaces::built_in(), &input.name, &select::Choice::default());
    let arms = Arms::new(arms.expect("a rule takes it"), target);
    (subject, arms)
}

/// A compiler of which the first programs spill.
struct Spilling {
    inner: FakeCompiler,
    first: usize,
    seen: AtomicUsize,
}

impl Compiler for Spilling {
    fn compile(&self, source: &Source) -> Result<Artifact, CompileError> {
        let mut made = self.inner.compile(source)?;
        made.res.regs = 32;
        made.res.spill = if self.seen.fetch_add(1, Ordering::Relaxed) < self.first { 64 } else { 0 };
        Ok(made)
    }
}

/// Ranked candidates, why others are not, and how many were compiled, where the first `first` programs spill.
fn where_some_spill(first: usize) -> (Vec<u32>, Vec<String>, usize) {
    let (subject, arms) = mean();
    let build = RuleBuild { subject: &subject, arms: &arms, overlap: None };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let compiler = Spilling { inner: FakeCompiler::new(folder.path()), first, seen: AtomicUsize::new(0) };
    let (ranked, unranked) = predict(&arms, &build, &compiler, &|_| None, 2);
    let spilled = ranked.iter().map(|r| r.artifact.res.spill).collect();
    let reasons = unranked.iter().map(|u| u.why.predicate.to_string()).collect();
    (spilled, reasons, compiler.inner.compiled())
}

#[test]
fn the_next_best_are_compiled_while_all_spill() {
    let (spilled, reasons, compiled) = where_some_spill(4);
    assert!((1..=2).contains(&spilled.len()) && spilled.iter().all(|s| *s == 0), "{spilled:?}");
    assert!(compiled == 6 && !reasons.is_empty() && reasons.iter().all(|r| r == "spills"), "{compiled}: {reasons:?}");
    let (spilled, reasons, compiled) = where_some_spill(usize::MAX);
    assert!(compiled == 8 && reasons.is_empty(), "{compiled}: {reasons:?}");
    assert!(!spilled.is_empty() && spilled.iter().all(|s| *s == 64), "what spills is better than nothing: {spilled:?}");
}

#[test]
fn the_default_and_the_best_by_the_prior_are_compiled_and_ranked() {
    let (subject, arms) = mean();
    let build = RuleBuild { subject: &subject, arms: &arms, overlap: None };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let compiler = FakeCompiler::new(folder.path());
    let (ranked, unranked) = predict(&arms, &build, &compiler, &|_| None, 6);
    assert!(unranked.is_empty());
    assert!(compiler.compiled() == 6 && (2..=6).contains(&ranked.len()));
    assert!(ranked.windows(2).all(|w| w[0].score <= w[1].score));
    assert!(ranked.iter().any(|r| Some(&r.point) == arms.defaults().first()), "the default is ranked");
    let (again, _) = predict(&arms, &build, &compiler, &|_| None, 6);
    let points = |r: &[daylight::tune::predict::Ranked]| r.iter().map(|r| r.point.clone()).collect::<Vec<_>>();
    assert_eq!(points(&ranked), points(&again));
    let slow = |_: &daylight::backend::Artifact| Some("/*0*/ FADD ;\n".repeat(100_000));
    let (slowed, _) = predict(&arms, &build, &compiler, &slow, 6);
    assert!(slowed[0].score > ranked[0].score, "instruction counts matter");
}

fn daylight(place: &Path, args: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_daylight"));
    let o = command.args(args).current_dir(place).output().expect("daylight starts");
    let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
    (o.status.code().unwrap_or(-1), text(&o.stdout), text(&o.stderr))
}

/// Ranks for a target, and applies the ranking.
fn ranks(target: &str) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (place, file) = (folder.path(), root(MEAN).display().to_string());
    let tune = ["tune", &file, "--target", target, "--no-measure", "--trials", "4", "--log", "log", "--json"];
    let (code, out, error) = daylight(place, &tune);
    assert_eq!(code, 0, "{error}");
    let report: Value = serde_json::from_str(out.trim()).expect("one object");
    assert!(report["ranked"].as_u64().is_some_and(|n| (1..=4).contains(&n)), "{out}");
    assert!(report.get("best_us").is_none(), "no times: {out}");
    let records = daylight::log::read(&place.join("log")).expect("the log").records;
    assert!(!records.is_empty());
    for r in &records {
        assert_eq!((r.outcome.name(), r.samples_ns.len(), r.target.as_str()), ("predicted", 0, target));
        assert!(r.score.is_some_and(f64::is_finite));
    }
    let with_steps: Vec<_> = records.iter().filter(|r| !r.trace.is_empty()).map(|r| r.score).collect();
    assert_eq!(
        with_steps,
        [records.iter().filter_map(|r| r.score).min_by(f64::total_cmp)],
        "that of the first has steps"
    );
    let (code, again, error) = daylight(place, &tune);
    assert_eq!((code, again), (0, out), "{error}");
    let length = daylight::log::read(&place.join("log")).expect("the log").records.len();
    assert_eq!(length, records.len(), "what is known is not logged again");
    let (code, _, error) = daylight(place, &["log", "export", "log", "--format", "t4", "--out", "t4/"]);
    assert!(code == 2 && error.contains("0 were asked for"), "a ranking is no measurement: {error}");
    let (code, _, error) =
        daylight(place, &["apply-best", &file, "--log", "log", "--target", target, "--out", "kernels"]);
    assert_eq!(code, 0, "{error}");
    let manifest = std::fs::read_to_string(place.join("kernels/manifest.json")).expect("the manifest");
    let manifest: Value = serde_json::from_str(&manifest).expect("JSON");
    assert_eq!(
        (&manifest["functions"][0]["rung"], &manifest["functions"][0]["measured_us"]),
        (&"predicted".into(), &Value::Null)
    );
}

#[test]
fn a_cpu_that_is_not_here_is_ranked_for() {
    if cfg!(target_arch = "x86_64") {
        ranks("cpu:x86-64-v3");
    }
}

#[test]
fn a_gpu_that_is_not_here_is_ranked_for() {
    let places = Places::of(|k| std::env::var_os(k), None);
    if let Err(why) = Tools::find(&places, Language::Cuda).nvrtc {
        return common::skip(&why);
    }
    ranks("cuda:sm_100a");
}

/// Functions of each kind, with the sizes that they want. `.ci/predict_check.py` takes more of them.
const SAMPLE: [&str; 6] = [
    "gemv-quant/llama3_8b-q4f16-o_proj-n4096k4096.py",
    "matmul/bert_base-ffn_in_gelu-m1024n3072k768-f32.py",
    "matmul/qwen2_5_7b-qkv_bias-m512n4608k3584-bf16.py",
    "normalization/clip_vit_l14-l2_normalize-512x768-f32.py",
    "dynamic/llama3_8b-rms_norm-_n_x4096-f16.py",
    "conv/mobilenet_v2-depthwise3x3-1x96x112x112-f32.py",
];

/// What the first of a ranking takes, held against the target's limits.
fn within_budget(ranking: &Value, target: &Target) {
    let of = |name: &str| ranking["occupancy"][name].as_f64().unwrap_or_else(|| panic!("{name}: {ranking}"));
    assert_eq!(of("spilled"), 0.0, "{ranking}");
    assert!(of("registers") <= 255.0 && of("registers") * of("threads") <= f64::from(target.regs_per_sm), "{ranking}");
    assert!(of("shared_bytes") <= f64::from(target.smem_per_block), "{ranking}");
    assert!(of("resident_blocks") >= 1.0 && of("resident_blocks") <= f64::from(target.blocks_per_sm), "{ranking}");
    let resident = of("resident_blocks") * of("threads") / f64::from(target.threads_per_sm);
    assert!((of("occupancy") - resident).abs() < 1e-9 && resident <= 1.0 && of("waves") > 0.0, "{ranking}");
}

#[test]
fn functions_of_each_kind_have_kernels_for_gpus_that_are_not_here() {
    let places = Places::of(|k| std::env::var_os(k), None);
    if let Err(why) = Tools::find(&places, Language::Cuda).nvrtc {
        return common::skip(&why);
    }
    let files: Vec<String> = SAMPLE.iter().map(|f| root("tests/workloads").join(f).display().to_string()).collect();
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    let (first, second) = files.split_at(3);
    for (id, files, bind) in [("cuda:sm_100a", first, &[][..]), ("cuda:sm_120a", second, &["--bind", "n=64"])] {
        let target = Target::parse(id, &HostCpu::default()).expect("a target");
        let folder = tempfile::tempdir().expect("a temporary folder");
        let how = ["--target", id, "--no-measure", "--trials", "2", "--log", "log", "--json"];
        let (code, out, error) = daylight(folder.path(), &[&["tune"], files, &how, bind].concat());
        assert_eq!((code, out.lines().count()), (0, files.len()), "{out}{error}");
        out.lines().for_each(|line| within_budget(&serde_json::from_str(line).expect("an object"), &target));
        let how = ["--target", id, "--log", "log", "--out", "kernels"];
        let (code, _, error) = daylight(folder.path(), &[&["apply-best"], files, &how, bind].concat());
        assert_eq!(code, 0, "{error}");
        let manifest = std::fs::read_to_string(folder.path().join("kernels/manifest.json")).expect("the manifest");
        let rungs: Vec<&str> = manifest.split("\"rung\":").skip(1).map(|r| &r.trim_start()[..11]).collect();
        assert_eq!(rungs, vec!["\"predicted\""; files.len()], "{manifest}");
    }
}

#[test]
fn a_target_alone_is_a_mistake() {
    let (code, _, error) = daylight(&root(""), &["tune", MEAN, "--target", "cuda:sm_100a"]);
    assert!(code == 2 && error.contains("--no-measure"), "{code} {error}");
    assert!(error.contains("name the device that runs its candidates"), "{error}");
    let ranking = ["tune", MEAN, "--no-measure", "--target"];
    let (code, _, error) = daylight(&root(""), &[&ranking[..], &["cuda:sm_100a", "--time-limit", "3"]].concat());
    assert!(code == 2 && error.contains("--time-limit"), "{code} {error}");
    let (code, _, error) = daylight(&root(""), &[&ranking[..], &["sim:sm_90"]].concat());
    assert!(code == 2 && error.contains("rank for a cuda: target"), "{code} {error}");
}

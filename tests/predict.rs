//! Ranking without a device: the default and the best by the prior, compiled; no times; a rung of its own.

use crate::common;
use daylight::assemble::Schedulable;
use daylight::backend::{Language, Places, Tools};
use daylight::job::{self, select};
use daylight::rules::Spaces;
use daylight::runner::fake::FakeCompiler;
use daylight::target::{HostCpu, Target};
use daylight::tune::predict::predict;
use daylight::tune::{Arms, RuleBuild};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

const MEAN: &str = "benches/workloads/mean_last-2048x8192-f32.py";

fn root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

#[test]
fn the_default_and_the_best_by_the_prior_are_compiled_and_ranked() {
    let input = job::load(&job::Bindings::default(), &[root(MEAN)]).expect("the file").remove(0).expect("the function");
    let target = Target::parse("cuda:sm_100a", &HostCpu::default()).expect("a target");
    let subject = Schedulable::new(&input.func, &input.original, target.clone()).expect("it is accepted");
    let arms = select::arms(&subject, &Spaces::built_in(), &input.name, &select::Choice::default());
    let arms = Arms::new(arms.expect("a rule takes it"), target);
    let build = RuleBuild { subject: &subject, arms: &arms };
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

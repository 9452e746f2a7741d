//! One cubin for sm_100a and sm_103a: which kernels share it, what the files then say, and that they
//! are the same bytes wherever they are made.

use crate::common;
use crate::common::apply::untuned;
use daylight::apply::{self, Emit, Options, Rung, Unit};
use daylight::assemble::Schedulable;
use daylight::backend::{
    Artifact, CompileError, CompileFailure, Compiler, Format, Places, Resources, Source, nvrtc::find_nvrtc,
};
use daylight::job::{self, select};
use daylight::log::{Env, Outcome, Record};
use daylight::rules::Spaces;
use daylight::target::{HostCpu, Target};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

const TARGETS: [&str; 3] = ["cuda:sm_90a", "cuda:sm_100a", "cuda:sm_103a"];

fn mean() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/mean.py")
}

/// A compiler whose cubins are the name of the target, and that refuses one of them.
struct Names(&'static str);

impl Compiler for Names {
    fn compile(&self, source: &Source) -> Result<Artifact, CompileError> {
        if source.target == self.0 {
            return Err(CompileError::new(CompileFailure::Rejected, "not there"));
        }
        Ok(Artifact {
            format: Format::Cubin,
            bytes: source.target.as_bytes().into(),
            path: PathBuf::new(),
            res: Resources::default(),
            warnings: vec![],
            compiler: "nvrtc 13.0".into(),
        })
    }
}

fn target(name: &str) -> Target {
    Target::parse(name, &HostCpu::default()).expect("a target")
}

fn units(targets: &[&str], records: &[Record], compiler: &Names, family: bool) -> Result<Vec<Unit>, String> {
    units_of(None, targets, records, compiler, family)
}

/// The same with the records of one GPU first.
fn units_of(
    gpu: Option<&str>,
    targets: &[&str],
    records: &[Record],
    compiler: &Names,
    family: bool,
) -> Result<Vec<Unit>, String> {
    let input = job::load(&Default::default(), &[mean()]).expect("the file").remove(0).expect("the function");
    let targets: Vec<Target> = targets.iter().map(|t| target(t)).collect();
    let options = Options { records, gpu, family, cuda: Some((compiler, "nvrtc 13.0".into())), ..untuned(&targets) };
    apply::units(&[input], &options).map_err(|f| f.message)
}

fn files(units: &[Unit]) -> Vec<(&str, &str)> {
    units.iter().map(|u| (u.file.as_str(), std::str::from_utf8(&u.bytes).expect("text"))).collect()
}

/// A record of another kernel than the default (which loads by `evict_first`), on a GPU.
fn record(name: &str, outcome: Outcome) -> Record {
    let input = job::load(&Default::default(), &[mean()]).expect("the file").remove(0).expect("the function");
    let subject = Schedulable::new(&input.func, &input.original, target(name)).expect("it is accepted");
    let choice = select::Choice { rule: None, set: vec!["hint=plain".into()] };
    let arms = select::arms(&subject, &Spaces::built_in(), &input.name, &choice).expect("a rule takes it");
    let (arm, knobs) = select::point(&arms, &choice).expect("a legal point");
    let made = subject.candidate(arm, &knobs).expect("a kernel");
    let hash = format!("{:032x}", xxhash_rust::xxh3::xxh3_128(made.source.text.as_bytes()));
    let base = common::record::record(128, if outcome == Outcome::Ok { &[9_000.0] } else { &[] });
    Record {
        workload: daylight::log::Workload { key: input.key, name: input.name },
        bind: BTreeMap::new(),
        target: name.into(),
        rule: arm.space.form.into(),
        rule_version: arm.space.version,
        knobs: arm.space.settings(&knobs),
        trace: made.trace,
        source_hash: Some(hash),
        score: (outcome == Outcome::Predicted).then_some(1.0),
        outcome,
        ..base
    }
}

#[test]
fn kernels_of_one_text_share_a_file() {
    let all = units(&TARGETS, &[], &Names(""), true).expect("units");
    let want = [
        ("mean.sm_90a.cubin", "cuda:sm_90a"),
        ("mean.sm_100f.cubin", "cuda:sm_100f"),
        ("mean.sm_100f.cubin", "cuda:sm_100f"),
    ];
    assert_eq!(files(&all), want);
    assert_eq!(apply::apart(&all), Vec::<String>::new());
    let alone = units(&TARGETS, &[], &Names(""), false).expect("units");
    assert!(files(&alone).iter().all(|(file, _)| !file.contains("sm_100f")), "only where it is asked for");
    let written = apply::files(&all, Emit { rust: true, ..Emit::default() }).expect("files");
    assert_eq!(
        written.keys().collect::<Vec<_>>(),
        ["kernels.rs", "manifest.json", "mean.sm_100f.cubin", "mean.sm_90a.cubin"]
    );
    let rust = String::from_utf8_lossy(&written["kernels.rs"]);
    for version in ["(10, 0), true", "(10, 3), true"] {
        assert!(rust.contains(&format!("runs_on({version}, device)")), "{version}");
    }
    assert_eq!(rust.matches("include_bytes!(\"mean.sm_100f.cubin\")").count(), 2);
}

#[test]
fn targets_that_share_all_share_an_entry_of_the_manifest() {
    let all = units(&TARGETS, &[], &Names(""), true).expect("units");
    let written = apply::files(&all, Emit::default()).expect("files");
    let manifest: Value = serde_json::from_slice(&written["manifest.json"]).expect("JSON");
    let entries = manifest["functions"].as_array().expect("a list");
    let named: Vec<&Value> = entries.iter().map(|f| &f["launches"][0]["file"]).collect();
    let both = serde_json::json!({ "sm_100a": "mean.sm_100f.cubin", "sm_103a": "mean.sm_100f.cubin" });
    assert_eq!(named, [&serde_json::json!({ "sm_90a": "mean.sm_90a.cubin" }), &both]);
}

#[test]
fn what_was_measured_for_one_gpu_alone_is_not_exactly_the_familys() {
    let records = ["cuda:sm_100a", "cuda:sm_103a"].map(|t| record(t, Outcome::Ok));
    let rungs = |family| -> Vec<Rung> {
        units(&TARGETS[1..], &records, &Names(""), family).expect("units").iter().map(|u| u.rung).collect()
    };
    assert_eq!((rungs(false), rungs(true)), (vec![Rung::Exact; 2], vec![Rung::SameArch; 2]));
}

#[test]
fn other_kernels_keep_a_file_each() {
    let says = "mean: its kernels cannot share a file for sm_100f; there are mean.sm_100a.cubin and mean.sm_103a.cubin";
    let own = [("mean.sm_100a.cubin", "cuda:sm_100a"), ("mean.sm_103a.cubin", "cuda:sm_103a")];
    let refused = units(&TARGETS[1..], &[], &Names("cuda:sm_100f"), true).expect("units");
    let records = [record("cuda:sm_100a", Outcome::Predicted)];
    let differ = units(&TARGETS[1..], &records, &Names(""), true).expect("units");
    for all in [&refused, &differ] {
        assert_eq!((files(all), apply::apart(all)), (own.to_vec(), vec![says.to_string()]));
    }
    assert_eq!((differ[0].rung, differ[1].rung), (Rung::Predicted, Rung::Default));
}

/// Steps that a compacted log has dropped are taken again by the rule, unless its table has changed.
#[test]
fn a_record_without_steps_is_as_good() {
    let whole = record("cuda:sm_90a", Outcome::Ok);
    let bare = Record { trace: vec![], ..whole.clone() };
    let older = Record { rule_version: 0, ..bare.clone() };
    let unit = |r: &Record| units(&TARGETS[..1], std::slice::from_ref(r), &Names(""), false).expect("units").remove(0);
    let [whole, bare, older] = [&whole, &bare, &older].map(unit);
    assert_eq!([whole.rung, bare.rung, older.rung], [Rung::Exact, Rung::Exact, Rung::Default]);
    assert!(whole.text == bare.text && whole.text != older.text);
}

/// What another GPU measured stands where the one that is named has nothing of this size, and is not exactly its kernel.
#[test]
fn records_of_another_gpu_come_after_those_of_the_one_named() {
    let on = |gpu: &str, r: &Record| Record { env: Env { gpu: gpu.into(), ..r.env.clone() }, ..r.clone() };
    let tuned = record("cuda:sm_90a", Outcome::Ok);
    let elsewhere =
        Record { workload: daylight::log::Workload { key: "other".into(), ..tuned.workload.clone() }, ..tuned.clone() };
    let unit =
        |records: &[Record]| units_of(Some("A"), &TARGETS[..1], records, &Names(""), false).expect("units").remove(0);
    let (own, other) = (unit(&[on("A", &tuned), on("B", &tuned)]), unit(&[on("A", &elsewhere), on("B", &tuned)]));
    assert_eq!((own.rung, other.rung, own.text == other.text), (Rung::Exact, Rung::SameArch, true));
    assert_eq!(unit(&[on("A", &elsewhere)]).rung, Rung::Default);
}

#[test]
fn a_family_of_one_is_an_error() {
    let error = units(&["cuda:sm_90a", "cuda:sm_100a"], &[], &Names(""), true).expect_err("one of the family");
    let want = "a family's file is for two or more GPUs of one family, such as cuda:sm_100a and cuda:sm_103a; \
                the targets are cuda:sm_90a, cuda:sm_100a";
    assert_eq!(error, want);
}

/// Runs where NVRTC is installed; says so where it is not.
#[test]
fn the_same_bytes_wherever_they_are_made() {
    if let Err(why) = find_nvrtc(&Places::of(|name| std::env::var_os(name), None)) {
        return common::skip(&why);
    }
    let place = tempfile::tempdir().expect("a folder");
    std::fs::write(place.path().join("log.jsonl"), "").expect("an empty log");
    let apply = |out: &str, targets: &str| {
        let file = mean().display().to_string();
        let mut command = Command::new(env!("CARGO_BIN_EXE_daylight"));
        command.args(["apply-best", &file, "--log", "log.jsonl", "--family", "--out", out, "--target", targets]);
        let o = command.current_dir(place.path()).output().expect("daylight starts");
        (o.status.code(), String::from_utf8_lossy(&o.stderr).into_owned())
    };
    let (code, error) = apply("one", "cuda:sm_100a,cuda:sm_103a");
    assert_eq!(code, Some(0), "{error}");
    assert_eq!(apply("two", "cuda:sm_103a,cuda:sm_100a").0, Some(0));
    let bytes = |folder: &str| std::fs::read(place.path().join(folder).join("mean.sm_100f.cubin")).expect("the cubin");
    assert!(bytes("one").starts_with(b"\x7fELF") && bytes("one") == bytes("two"));
    assert!(!place.path().join("one/mean.sm_100a.cubin").exists());
    let (code, error) = apply("three", "cuda:sm_100a");
    assert!(code == Some(2) && error.contains("such as cuda:sm_100a and cuda:sm_103a"), "{code:?}: {error}");

    let built = daylight::build::Build::new()
        .function(mean())
        .target("cuda:sm_100a")
        .target("cuda:sm_103a")
        .family(true)
        .write(&place.path().join("built"))
        .expect("a build");
    let untuned = |w: &String| w.starts_with("mean is not tuned for cuda:sm_10");
    assert!(built.warnings.len() == 2 && built.warnings.iter().all(untuned), "{:?}", built.warnings);
    assert_eq!(bytes("built"), bytes("one"), "not from the same cache");
}

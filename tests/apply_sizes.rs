//! Sizes known at run time: which kernel takes which, that every size is right, on the CPU end to end, with nothing of
//! Daylight in the program.

use crate::apply_untuned::{place, record, record_at};
use crate::common;
use daylight::apply::{Rung, Unit, When};
use daylight::build::{Build, Output};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output as Ran};

const V3: &str = "cpu:x86-64-v3";
/// Points of the rule that differ in the kernel for every size.
const TUNED: [(i64, &str, &[&str]); 3] =
    [(8, V3, &["vector=16", "unroll=1"]), (64, V3, &["vector=32", "unroll=2"]), (512, V3, &["vector=32", "unroll=4"])];

fn build(place: &Path, edit: impl FnOnce(Build) -> Build) -> Result<Output, String> {
    let build = Build::new().function(place.join("sums.py")).log(place.join("log.jsonl")).target(V3);
    edit(build).write(&place.join("kernels"))
}

fn sizes(units: &[Unit]) -> Vec<(When, Rung)> {
    units.iter().map(|u| (u.when.clone(), u.rung)).collect()
}

fn n(n: i64) -> BTreeMap<String, i64> {
    BTreeMap::from([("n".to_string(), n)])
}

#[test]
fn each_tuned_size_has_its_kernel_and_lends_its_schedule_to_those_below() {
    let (place, _) = place(&TUNED);
    let built = build(place.path(), |b| b).expect("a build");
    let exact = |size| (When::Exactly(n(size)), Rung::Exact);
    let below = |size| (When::UpTo(n(size)), Rung::Neighbour);
    let want = vec![exact(8), exact(64), exact(512), below(8), below(64), (When::Always, Rung::Neighbour)];
    assert_eq!(sizes(&built.units), want, "the log says which sizes are tuned");
    assert_eq!(built.warnings, Vec::<String>::new());
    let asked = build(place.path(), |b| b.bind("n", [64, 8])).expect("a build");
    assert_eq!(sizes(&asked.units), [exact(8), exact(64), below(8), (When::Always, Rung::Neighbour)]);

    let manifest = std::fs::read(place.path().join("kernels/manifest.json")).expect("a manifest");
    let manifest: Value = serde_json::from_slice(&manifest).expect("JSON");
    let entries = manifest["functions"].as_array().expect("a list");
    let said: Vec<(String, &str)> =
        entries.iter().map(|f| (f["when"].to_string(), f["rung"].as_str().expect("a rung"))).collect();
    let said: Vec<(&str, &str)> = said.iter().map(|(when, rung)| (when.as_str(), *rung)).collect();
    let want = [
        (r#"{"exactly":{"n":8}}"#, "exact"),
        (r#"{"exactly":{"n":64}}"#, "exact"),
        (r#"{"up_to":{"n":8}}"#, "neighbour"),
        ("null", "neighbour"),
    ];
    assert_eq!(said, want);
    let rust = std::fs::read_to_string(&asked.rust).expect("kernels.rs");
    assert!(rust.contains("/// x86-64-v3 for n = 8: exact, 9.00 us when tuned."), "{rust}");
    assert!(rust.contains("/// x86-64-v3 for n <= 8: neighbour, 9.00 us when tuned."), "{rust}");
}

#[test]
fn sizes_that_nobody_tuned_are_named_and_refused_where_all_must_be_tuned() {
    let (place, _) = place(&TUNED);
    let built = build(place.path(), |b| b.bind("n", [8, 9])).expect("a build");
    assert_eq!(built.units.len(), 2, "the kernel of 8, and one for every size");
    let [warning] = built.warnings.try_into().expect("one warning");
    assert!(
        warning.starts_with("sums is not tuned for cpu:x86-64-v3 at n=9; the log has it at n=8, n=64"),
        "{warning}"
    );
    assert!(warning.contains(" --bind n=9 --device cpu"), "{warning}");
    let error = build(place.path(), |b| b.bind("n", [8, 9]).require_exact(true)).expect_err("9 is not");
    assert_eq!(error, "sums: --require-exact: for cpu:x86-64-v3: n=9 has no measured kernel");
    let exact = build(place.path(), |b| b.bind("n", [8, 64]).require_exact(true)).expect("both are");
    assert_eq!(sizes(&exact.units), [8, 64].map(|size| (When::Exactly(n(size)), Rung::Exact)));
    let none = Build::new().function(place.path().join("sums.py")).target(V3);
    let none = none.write(&place.path().join("none")).expect("a build");
    assert_eq!(sizes(&none.units), [(When::Always, Rung::Default)]);
    let [warning] = none.warnings.try_into().expect("one warning");
    assert!(warning.contains("the log has nothing of it; tune it: daylight tune "), "{warning}");
}

/// A tensor may have the name of an extent: the condition is on the extent.
#[test]
fn extents_are_told_from_tensors_of_their_name() {
    let (place, file) = place(&[]);
    let text = crate::apply_untuned::SUMS.replace("A = T.match_buffer", "N = T.match_buffer").replace("A[", "N[");
    std::fs::write(&file, text).expect("written");
    let records = [record(&file, 8, V3, &[]), record(&file, 64, V3, &["vector=16"])];
    daylight::log::write(&place.path().join("log.jsonl"), &records).expect("a log");
    let built = build(place.path(), |b| b).expect("a build");
    let rust = std::fs::read_to_string(&built.rust).expect("kernels.rs");
    assert!(rust.contains("pub fn sums(n: &[f32], b: &mut [f32], n_2: usize, pool: impl Pool)"), "{rust}");
    assert!(rust.contains("if n_2 == 8 {") && rust.contains("if n_2 <= 8 {"), "{rust}");
}

/// A program with the kernels of a folder in it, and no other crate.
fn program(place: &Path, main: &str) -> Ran {
    let write = |name: &str, text: &str| std::fs::write(place.join(name), text).expect("written");
    write("main.rs", &format!("#![deny(warnings)]\n#[path = \"kernels/kernels.rs\"]\nmod kernels;\n{main}"));
    write("build.rs", "#[path = \"kernels/link.rs\"]\nmod link;\nfn main() { link::link(\"kernels\") }\n");
    let done = |command: &mut Command| {
        let o = command.current_dir(place).env("OUT_DIR", place).env("CARGO_CFG_TARGET_ARCH", "x86_64").output();
        let o = o.expect("it starts");
        assert!(o.status.success(), "{command:?}: {}", String::from_utf8_lossy(&o.stderr));
        String::from_utf8_lossy(&o.stdout).into_owned()
    };
    done(Command::new("rustc").args(["--edition", "2024", "-o", "script", "build.rs"]));
    let said = done(&mut Command::new(place.join("script")));
    let library = said.lines().find_map(|l| l.strip_prefix("cargo::rustc-link-lib=")).expect("a library to link");
    let search = said.lines().find_map(|l| l.strip_prefix("cargo::rustc-link-search=")).expect("where it is");
    done(Command::new("rustc").args(["--edition", "2024", "-o", "main", "main.rs", "-L", search, "-l", library]));
    Command::new(place.join("main")).output().expect("the program starts")
}

const MAIN: &str = r#"
use kernels::cpu;

/// Threads of the program's own.
struct Mine(std::sync::atomic::AtomicUsize);

impl cpu::Pool for &Mine {
    fn threads(&self) -> usize {
        3
    }

    fn run(&self, work: &(dyn Fn() + Sync)) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        std::thread::scope(|s| (0..3).for_each(|_| drop(s.spawn(work))));
    }
}

fn sums(n: usize, pool: impl cpu::Pool) -> Result<(), String> {
    let a: Vec<f32> = (0..n * 64).map(|i| (i % 251) as f32).collect();
    let mut b = vec![f32::NAN; n];
    cpu::sums(&a, &mut b, n, pool).map_err(|e| e.to_string())?;
    for (row, got) in b.iter().enumerate() {
        let want: f32 = a[row * 64..][..64].iter().sum();
        if *got != want {
            return Err(format!("row {row} of {n}: {got}, expected {want}"));
        }
    }
    Ok(())
}

fn main() {
    let mine = Mine(0.into());
    for n in (1..20).chain([63, 64, 65, 100, 511, 512, 513, 5000]) {
        for threads in [1, 2, 7] {
            sums(n, threads).unwrap_or_else(|e| panic!("{e}"));
        }
        sums(n, &mine).unwrap_or_else(|e| panic!("{e}"));
    }
    assert!(mine.0.into_inner() > 0, "the given threads were used");
    assert!(sums(0, 1).unwrap_err().contains("the extent `n` is 0, expected 1"));
    let (mut few, some) = ([0.0; 4], [0.0; 256]);
    for n in [5, usize::MAX, 1 << 40] {
        assert!(cpu::sums(&some, &mut few, n, 1).is_err(), "{n}");
    }
    let bytes = cpu::sums_workspace_bytes(4);
    let mut workspace = vec![0u64; bytes.div_ceil(8)];
    let tensors = [some.as_ptr().cast_mut().cast(), few.as_mut_ptr().cast()];
    let done = unsafe { cpu::sums_raw(&tensors, 4, workspace.as_mut_ptr().cast(), &1) };
    assert_eq!((done, few), (Ok(()), [0.0; 4]));
    println!("right");
}
"#;

#[test]
fn every_size_is_right_in_a_program() {
    if !cfg!(target_arch = "x86_64") || !std::is_x86_feature_detected!("avx2") {
        return common::skip("this processor runs no kernels for x86-64-v3");
    }
    let (place, _) = place(&TUNED);
    build(place.path(), |b| b.vendored("kernels")).expect("a build");
    let ran = program(place.path(), MAIN);
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "right\n", "{}", String::from_utf8_lossy(&ran.stderr));

    build(place.path(), |b| b.bind("n", [8, 64]).require_exact(true).vendored("kernels")).expect("a build");
    let main = "fn main() {
        let (a, mut b) = (vec![1.0f32; 64 * 64], vec![0.0f32; 64]);
        for n in [8, 64] {
            kernels::cpu::sums(&a, &mut b, n, 2).unwrap();
            assert!(b[..n].iter().all(|x| *x == 64.0));
        }
        println!(\"{}\", kernels::cpu::sums(&a, &mut b, 9, 2).unwrap_err());
    }";
    let ran = program(place.path(), main);
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "there are kernels for n = 8; n = 64 alone\n", "{:?}", ran);
}

/// Of two extents, the next larger size is one that is smaller in neither.
#[test]
fn two_extents_may_be_open() {
    if !cfg!(target_arch = "x86_64") || !std::is_x86_feature_detected!("avx2") {
        return common::skip("this processor runs no kernels for x86-64-v3");
    }
    let (place, file) = place(&[]);
    let text =
        crate::apply_untuned::SUMS.replace("n = T.int64()", "n = T.int64()\n    m = T.int64()").replace("64)", "m)");
    std::fs::write(&file, text).expect("written");
    let size = |n: i64, m: i64| BTreeMap::from([("n".to_string(), n), ("m".to_string(), m)]);
    let tuned = [(4, 8, "unroll=1"), (4, 100, "unroll=2"), (64, 8, "unroll=4"), (64, 100, "unroll=8")];
    let records = tuned.map(|(n, m, set)| record_at(&file, size(n, m), V3, &[set]));
    daylight::log::write(&place.path().join("log.jsonl"), &records).expect("a log");
    let asked = |b: Build| b.bind("n", [4, 64]).bind("m", [8, 100]).vendored("kernels");
    let built = build(place.path(), asked).expect("a build");
    assert_eq!(built.warnings, Vec::<String>::new());
    let exact: Vec<When> = tuned[..].iter().map(|(n, m, _)| When::Exactly(size(*n, *m))).collect();
    let whens: Vec<When> = built.units.iter().map(|u| u.when.clone()).collect();
    assert_eq!(whens.iter().filter(|w| exact.contains(w)).count(), 4, "{whens:?}");
    assert!(whens.contains(&When::UpTo(size(64, 8))) && whens.last() == Some(&When::Always), "{whens:?}");
    let main = "fn main() {
        for n in [1usize, 4, 5, 64, 65] {
            for m in [1usize, 7, 8, 9, 99, 100, 101, 1000] {
                let a: Vec<f32> = (0..n * m).map(|i| (i % 7) as f32).collect();
                let mut b = vec![f32::NAN; n];
                kernels::cpu::sums(&a, &mut b, n, m, 2).unwrap();
                for (row, got) in b.iter().enumerate() {
                    assert_eq!(*got, a[row * m..][..m].iter().sum::<f32>(), \"{n} {m}\");
                }
            }
        }
        println!(\"right\");
    }";
    let ran = program(place.path(), main);
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "right\n", "{}", String::from_utf8_lossy(&ran.stderr));
}

/// The same bytes in whatever folder, and whichever way round the log is.
#[test]
fn builds_in_different_folders_are_the_same() {
    let files = |sizes: &[(i64, &str, &[&str])]| {
        let (place, _) = place(sizes);
        build(place.path(), |b| b.vendored("kernels").rayon(true).target("cuda:sm_90a")).expect("a build");
        let all =
            std::fs::read_dir(place.path().join("kernels")).expect("a folder").map(|e| e.expect("an entry").path());
        let text = |p: std::path::PathBuf| (p.file_name().map(|n| n.to_owned()), std::fs::read(&p).expect("readable"));
        all.filter(|p| p.is_file()).map(text).collect::<BTreeMap<_, _>>()
    };
    let mut reversed = TUNED;
    reversed.reverse();
    let (a, b) = (files(&TUNED), files(&reversed));
    assert!(a.len() > 8 && a == b);
}

#[test]
fn a_module_gives_the_function_that_is_named() {
    let (place, file) = place(&[]);
    let two = crate::apply_untuned::SUMS.to_string() + &crate::apply_untuned::SUMS.replace("def sums", "def others");
    std::fs::write(&file, two).expect("written");
    let built = build(place.path(), |b| b.only("others").bind("n", 8)).expect("a build");
    assert_eq!(built.units.iter().map(|u| u.name.as_str()).collect::<Vec<_>>(), ["others"]);
    assert!(built.warnings[0].contains("sums.py --function others --bind n=8 "), "{:?}", built.warnings);
    let error = build(place.path(), |b| b.only("other").bind("n", 8)).expect_err("there is none");
    assert_eq!(error, "--function other: there is no function of that name; did you mean `others`?");
    assert_eq!(record(&file, 8, V3, &[]).bind, n(8));
    let check = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_daylight"));
        let o = command.args(["check", "sums.py", "--json"]).args(more).current_dir(place.path()).output();
        let o = o.expect("daylight starts");
        (o.status.code(), String::from_utf8_lossy(&o.stdout).lines().count())
    };
    assert_eq!((check(&[]), check(&["--function", "others"])), ((Some(0), 2), (Some(0), 1)));
    assert_eq!(check(&["--function", "other"]).0, Some(2));
}

/// `tune` tunes each size, and `apply-best` has a kernel for each.
#[test]
fn commands_take_several_sizes() {
    let (place, _) = place(&[]);
    let run = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_daylight"));
        command.args(args).args(["--json", "--cache", "cache"]).current_dir(place.path());
        let o = command.output().expect("daylight starts");
        let lines =
            String::from_utf8_lossy(&o.stdout).lines().map(|l| serde_json::from_str(l).expect("JSON")).collect();
        (o.status.code(), lines, String::from_utf8_lossy(&o.stderr).into_owned())
    };
    type Ran = (Option<i32>, Vec<Value>, String);
    let (code, lines, error): Ran =
        run(&["tune", "sums.py", "--bind", "n=64,8", "--device", "cpu", "--trials", "2", "--log", "log"]);
    let tuned: Vec<&Value> = lines.iter().map(|l| &l["bind"]["n"]).collect();
    assert_eq!((code, tuned), (Some(0), vec![&8.into(), &64.into()]), "{error}");
    let apply = ["apply-best", "sums.py", "--log", "log", "--target", "cpu", "--out", "out", "--verify"];
    let (code, lines, error): Ran = run(&[&apply[..], &["--bind", "n=8,64", "--require-exact"]].concat());
    let rungs: Vec<&Value> = lines.iter().map(|l| &l["rung"]).collect();
    assert_eq!((code, rungs), (Some(0), vec![&"exact".into(), &"exact".into()]), "{error}");
    let (code, lines, error): Ran = run(&apply);
    assert_eq!((code, &lines[0]["when"]), (Some(0), &serde_json::json!({ "exactly": { "n": 8 } })), "{error}");
    assert!(!error.contains("is not tuned"), "{error}");
    let (code, _, error): Ran = run(&["check", "sums.py", "--bind", "n=8,64"]);
    assert!(code == Some(2) && error.contains("several sizes are for tune and apply-best"), "{code:?}: {error}");
}

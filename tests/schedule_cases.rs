//! Every file of `tests/cases/schedule` is a function, steps, and what comes of them: the function
//! after the steps, or the whole message of the step that is refused.

use crate::common::schedule::{check_step, read, step};
use daylight::ir::PrimFunc;
use daylight::schedule::Schedule;
use std::fs;
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/schedule")
}

fn case_files() -> Vec<PathBuf> {
    let entries = fs::read_dir(folder()).expect("the folder of cases is there");
    let mut files: Vec<PathBuf> = entries.map(|e| e.expect("read the folder").path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "tir"));
    files.sort();
    files
}

/// The function and the steps of a case; what follows `--- expect` or `--- error` is the outcome.
fn parts(text: &str) -> (&str, &str, &str) {
    let (func, rest) = text.split_once("--- steps\n").expect("a case has `--- steps`");
    let end = rest.find("--- e").unwrap_or(rest.len());
    (func, &rest[..end], &rest[end..])
}

fn outcome(func: &PrimFunc, steps: &str) -> String {
    let mut s = Schedule::new(func.clone());
    for line in steps.lines().filter(|l| !l.trim().is_empty()) {
        let before = (s.func().clone(), s.trace().to_vec());
        if let Err(e) = s.apply(step(line)) {
            assert_eq!(
                (s.func(), s.trace()),
                (&before.0, &before.1[..]),
                "a failed step leaves the schedule as it was"
            );
            return format!("--- error\n{e}\n");
        }
        check_step(func, &s);
    }
    format!("--- expect\n{}", s.func().canonical_text())
}

#[test]
fn cases() {
    let mut wrong = vec![];
    for file in case_files() {
        let text = fs::read_to_string(&file).expect("read the case");
        let (func, steps, want) = parts(&text);
        let got = outcome(&read(func), steps);
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            fs::write(&file, format!("{func}--- steps\n{steps}{got}")).expect("write the case");
        } else if got != want {
            wrong.push(format!("{}\nwant:\n{want}\ngot:\n{got}", file.display()));
        }
    }
    assert!(wrong.is_empty(), "{} cases differ; UPDATE_EXPECT=1 accepts\n{}", wrong.len(), wrong.join("\n"));
}

/// Names in backticks in the `Preconditions` paragraphs of a primitive's opening comment.
fn documented(source: &str) -> Vec<String> {
    let doc = source.lines().take_while(|l| l.starts_with("//!")).map(|l| l.trim_start_matches("//!").trim());
    let mut inside = false;
    let mut text = String::new();
    for line in doc {
        inside = line.starts_with("Preconditions") || (inside && !line.is_empty());
        if inside {
            text += line;
            text += " ";
        }
    }
    let words = text.split('`').skip(1).step_by(2);
    let is_name = |w: &&str| w.len() > 1 && w.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    words.filter(is_name).map(str::to_string).collect()
}

/// The Rust files below a folder.
fn sources(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(folder).expect("the sources are there").map(|e| e.expect("read the folder").path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|p| p.is_dir());
    folders.iter().flat_map(|f| sources(f)).chain(files).collect()
}

/// Preconditions that every primitive shares are tripped once, not once for each primitive.
const SHARED: [&str; 3] = ["loop_exists", "block_exists", "buffer_exists"];

#[test]
fn every_precondition_has_a_case() {
    let mut tripped = vec![];
    for file in case_files() {
        let text = fs::read_to_string(&file).expect("read the case");
        let error = text.split_once("--- error\n").map(|(_, e)| e.to_string());
        tripped.extend(error.and_then(|e| {
            let (step, rest) = e.split_once('(')?;
            let (_, rest) = rest.split_once("): ")?;
            Some((step.to_string(), rest.split([' ', ':']).next()?.to_string()))
        }));
    }
    let mut missing = vec![];
    for path in sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/schedule/primitive")) {
        let name = path.file_stem().and_then(|s| s.to_str()).unwrap_or_default().to_string();
        for precondition in documented(&fs::read_to_string(&path).expect("read the source")) {
            let case = (name.clone(), precondition);
            let has_cases = tripped.iter().any(|(primitive, _)| *primitive == name);
            if has_cases && !SHARED.contains(&case.1.as_str()) && !tripped.contains(&case) {
                missing.push(format!("{}_{}", case.0, case.1));
            }
        }
    }
    assert!(missing.is_empty(), "no case in tests/cases/schedule trips: {}", missing.join(", "));
}

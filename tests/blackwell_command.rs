//! `benches/blackwell.sh` on a machine without a GPU: what needs one is left out, the rest is done, and what it packs is read
//! by `log merge` and `report`.

use crate::common::skip;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn daylight(place: &Path, args: &[&str]) -> String {
    let o =
        Command::new(env!("CARGO_BIN_EXE_daylight")).args(args).current_dir(place).output().expect("daylight starts");
    assert!(o.status.success(), "{args:?}: {}", text(&o.stderr));
    text(&o.stdout)
}

/// The script, or a skipped test.
fn script(args: &[&str]) -> Option<Output> {
    for tool in ["bash", "python3", "tar"] {
        if Command::new(tool).arg("--version").output().is_err() {
            skip(&format!("there is no {tool}"));
            return None;
        }
    }
    let mut command = Command::new("bash");
    command.arg(root("benches/blackwell.sh")).args(args).env("DEVICE", "cpu").env("PYTHONDONTWRITEBYTECODE", "1");
    Some(command.output().expect("bash starts"))
}

#[test]
fn without_a_gpu_the_rest_is_done_and_packed() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let out = folder.path().join("out");
    let Some(o) = script(&[env!("CARGO_BIN_EXE_daylight"), &out.display().to_string(), "0.3"]) else { return };
    let said = text(&o.stdout);
    assert!(o.status.success(), "{said}{}", text(&o.stderr));
    for step in ["instructions", "tile variants", "usual functions beside PyTorch", "counters"] {
        let row = said.lines().rev().find(|l| l.starts_with(step)).unwrap_or_default();
        assert!(row.contains("left out") && row.ends_with("needs a GPU"), "{step}: {said}");
    }
    for step in ["environment", "tuning", "kernels", "report"] {
        let row = said.lines().rev().find(|l| l.starts_with(step)).unwrap_or_default();
        assert!(row.contains(" done "), "{step}: {said}");
    }
    let packed = std::fs::read_dir(&out).expect("the folder").map(|e| e.expect("an entry").path());
    let packed = packed.into_iter().find(|p| p.extension().is_some_and(|e| e == "gz")).expect("one package");
    let there = folder.path().join("there");
    std::fs::create_dir(&there).expect("a folder");
    let tar = Command::new("tar").arg("xzf").arg(&packed).arg("-C").arg(&there).status().expect("tar starts");
    assert!(tar.success());
    let inside = std::fs::read_dir(&there).expect("the folder").next().expect("one folder").expect("an entry").path();
    for file in ["summary.md", "tune.jsonl", "environment/environment.json", "report/report.html"] {
        assert!(inside.join(file).exists(), "{file} is packed");
    }
    let log = inside.join("log").display().to_string();
    daylight(&there, &["log", "merge", &log, "--out", "merged.jsonl"]);
    let records = daylight::log::read(&there.join("merged.jsonl")).expect("the merged log").records;
    assert!(records.iter().any(|r| !r.samples_ns.is_empty()), "something was measured");
    daylight(&there, &["report", "--log", "merged.jsonl", "--out", "report"]);
    assert!(there.join("report/report.md").exists());
}

#[test]
fn without_arguments_it_says_how() {
    let Some(o) = script(&[]) else { return };
    assert_eq!(o.status.code(), Some(2));
    assert!(text(&o.stderr).contains("benches/blackwell.sh DAYLIGHT OUT [MINUTES]"));
}

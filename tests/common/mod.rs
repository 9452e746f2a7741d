//! Helpers that the integration tests share.
#![allow(dead_code)] // each test binary uses its own part

pub mod apply;
pub mod arm;
pub mod nvidia;
pub mod random;
pub mod record;
pub mod schedule;

use std::path::{Path, PathBuf};

/// Compares `text` with the golden file `tests/<path>`. Fails on any difference; with
/// `UPDATE_EXPECT=1` in the environment it rewrites the file instead.
pub fn golden(path: &str, text: &str) {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests").join(path);
    if std::env::var_os("UPDATE_EXPECT").is_some() {
        std::fs::create_dir_all(file.parent().expect("a golden file lies in a folder")).expect("make the folder");
        std::fs::write(&file, text).expect("write the golden file");
        return;
    }
    let want = std::fs::read_to_string(&file)
        .unwrap_or_else(|e| panic!("{}: {e}; run with UPDATE_EXPECT=1 to make it", file.display()));
    if want != text {
        let line = want
            .lines()
            .zip(text.lines())
            .position(|(a, b)| a != b)
            .unwrap_or(want.lines().count().min(text.lines().count()));
        panic!(
            "{} differs at line {}:\n  want: {}\n  got:  {}\nrun with UPDATE_EXPECT=1 to accept",
            file.display(),
            line + 1,
            want.lines().nth(line).unwrap_or("<end>"),
            text.lines().nth(line).unwrap_or("<end>")
        );
    }
}

/// Says on standard error that a test is skipped because `reason`, a tool that this machine lacks.
/// With `DAYLIGHT_NO_SKIP` in the environment it fails the test instead.
pub fn skip(reason: &str) {
    eprintln!("SKIP: {reason}");
    assert!(std::env::var_os("DAYLIGHT_NO_SKIP").is_none(), "DAYLIGHT_NO_SKIP is set, but: {reason}");
}

/// Says on standard error that a test is skipped for lack of a GPU; never fails. `reason` names the
/// hardware that the test needs.
pub fn skip_without_gpu(reason: &str) {
    eprintln!("SKIP: {reason}");
}

/// The TVMScript files below a folder, sorted.
pub fn scripts(folder: &Path) -> Vec<PathBuf> {
    files(folder, "py")
}

/// The files of a folder, and of those in it, whose name has that ending, sorted.
pub fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut out = vec![];
    for entry in std::fs::read_dir(folder).expect("list the folder") {
        let path = entry.expect("list the folder").path();
        if path.is_dir() {
            out.extend(files(&path, ending));
        } else if path.extension().is_some_and(|e| e == ending) {
            out.push(path);
        }
    }
    out.sort();
    out
}

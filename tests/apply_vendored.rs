//! What `apply-best` writes is checked into a program that is built with cargo, offline and without Daylight.

use crate::apply_untuned::SUMS;
use crate::common;
use std::path::Path;
use std::process::{Command, Output};

const MAIN: &str = "#[path = \"../kernels/kernels.rs\"]
mod kernels;

fn main() {
    let a: Vec<f32> = (0..9 * 64).map(|i| (i % 7) as f32).collect();
    let mut b = vec![f32::NAN; 9];
    kernels::cpu::sums(&a, &mut b, 9, 2).unwrap();
    for (row, got) in a.chunks(64).zip(&b) {
        assert_eq!(row.iter().sum::<f32>(), *got);
    }
    println!(\"right\");
}
";

const BUILD: &str = "#[path = \"kernels/link.rs\"]
mod link;

fn main() {
    link::link(\"kernels\")
}
";

const MANIFEST: &str = "[package]\nname = \"program\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n";

fn run(command: &mut Command, place: &Path) -> Output {
    command.current_dir(place).output().expect("it starts")
}

/// A program in a folder, with what `apply-best` writes there.
fn program(place: &Path) {
    std::fs::create_dir(place.join("src")).expect("made");
    let files =
        [("sums.py", SUMS), ("log.jsonl", ""), ("Cargo.toml", MANIFEST), ("build.rs", BUILD), ("src/main.rs", MAIN)];
    for (name, text) in files {
        std::fs::write(place.join(name), text).expect("written");
    }
    let mut apply = Command::new(env!("CARGO_BIN_EXE_daylight"));
    apply.args(["apply-best", "sums.py", "--log", "log.jsonl", "--target", "cpu:x86-64-v3"]);
    let o = run(apply.args(["--emit", "rust,link,c", "--c-name", "sums", "--out", "kernels"]), place);
    assert!(o.status.success(), "{}", String::from_utf8_lossy(&o.stderr));
}

fn package(place: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(place.join("kernels")).expect("a folder").map(|e| e.expect("an entry"));
    let file =
        |e: std::fs::DirEntry| (e.file_name().to_string_lossy().into_owned(), std::fs::read(e.path()).expect("a file"));
    let mut all: Vec<(String, Vec<u8>)> = entries.map(file).collect();
    all.sort();
    all
}

#[test]
fn a_program_builds_offline_from_what_is_checked_in() {
    let [one, other] = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    program(one.path());
    program(other.path());
    let (a, b) = (package(one.path()), package(other.path()));
    let names: Vec<&str> = a.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["kernels.rs", "link.rs", "manifest.json", "sums.c", "sums.h", "sums.x86-64-v3.c"]);
    assert!(a == b, "the same bytes in another folder");
    let Some(cargo) = option_env!("CARGO") else { return common::skip("no cargo") };
    if !cfg!(target_arch = "x86_64") || !std::is_x86_feature_detected!("avx2") {
        return common::skip("this processor runs no kernels for x86-64-v3");
    }
    // The function and the log are not needed any more.
    ["sums.py", "log.jsonl"].iter().for_each(|f| std::fs::remove_file(one.path().join(f)).expect("removed"));
    let o = run(
        Command::new(cargo).args(["run", "--offline", "--quiet"]).env("CARGO_TARGET_DIR", one.path().join("target")),
        one.path(),
    );
    assert_eq!(String::from_utf8_lossy(&o.stdout), "right\n", "{}", String::from_utf8_lossy(&o.stderr));
}

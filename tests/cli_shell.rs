//! Completions, manual pages, the cache.

use std::path::Path;
use std::process::{Command, Output};

fn run(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_daylight"));
    command.args(words).args(["--cache", "cache"]).current_dir(folder).output().expect("daylight starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn shells_complete_every_command_and_the_scripts_parse() {
    let place = tempfile::tempdir().expect("a folder");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let out = text(&run(place.path(), &["completions", shell]).stdout);
        assert!(
            ["apply-best", "explain", "diff", "--fail-above"].iter().all(|w| out.contains(w.trim_start_matches('-'))),
            "{shell}"
        );
    }
    let script = place.path().join("daylight.bash");
    std::fs::write(&script, run(place.path(), &["completions", "bash"]).stdout).expect("a file");
    // The shell itself says what it would offer after `daylight ap`.
    let ask = format!(
        "source {}; COMP_WORDS=(daylight ap); COMP_CWORD=1; _daylight daylight ap daylight; echo \"${{COMPREPLY[@]}}\"",
        script.display()
    );
    let out = Command::new("bash").args(["--norc", "-c", &ask]).output().expect("bash runs");
    assert_eq!(text(&out.stdout).trim(), "apply-best", "{}", text(&out.stderr));
    assert_eq!(run(place.path(), &["completions", "csh"]).status.code(), Some(2));
}

#[test]
fn every_command_has_a_page() {
    let place = tempfile::tempdir().expect("a folder");
    assert!(run(place.path(), &["man", "--out", "man"]).status.success());
    let page = |name: &str| {
        std::fs::read_to_string(place.path().join("man").join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    };
    assert!(page("daylight.1").contains(".TH daylight 1") && page("daylight-tune.1").contains("trials"));
    assert!(page("daylight-log-diff.1").contains("fail"));
    let worker = place.path().join("man/daylight-worker.1");
    assert!(!worker.exists(), "workers are not for people");
}

#[test]
fn the_cache_is_shown_and_emptied() {
    let place = tempfile::tempdir().expect("a folder");
    let sum = "@T.prim_func\ndef copy(A: T.Buffer((64,), \"float32\"), B: T.Buffer((64,), \"float32\")):\n    for i in range(64):\n        \
               with T.block(\"b\"):\n            v = T.axis.spatial(64, i)\n            B[v] = A[v]\n";
    std::fs::write(place.path().join("copy.py"), sum).expect("a file");
    let show = || text(&run(place.path(), &["cache", "show"]).stdout);
    assert!(show().contains(": 0 compiled artifacts"), "{}", show());
    let tuned = run(place.path(), &["tune", "copy.py", "--device", "cpu", "--trials", "2", "--log", "log"]);
    assert!(tuned.status.success(), "{}", text(&tuned.stderr));
    assert!(!show().contains(": 0 compiled artifacts"), "{}", show());
    std::fs::write(place.path().join("cache/artifacts/mine.txt"), "kept").expect("a file");
    let kept = text(&run(place.path(), &["cache", "clean", "--older-than", "1"]).stderr);
    assert!(kept.starts_with("0 of "), "{kept}");
    let gone = text(&run(place.path(), &["cache", "clean"]).stderr);
    assert!(gone.contains("compiled artifacts removed") && !gone.starts_with("0 of "), "{gone}");
    assert!(show().contains(": 0 compiled artifacts"), "{}", show());
    assert!(place.path().join("cache/artifacts/mine.txt").exists(), "what is not of the cache stays");
}

/// A refusal is a record too.
#[test]
fn what_cannot_be_tuned_has_a_line_of_json() {
    let place = tempfile::tempdir().expect("a folder");
    std::fs::write(place.path().join("torch.py"), "def forward(x):\n    return x\n").expect("a file");
    let out = run(place.path(), &["tune", "torch.py", "--device", "cpu", "--json"]);
    let line: serde_json::Value =
        serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {}", text(&out.stdout)));
    assert!(line["status"] == "failed" && line["file"] == "torch.py" && line["exit"] == 3, "{line}");
    assert!(line["message"].as_str().is_some_and(|m| m.contains("is a function of Python")), "{line}");
}

/// What `--help` of a command says, and the commands that it lists.
fn help(folder: &Path, words: &[&str]) -> (String, Vec<String>) {
    let said = text(&run(folder, &[words, &["--help"]].concat()).stdout);
    let listed = said.split("Commands:\n").nth(1).unwrap_or_default();
    let name = |l: &str| l.strip_prefix("  ")?.split(' ').next().filter(|w| !w.is_empty()).map(str::to_string);
    let names = listed.lines().take_while(|l| !l.is_empty()).filter_map(name).filter(|n| n != "help").collect();
    (said, names)
}

#[test]
fn help_fits_eighty_columns() {
    let place = tempfile::tempdir().expect("a folder");
    let mut waiting: Vec<Vec<String>> = vec![vec![]];
    let mut seen = 0;
    while let Some(words) = waiting.pop() {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (said, names) = help(place.path(), &words);
        assert!(said.contains("Usage:"), "{words:?}: {said}");
        let wide: Vec<&str> = said.lines().filter(|l| l.chars().count() > 80).collect();
        assert!(wide.is_empty(), "{words:?}: {wide:?}");
        waiting.extend(names.iter().map(|n| words.iter().map(|w| w.to_string()).chain([n.clone()]).collect()));
        seen += 1;
    }
    assert!(seen > 20, "{seen} commands were asked");
}

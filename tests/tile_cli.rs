//! Tile programs on the command line.

use std::process::{Command, Output};

pub const EXAMPLE: &str = "../../examples/row_sums.py";

/// Exit code, standard output, standard error of a command on a file of `tests/tile_programs`.
pub fn daylight(args: &[&str]) -> (i32, String, String) {
    let cache = tempfile::tempdir().expect("a temporary folder");
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tile_programs");
    let mut command = Command::new(env!("CARGO_BIN_EXE_daylight"));
    let o: Output =
        command.args(args).current_dir(folder).arg("--cache").arg(cache.path()).output().expect("daylight starts");
    let text = |b: Vec<u8>| String::from_utf8_lossy(&b).into_owned();
    (o.status.code().unwrap_or(-1), text(o.stdout), text(o.stderr))
}

fn works(args: &[&str], says: &[&str]) {
    let (code, out, error) = daylight(args);
    assert_eq!(code, 0, "{args:?}: {error}");
    for s in says {
        assert!(out.contains(s), "{args:?}: {s} is missing in {out}");
    }
}

fn refused(args: &[&str], code: i32, says: &str) {
    let (got, out, error) = daylight(args);
    assert!(got == code && error.contains(says), "{args:?}: exit {got}, expected {code}: {out}{error}");
    assert!(!error.contains("panicked"), "{error}");
}

#[test]
fn check_lists_parameters_and_tile_calls() {
    works(
        &["check", "seed_001.py", "--json"],
        &[
            "\"name\":\"test_reduction\",\"status\":\"ok\"",
            "{\"name\":\"copy_0\",\"kind\":\"cta.copy\",\"extents\":[4,8],\"is_reduction\":false}",
            "{\"name\":\"sum_1\",\"kind\":\"cta.sum\",\"extents\":[4],\"is_reduction\":true}",
            "{\"index\":0,\"name\":\"A\",\"dtype\":\"float32\",\"shape\":[4,8],\"role\":\"in\"}",
            "{\"index\":1,\"name\":\"B\",\"dtype\":\"float32\",\"shape\":[4],\"role\":\"out\"}",
            "\"rule\":null",
            "\"flops\":null,\"bytes\":144",
        ],
    );
    works(
        &["check", "seed_003.py"],
        &["ok       seed_003.py: k: blocks warp.copy warp.copy warp.sqrt", "tile program"],
    );
}

#[test]
fn explain_shows_every_stage_of_a_program() {
    works(&["explain", "seed_003.py", "--target", "cuda:sm_90a", "--emit", "tir"], &["Tx.warp.sqrt("]);
    works(
        &["explain", "plain.py", "--target", "cuda:sm_90a", "--emit", "kernel"],
        &["barrier block", "kernel plain_k0"],
    );
    let after = ["explain", "seed_003.py", "--target", "cuda:sm_90a", "--emit", "kernel", "--after"];
    works(&[&after[..], &["flatten"]].concat(), &["after flatten: one flat index per access", "Tx.warp.sqrt("]);
    refused(&[&after[..], &["held"]].concat(), 2, "no pass for tile programs has this name; they are inline_lets, ");
    works(&["explain", "plain.py", "--target", "cuda:sm_90a", "--emit", "cuda"], &["__syncthreads()", "plain_k0"]);
    works(
        &["explain", "plain.py", "--target", "cuda:sm_90a", "--emit", "decisions"],
        &["plain (plain.py) on cuda:sm_90a"],
    );
    refused(&["explain", "plain.py", "--target", "cuda:sm_90a", "--emit", "trace"], 2, "has no schedule, so no trace");
    refused(&["explain", "plain.py", "--target", "cuda:sm_90a", "--emit", "c"], 2, "--emit c needs another target");
    refused(
        &["explain", "plain.py", "--target", "cuda:sm_90a", "--rule", "gemv"],
        2,
        "has no rule and no knobs to choose",
    );
    refused(&["explain", "plain.py", "--target", "cpu", "--emit", "kernel"], 3, "a tile program is for GPUs; cpu");
}

/// A call that nothing takes does not hide those around it.
#[test]
fn decisions_of_all_calls_are_shown_where_one_is_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tile_programs/seed_001.py"));
    let text = text.expect("read the program").replace("axes=(-1,)", "axes=(-1,), dispatch=\"local\"");
    for (name, text, says) in [
        ("refused.py", text.clone(), "the variant that the call asks for refuses"),
        ("unknown.py", text.replace("\"local\"", "\"lokal\""), "`sum` has no variant `lokal`"),
    ] {
        let path = folder.path().join(name).display().to_string();
        std::fs::write(&path, text).expect("write the program");
        for json in [&[][..], &["--json"]] {
            let args = [&["explain", &path, "--target", "cuda:sm_90a", "--emit", "decisions"], json].concat();
            let (code, out, error) = daylight(&args);
            assert!(code == 1 && error.contains(says), "{name}: exit {code}, {error}");
            let shown = if json.is_empty() {
                ["call 0", "call 1", "call 2"]
            } else {
                ["\"call\":0", "\"variant\":null", "\"call\":2"]
            };
            assert!(shown.iter().all(|s| out.contains(s)), "{name}: {out}");
        }
    }
}

#[test]
fn programs_are_verified_in_the_simulator() {
    works(&["verify", "plain.py", "--target", "sim:sm_90"], &["tile program right"]);
    works(&["verify", "pipeline.py", "--target", "sim:sm_80"], &["tile program right"]);
    works(&["verify", "bulk.py", "--target", "sim:sm_90"], &["tile program right"]);
    works(&["verify", "tma.py", "--target", "sim:sm_90"], &["tile program right"]);
    works(&["verify", "plain.py", "--target", "sim:sm_90", "--json"], &["\"status\":\"ok\"", "\"right\":true"]);
}

/// What the layout says that several lanes hold may be stored by each; what is stored by hand may not.
#[test]
fn declared_replicas_are_no_race() {
    works(&["verify", "replicas.py", "--target", "sim:sm_90"], &["tile program right"]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tile_programs/seed_002.py"));
    let text = text.expect("read the program").replace("T.thread_id([1])", "T.thread_id([32])");
    let path = folder.path().join("by_hand.py").display().to_string();
    std::fs::write(&path, text).expect("write the program");
    let (code, out, error) = daylight(&["verify", &path, "--target", "sim:sm_90"]);
    assert!(code == 1 && out.contains("race"), "exit {code}: {out}{error}");
}

#[test]
fn the_example_is_right_and_says_why() {
    works(&["verify", EXAMPLE, "--target", "sim:sm_90"], &["tile program right"]);
    works(
        &["explain", EXAMPLE, "--target", "cuda:sm_90a", "--emit", "decisions"],
        &["> vec_auto", "> local", "accepts"],
    );
    works(
        &["explain", EXAMPLE, "--target", "cuda:sm_90a", "--emit", "decisions", "--json"],
        &["\"calls\":[{\"call\":0,\"op\":\"copy\"", "\"variant\":\"vec_auto\"", "\"predicate\":\"storage_scope\""],
    );
}

#[test]
fn what_schedules_functions_refuses_programs() {
    let says = "refused: already_scheduled: a tile program is already scheduled";
    let log = tempfile::tempdir().expect("a temporary folder");
    let at = log.path().join("log").display().to_string();
    refused(&["tune", "seed_001.py", "--device", "cpu", "--log", &at, "--trials", "1"], 3, says);
    refused(
        &["run", "seed_001.py", "--device", "cpu", "--inputs", ".", "--outputs", &at],
        3,
        "a tile program is for GPUs",
    );
    std::fs::write(log.path().join("empty.jsonl"), "").expect("write the log");
    let empty = log.path().join("empty.jsonl").display().to_string();
    refused(&["apply-best", "seed_001.py", "--log", &empty, "--target", "cuda:sm_90a", "--out", &at], 3, says);
}

//! `daylight verify` in the simulator, on the command line.

use std::path::Path;
use std::process::Command;

/// Sums of rows of a matrix.
fn row_sums(rows: i64, columns: i64) -> String {
    format!(
        "@T.prim_func(s_tir=True)
def row_sums(A: T.Buffer(({rows}, {columns}), \"float32\"), B: T.Buffer(({rows},), \"float32\")):
    for i, k in T.grid({rows}, {columns}):
        with T.sblock(\"B\"):
            vi, vk = T.axis.remap(\"SR\", [i, k])
            with T.init():
                B[vi] = T.float32(0.0)
            B[vi] = B[vi] + A[vi, vk]
"
    )
}

/// Exit code and standard output of `verify` on a file for the simulator.
fn verify(file: &Path, args: &[&str]) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_daylight"));
    command.arg("verify").arg(file).args(["--target", "sim:sm_90"]).args(args);
    let o = command.arg("--cache").arg(file.parent().expect("a folder")).output().expect("daylight starts");
    (o.status.code().unwrap_or(-1), String::from_utf8_lossy(&o.stdout).into_owned())
}

#[test]
fn small_functions_are_simulated_as_they_are() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("sums.py");
    std::fs::write(&file, row_sums(5, 67)).expect("a file");
    let (code, out) = verify(&file, &["--candidates", "3"]);
    assert!(code == 0 && out.trim_end().ends_with("candidates right"), "{out}");
    let (code, out) = verify(&file, &["--candidates", "3", "--json"]);
    let object: serde_json::Value = serde_json::from_str(&out).expect("one object");
    assert_eq!((code, object["status"].as_str(), object["twin"].as_bool()), (0, Some("ok"), Some(false)));
    let all = object["candidates"].as_array().expect("candidates");
    assert!(all.len() >= 4 && all.iter().all(|c| c["right"] == true && c["rule"].is_string()), "{out}");
}

#[test]
fn large_functions_are_simulated_in_part_or_as_twins() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("sums.py");
    std::fs::write(&file, row_sums(4096, 8192)).expect("a file");
    let (code, out) = verify(&file, &["--candidates", "0"]);
    assert!(code == 0 && out.contains("with smaller sizes in place of its own ("), "{out}");
    assert!(!out.contains("4096") && out.contains("--whole"), "{out}");
    let (code, out) = verify(&file, &["--candidates", "0", "--json"]);
    assert!(code == 0 && out.contains("\"twin\":true") && out.contains("\"blocks\":null"), "{out}");
    std::fs::write(&file, row_sums(512, 1031)).expect("a file");
    let (code, out) = verify(&file, &["--candidates", "0", "--blocks", "3"]);
    assert!(code == 0 && out.contains("right, by 3 blocks of the last launch"), "{out}");
    let (code, out) = verify(&file, &["--candidates", "0", "--blocks", "3", "--json"]);
    let object: serde_json::Value = serde_json::from_str(&out).expect("one object");
    let compared: Vec<_> =
        object["candidates"].as_array().expect("candidates").iter().map(|c| c["compared"].as_u64()).collect();
    assert!(code == 0 && compared.iter().all(|n| n.is_some_and(|n| n > 0 && n < 512)), "{out}");
}

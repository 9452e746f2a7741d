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

/// Boxes as floats, as in roi_align: what becomes an index stays inside.
#[test]
fn floats_that_become_indices_stay_inside() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("boxes.py");
    let text = "@T.prim_func(s_tir=True)
def boxes(A: T.Buffer((3, 20, 24), \"float32\"), R: T.Buffer((50, 4), \"float32\"), S: T.Buffer((50,), \"float16\"), \
         O: T.Buffer((50,), \"float32\")):
    for i in range(50):
        with T.sblock(\"b\"):
            v = T.axis.spatial(50, i)
            O[v] = A[T.Cast(\"int32\", R[v, 0]), T.Cast(\"int32\", T.floor(R[v, 1])), T.Cast(\"int32\", T.round(S[v]))] * R[v, 3]
";
    std::fs::write(&file, text).expect("a file");
    let (code, out) = verify(&file, &["--candidates", "2"]);
    assert!(code == 0 && out.trim_end().ends_with("candidates right"), "{out}");
}

/// A requantisation with many ties, and a quotient of numbers that nearly cancel.
#[test]
fn right_kernels_of_ill_conditioned_functions_are_right() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("f.py");
    let text = "@T.prim_func(s_tir=True)
def requantise(A: T.Buffer((64, 96), \"int8\"), W: T.Buffer((32, 96), \"int8\"), Q: T.Buffer((64, 32), \"int8\")):
    C = T.sblock_alloc_buffer((64, 32), \"int32\")
    for i, j, k in T.grid(64, 32, 96):
        with T.sblock(\"C\"):
            vi, vj, vk = T.axis.remap(\"SSR\", [i, j, k])
            with T.init():
                C[vi, vj] = 0
            C[vi, vj] = C[vi, vj] + T.Cast(\"int32\", A[vi, vk]) * T.Cast(\"int32\", W[vj, vk])
    for i, j in T.grid(64, 32):
        with T.sblock(\"Q\"):
            vi, vj = T.axis.remap(\"SS\", [i, j])
            Q[vi, vj] = T.Cast(\"int8\", T.max(T.min(T.round(T.Cast(\"float32\", C[vi, vj]) * T.float32(0.02)), \
         T.float32(127)), T.float32(-128)))

@T.prim_func(s_tir=True)
def decay(K: T.Buffer((2000,), \"float32\"), V: T.Buffer((2000,), \"float32\"), O: T.Buffer((2000,), \"float32\")):
    for i in range(2000):
        with T.sblock(\"O\"):
            v = T.axis.spatial(2000, i)
            O[v] = (T.exp(K[v]) * V[v] + T.float32(0.5)) / (T.exp(K[v]) - T.float32(1))
";
    std::fs::write(&file, text).expect("a file");
    let (code, out) = verify(&file, &["--candidates", "6"]);
    assert!(code == 0 && out.matches("candidates right").count() == 2, "{out}");
}

/// Integers that sums of 16 bits become, which one order of rounding puts at one side of a tie and another at the other.
#[test]
fn whole_numbers_of_rounded_sums_are_right() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("f.py");
    let text = "@T.prim_func(s_tir=True)
def whole(A: T.Buffer((640, 2), \"float16\"), B: T.Buffer((2, 65), \"float16\"), D: T.Buffer((65,), \"float16\"), O: T.Buffer((640, 65), \"int32\")):
    C = T.sblock_alloc_buffer((640, 65), \"float16\")
    for i, j, k in T.grid(640, 65, 2):
        with T.sblock(\"C\"):
            vi, vj, vk = T.axis.remap(\"SSR\", [i, j, k])
            with T.init():
                C[vi, vj] = T.float16(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
    for i, j in T.grid(640, 65):
        with T.sblock(\"O\"):
            vi, vj = T.axis.remap(\"SS\", [i, j])
            O[vi, vj] = T.Cast(\"int32\", (C[vi, vj] + D[vj]) * T.float16(8))
";
    std::fs::write(&file, text).expect("a file");
    let (code, out) = verify(&file, &["--candidates", "3"]);
    assert!(code == 0 && out.trim_end().ends_with("candidates right"), "{out}");
}

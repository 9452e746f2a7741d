//! `daylight run --device sim:sm_NN`: one execution on files in the simulator, on machines without a GPU.

use crate::cli_tune::npy;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Sums of rows, scaled by a parameter, of as many rows as there are.
const SCALED: &str = "@T.prim_func(s_tir=True)
def scaled(a: T.handle, s: T.float32, b: T.handle):
    n = T.int64()
    A = T.match_buffer(a, (n, 67), \"float32\")
    B = T.match_buffer(b, (n,), \"float32\")
    C = T.sblock_alloc_buffer((n,), \"float32\")
    for i, k in T.grid(n, 67):
        with T.sblock(\"C\"):
            vi, vk = T.axis.remap(\"SR\", [i, k])
            with T.init():
                C[vi] = T.float32(0.0)
            C[vi] = C[vi] + A[vi, vk]
    for i in range(n):
        with T.sblock(\"B\"):
            vi = T.axis.spatial(n, i)
            B[vi] = C[vi] * s
";

/// A tile program that leaves half of its output alone, and one that reads beyond its input.
fn copies(from: &str, to: &str) -> String {
    format!(
        "from tvm.script import tirx as T
@T.prim_func
def copies(A_ptr: T.handle, B_ptr: T.handle):
    A = T.match_buffer(A_ptr, (64,), \"float32\")
    B = T.match_buffer(B_ptr, (64,), \"float32\")
    T.device_entry()
    bx = T.cta_id([1])
    t = T.thread_id([32])
    B[{to}] = A[{from}]
"
    )
}

struct Place(tempfile::TempDir);

impl Place {
    fn new(text: &str) -> Place {
        let place = Place(tempfile::tempdir().expect("a temporary folder"));
        std::fs::create_dir(place.path("in")).expect("a folder");
        std::fs::write(place.path("f.py"), text).expect("written");
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn input(&self, name: &str, shape: &str, values: &[f32]) {
        std::fs::write(self.path("in").join(name), npy(shape, values)).expect("written");
    }

    /// Exit code, standard output and standard error of a run of that file.
    fn run(&self, file: &Path, more: &[&str]) -> (i32, String, String) {
        let mut command = Command::new(env!("CARGO_BIN_EXE_daylight"));
        command.arg("run").arg(file).args(["--device", "sim:sm_90", "--inputs", "in", "--outputs", "out"]).args(more);
        let o = command.args(["--cache", "cache"]).current_dir(self.0.path()).output().expect("daylight starts");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (o.status.code().unwrap_or(-1), text(&o.stdout), text(&o.stderr))
    }

    /// The last values of an output.
    fn output(&self, name: &str, count: usize) -> Vec<f32> {
        let bytes = std::fs::read(self.path("out").join(name)).expect("the output is there");
        let tail = &bytes[bytes.len() - 4 * count..];
        tail.chunks(4).map(|c| f32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect()
    }
}

/// Small integers, whose sums are exact in any order.
fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 31) % 17) as f32).collect()
}

fn sums(values: &[f32], length: usize) -> Vec<f32> {
    values.chunks(length).map(|row| row.iter().sum()).collect()
}

#[test]
fn a_function_gives_the_right_numbers_by_any_rule() {
    let place = Place::new(SCALED);
    let a = numbers(5 * 67);
    place.input("00_A.npy", "(5, 67)", &a);
    place.input("01_s.npy", "()", &[0.5]);
    let want: Vec<f32> = sums(&a, 67).iter().map(|s| 0.5 * s).collect();
    let (code, out, error) = place.run(Path::new("f.py"), &["--json"]);
    let said: Value = serde_json::from_str(&out).unwrap_or_else(|e| panic!("{e}: {out}{error}"));
    let where_ = (&said["target"], &said["device"], &said["kernel"], &said["bind"]["n"]);
    assert_eq!((code, where_), (0, (&"sim:sm_90".into(), &"simulator".into(), &"default".into(), &5.into())));
    assert_eq!(place.output("02_B.npy", 5), want);
    std::fs::remove_dir_all(place.path("out")).expect("removed");
    let (code, out, error) = place.run(Path::new("f.py"), &["--set", "hint=plain"]);
    assert!(code == 0 && out.contains("scaled on sim:sm_90 (simulator): chosen kernel"), "{out}{error}");
    assert!(out.contains("hint=plain") && error.is_empty(), "{out}{error}");
    assert_eq!(place.output("02_B.npy", 5), want);
}

#[test]
fn the_kernel_of_the_log_is_that_of_the_gpu() {
    let (folder, file) = crate::apply_untuned::place(&[(8, "cuda:sm_90a", &["vector=8"])]);
    let place = Place::new("");
    let a = numbers(8 * 64);
    place.input("00_A.npy", "(8, 64)", &a);
    let log = folder.path().join("log.jsonl").display().to_string();
    let (code, out, error) = place.run(&file, &["--log", &log]);
    assert!(code == 0 && out.contains("logged kernel") && out.contains("vector=8"), "{out}{error}");
    assert_eq!(place.output("01_B.npy", 8), sums(&a, 64));
}

#[test]
fn a_tile_program_runs_too() {
    let place = Place::new("");
    let a = numbers(256 * 256);
    place.input("00_A.npy", "(256, 32, 8)", &a);
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/row_sums.py");
    let (code, out, error) = place.run(&file, &[]);
    assert!(code == 0 && out.contains("hand-written kernel"), "{out}{error}");
    assert_eq!(place.output("01_B.npy", 256), sums(&a, 256));
}

#[test]
fn what_a_gpu_would_not_tell_is_told() {
    let place = Place::new(&copies("t", "t"));
    place.input("00_A.npy", "(64,)", &numbers(64));
    let (code, _, error) = place.run(Path::new("f.py"), &[]);
    assert!(code == 0 && error.contains("nothing wrote 32 elements of `B`"), "{error}");
    assert_eq!(place.output("01_B.npy", 64)[..32], numbers(32));
    std::fs::write(place.path("f.py"), copies("t + 33", "t")).expect("written");
    let (code, out, error) = place.run(Path::new("f.py"), &[]);
    assert!(code == 1 && out.is_empty() && error.contains("copies: ") && error.contains("64"), "{code} {out}{error}");
    let (code, _, error) = Place::new(SCALED).run(Path::new("f.py"), &["--bind", "n=3"]);
    assert!(code == 2 && error.contains("there is no in/00_A.npy for the parameter `A`"), "{code} {error}");
    let mut other = Command::new(env!("CARGO_BIN_EXE_daylight"));
    other.args(["run", "f.py", "--device", "sim:sm_91", "--inputs", "in", "--outputs", "out"]);
    let o = other.current_dir(place.0.path()).output().expect("daylight starts");
    let error = String::from_utf8_lossy(&o.stderr).into_owned();
    assert!(o.status.code() == Some(2) && error.contains("sim:sm_91"), "{error}");
}

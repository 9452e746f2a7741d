//! Inputs that would take memory or time without end, or be executed: each is answered with a sentence, soon.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Exit code and what was said, within a minute.
fn daylight(args: &[&str], at: &Path) -> (i32, String) {
    let start = Instant::now();
    let mut command = Command::new(env!("CARGO_BIN_EXE_daylight"));
    command.args(args).args(["--cache", "cache"]).current_dir(at).stdin(Stdio::null());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("daylight starts");
    while child.try_wait().expect("a child").is_none() {
        if start.elapsed() > Duration::from_secs(60) {
            child.kill().expect("it ends");
            panic!("{args:?} does not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let out = child.wait_with_output().expect("its output");
    let said = [out.stdout, out.stderr].concat();
    (out.status.code().unwrap_or(-1), String::from_utf8_lossy(&said).into_owned())
}

fn pipe(at: &Path, name: &str) {
    assert!(Command::new("mkfifo").arg(at.join(name)).status().expect("mkfifo starts").success());
}

#[test]
fn a_pipe_nobody_writes_to_and_a_file_without_end_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    pipe(at, "f.py");
    pipe(at, "log.jsonl");
    let (code, said) = daylight(&["check", "f.py"], at);
    assert!(code == 2 && said.contains("it is a pipe"), "{code}: {said}");
    let (code, said) = daylight(&["log", "show", "log.jsonl"], at);
    assert!(code == 2 && said.contains("is a pipe"), "{code}: {said}");
    let (code, said) = daylight(&["check", "/dev/zero"], at);
    assert!(code == 3 && said.contains("the limit is"), "{code}: {said}");
}

#[test]
fn sizes_that_nothing_holds_are_refused() {
    let text = "from tvm.script import tirx as T\n@T.prim_func(s_tir=True)\ndef copy(a: T.handle, b: T.handle):\n    \
                n = T.int64()\n    A = T.match_buffer(a, (n,))\n    B = T.match_buffer(b, (n,))\n    for i in range(n):\n        \
                with T.sblock(\"b\"):\n            v = T.axis.spatial(n, i)\n            B[v] = A[v]\n";
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("f.py"), text).expect("written");
    for n in ["9223372036854775807", "99999999999999", "3037000500000"] {
        let (code, said) = daylight(
            &["verify", "f.py", "--target", "sim:sm_90", "--whole", "--bind", &format!("n={n}")],
            folder.path(),
        );
        assert!(
            code == 2 && (said.contains("than any machine") || said.contains("MiB of memory")),
            "{n}: {code}: {said}"
        );
    }
}

/// `X[k+1][v] = X[k][v] + X[k][63 - v]`: inlined, each block doubles what the one before was.
#[test]
fn a_chain_of_blocks_that_read_twice_stays_small() {
    let n = 40;
    let mut text = String::from("@T.prim_func(s_tir=True)\ndef chain(x0: T.Buffer((64,), \"float32\"), ");
    text += &format!("x{n}: T.Buffer((64,), \"float32\")):\n");
    (1..n).for_each(|k| text += &format!("    x{k} = T.sblock_alloc_buffer((64,))\n"));
    for k in 0..n {
        text += &format!(
            "    for i in range(64):\n        with T.sblock(\"b{k}\"):\n            v = T.axis.spatial(64, i)\n"
        );
        text += &format!("            x{}[v] = x{k}[v] + x{k}[63 - v]\n", k + 1);
    }
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("f.py"), format!("from tvm.script import tirx as T\n{text}")).expect("written");
    let (code, said) = daylight(&["check", "f.py", "--target", "cpu"], folder.path());
    assert!(code == 0 && said.starts_with("ok"), "{code}: {said}");
}

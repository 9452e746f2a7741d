//! Ctrl-C: a tuner ends with 130 and keeps what it measured.
#![cfg(unix)]

use daylight::log;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

const SUM: &str = "@T.prim_func
def total(A: T.Buffer((257, 1025), \"float32\"), B: T.Buffer((257,), \"float32\")):
    for i, k in T.grid(257, 1025):
        with T.block(\"sum\"):
            vi, vk = T.axis.remap(\"SR\", [i, k])
            with T.init():
                B[vi] = T.float32(0)
            B[vi] = B[vi] + A[vi, vk]
";
/// What it may take to start, compile and end on a machine that does other things.
const PATIENCE: Duration = Duration::from_secs(120);

fn start(folder: &Path, args: &[&str]) -> Child {
    std::fs::write(folder.join("total.py"), SUM).expect("write the file");
    let mut command = Command::new(env!("CARGO_BIN_EXE_daylight"));
    command.args(args).args(["--cache", "cache"]).current_dir(folder);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("daylight starts")
}

fn signal(child: &Child, name: &str) {
    let done = Command::new("kill").args([name, &child.id().to_string()]).status().expect("kill runs");
    assert!(done.success());
}

fn ends(child: &mut Child) -> ExitStatus {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        if let Some(status) = child.try_wait().expect("its state is known") {
            return status;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().expect("it is killed");
    panic!("it goes on after Ctrl-C");
}

#[test]
fn tuning_ends_and_keeps_what_it_has() {
    ends_with("-INT", 130);
    ends_with("-TERM", 143);
}

fn ends_with(name: &str, code: i32) {
    let place = tempfile::tempdir().expect("a temporary folder");
    let args = ["tune", "total.py", "--device", "cpu", "--trials", "100000", "--log", "log"];
    let mut child = start(place.path(), &args);
    let measured = || {
        let folder = std::fs::read_dir(place.path().join("log")).into_iter().flatten().flatten();
        folder.map(|f| log::read(&f.path()).map_or(0, |past| past.records.len())).sum::<usize>()
    };
    let start = Instant::now();
    while measured() < 2 && start.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(50));
    }
    signal(&child, name);
    let status = ends(&mut child);
    assert_eq!(status.code(), Some(code), "{status:?}");
    assert!(measured() >= 2);
}

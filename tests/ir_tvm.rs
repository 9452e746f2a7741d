//! Asks the real TVM to read what is printed. Needs `DAYLIGHT_TVM_PYTHON`, a Python that has
//! apache-tvm 0.27.0.post1; skips visibly without it.

use crate::common;
use daylight::ir;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Writes both prints of every function below `from` to `to/display` and `to/canonical`.
fn print_all(from: &Path, to: &Path) {
    for path in common::scripts(from) {
        let text = std::fs::read_to_string(&path).expect("read a workload");
        let f = &ir::read(&text, &path.display().to_string()).unwrap_or_else(|e| panic!("{e}"))[0];
        let name = path.strip_prefix(from).expect("below the folder");
        write(&to.join("display").join(name), &f.to_string());
        write(&to.join("canonical").join(name), &f.canonical_text());
    }
}

fn write(file: &Path, text: &str) {
    std::fs::create_dir_all(file.parent().expect("a file has a folder")).expect("make a folder");
    std::fs::write(file, text).expect("write a print");
}

#[test]
fn tvm_reads_our_prints_as_the_same_functions() {
    let Some(python) = std::env::var_os("DAYLIGHT_TVM_PYTHON") else {
        common::skip("set DAYLIGHT_TVM_PYTHON to a Python with apache-tvm==0.27.0.post1 to compare with TVM");
        return;
    };
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    for folder in ["tests/workloads", "benches/workloads"] {
        let dir = tempfile::tempdir().expect("make a folder");
        print_all(&root.join(folder), dir.path());
        let mut check = Command::new(&python);
        check.arg(root.join(".ci/tvm_check.py")).arg(root.join(folder)).arg(dir.path());
        let out = check.output().expect("run Python");
        let text = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
        println!("{text}");
        assert!(out.status.success(), "{folder}: {text}");
    }
}

#[test]
fn tvm_reads_our_prints_of_tile_programs() {
    let Some(python) = std::env::var_os("DAYLIGHT_TVM_PYTHON") else {
        common::skip("set DAYLIGHT_TVM_PYTHON to a Python with apache-tvm==0.27.0.post1 to compare with TVM");
        return;
    };
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let dir = tempfile::tempdir().expect("make a folder");
    let mut programs = common::scripts(&root.join("tests/tile_programs"));
    programs.push(root.join("examples/row_sums.py"));
    for path in programs {
        let text = std::fs::read_to_string(&path).expect("read a program");
        let name = path.file_name().expect("a file has a name");
        for f in ir::read_any(&text, &path.display().to_string()).unwrap_or_else(|e| panic!("{e}")) {
            if let ir::Function::Tile(p) = f {
                write(&dir.path().join("display").join(name), &p.to_string());
                write(&dir.path().join("canonical").join(name), &p.canonical_text());
            }
        }
    }
    let mut check = Command::new(&python);
    check.env("PYTHONDONTWRITEBYTECODE", "1").arg(root.join(".ci/tvm_tile_check.py")).arg(dir.path());
    let out = check.output().expect("run Python");
    let text = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    println!("{text}");
    assert!(out.status.success(), "{text}");
}

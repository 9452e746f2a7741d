//! C text of hand-built kernels: golden files, compiled with the system's compiler, and run.

mod codegen_programs;
mod common;

use codegen_programs::*;
use daylight::codegen;
use daylight::ir::DType;
use daylight::ir::kernel::Program;
use std::path::Path;
use std::process::Command;

fn check(path: &str, program: &Program) {
    let text = codegen::c(program, 64);
    assert_eq!(text, codegen::c(program, 64), "the text of one program is always the same");
    common::golden(&format!("golden/codegen/{path}"), &text);
}

/// Operators, functions and casts of some types, as one program.
fn everything(types: &[DType]) -> Program {
    let mut whole = functions(DType::F32, true);
    for dtype in types {
        whole.launches.extend(operators(*dtype, true).launches);
        whole.launches.extend(casts(*dtype, true).launches);
    }
    whole
}

#[test]
fn texts() {
    check("cpu_row_sum.c", &cpu_row_sum(64, 4096, 8));
    check("cpu_gemv_bf16.c", &cpu_gemv(DType::BF16, 64, 1024, 4));
    check("cpu_gemv_f16.c", &cpu_gemv(DType::F16, 64, 1024, 4));
    check("cpu_silu_mul.c", &cpu_silu_mul(DType::BF16, 5000));
    check("cpu_matmul.c", &cpu_matmul(12, 64, 128));
    check("cpu_operators.c", &everything(&[DType::F32, DType::I32, DType::F16]));
}

/// The C compiler, or a sentence on standard output.
fn cc() -> Option<&'static str> {
    let found = ["cc", "gcc", "clang"].into_iter().find(|c| Command::new(c).arg("--version").output().is_ok());
    if found.is_none() {
        println!("SKIP: no C compiler (cc, gcc or clang) on the path");
    }
    found
}

fn compile(source: &Path, object: &Path, flags: &[&str]) {
    let Some(cc) = cc() else { return };
    let mut command = Command::new(cc);
    command.args(["-O2", "-Wall", "-Werror"]).args(flags).arg("-o").arg(object).arg(source).arg("-lm");
    let output = command.output().expect("run the compiler");
    assert!(output.status.success(), "{}:\n{}", source.display(), String::from_utf8_lossy(&output.stderr));
}

#[test]
fn golden_texts_compile_without_warnings() {
    let dir = tempfile::tempdir().expect("a folder");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/codegen");
    for entry in std::fs::read_dir(folder).expect("the golden folder") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|e| e == "c") {
            compile(&path, &dir.path().join("out.o"), &["-march=native", "-c"]);
        }
    }
}

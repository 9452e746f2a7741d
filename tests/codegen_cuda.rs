//! CUDA text of hand-built kernels, and of one that a rule makes, against golden files.

use crate::codegen_programs::*;
use crate::common;
use crate::common::arm::arm;
use daylight::codegen;
use daylight::ir::DType;
use daylight::ir::kernel::{CacheHint, Program};
use daylight::lower::lower;
use daylight::rules::{Knobs, Prepared};
use daylight::target::{HostCpu, Target};

fn check(path: &str, program: &Program) {
    let text = codegen::cuda(program);
    assert_eq!(text, codegen::cuda(program), "the text of one program is always the same");
    common::golden(&format!("golden/codegen/{path}"), &text);
}

#[test]
fn row_sum_text() {
    check("row_sum.cu", &row_sum(64, 8192, 256, 4, Some(4)));
}

#[test]
fn gemv_text() {
    check("gemv_bf16.cu", &gemv_bf16(128, 4096, 4, 2, Some(4)));
}

#[test]
fn column_sum_text() {
    check("column_sum.cu", &column_sum(512, 1024));
}

#[test]
fn silu_mul_text() {
    check("silu_mul_f16.cu", &silu_mul_f16(10000));
}

/// Softmax of rows too long to be kept: one pass for maximum and sum, one that writes.
#[test]
fn online_softmax_text() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/workloads/softmax-512x128256-bf16.py");
    let text = std::fs::read_to_string(path).expect("the workload");
    let func = daylight::ir::read(&text, "softmax").expect("the workload is read").remove(0);
    let input = Prepared::new(&func).expect("it has a kernel");
    let target = Target::parse("cuda:sm_90a", &HostCpu::default()).expect("a known target");
    let knobs = [
        ("row", 3),
        ("threads", 512),
        ("rows", 1),
        ("vector", 16),
        ("unroll", 2),
        ("online", 1),
        ("min_blocks", 2),
        ("cluster", 1),
    ];
    let knobs: Vec<(String, i64)> = knobs.iter().map(|(n, v)| (n.to_string(), *v)).collect();
    let rows = arm("general_reduction.rows", &input, &target);
    let mut point: Knobs = rows.space.default().expect("a legal point");
    point.0.extend(knobs);
    let s = rows.schedule(&point).unwrap_or_else(|e| panic!("{e}"));
    let trace: Vec<String> = s.trace().iter().map(|s| s.to_string()).collect();
    check("softmax_online.cu", &lower(s.func(), &target, &trace).unwrap_or_else(|e| panic!("{e}")));
}

#[test]
fn copies_text() {
    let all = [
        (DType::BF16, 1, CacheHint::NoAllocate),
        (DType::F16, 2, CacheHint::Streaming),
        (DType::F32, 2, CacheHint::NoAllocate),
        (DType::I8, 16, CacheHint::NoAllocate),
        (DType::I64, 2, CacheHint::Plain),
        (DType::F32, 8, CacheHint::Plain),
        (DType::BF16, 16, CacheHint::Streaming),
        (DType::E4M3, 1, CacheHint::NoAllocate),
    ];
    let mut whole = copy_kernel(DType::F32, 4, 1024, CacheHint::Plain);
    for (dtype, lanes, hint) in all {
        whole.launches.extend(copy_kernel(dtype, lanes, 4096, hint).launches);
    }
    check("copies.cu", &whole);
}

#[test]
fn widening_text() {
    let mut whole = nibbles(256);
    for dtype in [DType::BF16, DType::F16, DType::E4M3, DType::E5M2, DType::I8, DType::U8] {
        whole.launches.extend(widen_kernel(dtype, 2048).launches);
    }
    check("widen.cu", &whole);
}

/// What is chosen is what lies in memory: with a conversion in the arm of a choice, a load is waited for at once.
#[test]
fn guarded_text() {
    let mut whole = guarded_kernel(DType::F32, 256);
    for dtype in [DType::F16, DType::BF16, DType::E4M3, DType::E5M2, DType::E8M0] {
        whole.launches.extend(guarded_kernel(dtype, 256).launches);
    }
    check("guarded.cu", &whole);
}

#[test]
fn every_operator_function_and_cast_text() {
    let mut whole = operators(DType::F16, false);
    for dtype in [DType::F32, DType::F64, DType::E4M3, DType::I8, DType::I32, DType::U32, DType::I64] {
        whole.launches.extend(operators(dtype, false).launches);
    }
    for dtype in [DType::F32, DType::F64, DType::BF16, DType::I32] {
        whole.launches.extend(functions(dtype, false).launches);
    }
    for dtype in value_types() {
        whole.launches.extend(casts(dtype, false).launches);
    }
    check("operators.cu", &whole);
}

#[test]
fn golden_texts_compile_for_every_generation() {
    let Some(nvrtc) = common::nvidia::compiler() else { return };
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/codegen");
    for entry in std::fs::read_dir(folder).expect("the golden folder") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|e| e != "cu") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a text");
        // The text with every operator is long: one architecture does.
        let all = ["cuda:sm_80", "cuda:sm_90a", "cuda:sm_100a"];
        let targets = if text.len() > 50_000 { &all[1..2] } else { &all[..] };
        for target in targets {
            match nvrtc.cubin(&text, target) {
                Ok(cubin) => assert_eq!((cubin.res.spill, cubin.warnings), (0, vec![]), "{}", path.display()),
                Err(e) => panic!("{} for {target}: {e}", path.display()),
            }
        }
    }
}

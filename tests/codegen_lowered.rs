//! Lowered kernels on every back end: the simulator and native C against the interpreter, and
//! through NVRTC where it is found.

use crate::codegen_programs::native;
use crate::common;
use crate::lower_cases::*;
use daylight::codegen;
use daylight::interp::{self, Mode, Scalars, Tensor};
use daylight::ir::PrimFunc;
use daylight::lower::lower;
use daylight::schedule::Schedule;
use daylight::sim::{self, SimOptions};
use daylight::target::Target;

/// Seeded arguments for a function's tensors.
fn arguments(f: &PrimFunc) -> Vec<Tensor> {
    let mut state = 1u64;
    let mut next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        ((state >> 33) % 2001) as f64 / 1000.0 - 1.0
    };
    f.buffer_params()
        .map(|b| {
            let shape: Vec<i64> = b.shape.iter().map(|e| e.as_int().expect("a constant shape")).collect();
            let values: Vec<f64> = (0..shape.iter().product()).map(|_| next()).collect();
            Tensor::from_f64(b.dtype, &shape, &values)
        })
        .collect()
}

fn distance(got: &[Tensor], want: &[Tensor]) -> f64 {
    let (mut difference, mut size) = (0.0, 0.0);
    for (g, w) in got.iter().zip(want) {
        for (x, y) in g.to_f64().into_iter().zip(w.to_f64()) {
            difference += (x - y) * (x - y);
            size += y * y;
        }
    }
    (difference / size.max(1e-30)).sqrt()
}

/// Runs the kernel of a schedule everywhere.
fn check(name: &str, s: &Schedule, target: &Target, tolerance: f64) {
    let p = lower(s.func(), target, &[]).unwrap_or_else(|e| panic!("{name}: {e}"));
    let start = arguments(s.func());
    let mut want = start.clone();
    interp::run(s.func(), &mut want, &Scalars::new(), Mode::F64).unwrap_or_else(|e| panic!("{name}: {e}"));
    for seed in 0..2 {
        let mut got = start.clone();
        let options = SimOptions { seed, ..SimOptions::default() };
        sim::run(&p, &mut got, &Scalars::new(), &options).unwrap_or_else(|e| panic!("{name}: {e}\n{p}"));
        let error = distance(&got, &want);
        assert!(error <= tolerance, "{name}: the simulator is {error:e} away\n{p}");
    }
    if target.id.starts_with("cuda") {
        let Some(nvrtc) = common::nvidia::compiler() else { return };
        let cubin = nvrtc.cubin(&codegen::cuda(&p), &target.id).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!((cubin.res.spill, cubin.warnings), (0, vec![]), "{name}");
        return;
    }
    let mut got = start;
    if native::run(&p, &mut got, &Scalars::new(), native::vector_bytes(), &["-O2", "-march=native"]) {
        let error = distance(&got, &want);
        assert!(error <= tolerance, "{name}: native code is {error:e} away\n{}", codegen::c(&p, 64));
    }
}

#[test]
fn row_sums() {
    let knobs = Rows { threads: 128, rows: 1, lanes: 4, unroll: 2 };
    check("row_sum", &schedule_rows(row_sum(6, 4096, "float32"), knobs).expect("a schedule"), &gpu(), 1e-5);
    let knobs = Rows { threads: 32, rows: 4, lanes: 8, unroll: 2 };
    check("row_sum_tail", &schedule_rows(row_sum(37, 1000, "float16"), knobs).expect("a schedule"), &gpu(), 2e-3);
}

#[test]
fn gemvs() {
    for (shared, dtype) in [(false, "bfloat16"), (true, "float16")] {
        let knobs = Gemv { threads: 64, groups: 2, rows: 2, unroll: 2, lanes: 8, shared };
        check(dtype, &schedule_gemv(gemv(64, 1024, dtype), knobs).expect("a schedule"), &gpu(), 1e-2);
    }
}

#[test]
fn column_sums_and_totals() {
    let knobs = Columns { threads: 32, rows: 8, lanes: 4, unroll: 2 };
    check("column_sum", &schedule_columns(column_sum(128, 256, "float32"), knobs).expect("a schedule"), &gpu(), 1e-5);
    check("total", &schedule_two_launches(1 << 14, 8, 128).1.expect("a schedule"), &gpu(), 1e-5);
}

#[test]
fn elementwise_kernels() {
    let s = schedule_elementwise(elementwise(1 << 12, "float16"), 128, 8, 2).expect("a schedule");
    check("elementwise", &s, &gpu(), 1e-3);
}

#[test]
fn kernels_of_the_cpu() {
    let s = schedule_rows_cpu(row_sum(10, 4096, "float32"), 4, 16).expect("a schedule");
    check("row_sum_cpu", &s, &cpu(), 1e-5);
    let s = schedule_elementwise_cpu(elementwise(1 << 12, "float32"), 64, 16).expect("a schedule");
    check("elementwise_cpu", &s, &cpu(), 1e-5);
    let s = schedule_ahead_cpu(elementwise(1 << 12, "float32"), 64, 16, 1).expect("a schedule");
    check("ahead_cpu", &s, &cpu(), 1e-5);
}

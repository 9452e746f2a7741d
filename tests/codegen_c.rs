//! C text of hand-built kernels: golden files, compiled with the system's compiler, and run.

use crate::codegen_programs::{native, *};
use crate::common;
use daylight::codegen;
use daylight::interp::{Scalars, Tensor};
use daylight::ir::kernel::{KernelParam, Program};
use daylight::ir::{DType, Expr, Intrin};
use daylight::lower::verify_program;
use daylight::sim::{self, SimOptions};
use daylight::target::{HostCpu, Target};
use std::path::Path;

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
    check("cpu_stream.c", &cpu_stream(DType::F32, 64, 0));
    check("cpu_matmul.c", &cpu_matmul(12, 64, 128));
    check("cpu_operators.c", &everything(&[DType::F32, DType::I32, DType::F16]));
}

/// The golden texts are for the widest vectors, which this machine need not have.
#[test]
fn golden_texts_compile_without_warnings() {
    let machine = if cfg!(target_arch = "x86_64") { "-march=x86-64-v4" } else { "-march=native" };
    let dir = tempfile::tempdir().expect("a folder");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/codegen");
    for entry in std::fs::read_dir(folder).expect("the golden folder") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|e| e == "c") {
            native::compile(&path, &dir.path().join("out.o"), &["-O3", machine, "-c"]);
        }
    }
}

/// Values that try the corners of a type.
fn corners(dtype: DType, len: i64, salt: i64, tame: bool) -> Tensor {
    let mut t = Tensor::zeros(dtype, &[len]);
    let special = [0.0, 1.0, -1.0, 0.5, -0.5, 2.5, 3.5, 1e-3, -7.0, 100.0, -100.0, 1e4, 65504.0, 1e-6, 300.0, 0.1];
    for i in 0..len {
        let k = (i * 7 + salt) as usize;
        match dtype {
            DType::Bool => t.set_i64(i as usize, k.is_multiple_of(3) as i64),
            // Every type holds these.
            d if d.is_float() && tame => t.set_f64(i as usize, (k * 5 % 480) as f64 / 4.0),
            _ if tame => t.set_i64(i as usize, (k % 120) as i64),
            d if d.is_float() => t.set_f64(i as usize, special[k % 16] * (1.0 + (k % 5) as f64 * 0.3)),
            _ => t.set_i64(i as usize, (k as i64 * 37 - 99) % 120 + (k % 2) as i64),
        }
        // No division by zero, and no shift of a sign bit.
        if !dtype.is_float() && dtype != DType::Bool && t.get_i64(i as usize) == 0 {
            t.set_i64(i as usize, 3);
        }
    }
    t
}

/// Runs one launch on the simulator and natively and compares every written element.
fn compare(p: &Program, tolerance: f64, vector_bytes: u32) {
    compare_but(p, tolerance, vector_bytes, false, &[]);
}

/// The same with values that every type holds where `tame`, and leaving out rows of 256 elements.
fn compare_but(p: &Program, tolerance: f64, vector_bytes: u32, tame: bool, without: &[usize]) {
    let params = &p.launches[0].kernel.params;
    let mut args: Vec<Tensor> = params
        .iter()
        .enumerate()
        .map(|(i, p)| match p {
            KernelParam::Pointer { dtype, len, .. } => corners(*dtype, len.as_int().expect("a size"), i as i64, tame),
            KernelParam::Scalar { .. } | KernelParam::TensorMap(_) => panic!("no scalars here"),
        })
        .collect();
    let mut simulated = args.clone();
    sim::run(p, &mut simulated, &Scalars::new(), &SimOptions::default()).unwrap_or_else(|e| panic!("{}: {e}", p.name));
    if !native::run(p, &mut args, &Scalars::new(), vector_bytes, &["-O1", "-march=native"]) {
        return;
    }
    for (k, (got, want)) in args.iter().zip(&simulated).enumerate() {
        let KernelParam::Pointer { written: true, .. } = &params[k] else { continue };
        for i in 0..got.len() {
            let n = got.dtype.bytes() as usize;
            if want.data[n * i..n * (i + 1)].iter().all(|b| *b == 0xcd) {
                continue; // nothing was stored there
            }
            if without.contains(&(i / 256)) {
                continue;
            }
            let (x, y) = (got.get_f64(i), want.get_f64(i));
            let same = x == y || x.is_nan() && y.is_nan();
            let near = (x - y).abs() <= tolerance * y.abs().max(1e-30);
            assert!(same || near, "{}: p{k}[{i}] is {x}, the simulator says {y} (vectors of {vector_bytes})", p.name);
        }
    }
}

#[test]
fn operators_agree_with_the_simulator() {
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::E4M3, DType::I8, DType::I32] {
        // A rounded quotient may reach the next integer: rows 5 to 8 floor and truncate quotients.
        let (tolerance, without) =
            if dtype.is_float() { (8.0 * dtype.roundoff(), &[5, 6, 7, 8][..]) } else { (0.0, &[][..]) };
        compare_but(&operators(dtype, true), tolerance, native::vector_bytes(), false, without);
    }
    compare_but(&operators(DType::F32, true), 1e-6, 4, false, &[5, 6, 7, 8]);
}

#[test]
fn functions_agree_with_the_simulator() {
    for dtype in [DType::F32, DType::BF16] {
        compare(&functions(dtype, true), 40.0 * dtype.roundoff(), native::vector_bytes());
    }
}

#[test]
fn casts_agree_with_the_simulator() {
    for from in value_types() {
        compare_but(&casts(from, true), 0.0, native::vector_bytes(), true, &[]);
    }
    compare_but(&casts(DType::F16, true), 0.0, 16, true, &[]);
}

#[test]
fn kernels_agree_with_the_simulator() {
    for p in [
        cpu_row_sum(5, 512, 4),
        cpu_gemv(DType::BF16, 8, 256, 4),
        cpu_gemv(DType::F16, 8, 256, 2),
        cpu_silu_mul(DType::BF16, 2050),
        cpu_silu_mul(DType::F16, 2050),
        cpu_matmul(12, 64, 40),
    ] {
        for bytes in [native::vector_bytes(), 16] {
            // Corner values cancel in sums; what counts here is that nothing is lost or misplaced.
            compare(&p, 0.02, bytes);
        }
    }
}

/// Wherever a vector lies: at a multiple of its size, of 16 bytes, or of an element.
#[test]
fn stores_past_the_caches_take_any_address() {
    for dtype in [DType::F32, DType::BF16, DType::F64, DType::I32] {
        for shift in [0, 1, 2, 3, 4, 8, 13, 16] {
            for bytes in [native::vector_bytes(), 32, 16, 8] {
                compare_but(&cpu_stream(dtype, 5, shift), 0.0, bytes, true, &[]);
            }
        }
    }
}

#[test]
fn only_kernels_of_the_cpu_ask_for_lines() {
    let p = cpu_stream(DType::F32, 2, 0);
    let target = |name| Target::parse(name, &HostCpu::default()).expect("a target");
    assert_eq!(verify_program(&p, &target("cpu:x86-64-v3")), Ok(()));
    let why = verify_program(&p, &target("cuda:sm_90a")).expect_err("a prefetch in a kernel of a GPU").to_string();
    assert!(why.contains("only a kernel of a CPU"), "{why}");
}

/// The greatest error of a function over a range, in units of the last place.
fn worst_ulps(f: Intrin, low: f64, high: f64) -> Option<f64> {
    let n = 1 << 15;
    let x = Expr::load("p0", vec![v("blockIdx.x") * c(64) + v("i1")], DType::F32);
    let value = Expr::call(f, vec![x], DType::F32);
    let body = vec![vector("i1", 64, vec![store("p1", v("blockIdx.x") * c(64) + v("i1"), value)])];
    let params = vec![input("p0", DType::F32, n), output("p1", DType::F32, n)];
    let p = program("ulps", kernel("ulps", params, vec![], body), n / 64, 1, None);
    let xs: Vec<f64> = (0..n).map(|i| low + (high - low) * i as f64 / n as f64).collect();
    let mut args = [Tensor::from_f64(DType::F32, &[n], &xs), Tensor::zeros(DType::F32, &[n])];
    if !native::run(&p, &mut args, &Scalars::new(), native::vector_bytes(), &["-O2", "-march=native"]) {
        return None;
    }
    let exact = daylight::interp::unary(f).expect("a function of one argument");
    let ulps = |i: usize| {
        let want = exact(args[0].get_f64(i));
        let unit = 2f64.powi((want.abs().log2().floor() as i32).max(-126) - 23);
        (args[1].get_f64(i) - want).abs() / unit
    };
    Some((0..n as usize).filter(|i| exact(args[0].get_f64(*i)) != 0.0).map(ulps).fold(0.0, f64::max))
}

#[test]
fn vector_functions_are_accurate() {
    let cases = [
        (Intrin::Exp, -104.0, 88.7, 2.0),
        (Intrin::Exp, -1.0, 1.0, 2.0),
        (Intrin::Sigmoid, -80.0, 20.0, 3.0),
        (Intrin::Tanh, -9.5, 9.5, 3.0),
        (Intrin::Tanh, -0.7, 0.7, 3.0),
        (Intrin::Erf, -4.5, 4.5, 3.0),
        (Intrin::Erf, -1.0, 1.0, 3.0),
    ];
    for (f, low, high, most) in cases {
        let Some(worst) = worst_ulps(f, low, high) else { return };
        println!("{} in [{low}, {high}]: {worst:.2} units in the last place", f.name());
        assert!(worst <= most, "{} in [{low}, {high}]: {worst} units in the last place", f.name());
    }
}

//! What NVRTC makes of tile programs, for every generation, and which instructions the machine code
//! holds.

use super::case::lowered;
use super::gemm_shapes::{Product, specs};
use super::{elementwise, gemm_fma, gemm_pipeline, gemm_special, reduction};
use crate::common;
use daylight::codegen;
use daylight::ir::device::DeviceFunc;

/// One target of each generation.
pub const TARGETS: [&str; 5] = ["cuda:sm_80", "cuda:sm_90a", "cuda:sm_100a", "cuda:sm_103a", "cuda:sm_120a"];

/// The kernels of all programs in one text.
pub fn together(programs: Vec<(String, DeviceFunc, f64)>, target: &str) -> String {
    let mut all = programs.into_iter().map(|(name, mut f, _)| {
        f.func.name = name;
        lowered(&f, target)
    });
    let mut whole = all.next().expect("a program");
    whole.launches.extend(all.flat_map(|p| p.launches));
    whole.variants.clear();
    codegen::cuda(&whole)
}

/// The machine code, made without warnings and spills; skipped without the tools.
fn machine_code(text: &str, target: &str) -> Option<String> {
    let cubin = common::nvidia::compiler()?.cubin(text, target).unwrap_or_else(|e| panic!("{target}: {e}"));
    assert_eq!((cubin.res.spill, cubin.warnings), (0, vec![]), "{target}");
    common::nvidia::sass(&cubin.bytes)
}

fn holds(programs: impl Fn() -> Vec<(String, DeviceFunc, f64)>, everywhere: &[&str], packed: &[&str]) {
    for target in TARGETS {
        let Some(sass) = holding(&together(programs(), target), target, everywhere) else { return };
        // sm_120 takes the packed variants, and expands them
        let blackwell = matches!(target, "cuda:sm_100a" | "cuda:sm_103a");
        for name in packed {
            assert_eq!(sass.contains(name), blackwell, "{target}: {name}");
        }
    }
}

/// The machine code of a text, which holds these instructions and nothing in local memory.
pub fn holding(text: &str, target: &str, names: &[&str]) -> Option<String> {
    let sass = machine_code(text, target)?;
    for name in names {
        assert!(sass.contains(name), "{target}: no {name}");
    }
    for local in ["LDL", "STL"] {
        assert!(!sass.contains(local), "{target}: registers went to local memory");
    }
    Some(sass)
}

#[test]
fn reductions_compile_to_packed_adds_and_three_input_extremes() {
    let some = || {
        let kept = |name: &str| {
            ["sum_", "max_", "min_vector"].iter().any(|op| name.starts_with(op)) && name.ends_with("True")
                || name.starts_with("prod") && name.ends_with("False")
        };
        reduction::programs().into_iter().filter(|p| kept(&p.0)).collect()
    };
    holds(some, &["SHFL.BFLY", "BAR.SYNC", "FADD", "FMNMX"], &["FADD2", "FMNMX3"]);
}

#[test]
fn elementwise_operations_compile_to_packed_arithmetic() {
    let some = || {
        let shared = ["_2_", "_3_", "_13_", "_15_", "_20_"];
        let kept =
            |name: &str| name.starts_with("warp") || name.contains("6x8") && shared.iter().any(|k| name.contains(k));
        elementwise::programs().into_iter().filter(|p| kept(&p.0)).collect()
    };
    holds(some, &["MUFU.EX2", "MUFU.RSQ", "LDS.128", "STS.128", "F2FP"], &["FADD2", "FMUL2", "FFMA2"]);
}

/// Products as programs with names that are fit for kernels.
fn named(products: Vec<Product>) -> Vec<(String, DeviceFunc, f64)> {
    products.into_iter().enumerate().map(|(i, p)| (format!("product{i}"), p.func, 0.0)).collect()
}

#[test]
fn products_by_mma_compile_to_matrix_instructions() {
    let some = || {
        let mut all: Vec<Product> = specs(12, 7).iter().enumerate().map(|(i, s)| s.product(i)).collect();
        all.extend(gemm_pipeline::products());
        all.extend(gemm_special::products());
        named(all)
    };
    let types = ["HMMA.16816.F32.BF16", "HMMA.16816.F32 ", "HMMA.1688.F32.TF32", "IMMA.16832.S8.S8"];
    let loads = ["LDSM.16.M88.4", "LDSM.16.MT88.4", "LDGSTS"];
    holds(some, &[&types[..], &loads[..]].concat(), &[]);
}

#[test]
fn products_by_fma_compile_to_packed_arithmetic() {
    holds(|| named(gemm_fma::products()), &["FFMA", "DFMA", "IMAD"], &["FFMA2"]);
}

//! What NVRTC makes of programs of tile primitives, for every generation, and what the machine code
//! holds.

use crate::case::lowered;
use crate::gemm_shapes::{Product, specs};
use crate::{common, copy, copy_async, gemm_fma, gemm_pipeline, permute_layout};
use daylight::backend::Places;
use daylight::backend::nvrtc::{self, Nvrtc, find_nvrtc};
use daylight::codegen;
use daylight::ir::device::DeviceFunc;
use daylight::ir::kernel::Program;
use daylight::lower::lower_device;

const TARGETS: [&str; 5] = ["cuda:sm_80", "cuda:sm_90a", "cuda:sm_100a", "cuda:sm_103a", "cuda:sm_120a"];

fn places() -> Places {
    Places::of(|name| std::env::var_os(name), None)
}

/// NVRTC where it is found, or a skipped test.
fn compiler() -> Option<Nvrtc> {
    let found = find_nvrtc(&places()).and_then(|path| Nvrtc::load(&path));
    found.map_err(|why| common::skip(&why)).ok()
}

/// The kernels of all programs in one text.
fn together(products: Vec<Product>, target: &str) -> String {
    let mut all = products.into_iter().enumerate().map(|(i, mut p)| {
        p.func.func.name = format!("product{i}");
        lowered(&p.func, target)
    });
    let mut whole = all.next().expect("a program");
    whole.launches.extend(all.flat_map(|p| p.launches));
    whole.variants.clear();
    codegen::cuda(&whole)
}

/// Products by `mma` of every type, from registers and shared memory.
fn by_mma() -> Vec<Product> {
    let mut all: Vec<Product> = specs(12, 7).iter().enumerate().map(|(i, s)| s.product(i)).collect();
    all.extend(gemm_pipeline::products());
    all
}

/// Compiles, and checks for warnings, spills, and instructions.
fn holds(text: &str, target: &str, instructions: &[&str]) {
    let Some(compiler) = compiler() else { return };
    let cubin = compiler.cubin(text, target).unwrap_or_else(|e| panic!("{target}: {e}"));
    assert!(cubin.res.spill == 0 && cubin.warnings.is_empty(), "{target}: {cubin:?}");
    let Some(nvdisasm) = nvrtc::find_nvdisasm(&places()) else {
        common::skip("no nvdisasm; `daylight doctor --fetch-nvrtc` installs it");
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("kernel.cubin");
    std::fs::write(&path, &cubin.bytes).expect("write the cubin");
    let sass = nvrtc::sass(&nvdisasm, &path).expect("the machine code");
    for name in instructions {
        assert!(sass.contains(name), "{target}: no {name}");
    }
    for local in ["LDL", "STL"] {
        assert!(!sass.contains(local), "{target}: registers went to local memory");
    }
}

/// The kernels of what a target takes of a family, in one text.
fn accepted(programs: Vec<(String, DeviceFunc, f64)>, id: &str) -> String {
    let lowered = programs.iter().filter_map(|(_, f, _)| Some(lower_device(f, &crate::case::target(id)).ok()?.0));
    let mut all: Vec<Program> = lowered.collect();
    let mut whole = all.pop().expect("a program");
    whole.launches.extend(all.into_iter().flat_map(|p| p.launches));
    whole.variants.clear();
    codegen::cuda(&whole)
}

#[test]
fn copies_compile_to_their_instructions() {
    for target in TARGETS {
        let old = target == "cuda:sm_80";
        holds(
            &accepted(copy::programs(), target),
            target,
            if old { &["LDG.E.128"] } else { &["LDSM.16.M88.4", "STSM"] },
        );
        let wide: &[&str] = if old { &["LDGSTS"] } else { &["LDGSTS", "UBLKCP", "UTMALDG", "UTMASTG", "SYNCS"] };
        holds(&accepted(copy_async::programs(), target), target, wide);
        holds(&accepted(permute_layout::programs(), target), target, &["WARPSYNC"]);
    }
}

#[test]
fn products_by_mma_compile_to_matrix_instructions() {
    let instructions = [
        "HMMA.16816.F32.BF16",
        "HMMA.16816.F32 ",
        "HMMA.1688.F32.TF32",
        "IMMA.16832.S8.S8",
        "LDSM.16.M88.4",
        "LDSM.16.MT88.4",
        "LDGSTS",
    ];
    for target in TARGETS {
        holds(&together(by_mma(), target), target, &instructions);
    }
}

#[test]
fn products_by_fma_compile() {
    for target in TARGETS {
        let packed = matches!(target, "cuda:sm_100a" | "cuda:sm_103a");
        let instructions: &[&str] = if packed { &["FFMA2", "FFMA"] } else { &["FFMA", "DFMA", "IMAD"] };
        holds(&together(gemm_fma::products(), target), target, instructions);
    }
}

//! What NVRTC makes of tile programs that copy, for every generation, and what the machine code
//! holds.

use crate::{common, copy, copy_async, permute_layout};
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
        holds(&accepted(permute_layout::programs(), target), target, &["STS", "LDS"]);
    }
}

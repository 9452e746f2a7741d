//! What NVRTC makes of tile programs that copy, for every generation, and what the machine code
//! holds.

use super::machine_code::{TARGETS, holding};
use super::{copy, copy_async, permute_layout};
use daylight::codegen;
use daylight::ir::device::DeviceFunc;
use daylight::ir::kernel::Program;
use daylight::lower::lower_device;

/// The kernels of what a target takes of a family, in one text.
fn accepted(programs: Vec<(String, DeviceFunc, f64)>, id: &str) -> String {
    let lowered = programs.iter().filter_map(|(_, f, _)| Some(lower_device(f, &super::case::target(id)).ok()?.0));
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
        holding(
            &accepted(copy::programs(), target),
            target,
            if old { &["LDG.E.128"] } else { &["LDSM.16.M88.4", "STSM"] },
        );
        let wide: &[&str] = if old { &["LDGSTS"] } else { &["LDGSTS", "UBLKCP", "UTMALDG", "UTMASTG", "SYNCS"] };
        holding(&accepted(copy_async::programs(), target), target, wide);
        holding(&accepted(permute_layout::programs(), target), target, &["STS", "LDS"]);
    }
}

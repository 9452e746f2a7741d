//! Intrinsics on a GPU: each small kernel gives there what plain arithmetic and the simulator give.
//! Needs an NVIDIA GPU of compute capability 8.0 or more; kernels of sm_90 and sm_100 run where the
//! device has them, and say so where it has not.

use crate::common;
use crate::intrinsic_programs::{Case, cases};
use daylight::backend::nvrtc::Nvrtc;
use daylight::codegen;
use daylight::interp::{Scalars, Tensor};
use daylight::runner::cuda::CudaDevice;
use daylight::runner::device::{Device, Step, Value};
use daylight::sim::{self, SimOptions};

/// The output of a case on the device.
fn on_device(device: &mut CudaDevice, nvrtc: &Nvrtc, sm: u32, case: &Case) -> Tensor {
    let target = format!("cuda:sm_{sm}{}", if sm >= 90 { "a" } else { "" });
    let cubin = nvrtc.cubin(&codegen::cuda(&case.program), &target).expect("a right text");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("kernel.cubin");
    std::fs::write(&file, &cubin.bytes).expect("write the cubin");
    let launch = &case.program.launches[0];
    let module = device.load(&file, std::slice::from_ref(&launch.kernel.symbol)).expect("a module");
    let mut tensors = case.args();
    let mut regions = vec![];
    for tensor in &tensors {
        let region = device.allocate(tensor.data.len()).expect("memory");
        device.upload(region.at, &tensor.data).expect("an upload");
        regions.push(region);
    }
    let args = regions.iter().map(|r| Value::Pointer(r.at)).collect();
    let step = Step::Launch { function: 0, grid: [1, 1, 1], block: launch.block, smem: 0, pdl: false, args };
    device.run(module, &vec![step]).unwrap_or_else(|e| panic!("{}: {e}", case.name()));
    let mut output = tensors.pop().expect("an output");
    let at = regions.last().expect("an output").at;
    device.download(at, &mut output.data).expect("a download");
    regions.into_iter().for_each(|r| device.free(r));
    device.unload(module);
    output
}

pub fn kernels_give_what_the_simulator_gives() {
    let Some((mut device, nvrtc, sm)) = common::nvidia::device() else { return };
    let mut ran = 0;
    for case in cases() {
        if case.sm > sm {
            common::skip_without_gpu(&format!("{} needs sm_{}, the device is sm_{sm}", case.name(), case.sm));
            continue;
        }
        let got = on_device(&mut device, &nvrtc, sm, &case);
        case.check(&got);
        let mut args = case.args();
        sim::run(&case.program, &mut args, &Scalars::new(), &SimOptions::default()).expect("a right kernel");
        let simulated = args.last().expect("an output");
        let difference = case.difference(&got, simulated);
        eprintln!("{}: greatest difference from the simulator {difference:e}", case.name());
        assert!(difference <= case.tolerance, "{}: {difference:e}", case.name());
        ran += 1;
    }
    assert!(ran > 0);
}

//! NVIDIA's compiler and disassembler, where they are found.

use daylight::backend::nvrtc::{self, Nvrtc, find_nvrtc};
use daylight::backend::{CompileError, Places};
use daylight::runner::cuda::{self, CudaDevice};

fn places() -> Places {
    Places::of(|name| std::env::var_os(name), None)
}

/// NVRTC where it is found, or a skipped test.
pub fn compiler() -> Option<Nvrtc> {
    let found = find_nvrtc(&places()).and_then(|path| Nvrtc::load(&path));
    found.map_err(|why| super::skip(&why)).ok()
}

/// The first GPU, a compiler, and the generation (90 for compute capability 9.0), or a skipped test.
pub fn device() -> Option<(CudaDevice, Nvrtc, u32)> {
    let no_gpu = |why: &str| super::skip_without_gpu(&format!("needs an NVIDIA GPU of sm_80 or later: {why}"));
    let devices = cuda::devices().map_err(|e| no_gpu(&e.message)).ok()?;
    let Some(facts) = devices.first().filter(|d| d.cc.0 >= 8) else {
        no_gpu("no such device");
        return None;
    };
    let compiler = compiler()?;
    let device = CudaDevice::open(0).map_err(|e| no_gpu(&e.message)).ok()?;
    Some((device, compiler, 10 * facts.cc.0 + facts.cc.1))
}

/// The machine code of a text for a target; skipped without the tools.
pub fn machine_code(text: &str, target: &str) -> Option<Result<String, CompileError>> {
    match compiler()?.cubin(text, target) {
        Ok(cubin) => sass(&cubin.bytes).map(Ok),
        Err(e) => Some(Err(e)),
    }
}

/// The machine code of a cubin; skipped without the disassembler.
pub fn sass(cubin: &[u8]) -> Option<String> {
    let Some(nvdisasm) = nvrtc::find_nvdisasm(&places()) else {
        super::skip("no nvdisasm; `daylight doctor --fetch-nvrtc` installs it");
        return None;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("kernel.cubin");
    std::fs::write(&path, cubin).expect("write the cubin");
    Some(nvrtc::sass(&nvdisasm, &path).expect("the machine code"))
}

//! NVIDIA's compiler and disassembler, where they are found.

use daylight::backend::nvrtc::{self, Nvrtc, find_nvrtc};
use daylight::backend::{CompileError, Places};

fn places() -> Places {
    Places::of(|name| std::env::var_os(name), None)
}

/// NVRTC where it is found, or a skipped test.
pub fn compiler() -> Option<Nvrtc> {
    let found = find_nvrtc(&places()).and_then(|path| Nvrtc::load(&path));
    found.map_err(|why| super::skip(&why)).ok()
}

/// The machine code of a text for a target; skipped without the tools.
pub fn machine_code(text: &str, target: &str) -> Option<Result<String, CompileError>> {
    let compiler = compiler()?;
    let Some(nvdisasm) = nvrtc::find_nvdisasm(&places()) else {
        super::skip("no nvdisasm; `daylight doctor --fetch-nvrtc` installs it");
        return None;
    };
    let cubin = match compiler.cubin(text, target) {
        Ok(cubin) => cubin,
        Err(e) => return Some(Err(e)),
    };
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("kernel.cubin");
    std::fs::write(&path, &cubin.bytes).expect("write the cubin");
    Some(Ok(nvrtc::sass(&nvdisasm, &path).expect("the machine code")))
}

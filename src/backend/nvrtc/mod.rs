//! CUDA C++ to cubin or PTX through NVRTC, on machines without a GPU too.

mod find;
mod library;
mod log;

pub use find::{NVRTC_ADVICE, builtins_of, fetch_nvdisasm, fetch_nvrtc, find_nvdisasm, find_nvrtc};
pub use library::{NvrtcLibrary, Product};

use super::{CompileError, CompileFailure, Resources, Warning, warning};
use std::path::Path;
use std::process::{Command, Stdio};

/// NVRTC, ready to compile.
pub struct Nvrtc {
    library: NvrtcLibrary,
}

/// A cubin with what the log says about it.
#[derive(Clone, PartialEq, Debug)]
pub struct Cubin {
    /// The file.
    pub bytes: Vec<u8>,
    /// What its kernels use.
    pub res: Resources,
    /// What the compiler said although it succeeded.
    pub warnings: Vec<Warning>,
}

impl Nvrtc {
    /// Loads NVRTC from a file.
    ///
    /// # Errors
    /// A sentence.
    pub fn load(path: &Path) -> Result<Nvrtc, String> {
        Ok(Nvrtc { library: NvrtcLibrary::load(path)? })
    }

    /// Compiler and version, as written to artifacts: `nvrtc 13.0`.
    pub fn id(&self) -> String {
        let (major, minor) = self.library.version();
        format!("nvrtc {major}.{minor}")
    }

    /// Compiles text for a target id such as `cuda:sm_90a`.
    ///
    /// # Errors
    /// The compiler's messages.
    pub fn cubin(&self, text: &str, target: &str) -> Result<Cubin, CompileError> {
        let arch = architecture(target)?;
        let mut options = options(arch);
        options.push("--ptxas-options=-v".to_string());
        let compiled = self.library.compile(text, &options, Product::Cubin);
        match compiled.result {
            Ok(bytes) => {
                Ok(Cubin { bytes, res: log::resources(&compiled.log), warnings: warning::parse(&compiled.log) })
            }
            Err(why) => Err(rejected(&why, &compiled.log)),
        }
    }

    /// PTX of text for a target id.
    ///
    /// # Errors
    /// The compiler's messages.
    pub fn ptx(&self, text: &str, target: &str) -> Result<String, CompileError> {
        let arch = architecture(target)?.replace("sm_", "compute_");
        let compiled = self.library.compile(text, &options(&arch), Product::Ptx);
        match compiled.result {
            Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).trim_end_matches('\0').to_string()),
            Err(why) => Err(rejected(&why, &compiled.log)),
        }
    }
}

/// The architecture of a target id.
fn architecture(target: &str) -> Result<&str, CompileError> {
    let arch = target.strip_prefix("cuda:").unwrap_or(target);
    let known = arch.strip_prefix("sm_").is_some_and(|v| v.starts_with(|c: char| c.is_ascii_digit()));
    let message = || format!("`{target}` is not a CUDA target; expected one such as cuda:sm_90a");
    if known { Ok(arch) } else { Err(CompileError::new(CompileFailure::Rejected, message())) }
}

/// Options besides the architecture. FMA contraction is on, nothing is flushed to zero, division and square root are
/// exact: these are NVRTC's defaults, written out.
pub const OPTIONS: [&str; 7] = [
    "-default-device",
    "--std=c++17",
    "--fmad=true",
    "--ftz=false",
    "--prec-div=true",
    "--prec-sqrt=true",
    "--minimal",
];

/// All options of kernels for an architecture.
pub fn options(arch: &str) -> Vec<String> {
    std::iter::once(format!("--gpu-architecture={arch}")).chain(OPTIONS.map(str::to_string)).collect()
}

fn rejected(why: &str, log: &str) -> CompileError {
    let messages = log::messages(log);
    let text = if messages.is_empty() { why.to_string() } else { format!("{why}: {messages}") };
    CompileError::new(CompileFailure::Rejected, text)
}

/// The machine code of a cubin as text, by `nvdisasm`.
///
/// # Errors
/// A sentence.
pub fn sass(nvdisasm: &Path, cubin: &Path) -> Result<String, String> {
    let mut command = Command::new(nvdisasm);
    let output = command.args(["--print-code"]).arg(cubin).stdin(Stdio::null()).output();
    let output = output.map_err(|e| format!("{} could not be started: {e}", nvdisasm.display()))?;
    if !output.status.success() {
        let log = String::from_utf8_lossy(&output.stderr);
        return Err(format!("nvdisasm failed: {}", log.lines().next().unwrap_or("no message")));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

//! The door to compilers: [`Compiler`] turns text into an [`Artifact`]. It is object safe and has a fake
//! (`runner::fake`).

use crate::log::{Outcome, Resources, Warning};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// Language of generated text.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Language {
    /// CUDA C++ for NVRTC.
    Cuda,
    /// C for the system's C compiler.
    C,
}

/// Text to compile.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Source {
    /// The generated text.
    pub text: String,
    /// Its language.
    pub language: Language,
    /// Target id: `cuda:sm_90a`, `cpu:x86-64-v4`.
    pub target: String,
    /// The functions that the artifact must define.
    pub symbols: Vec<String>,
}

impl Source {
    /// Sixteen hexadecimal digits over the text, as the log has them.
    pub fn hash(&self) -> String {
        format!("{:032x}", xxhash_rust::xxh3::xxh3_128(self.text.as_bytes()))[..16].to_string()
    }
}

/// Format of an artifact.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// A CUDA binary for one architecture.
    Cubin,
    /// A shared object.
    SharedObject,
}

/// A compiled program.
#[derive(Clone, PartialEq, Eq)]
pub struct Artifact {
    /// What `bytes` holds.
    pub format: Format,
    /// The file.
    pub bytes: Arc<[u8]>,
    /// Where the same bytes lie on disk, in the cache or a temporary folder.
    pub path: PathBuf,
    /// What it uses; zeros on the CPU.
    pub res: Resources,
    /// What the compiler said although it succeeded.
    pub warnings: Vec<Warning>,
    /// Compiler and version, such as `nvrtc 13.0`.
    pub compiler: String,
}

impl Artifact {
    /// 32 hexadecimal digits over the bytes.
    pub fn hash(&self) -> String {
        format!("{:032x}", xxhash_rust::xxh3::xxh3_128(&self.bytes))
    }
}

impl fmt::Debug for Artifact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} bytes by {}, {:?})", self.path.display(), self.bytes.len(), self.compiler, self.res)
    }
}

/// Why there is no artifact.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CompileFailure {
    /// The compiler refused the text.
    Rejected,
    /// It did not end within the limit.
    TimedOut,
    /// The compiler or its process died.
    Crashed,
    /// The compiler is not installed: exit code 4, and no other candidate will do better.
    ToolMissing,
    /// The cache or the temporary folder can't be written: exit code 2, and it is not the candidate's fault.
    Disk,
    /// What it ran in failed: nothing could be started, or somebody else ended it. It is tried again.
    Environment,
}

/// A compilation that failed, with a sentence or the compiler's log.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct CompileError {
    /// The kind of failure.
    pub failure: CompileFailure,
    /// What happened.
    pub message: String,
}

impl CompileError {
    /// A failure with its sentence.
    pub fn new(failure: CompileFailure, message: impl Into<String>) -> CompileError {
        CompileError { failure, message: message.into() }
    }

    /// The outcome written to the log.
    pub fn outcome(&self) -> Outcome {
        match self.failure {
            CompileFailure::Rejected
            | CompileFailure::ToolMissing
            | CompileFailure::Disk
            | CompileFailure::Environment => Outcome::CompileFailed,
            CompileFailure::TimedOut => Outcome::TimedOut,
            CompileFailure::Crashed => Outcome::Crashed,
        }
    }
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CompileError {}

/// Turns generated text into something a device can load.
pub trait Compiler: Send + Sync {
    /// Compiles one program.
    ///
    /// # Errors
    /// [`CompileError`] with the compiler's log or a sentence; never a panic.
    fn compile(&self, source: &Source) -> Result<Artifact, CompileError>;

    /// Compiles several programs, in parallel where that pays. One result per source, in order.
    fn compile_many(&self, sources: &[Source]) -> Vec<Result<Artifact, CompileError>> {
        sources.iter().map(|s| self.compile(s)).collect()
    }
}

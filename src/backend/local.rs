//! The compiler in this process: NVRTC and `cc` behind one cache. What compile workers run, and what
//! the library uses where no worker program is named.

use super::cache::ArtifactCache;
use super::cc::{CC_ADVICE, Cc};
use super::nvrtc::{Nvrtc, find_nvrtc};
use super::places::Places;
use super::warning;
use super::{Artifact, CompileError, CompileFailure, Compiler, Format, Language, Resources, Source};
use crate::files::scratch::Scratch;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Threads of [`LocalCompiler::compile_many`]: NVRTC in one process gains nothing from more.
const THREADS: usize = 2;

/// Which compilers to use and where to keep what they make.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Tools {
    /// The NVRTC library, or the sentence to show when it is needed.
    pub nvrtc: Result<PathBuf, String>,
    /// The C compiler, or the sentence to show when it is needed.
    pub cc: Result<PathBuf, String>,
    /// Folder of the artifact cache.
    pub artifacts: PathBuf,
}

impl Tools {
    /// Finds the compilers that a language needs; the other one is reported missing when used.
    pub fn find(places: &Places, language: Language) -> Tools {
        let unused = || Err("this session was not set up for that target".to_string());
        Tools {
            nvrtc: if language == Language::Cuda { find_nvrtc(places) } else { unused() },
            cc: if language == Language::C { find_cc(places) } else { unused() },
            artifacts: places.artifacts(),
        }
    }
}

/// The C compiler: the one named, else `cc`, `gcc` or `clang` on the path.
///
/// # Errors
/// A sentence that says what to install.
pub fn find_cc(places: &Places) -> Result<PathBuf, String> {
    if let Some(named) = &places.cc {
        let on_path = || named.to_str().and_then(|n| places.program(n));
        let found = if named.is_file() { Some(named.clone()) } else { on_path() };
        return found.ok_or_else(|| format!("CC names {}, which was not found", named.display()));
    }
    ["cc", "gcc", "clang"].iter().find_map(|n| places.program(n)).ok_or_else(|| CC_ADVICE.to_string())
}

/// Compiles in this process.
pub struct LocalCompiler {
    tools: Tools,
    cache: ArtifactCache,
    nvrtc: OnceLock<Result<Nvrtc, String>>,
    cc: OnceLock<Result<Cc, String>>,
}

impl LocalCompiler {
    /// A compiler that loads its tools when they are first needed.
    pub fn new(tools: Tools) -> LocalCompiler {
        let cache = ArtifactCache::new(&tools.artifacts);
        LocalCompiler { tools, cache, nvrtc: OnceLock::new(), cc: OnceLock::new() }
    }

    /// NVRTC.
    ///
    /// # Errors
    /// [`CompileFailure::ToolMissing`] with what to install.
    pub fn nvrtc(&self) -> Result<&Nvrtc, CompileError> {
        let load = || self.tools.nvrtc.clone().and_then(|path| Nvrtc::load(&path));
        self.nvrtc.get_or_init(load).as_ref().map_err(|why| missing(why))
    }

    /// The C compiler.
    ///
    /// # Errors
    /// [`CompileFailure::ToolMissing`] with what to install.
    pub fn cc(&self) -> Result<&Cc, CompileError> {
        let load = || self.tools.cc.clone().and_then(|path| Cc::new(&path));
        self.cc.get_or_init(load).as_ref().map_err(|why| missing(why))
    }

    /// Name and version of the compiler of a language.
    ///
    /// # Errors
    /// [`CompileFailure::ToolMissing`].
    pub fn id(&self, language: Language) -> Result<String, CompileError> {
        match language {
            Language::Cuda => Ok(self.nvrtc()?.id()),
            Language::C => Ok(self.cc()?.id().to_string()),
        }
    }

    fn cuda(&self, source: &Source) -> Result<Artifact, CompileError> {
        let nvrtc = self.nvrtc()?;
        let cubin = nvrtc.cubin(&source.text, &source.target)?;
        Ok(Artifact {
            format: Format::Cubin,
            bytes: cubin.bytes.into(),
            path: PathBuf::new(),
            res: cubin.res,
            warnings: cubin.warnings,
            compiler: nvrtc.id(),
        })
    }

    fn c(&self, source: &Source) -> Result<Artifact, CompileError> {
        let cc = self.cc()?;
        let folder = Scratch::new().map_err(disk)?;
        let (text, object) = (folder.path().join("kernel.c"), folder.path().join("kernel.so"));
        std::fs::write(&text, &source.text).map_err(disk)?;
        let warnings = warning::parse(&cc.shared_object(&text, &object, &source.target)?);
        let bytes = std::fs::read(&object).map_err(disk)?.into();
        let compiler = cc.id().to_string();
        let res = Resources::default();
        Ok(Artifact { format: Format::SharedObject, bytes, path: PathBuf::new(), res, warnings, compiler })
    }
}

fn missing(why: &str) -> CompileError {
    CompileError::new(CompileFailure::ToolMissing, why)
}

fn disk(e: std::io::Error) -> CompileError {
    CompileError::new(CompileFailure::Disk, format!("cannot write a temporary file for the compiler: {e}"))
}

fn no_cache(folder: &Path, e: std::io::Error) -> CompileError {
    let text = format!("cannot write to the cache {}: {e}; name another folder with --cache", folder.display());
    CompileError::new(CompileFailure::Disk, text)
}

impl Compiler for LocalCompiler {
    fn compile(&self, source: &Source) -> Result<Artifact, CompileError> {
        let key = ArtifactCache::key(source, &self.id(source.language)?);
        if let Some(found) = self.cache.get(&key) {
            return Ok(found);
        }
        let made = match source.language {
            Language::Cuda => self.cuda(source)?,
            Language::C => self.c(source)?,
        };
        self.cache.put(&key, made).map_err(|e| no_cache(&self.tools.artifacts, e))
    }

    fn compile_many(&self, sources: &[Source]) -> Vec<Result<Artifact, CompileError>> {
        crate::parallel::map(sources, THREADS, |s| self.compile(s))
    }
}

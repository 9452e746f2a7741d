//! The compile worker: a [`LocalCompiler`] behind the pipe.

use super::serve;
use crate::backend::local::{LocalCompiler, Tools};
use crate::backend::{Artifact, CompileError, CompileFailure, Compiler, Format, Resources, Source, Warning};
use crate::runner::posix;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// What a compile worker is asked.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CompileRequest {
    /// First: which compilers to use.
    Setup(Tools),
    /// Compile one program into the cache.
    Compile(Source),
}

/// What it answers: an artifact without its bytes, which lie at `path`.
#[derive(Serialize, Deserialize)]
pub struct Compiled {
    format: Format,
    path: PathBuf,
    res: Resources,
    warnings: Vec<Warning>,
    compiler: String,
}

impl Compiled {
    fn of(artifact: Artifact) -> Compiled {
        let Artifact { format, path, res, warnings, compiler, .. } = artifact;
        Compiled { format, path, res, warnings, compiler }
    }

    /// The artifact, with its bytes read from the cache.
    ///
    /// # Errors
    /// When the file is gone.
    pub fn load(self) -> Result<Artifact, CompileError> {
        let Compiled { format, path, res, warnings, compiler } = self;
        let bytes = std::fs::read(&path)
            .map_err(|e| CompileError::new(CompileFailure::Crashed, format!("{}: {e}", path.display())))?;
        Ok(Artifact { format, bytes: bytes.into(), path, res, warnings, compiler })
    }
}

/// Serves until the parent closes the pipe.
pub fn main() -> Result<(), String> {
    // There is one compiler per core, and measuring beside them must not wait for a core.
    posix::give_way();
    let mut compiler = None;
    serve(move |request: CompileRequest| match request {
        CompileRequest::Setup(tools) => {
            compiler = Some(LocalCompiler::new(tools));
            Ok(None)
        }
        CompileRequest::Compile(source) => match &compiler {
            Some(c) => c.compile(&source).map(|a| Some(Compiled::of(a))),
            None => Err(CompileError::new(CompileFailure::Crashed, "the worker was not set up")),
        },
    })
}

//! Best records into files that a program is built with: compiled kernels or text, `manifest.json`
//! for loaders in any language, `kernels.rs` with typed launch functions.
//!
//! `ladder` finds the record, `make` replays it into a unit, `family` lets GPUs share a cubin, `manifest`
//! and `rust` write. The files
//! depend on functions, log, targets and compiler alone, not on the host or the order of records.

mod family;
mod ident;
mod interface;
pub mod ladder;
mod make;
mod manifest;
mod rust;
mod rust_cpu;
mod rust_cuda;
mod rust_map;
mod tvm;
mod unit;

pub use family::apart;
pub use make::{Options, units};
pub use unit::{Content, Rung, Unit};

use std::collections::BTreeMap;
use std::path::Path;

/// Which files to write besides kernels and manifest.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Emit {
    /// `kernels.rs`.
    pub rust: bool,
    /// The generated text of kernels that were compiled.
    pub text: bool,
    /// The scheduled functions as TVMScript.
    pub tvm: bool,
}

/// The files of a package by name.
///
/// # Errors
/// A sentence, when an extent cannot be written in Rust.
pub fn files(units: &[Unit], emit: Emit) -> Result<BTreeMap<String, Vec<u8>>, String> {
    let mut out = BTreeMap::new();
    for u in units {
        out.insert(u.file.clone(), u.bytes.clone());
        if emit.text && u.content == Content::Cubin {
            out.insert(format!("{}.{}.cu", u.name, u.target.arch), u.text.clone().into_bytes());
        }
        if emit.tvm {
            out.insert(format!("{}.{}.py", u.name, u.target.arch), u.scheduled.clone().into_bytes());
        }
    }
    out.insert("manifest.json".into(), manifest::text(units).into_bytes());
    if emit.rust {
        out.insert("kernels.rs".into(), rust::kernels_rs(units)?.into_bytes());
    }
    Ok(out)
}

/// Writes files to a folder, which is made when missing. A file that has the bytes already is left
/// alone, so that builds which watch it do not start over.
///
/// # Errors
/// A sentence that names the file.
pub fn write(files: &BTreeMap<String, Vec<u8>>, folder: &Path) -> Result<(), String> {
    std::fs::create_dir_all(folder).map_err(|e| format!("cannot make the folder {}: {e}", folder.display()))?;
    for (name, bytes) in files {
        let path = folder.join(name);
        if std::fs::read(&path).is_ok_and(|old| old == *bytes) {
            continue;
        }
        std::fs::write(&path, bytes).map_err(|e| format!("cannot write {}: {e}", path.display()))?;
    }
    Ok(())
}

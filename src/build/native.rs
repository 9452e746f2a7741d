//! The C kernels of a build as one static library.

use crate::apply::{Content, Unit};
use crate::backend::Places;
use crate::backend::cc::Cc;
use crate::backend::local::find_cc;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles the C files that were written to `folder` for the architecture that cargo builds for, and
/// gives the library's name; `None` where there are none.
///
/// # Errors
/// A sentence: no C compiler or archiver, or what the compiler said.
pub fn library(units: &[Unit], folder: &Path, places: &Places) -> Result<Option<String>, String> {
    let var = |name: &str| std::env::var(name).unwrap_or_default();
    let arch = var("CARGO_CFG_TARGET_ARCH");
    let ours = |u: &&Unit| u.content == Content::C && (arch.is_empty() || runs_on(&u.target.arch, &arch));
    let units: Vec<&Unit> = units.iter().filter(ours).collect();
    if units.is_empty() {
        return Ok(None);
    }
    let cc = Cc::new(&find_cc(places)?)?;
    let mut objects = vec![];
    for u in units {
        let object = folder.join(format!("{}.o", u.file));
        cc.object(&folder.join(&u.file), &object, &u.target.id).map_err(|e| e.message)?;
        objects.push(object);
    }
    let name = format!("daylight_{}", var("CARGO_PKG_NAME").replace('-', "_"));
    archive(&folder.join(format!("lib{name}.a")), &objects, places)?;
    Ok(Some(name))
}

/// True when kernels for a CPU target belong into a program for Rust's `arch`.
fn runs_on(target: &str, arch: &str) -> bool {
    match arch {
        "x86_64" => target.starts_with("x86-64"),
        other => target == other,
    }
}

/// Writes an archive of object files.
fn archive(library: &Path, objects: &[PathBuf], places: &Places) -> Result<(), String> {
    let named = std::env::var_os("AR").map(PathBuf::from);
    let ar = named.or_else(|| ["ar", "llvm-ar"].iter().find_map(|n| places.program(n)));
    let ar = ar.ok_or("no archiver `ar` was found; it comes with the C compiler (binutils)")?;
    // An archive that exists keeps members that are not replaced.
    let _ = std::fs::remove_file(library);
    let output = Command::new(&ar).arg("crs").arg(library).args(objects).output();
    let output = output.map_err(|e| format!("{} does not start: {e}", ar.display()))?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("{} failed: {}", ar.display(), String::from_utf8_lossy(&output.stderr).trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_for_other_processors_are_left_out() {
        assert!(runs_on("x86-64-v3", "x86_64") && runs_on("aarch64", "aarch64"));
        assert!(!runs_on("aarch64", "x86_64") && !runs_on("x86-64-v4", "aarch64"));
    }
}

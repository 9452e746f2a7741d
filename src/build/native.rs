//! The C kernels of a build as one static library.

use super::Output;
use crate::apply::{Content, Unit, processor};
use crate::backend::Places;
use crate::backend::cc::Cc;
use crate::backend::local::find_cc;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Compiles the C files of a build for the architecture that cargo builds for to a library in `folder`, and gives its
/// name; `None` where there are none.
///
/// # Errors
/// A sentence: no C compiler or archiver, or what the compiler said.
pub fn library(output: &Output, folder: &Path, places: &Places) -> Result<Option<String>, String> {
    let var = |name: &str| std::env::var(name).unwrap_or_default();
    let arch = var("CARGO_CFG_TARGET_ARCH");
    let ours = |u: &&Unit| u.content == Content::C && (arch.is_empty() || processor(&u.target.arch) == arch);
    let units: Vec<&Unit> = output.units.iter().filter(ours).collect();
    let written = output.rust.parent().unwrap_or(folder);
    if units.is_empty() {
        return Ok(None);
    }
    let cc = Cc::new(&find_cc(places)?)?;
    let mut objects = vec![];
    for u in units {
        let object = folder.join(format!("{}.o", u.file));
        cc.object(&written.join(&u.file), &object, &u.target.id).map_err(|e| e.message)?;
        objects.push(object);
    }
    let name = format!("daylight_{}", var("CARGO_PKG_NAME").replace('-', "_"));
    archive(&folder.join(format!("lib{name}.a")), &objects, places)?;
    Ok(Some(name))
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

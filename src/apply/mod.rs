//! Best records into files that a program is built with: compiled kernels or text, `manifest.json`
//! for loaders in any language, `kernels.rs` with typed launch functions, `kernels.h` and `kernels.c` with the same in C.
//!
//! `ladder` finds the record, `make` replays it into a unit, `open` does where sizes are known at run
//! time (`when` says which kernel takes which), `untuned` says which are not tuned, `family` lets GPUs share a cubin, `manifest`,
//! `rust` and `c` write what `interface` and the plan say. The files
//! depend on functions, log, targets and compiler alone, not on the host or the order of records.
//!
//! Programs call [`crate::build::Build`]; what it wrote says of each kernel how it was found:
//!
//! ```
//! use daylight::{apply::Rung, build::Build};
//!
//! let folder = tempfile::tempdir()?;
//! let output = Build::new().function("examples/mean.py").target("cpu:x86-64-v3").write(folder.path())?;
//! // Without a log it is what the rule does untuned, and a warning says so.
//! assert_eq!(output.units[0].rung, Rung::Default);
//! assert!(output.warnings[0].contains("mean is not tuned for cpu:x86-64-v3"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod c;
mod family;
mod ident;
mod interface;
mod kernel;
pub mod ladder;
mod lang;
mod link;
mod make;
mod manifest;
mod open;
mod options;
mod rust;
mod rust_cpu;
mod rust_cuda;
mod tensor_map;
mod tvm;
mod unit;
mod untuned;
mod when;
mod workspace;

pub use crate::assemble::Constant;
pub use c::checked_name as checked_c_name;
pub use family::apart;
pub use make::units;
pub use options::Options;
pub use rust_cpu::processor;
pub use unit::{Content, Rung, Unit};
pub use when::When;

use crate::files::scratch::{self, Aside, readable};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

/// Which files to write besides kernels and manifest.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Emit {
    /// `kernels.rs`.
    pub rust: bool,
    /// A header and a source in C of this name, `kernels` for `kernels.h` and `kernels.c`.
    pub c: Option<String>,
    /// The generated text of kernels that were compiled.
    pub text: bool,
    /// The scheduled functions as TVMScript.
    pub tvm: bool,
    /// With `kernels.rs`: that the crate `rayon` lends its threads to kernels of the CPU.
    pub rayon: bool,
    /// `link.rs`, for programs whose kernels are checked in and built without Daylight.
    pub link: bool,
}

/// The files of a package by name.
///
/// # Errors
/// A sentence, when an extent cannot be written in Rust or C, or kernels in C are not compiled.
pub fn files(units: &[Unit], emit: Emit) -> Result<BTreeMap<String, Vec<u8>>, String> {
    let mut out = BTreeMap::new();
    for u in units {
        out.insert(u.file.clone(), u.bytes.clone());
        if emit.text && u.content == Content::Cubin {
            out.insert(format!("{}.cu", u.stem(&u.target.arch)), u.text.clone().into_bytes());
        }
        if emit.tvm {
            out.insert(format!("{}.py", u.stem(&u.target.arch)), u.scheduled.clone().into_bytes());
        }
    }
    out.insert("manifest.json".into(), manifest::text(units).into_bytes());
    if emit.link {
        out.insert("link.rs".into(), link::text(units)?.into_bytes());
    }
    if emit.rust {
        out.insert("kernels.rs".into(), rust::kernels_rs(units, emit.rayon)?.into_bytes());
    }
    if let Some(name) = &emit.c {
        let [header, source] = c::package(units, name)?;
        out.insert(format!("{name}.h"), header.into_bytes());
        out.insert(format!("{name}.c"), source.into_bytes());
    }
    Ok(out)
}

/// Writes files to a folder, which is made when missing. All are written aside first and then renamed, so
/// that a full disk leaves the package as it was, and what a symlink points to is not touched. A file that has
/// the bytes already is left alone, so that builds which watch it do not start over.
///
/// # Errors
/// A sentence that names the file.
pub fn write(files: &BTreeMap<String, Vec<u8>>, folder: &Path) -> Result<(), String> {
    std::fs::create_dir_all(folder).map_err(|e| format!("cannot make the folder {}: {e}", folder.display()))?;
    scratch::sweep(folder);
    let mut ready = vec![];
    for (name, bytes) in files {
        let path = folder.join(name);
        if !path.is_symlink() && std::fs::read(&path).is_ok_and(|old| old == *bytes) {
            continue;
        }
        let cannot = |e: std::io::Error| format!("cannot write {}: {e}", path.display());
        let beside = path.parent().unwrap_or(folder);
        let mut aside = Aside::new(tempfile::Builder::new().permissions(readable()), beside).map_err(cannot)?;
        aside.file.write_all(bytes).map_err(cannot)?;
        ready.push((aside, path));
    }
    for (aside, path) in ready {
        aside.persist(&path).map_err(|e| format!("cannot write {}: {e}", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symlink_is_replaced_and_what_it_points_to_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let (out, victim) = (folder.path().join("out"), folder.path().join("victim"));
        std::fs::create_dir(&out).expect("made");
        std::fs::write(&victim, "mine").expect("written");
        std::os::unix::fs::symlink(&victim, out.join("a.c")).expect("linked");
        let files = BTreeMap::from([("a.c".to_string(), b"text".to_vec())]);
        write(&files, &out).expect("written");
        assert_eq!(std::fs::read(&victim).expect("there"), b"mine");
        assert_eq!(std::fs::read(out.join("a.c")).expect("there"), b"text");
        assert!(!out.join("a.c").is_symlink());
    }

    #[test]
    fn a_file_that_cannot_be_written_leaves_the_package_as_it_was() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = |text: &str| BTreeMap::from(["a.c", "b.c"].map(|n| (n.to_string(), text.as_bytes().to_vec())));
        write(&files("old"), folder.path()).expect("written");
        let mut bad = files("new");
        bad.insert("none/c.c".into(), b"new".to_vec());
        write(&bad, folder.path()).expect_err("there is no such folder");
        assert_eq!(std::fs::read(folder.path().join("a.c")).expect("there"), b"old");
        assert_eq!(std::fs::read_dir(folder.path()).expect("there").count(), 2);
    }
}

//! Parameters as `.npy` files in folders: `NN_<param>.npy`, NN the position.

use super::super::npy::{self, Npy};
use crate::apply;
use crate::backend::{Plan, PlanParam, Role};
use crate::interp::Tensor;
use crate::job::{Failure, Input};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The file of a parameter: `NN_<param>.npy`, or the one file that starts with `NN_`.
pub(super) fn find(folder: &Path, index: usize, name: &str) -> Result<PathBuf, String> {
    let exact = folder.join(format!("{index:02}_{name}.npy"));
    if exact.is_file() {
        return Ok(exact);
    }
    let prefix = format!("{index:02}_");
    let entries = std::fs::read_dir(folder).map_err(|e| {
        format!("cannot read the folder {}: {e}; it holds a file such as 00_A.npy for each input", folder.display())
    })?;
    let named = entries.flatten().filter(|e| {
        let name = e.file_name().to_string_lossy().into_owned();
        name.starts_with(&prefix) && name.ends_with(".npy")
    });
    let found: Vec<PathBuf> = named.map(|e| e.path()).collect();
    match found.as_slice() {
        [one] => Ok(one.clone()),
        [] => Err(format!("there is no {} for the parameter `{name}`", exact.display())),
        _ => Err(format!("several files of {} start with {prefix}; expected one", folder.display())),
    }
}

/// Extents in elements.
///
/// # Errors
/// A size that is not known.
pub(super) fn shape(p: &PlanParam) -> Result<Vec<i64>, Failure> {
    let dims: Option<Vec<i64>> = p.shape.iter().map(|d| d.as_const()).collect();
    dims.ok_or_else(|| Failure::usage(format!("the shape of `{}` has no value; give it with --bind", p.name)))
}

/// The value of a parameter of that shape.
///
/// # Errors
/// A file that is missing or holds something else.
pub(super) fn read(p: &PlanParam, folder: &Path, shape: &[i64]) -> Result<Npy, Failure> {
    let path = find(folder, p.index, &p.name).map_err(Failure::usage)?;
    npy::read_as(&path, p.dtype, shape)
}

/// Values of scalar parameters and extents by the user's names: those that are bound, others from their files.
///
/// # Errors
/// As [`read`].
pub(super) fn scalars(plan: &Plan, input: &Input, folder: &Path) -> Result<BTreeMap<String, f64>, Failure> {
    let mut out: BTreeMap<String, f64> = input.bind.iter().map(|(k, v)| (k.clone(), *v as f64)).collect();
    for p in plan.params.iter().filter(|p| matches!(p.role, Role::Scalar | Role::Extent)) {
        if !input.bind.contains_key(&p.name) {
            let array = read(p, folder, &[])?;
            let value = Tensor { dtype: p.dtype, shape: vec![], data: array.data };
            out.insert(p.name.clone(), value.get_f64(0));
        }
    }
    Ok(out)
}

/// Writes outputs, the bytes by position, and gives their paths.
///
/// # Errors
/// A folder that cannot be written.
pub(super) fn save(plan: &Plan, outputs: BTreeMap<usize, Vec<u8>>, folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut files = BTreeMap::new();
    for (index, data) in outputs {
        let p = &plan.params[index];
        let array = Npy { descr: npy::descr(p.dtype).into(), shape: shape(p)?, data };
        files.insert(format!("{index:02}_{}.npy", p.name), array.to_bytes());
    }
    apply::write(&files, folder).map_err(Failure::usage)?;
    Ok(files.keys().map(|name| folder.join(name)).collect())
}

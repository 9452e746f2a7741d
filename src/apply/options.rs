//! What units are made with.

use crate::assemble::Sizes;
use crate::backend::Compiler;
use crate::log::Record;
use crate::rules::Spaces;
use crate::target::Target;
use std::path::Path;
use std::str::FromStr;

/// What units are made with.
pub struct Options<'a> {
    /// Where the kernels come from.
    pub records: &'a [Record],
    /// Sizes of extents that stay open: each gets a kernel.
    pub sizes: &'a Sizes,
    /// What they are built for.
    pub targets: &'a [Target],
    /// Knob tables, for defaults.
    pub spaces: &'a Spaces,
    /// The machine whose records count before those of others.
    pub gpu: Option<&'a str>,
    /// Where the records come from, for the command that tunes what they have not.
    pub log: Option<&'a Path>,
    /// Fail where a kernel is not exactly the one that was measured.
    pub require_exact: bool,
    /// One cubin for the GPUs of a family (sm_100a and sm_103a) whose kernels have the same text.
    pub family: bool,
    /// Kernels of GPUs that have it start while what was launched before them ends.
    pub overlap: bool,
    /// Tensors that nothing writes meanwhile, which those may read before.
    pub constant: &'a [Constant],
    /// Compiles CUDA, with its name and version; without it text is written.
    pub cuda: Option<(&'a dyn Compiler, String)>,
}

/// A tensor of a function that no kernel writes while kernels of the stream run, such as weights.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Constant {
    /// Name of the function.
    pub function: String,
    /// Name of its parameter.
    pub tensor: String,
}

impl FromStr for Constant {
    type Err = String;

    fn from_str(text: &str) -> Result<Constant, String> {
        match text.split_once('.') {
            Some((f, t)) if !f.is_empty() && !t.is_empty() => {
                Ok(Constant { function: f.to_string(), tensor: t.to_string() })
            }
            _ => Err(format!("`{text}` is no function and tensor, such as project.w")),
        }
    }
}

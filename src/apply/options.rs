//! What units are made with.

use crate::assemble::{Constant, Input, Overlap, Sizes};
use crate::backend::Compiler;
use crate::log::Record;
use crate::rules::Spaces;
use crate::target::Target;
use std::path::Path;

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

impl Options<'_> {
    /// How kernels of a function overlap on a target, where they do.
    pub(super) fn overlap(&self, f: &Input, target: &Target) -> Option<Overlap> {
        (self.overlap && Overlap::is_of(target)).then(|| Overlap::new(f, self.constant))
    }

    /// What the policy of times says that count before others: those of kernels made as these.
    pub(super) fn flags(&self, f: &Input, target: &Target) -> Vec<String> {
        self.overlap(f, target).map(|o| o.flags()).unwrap_or_default()
    }
}

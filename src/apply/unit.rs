//! One function on one target, ready to be written.

use super::when::When;
use crate::backend::{Plan, PlanParam};
use crate::target::Target;
use serde::Serialize;

/// How a kernel was found.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Rung {
    /// Measured on this function, size and architecture; text and compiler are the same as then.
    Exact,
    /// Measured on this architecture, with another driver, compiler or GPU, or compiled for its family.
    SameArch,
    /// Measured on another size of this function.
    Neighbour,
    /// Not measured: ranked first by the prior and the compiler, for this function, size and architecture.
    Predicted,
    /// Not measured: the untuned choice, the default of the first rule that takes the function or of another of which the
    /// prior promises much more.
    Default,
}

impl Rung {
    /// The name in the manifest.
    pub fn name(self) -> &'static str {
        match self {
            Rung::Exact => "exact",
            Rung::SameArch => "same_arch",
            Rung::Neighbour => "neighbour",
            Rung::Predicted => "predicted",
            Rung::Default => "default",
        }
    }
}

/// What a file holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Content {
    /// A compiled CUDA binary.
    Cubin,
    /// CUDA C++ to be compiled on first use.
    Cuda,
    /// C to be compiled in the user's build.
    C,
}

/// What is written of the safety of a launch.
#[derive(Default)]
pub struct Safety {
    /// Lines of its documentation.
    pub docs: String,
    /// Before `fn`.
    pub keyword: &'static str,
    /// Why what it calls is safe, besides the checks.
    pub known: &'static str,
}

/// One function on one target.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Unit {
    /// Name of the launch function, unique among the functions.
    pub name: String,
    /// Workload key.
    pub key: String,
    /// How the kernel was found.
    pub rung: Rung,
    /// The sizes that it takes, where those are known at run time.
    pub when: When,
    /// Median of the record, in microseconds.
    pub measured_us: Option<f64>,
    /// The rule and the point of its space, for people: `gemv.cuda threads=128 vector=8`.
    pub knobs: String,
    /// The target.
    pub target: Target,
    /// The parameters as callers see them, with the names of extents that this kernel may have as numbers.
    pub params: Vec<PlanParam>,
    /// How to launch it.
    pub plan: Plan,
    /// Name of the file.
    pub file: String,
    /// What it holds.
    pub content: Content,
    /// The file.
    pub bytes: Vec<u8>,
    /// The generated text.
    pub text: String,
    /// The schedule's steps.
    pub trace: Vec<String>,
    /// The scheduled function as TVMScript.
    pub scheduled: String,
    /// Where it is not tuned for its target and size: what the log has instead, and how to tune it.
    pub untuned: Option<String>,
    /// What the caller answers for, a sentence each: values of tensors that decide where others are accessed.
    pub answered: Vec<String>,
}

impl Unit {
    /// How safe its launches are: where the function accesses tensors at indices that others hold, only the caller
    /// knows that they lie inside.
    pub fn safety(&self) -> Safety {
        if self.answered.is_empty() {
            return Safety::default();
        }
        let list: String = self.answered.iter().map(|a| format!("/// - {a}\n")).collect();
        Safety {
            docs: format!("///\n/// # Safety\n{list}"),
            keyword: "unsafe ",
            known: ", and the caller knows where indices lie",
        }
    }

    /// The target's architecture as part of an identifier: `sm_90a`, `x86_64_v4`.
    pub fn arch_ident(&self) -> String {
        self.target.arch.replace('-', "_")
    }

    /// The name of its files on an architecture, without what they hold.
    pub(super) fn stem(&self, arch: &str) -> String {
        format!("{}{}.{arch}", self.name, self.when.tag())
    }

    /// One line for doc comments: how it was found and how fast it was.
    pub fn provenance(&self) -> String {
        let time = self.measured_us.map(|us| format!(", {us:.2} us when tuned")).unwrap_or_default();
        format!("{}{}: {}{time}", self.target.arch, self.when.words(), self.rung.name())
    }
}

//! Which sizes a kernel takes, where extents are known at run time. The kernels of a function for one architecture
//! are asked in order, and the first that takes the size is launched: those made for one size, those made for every
//! size with the schedule of one, smaller sizes first, and last the one for all that is left.

use super::ident::snake;
use crate::assemble::Bindings;
use serde::Serialize;

/// The sizes that a kernel takes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum When {
    /// Every one.
    #[default]
    Always,
    /// This one alone.
    Exactly(Bindings),
    /// This one, and those that are not larger in any extent.
    UpTo(Bindings),
}

impl When {
    /// For JSON: nothing where there is nothing to ask.
    pub(super) fn asked(&self) -> Option<&When> {
        (*self != When::Always).then_some(self)
    }

    /// Its part in the name of a file: `.n8`, `.to_n8`, or nothing.
    pub(super) fn tag(&self) -> String {
        let joined =
            |size: &Bindings| size.iter().map(|(k, v)| format!("{}{v}", snake(k))).collect::<Vec<_>>().join("_");
        match self {
            When::Always => String::new(),
            When::Exactly(size) => format!(".{}", joined(size)),
            When::UpTo(size) => format!(".to_{}", joined(size)),
        }
    }

    /// For doc comments: ` for n = 8`, or nothing.
    pub(super) fn words(&self) -> String {
        let joined = |size: &Bindings, sign: &str| {
            size.iter().map(|(k, v)| format!("{k} {sign} {v}")).collect::<Vec<_>>().join(", ")
        };
        match self {
            When::Always => String::new(),
            When::Exactly(size) => format!(" for {}", joined(size, "=")),
            When::UpTo(size) => format!(" for {}", joined(size, "<=")),
        }
    }

    /// The condition in Rust or C on variables that are the extents, named by `ident`; `None` where it always holds.
    pub(super) fn condition(&self, ident: &dyn Fn(&str) -> String) -> Option<String> {
        let all = |size: &Bindings, op: &str| {
            size.iter().map(|(k, v)| format!("{} {op} {v}", ident(k))).collect::<Vec<_>>().join(" && ")
        };
        match self {
            When::Always => None,
            When::Exactly(size) => Some(all(size, "==")),
            When::UpTo(size) => Some(all(size, "<=")),
        }
    }

    /// True where it takes every size that the other one takes; of two `UpTo`s.
    pub(super) fn covers(&self, other: &When) -> bool {
        match (self, other) {
            (When::Always, _) => true,
            (When::UpTo(a), When::UpTo(b)) => b.iter().all(|(k, v)| a.get(k).is_some_and(|most| v <= most)),
            (When::UpTo(_) | When::Exactly(_), _) => false,
        }
    }
}

//! What dispatch decided, and why.

use crate::ir::{TileCall, TileOp};
use std::fmt::{self, Display, Formatter};

/// A predicate that does not hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// Name of the predicate.
    pub predicate: &'static str,
    /// Why, with the values.
    pub reason: String,
}

/// What one variant says to a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// The variant.
    pub variant: &'static str,
    /// Its priority.
    pub priority: i32,
    /// Every predicate that does not hold; none where it accepts.
    pub refusals: Vec<Refusal>,
}

/// What all variants say to a call.
#[derive(Clone, PartialEq, Debug)]
pub struct Decision {
    /// The call.
    pub call: TileCall,
    /// One verdict per variant, in the order of trial.
    pub verdicts: Vec<Verdict>,
    /// The variant that carries it out.
    pub chosen: Option<&'static str>,
}

/// No variant carries out a call.
#[derive(Clone, PartialEq, Debug)]
pub enum NoVariant {
    /// The table of the operation has no variant of the forced name.
    Unknown { name: String, op: TileOp, known: Vec<&'static str> },
    /// Every variant refused, or the forced one did.
    AllRefused(Box<Decision>),
}

impl Display for Decision {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.call)?;
        let width = self.verdicts.iter().map(|v| v.variant.len()).max().unwrap_or(0);
        for v in &self.verdicts {
            let mark = if self.chosen == Some(v.variant) { ">" } else { " " };
            write!(f, "{mark} {:width$} {:>4}  ", v.variant, v.priority)?;
            match v.refusals.as_slice() {
                [] => writeln!(f, "accepts")?,
                [first, rest @ ..] => {
                    writeln!(f, "{}: {}", first.predicate, first.reason)?;
                    for r in rest {
                        writeln!(f, "{:indent$}{}: {}", "", r.predicate, r.reason, indent = width + 9)?;
                    }
                }
            }
        }
        Ok(())
    }
}

impl Display for NoVariant {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            NoVariant::Unknown { name, op, known } => {
                write!(f, "`{}` has no variant `{name}`: choose one of {}", op.name(), known.join(", "))
            }
            NoVariant::AllRefused(d) => {
                let what = if d.call.forced.is_some() {
                    "the variant that the call asks for refuses"
                } else {
                    "no variant carries out this call"
                };
                write!(f, "{what}\n{d}")
            }
        }
    }
}

impl std::error::Error for NoVariant {}

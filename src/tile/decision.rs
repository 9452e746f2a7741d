//! What dispatch decided, and why.

use crate::ir::TileCall;
use std::fmt::{self, Display, Formatter};

/// A predicate that does not hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// Name of the predicate.
    pub predicate: &'static str,
    /// Why, with the values.
    pub reason: String,
}

/// What the predicates of a variant say to a call.
#[derive(Default)]
pub struct Refusals {
    pub(super) asked: Vec<&'static str>,
    pub(super) noted: Vec<Refusal>,
}

impl Refusals {
    /// Asks a predicate, and gives what it found or notes why it refuses.
    pub fn ask<T>(&mut self, predicate: &'static str, found: Result<T, String>) -> Option<T> {
        self.asked.push(predicate);
        found.map_err(|reason| self.noted.push(Refusal { predicate, reason })).ok()
    }

    /// Asks a predicate about a fact; it gives the same reason where there is no such fact.
    pub fn ask_of<S, T>(
        &mut self,
        predicate: &'static str,
        fact: &Result<S, String>,
        check: impl FnOnce(&S) -> Result<T, String>,
    ) -> Option<T> {
        self.ask(predicate, fact.as_ref().map_err(String::clone).and_then(check))
    }

    /// Asks a predicate about a fact; it has nothing to say where there is none, because another refuses.
    pub fn ask_if<S, T>(
        &mut self,
        predicate: &'static str,
        fact: Option<S>,
        check: impl FnOnce(S) -> Result<T, String>,
    ) -> Option<T> {
        self.ask(predicate, fact.map(check).transpose()).flatten()
    }
}

/// What one variant says to a call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Verdict {
    /// The variant.
    pub variant: &'static str,
    /// Its priority.
    pub priority: i32,
    /// All its predicates.
    pub asked: Vec<&'static str>,
    /// Those that do not hold; none where it accepts.
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

impl Decision {
    /// True where the call forces a variant that does not exist.
    pub(super) fn asks_for_unknown(&self) -> bool {
        self.call.forced.as_ref().is_some_and(|name| self.verdicts.iter().all(|v| v.variant != name))
    }
}

/// No variant carries out a call: every one refused, or the forced one did or does not exist.
#[derive(Clone, PartialEq, Debug)]
pub struct NoVariant(pub Box<Decision>);

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
        let NoVariant(d) = self;
        match &d.call.forced {
            Some(name) if d.asks_for_unknown() => {
                let known: Vec<&str> = d.verdicts.iter().map(|v| v.variant).collect();
                write!(f, "`{}` has no variant `{name}`: choose one of {}", d.call.op.name(), known.join(", "))
            }
            Some(_) => write!(f, "the variant that the call asks for refuses\n{d}"),
            None => write!(f, "no variant carries out this call\n{d}"),
        }
    }
}

impl std::error::Error for NoVariant {}

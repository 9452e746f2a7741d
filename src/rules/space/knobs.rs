//! Knobs: an ordered map from name to integer, so that logs and reports need no code per rule. Choices are
//! integers here too: their names are in the space.

use super::knob_values::KnobValues;
use crate::target::nearest;
use std::fmt;

/// One point of a knob space.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Knobs(pub KnobValues);

impl Knobs {
    /// The value of a knob.
    ///
    /// # Panics
    /// If the knob is missing. A rule only asks for knobs of its own table, and `Spaces` checks that
    /// a table has every knob its rule names, so a missing one is a bug.
    pub fn get(&self, name: &str) -> i64 {
        self.find(name).unwrap_or_else(|| panic!("knob `{name}` is not in the space"))
    }

    /// The value of a knob that not every form has.
    pub fn find(&self, name: &str) -> Option<i64> {
        self.0.get(name).copied()
    }

    /// The same point with one knob set.
    pub fn with(&self, name: &str, value: i64) -> Knobs {
        let mut knobs = self.clone();
        match knobs.0.get_mut(name) {
            Some(old) => *old = value,
            None => drop(knobs.0.insert(name.to_string(), value)),
        }
        knobs
    }
}

impl fmt::Display for Knobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (name, value)) in self.0.iter().enumerate() {
            let gap = if i == 0 { "" } else { " " };
            write!(f, "{gap}{name}={value}")?;
        }
        Ok(())
    }
}

impl<const N: usize> From<[(&str, i64); N]> for Knobs {
    fn from(pairs: [(&str, i64); N]) -> Knobs {
        Knobs(pairs.into_iter().map(|(n, v)| (n.to_string(), v)).collect())
    }
}

/// `unknown knob of gemv.inner `thread`; did you mean `threads`?`
pub fn unknown(what: &str, name: &str, known: &[&str]) -> String {
    match nearest(name, known.iter().copied()) {
        Some(near) => format!("unknown {what} `{name}`; did you mean `{near}`?"),
        None => format!("unknown {what} `{name}`; there are {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_names_suggest_the_nearest() {
        assert_eq!(unknown("knob", "thread", &["rows", "threads"]), "unknown knob `thread`; did you mean `threads`?");
    }
}

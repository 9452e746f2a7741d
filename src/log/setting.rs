//! What a record says of one knob.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// The value of a knob.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Setting {
    /// Of a knob that counts something.
    Number(i64),
    /// Of a knob that is a choice.
    Name(String),
}

impl Setting {
    /// The number, of a knob that counts something.
    pub fn number(&self) -> Option<i64> {
        match self {
            Setting::Number(n) => Some(*n),
            Setting::Name(_) => None,
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Setting::Number(n) => write!(f, "{n}"),
            Setting::Name(name) => write!(f, "{name}"),
        }
    }
}

impl From<i64> for Setting {
    fn from(n: i64) -> Setting {
        Setting::Number(n)
    }
}

impl From<&str> for Setting {
    fn from(name: &str) -> Setting {
        Setting::Name(name.to_string())
    }
}

/// `rows=1 hint=plain`, for knobs and extents.
pub fn pairs(map: &BTreeMap<String, impl fmt::Display>) -> String {
    map.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join(" ")
}

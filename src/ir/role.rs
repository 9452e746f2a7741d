//! What each parameter of a function is for.

use serde::{Deserialize, Serialize};
use std::fmt;

/// How a function uses a parameter.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// A tensor that is only read.
    In,
    /// A tensor that is written before it is read.
    Out,
    /// A tensor that is read, then written.
    Inout,
    /// A scalar value.
    Scalar,
    /// A scalar that is the size of a tensor or loop.
    Extent,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

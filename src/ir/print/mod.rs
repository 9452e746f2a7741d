//! Prints functions as the TVMScript text that TVM 0.27 prints and reads.
//!
//! `Display` shows the user's names, made unique where two of them meet in one scope;
//! `PrimFunc::canonical_text` shows the canonical names.

mod expr;
mod func;
mod literal;
mod names;
mod stmt;
mod tile;

pub(super) use names::is_reserved;

use super::{DeviceFunc, Expr, PrimFunc};
use std::fmt;

impl fmt::Display for Expr {
    /// The expression with canonical names.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&expr::text(self, &names::Names::canonical()))
    }
}

impl fmt::Display for PrimFunc {
    /// The whole function with the user's names.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&func::text(self, names::Names::display(self)))
    }
}

impl fmt::Display for DeviceFunc {
    /// The whole program with the user's names.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&tile::text(self, names::Names::display(&self.func)))
    }
}

impl DeviceFunc {
    /// The whole program with canonical names.
    pub fn canonical_text(&self) -> String {
        tile::text(self, names::Names::canonical())
    }
}

impl PrimFunc {
    /// The whole function as TVMScript with canonical names: two functions read from texts that
    /// differ in variable names only have one canonical text.
    pub fn canonical_text(&self) -> String {
        func::text(self, names::Names::canonical())
    }
}

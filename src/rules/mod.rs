//! Schedule rules: each says whether a function is its own, what may vary, and how to schedule it.

mod knobs;
mod space;
mod spaces;

pub use knobs::Knobs;
pub use space::{Constraint, Illegal, Knob, Space};
pub use spaces::{Spaces, unknown};

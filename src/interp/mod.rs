//! Reference semantics of functions.

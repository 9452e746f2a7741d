//! Timing under a written policy.

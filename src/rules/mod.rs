//! Schedule rules: each says whether a function is its own, what may vary, and how to schedule it.

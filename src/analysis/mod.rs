//! What a function computes: simplification, access maps, normal form, patterns, work.

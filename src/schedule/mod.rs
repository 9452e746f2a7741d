//! A function plus the trace of steps that made it: one file per primitive.

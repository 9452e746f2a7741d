//! The tuner: the only loop.

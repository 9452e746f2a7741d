//! Tables from logs.

//! From a scheduled function to a Program.

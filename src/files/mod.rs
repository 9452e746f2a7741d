//! Files of others and our own: whose a folder is, and temporary files that do not stay when a process is killed.

pub mod owner;
pub mod scratch;

//! The `daylight` command.

fn main() {}

//! Facts that passes ask for: what a warp shares, which digits of a thread index an expression uses, what a
//! reduction combines. Nothing here changes a statement.

pub mod digits;
pub mod maps;
pub mod redirect;
pub mod reducer;
pub mod replicated;
pub mod warps;

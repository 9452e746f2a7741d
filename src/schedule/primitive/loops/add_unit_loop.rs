//! `add_unit_loop`: a loop of extent 1 around a loop or a block.
//!
//! ```text
//! block(...)   ->   for u in 1:
//!                       block(...)
//! ```
//!
//! Preconditions: `loop_or_block_exists`.
//!
//! Effect: the new loop takes the place of the statement and holds it.

use crate::ir::{DType, Expr, For, Name, PrimFunc, Stmt};
use crate::schedule::help::tree;
use crate::schedule::{Draft, Failure};

/// Puts a loop around the loop or block `at`; returns it.
pub fn apply(d: &mut Draft, at: &Name) -> Result<Name, Failure> {
    d.find_loop_or_block(at)?;
    let dtype = index_type(&d.func, at);
    let u = d.fresh("u");
    tree::replace(&mut d.func, at, |s| vec![Stmt::For(For::serial(u.clone(), Expr::int(1, dtype), vec![s]))]);
    Ok(u)
}

/// The type that loops and iterators near `at` have, so that indices need no conversion.
fn index_type(func: &PrimFunc, at: &Name) -> DType {
    let inside = match tree::path(func, at).and_then(|p| p.last().copied()) {
        Some(Stmt::For(l)) => Some(l.dtype),
        Some(Stmt::Block(b)) => b.iters.first().map(|it| it.dtype),
        _ => None,
    };
    inside.or_else(|| tree::loops_around(func, at).last().map(|l| l.dtype)).unwrap_or(DType::I32)
}

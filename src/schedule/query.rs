//! Questions about a function that rules ask: blocks, loops, producers, consumers.

use super::tree;
use crate::ir::{Block, Name, PrimFunc};

/// Every block, in program order.
pub fn blocks(func: &PrimFunc) -> Vec<&Block> {
    func.body.iter().flat_map(tree::blocks_in).collect()
}

/// Blocks without `block` itself that write a buffer which `block` reads, in program order.
pub fn producers(func: &PrimFunc, block: &Block) -> Vec<Name> {
    let read = tree::reads(block);
    let feeds = |b: &&Block| b.name != block.name && tree::writes(b).iter().any(|w| read.contains(w));
    blocks(func).into_iter().filter(feeds).map(|b| b.name.clone()).collect()
}

/// Blocks without `block` itself that read a buffer which `block` writes, in program order.
pub fn consumers(func: &PrimFunc, block: &Block) -> Vec<Name> {
    let written = tree::writes(block);
    let eats = |b: &&Block| b.name != block.name && tree::reads(b).iter().any(|r| written.contains(r));
    blocks(func).into_iter().filter(eats).map(|b| b.name.clone()).collect()
}

/// Blocks that write `buffer`, in program order.
pub fn writers<'a>(func: &'a PrimFunc, buffer: &Name) -> Vec<&'a Block> {
    blocks(func).into_iter().filter(|b| tree::writes(b).contains(buffer)).collect()
}

/// Blocks that read `buffer`, in program order; a reduction reads what it accumulates into.
pub fn readers<'a>(func: &'a PrimFunc, buffer: &Name) -> Vec<&'a Block> {
    blocks(func).into_iter().filter(|b| tree::reads(b).contains(buffer)).collect()
}

//! Questions about a function that rules ask: blocks, loops, producers, consumers. A block that holds
//! others answers for them, so who reads or writes what is asked of the outermost blocks.

use super::tree;
use crate::ir::{Block, Name, PrimFunc};

/// Every block, in program order, those inside others too.
pub fn blocks(func: &PrimFunc) -> Vec<&Block> {
    func.body.iter().flat_map(tree::blocks_in).collect()
}

/// True for other blocks than `block`, but for one that holds it.
fn is_other(b: &Block, block: &Block) -> bool {
    b.name != block.name && !tree::holds(b, &block.name)
}

/// Blocks without `block` itself that write a buffer which `block` reads, in program order.
pub fn producers(func: &PrimFunc, block: &Block) -> Vec<Name> {
    let read = tree::reads(block);
    let feeds = |b: &&Block| is_other(b, block) && tree::writes(b).iter().any(|w| read.contains(w));
    tree::outermost(&func.body).into_iter().filter(feeds).map(|b| b.name.clone()).collect()
}

/// Blocks without `block` itself that read a buffer which `block` writes, in program order.
pub fn consumers(func: &PrimFunc, block: &Block) -> Vec<Name> {
    let written = tree::writes(block);
    let eats = |b: &&Block| is_other(b, block) && tree::reads(b).iter().any(|r| written.contains(r));
    tree::outermost(&func.body).into_iter().filter(eats).map(|b| b.name.clone()).collect()
}

/// Blocks that write `buffer`, in program order.
pub fn writers<'a>(func: &'a PrimFunc, buffer: &Name) -> Vec<&'a Block> {
    tree::outermost(&func.body).into_iter().filter(|b| tree::writes(b).contains(buffer)).collect()
}

/// Blocks that read `buffer`, in program order; a reduction reads what it accumulates into.
pub fn readers<'a>(func: &'a PrimFunc, buffer: &Name) -> Vec<&'a Block> {
    tree::outermost(&func.body).into_iter().filter(|b| tree::reads(b).contains(buffer)).collect()
}

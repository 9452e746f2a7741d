//! Stages what a block reads of a buffer in another memory.
//!
//! ```text
//!                                         for ax0:
//!                                             p0_local_b: p0_local[vax0] = p0[vax0]
//! for i:                            ->    for i:
//!     b0: reads p0[v0]                        b0: reads p0_local[v0]
//! ```
//!
//! Preconditions: `block_exists`; `buffer_exists`; `block_reads`: the block reads the buffer;
//! `not_written_by_block`; `written_before`: every block that writes the buffer comes before;
//! `plain_nest`: only loops are around the blocks.
//!
//! Effect: one block copies the whole buffer right after its writers, at the root for an input;
//! `compute_at` brings it down to what is needed. Only `block` reads the copy.

use crate::ir::{Name, Scope, Stmt};
use crate::schedule::draft::rename_expr;
use crate::schedule::help::copies::{copy_block, fork, position, stage};
use crate::schedule::help::{nest, query, regions, tree};
use crate::schedule::{Draft, Failure};
use std::collections::BTreeMap;

pub fn apply(d: &mut Draft, block: &Name, buffer: &Name, scope: &Scope) -> Result<Name, Failure> {
    let reader = d.find_block(block)?.clone();
    let source = d.find_buffer(buffer)?.clone();
    Failure::unless(tree::reads(&reader).contains(buffer), "block_reads", block, || {
        format!("it does not read `{buffer}`")
    })?;
    Failure::unless(!tree::writes(&reader).contains(buffer), "not_written_by_block", block, || {
        format!("it writes `{buffer}`, so a copy made before it would go stale")
    })?;
    let writers: Vec<Name> = query::writers(&d.func, buffer).iter().map(|b| b.name.clone()).collect();
    if let Some(late) = writers.iter().find(|w| position(d, w) > position(d, block)) {
        return Err(Failure::new("written_before", late, format!("it writes `{buffer}` after `{block}` reads it")));
    }
    let place = fork(d, block, &writers)?;
    let region = match &place.inside {
        None => source.shape.iter().map(|_| None).collect(),
        Some(at) => {
            let ranges = regions::loop_ranges(&d.func);
            let running = regions::running(&d.func, &reader, Some(at), Some(scope));
            regions::hull(&regions::loads(&reader, buffer), &running, &ranges)
        }
    };
    let staged = stage(d, &source, scope);
    let name = d.fresh_like(&staged.name, "_b");
    let copy = copy_block(d, name.clone(), &source, &staged);
    let nest = nest::build(d, copy, &region, &[]);
    tree::replace(&mut d.func, &place.child, |child| vec![nest, child]);
    let map = BTreeMap::from([(buffer.clone(), staged.name)]);
    tree::edit_block(&mut d.func, block, |b| {
        let renamed = |list: &[Stmt]| list.iter().map(|s| s.map_exprs(&mut |e| rename_expr(e, &map))).collect();
        b.init = renamed(&b.init);
        b.body = renamed(&b.body);
        b.regions = None;
    });
    Ok(name)
}

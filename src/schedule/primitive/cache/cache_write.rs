//! Stages what a block writes in another memory.
//!
//! ```text
//! for i:                            ->    for i:
//!     b0: writes t0[v0]                       b0: writes t0_local[v0]
//!                                         for ax0:
//!                                             t0_local_b: t0[vax0] = t0_local[vax0]
//! ```
//!
//! Preconditions: `block_exists`; `buffer_exists`; `block_writes`: the block writes the buffer;
//! `single_writer`: no other block does; `written_whole`: the block writes every element, each of
//! its indices being an iterator of its own over the whole dimension; `plain_nest`: only loops
//! are around the blocks.
//!
//! Effect: one block copies the whole buffer back, right after the block and before the first
//! block that reads it; `reverse_compute_at` brings it to where the elements are made.

use crate::analysis;
use crate::ir::{Block, Buffer, Expr, Name, Scope, Stmt};
use crate::schedule::draft::rename_expr;
use crate::schedule::help::copies::{copy_block, fork, stage};
use crate::schedule::help::span::cast;
use crate::schedule::help::{nest, query, regions, tree};
use crate::schedule::{Draft, Failure};
use std::collections::BTreeMap;

pub fn apply(d: &mut Draft, block: &Name, buffer: &Name, scope: &Scope) -> Result<Name, Failure> {
    let writer = d.find_block(block)?.clone();
    let target = d.find_buffer(buffer)?.clone();
    Failure::unless(tree::writes(&writer).contains(buffer), "block_writes", block, || {
        format!("it does not write `{buffer}`")
    })?;
    if let Some(other) = query::writers(&d.func, buffer).iter().find(|b| b.name != *block) {
        return Err(Failure::new("single_writer", &other.name, format!("it writes `{buffer}` too")));
    }
    Failure::unless(writes_whole(d, &writer, &target), "written_whole", block, || {
        format!("it does not write every element of `{buffer}` by iterators of its own")
    })?;
    let readers: Vec<Name> = query::readers(&d.func, buffer).iter().map(|b| b.name.clone()).collect();
    let readers: Vec<Name> = readers.into_iter().filter(|r| r != block).collect();
    let place = fork(d, block, &readers)?;
    let region = match &place.inside {
        None => target.shape.iter().map(|_| None).collect(),
        Some(at) => {
            let ranges = regions::loop_ranges(&d.func);
            let running = regions::running(&d.func, &writer, Some(at), None);
            let stores = regions::stores(&writer, buffer);
            let dense = stores.iter().flatten().all(|e| regions::is_dense(e, &running, &ranges));
            Failure::unless(dense, "dense_region", block, || {
                format!("what it writes of `{buffer}` under `{at}` has gaps")
            })?;
            regions::hull(&stores, &running, &ranges)
        }
    };
    let staged = stage(d, &target, scope);
    let name = d.fresh_like(&staged.name, "_b");
    let copy = copy_block(d, name.clone(), &staged, &target);
    let nest = nest::build(d, copy, &region, &[]);
    tree::replace(&mut d.func, &place.child, |child| vec![child, nest]);
    tree::edit_block(&mut d.func, block, |b| redirect(b, buffer, &staged.name));
    Ok(name)
}

/// Makes a block use `new` wherever it used `old`.
fn redirect(b: &mut Block, old: &Name, new: &Name) {
    let map = BTreeMap::from([(old.clone(), new.clone())]);
    for s in b.init.iter_mut().chain(&mut b.body) {
        *s = s.map_exprs(&mut |e| rename_expr(e, &map));
        redirect_stores(s, old, new);
    }
    b.regions = None;
}

fn redirect_stores(s: &mut Stmt, old: &Name, new: &Name) {
    if let Stmt::Store { buffer, .. } = s
        && buffer == old
    {
        *buffer = new.clone();
    }
    tree::child_lists_mut(s).into_iter().flatten().for_each(|s| redirect_stores(s, old, new));
}

/// True where the block writes every element of the buffer by iterators of its own.
pub fn writes_whole(d: &Draft, block: &Block, buffer: &Buffer) -> bool {
    let ranges = regions::loop_ranges(&d.func);
    let mut used: Vec<&Name> = vec![];
    let all = regions::store_indices(block, &buffer.name);
    let [indices] = all.as_slice() else { return false };
    let by_iterators = |(index, size): (&Expr, &Expr)| {
        if size.is_int(1) && index.is_int(0) {
            return true;
        }
        let Some(it) = block.as_iter(index) else { return false };
        let same = |a: &Expr, b: &Expr| analysis::simplify(&(a.clone() - b.clone()), &ranges).is_int(0);
        let fresh = !used.contains(&&it.var);
        used.push(&it.var);
        fresh && same(&it.extent, &cast(it.dtype, size))
    };
    block.always_stores(&buffer.name) && indices.iter().zip(&buffer.shape).all(by_iterators)
}

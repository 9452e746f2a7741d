//! Writes what a block makes to a buffer over the block's own iterators first, and copies it to where
//! it belongs in a block of its own.
//!
//! ```text
//!                                                   for i: b0: p1_local[v0] = f(v0)
//! for i: b0: p1[v0 // 4, v0 % 4] = f(v0)     ->     for ax0: p1_local_w: p1[vi // 4, vi % 4] = p1_local[vi]
//!                          stage_write(b0, "local")
//! ```
//!
//! Unlike `cache_write`, the staged buffer has the block's dimensions and not those of the output.
//!
//! Preconditions: `block_exists`; `plain_nest`; `no_guard`; `all_spatial`; `one_store`: the body is one
//! store (lets may come before it); `zero_min`: iterators start at 0; `iterators_only`: the place
//! written depends on iterators alone; `not_read_back`: no other block reads what it writes.
//!
//! Effect: the copying block comes right after the outermost loop of the block.

use crate::ir::{Block, Buffer, DType, Expr, IterKind, IterVar, Name, Scope, Stmt};
use crate::schedule::help::copies::copied_iters;
use crate::schedule::help::inline::{Point, point};
use crate::schedule::help::{checks, motion, nest, query, tree};
use crate::schedule::{Draft, Failure};

pub fn apply(d: &mut Draft, block: &Name, scope: &Scope) -> Result<Name, Failure> {
    let b = d.find_block(block)?.clone();
    motion::check_plain(d, block)?;
    checks::no_guard(&b)?;
    Failure::unless(b.iters.iter().all(|it| it.kind == IterKind::Spatial), "all_spatial", block, || {
        "it has reduction iterators".to_string()
    })?;
    Failure::unless(b.iters.iter().all(|it| it.min.is_int(0)), "zero_min", block, || {
        "an iterator does not start at 0".to_string()
    })?;
    checks::iterators_only(&d.func, &b)?;
    let point = point(&b)?;
    if let Some(reader) = query::readers(&d.func, &point.buffer).first() {
        let why = format!("it reads `{}`, which `{block}` writes", point.buffer);
        return Err(Failure::new("not_read_back", &reader.name, why));
    }
    let dtype = d.find_buffer(&point.buffer)?.dtype;
    let suffix = format!("_{}", scope.name().replace('.', "_"));
    let staged = d.fresh_like(&point.buffer, &suffix);
    let shape = b.iters.iter().map(|it| it.extent.clone()).collect();
    d.declare(Buffer::new(staged.clone(), dtype, shape, scope.clone()));
    let name = d.fresh_like(&staged, "_w");
    let copy = copy(d, name.clone(), &b, &point, (&staged, dtype));
    let domains = vec![None; copy.iters.len()];
    let nest = nest::build(d, copy, &domains, &[]);
    let top = tree::loops_around(&d.func, block).first().map_or(block.clone(), |l| l.var.clone());
    tree::replace(&mut d.func, &top, |old| vec![old, nest]);
    let own: Vec<Expr> = b.iters.iter().map(IterVar::var_expr).collect();
    tree::edit_block(&mut d.func, block, |b| {
        b.regions = None;
        for s in &mut b.body {
            if let Stmt::Store { buffer, indices, .. } = s {
                (*buffer, *indices) = (staged.clone(), own.clone());
            }
        }
    });
    Ok(name)
}

/// The block that copies the staged buffer, of that type, to the block's place.
fn copy(d: &mut Draft, name: Name, b: &Block, point: &Point, (staged, dtype): (&Name, DType)) -> Block {
    let (iters, map) = copied_iters(d, &b.iters);
    let own = iters.iter().map(IterVar::var_expr).collect();
    let value = Expr::load(staged.clone(), own, dtype);
    let indices = point.indices.iter().map(|e| e.subst(&|n| map.get(n).cloned())).collect();
    Block::new(name, iters, vec![Stmt::Store { buffer: point.buffer.clone(), indices, value }])
}

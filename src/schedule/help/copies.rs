//! What `cache_read` and `cache_write` share: the copying block and the place it goes to.

use super::{motion, query, regions, tree};
use crate::ir::{Block, Buffer, Expr, IterKind, IterVar, Name, Scope, Stmt};
use crate::schedule::{Draft, Failure};
use std::collections::BTreeMap;

/// Declares `<buffer>_<scope>`, a buffer of the shape and dtype of `buffer`.
pub fn stage(d: &mut Draft, buffer: &Buffer, scope: &Scope) -> Buffer {
    let name = d.fresh_like(&buffer.name, &format!("_{}", scope.name().replace('.', "_")));
    let staged = Buffer::new(name, buffer.dtype, buffer.shape.clone(), scope.clone());
    d.declare(staged.clone());
    staged
}

/// The block `to[v..] = from[v..]` over the whole shape; its bindings are to be built.
pub fn copy_block(d: &mut Draft, name: Name, from: &Buffer, to: &Buffer) -> Block {
    let mut iters = vec![];
    for (axis, extent) in from.shape.iter().enumerate() {
        let zero = Expr::int(0, extent.dtype());
        iters.push(IterVar {
            var: d.fresh(&format!("vax{axis}")),
            dtype: extent.dtype(),
            min: zero.clone(),
            extent: extent.clone(),
            kind: IterKind::Spatial,
            binding: zero,
        });
    }
    let indices: Vec<Expr> = iters.iter().map(IterVar::var_expr).collect();
    let value = Expr::load(from.name.clone(), indices.clone(), from.dtype);
    Block::new(name, iters, vec![Stmt::Store { buffer: to.name.clone(), indices, value }])
}

/// Where a block parts from others that it must stay behind (or before): the innermost loop that
/// it shares with one of them (`None`: the root) and the statement right in it that holds the block.
pub struct Fork {
    pub inside: Option<Name>,
    pub child: Name,
}

/// The fork between `block` and `others`; of the root where there are no others.
pub fn fork(d: &Draft, block: &Name, others: &[Name]) -> Result<Fork, Failure> {
    let path = path_names(d, block)?;
    let mut shared = 0;
    for other in others {
        let same = path_names(d, other)?.iter().zip(&path).take_while(|(a, b)| a == b).count();
        shared = shared.max(same);
    }
    Ok(Fork { inside: shared.checked_sub(1).map(|i| path[i].clone()), child: path[shared].clone() })
}

/// The loops around a block and the block itself, by name.
///
/// Fails with `plain_nest` where the block lies in another block or in a conditional.
fn path_names(d: &Draft, block: &Name) -> Result<Vec<Name>, Failure> {
    motion::check_plain(d, block)?;
    let path = tree::path(&d.func, block).unwrap_or_default();
    Ok(path.into_iter().filter_map(tree::name_of).cloned().collect())
}

/// A buffer that the value reads and a block that writes it in or after the statement `top`.
pub fn late_writer(d: &Draft, value: &Expr, top: &Name) -> Option<(Name, Name)> {
    let nest = tree::path(&d.func, top).unwrap_or_default();
    let first = nest.last().and_then(|s| tree::blocks_in(s).first().map(|b| position(d, &b.name)));
    tree::loaded(value).into_iter().find_map(|buffer| {
        let mut writers = query::writers(&d.func, &buffer).into_iter();
        writers.find(|w| Some(position(d, &w.name)) >= first).map(|w| (buffer, w.name.clone()))
    })
}

/// Spatial iterators like those given, to be bound, and what the given ones are in terms of them.
pub fn copied_iters(d: &mut Draft, iters: &[IterVar]) -> (Vec<IterVar>, BTreeMap<Name, Expr>) {
    let copy = |it: &IterVar| {
        let (var, binding) = (regions::iter_for(d, &it.var), Expr::int(0, it.dtype));
        IterVar { var, kind: IterKind::Spatial, binding, ..it.clone() }
    };
    let own: Vec<IterVar> = iters.iter().map(copy).collect();
    let map = iters.iter().zip(&own).map(|(it, new)| (it.var.clone(), new.var_expr())).collect();
    (own, map)
}

/// Position of each block in program order.
pub fn position(d: &Draft, block: &Name) -> usize {
    query::blocks(&d.func).iter().position(|b| b.name == *block).unwrap_or(usize::MAX)
}

//! What `cache_read` and `cache_write` share: the copying block and the place it goes to.

use super::{query, tree};
use crate::ir::{Block, Buffer, Expr, IterKind, IterVar, Name, Scope, Stmt};
use crate::schedule::{Draft, Failure};

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
    let path = tree::path(&d.func, block).unwrap_or_default();
    let mut names = vec![];
    for (i, stmt) in path.iter().enumerate() {
        let last = i + 1 == path.len();
        match stmt {
            Stmt::For(l) => names.push(l.var.clone()),
            Stmt::Block(b) if last => names.push(b.name.clone()),
            _ => return Err(Failure::new("plain_nest", block, "something else than loops is around the block")),
        }
    }
    Ok(names)
}

/// Position of each block in program order.
pub fn position(d: &Draft, block: &Name) -> usize {
    query::blocks(&d.func).iter().position(|b| b.name == *block).unwrap_or(usize::MAX)
}

//! Loads that are asked for ahead of time, on the CPU.
//!
//! A row that several passes work on is fetched by the first of them, and the memory rests during the
//! others. A loop of theirs that carries `prefetch = n` asks, before each vector loop inside it, for the
//! cache lines that this loop's loads touch `n` blocks of the grid later. A row that is read once waits
//! wherever the caches' own prefetchers stop, at the end of a page: its loop carries `prefetch_bytes = n`
//! and asks for what lies `n` bytes further. Loads that are the same for all blocks are in the cache
//! already.
//!
//! before: `for i < 64 { vector v < 16 { t[i * 16 + v] = p0[blockIdx.x * 1024 + i * 16 + v] } }`
//! after:  `for i < 64 { prefetch p0[(blockIdx.x + 1) * 1024 + i * 16]; vector v < 16 { ... } }`
//! or:     `for i < 64 { prefetch p0[blockIdx.x * 1024 + i * 16 + 512]; vector v < 16 { ... } }`

use crate::analysis::simplify;
use crate::ir::device::{Ahead, DFor, DKind, DStmt, index_var};
use crate::ir::{Expr, ExprKind, Name, ThreadTag};
use crate::lower::nest::Nest;

/// Bytes of a cache line: less only repeats requests.
const LINE: i64 = 64;

/// The places to ask for before a statement that is a vector loop, as arrays and flat indices.
pub fn before(nest: &Nest, s: &DStmt, by: Ahead) -> Vec<(Name, Expr)> {
    match s {
        DStmt::For(l) if l.kind == DKind::Vectorized && by != Ahead::Never && !nest.cuda() => ahead(nest, l, by),
        _ => vec![],
    }
}

fn ahead(nest: &Nest, l: &DFor, by: Ahead) -> Vec<(Name, Expr)> {
    let block = Name::new(ThreadTag::BlockX.name());
    let mut places = vec![];
    let mut note = |e: &Expr| {
        let ExprKind::Load { buffer, indices, dtype } = e.kind() else { return };
        let [index] = indices.as_slice() else { return };
        if !nest.is_global(buffer) || !index.uses_var(&block) || !index.uses_var(&l.var) {
            return;
        }
        let bytes = dtype.bytes() as i64;
        let lanes = l.extent.as_int().unwrap_or(1);
        let (blocks, elements) = match by {
            Ahead::Never => return,
            Ahead::Blocks(n) => (n, 0),
            Ahead::Bytes(n) => (0, n / bytes),
        };
        for first in (0..lanes).step_by((LINE / bytes) as usize) {
            let later = |n: &Name| match n {
                n if *n == block => Some(index_var(&block) + Expr::i64(blocks)),
                n if *n == l.var => Some(Expr::i64(first)),
                _ => None,
            };
            let place = index.subst(&later) + Expr::i64(elements);
            let place = (buffer.clone(), simplify(&place, &nest.ranges));
            if !places.contains(&place) {
                places.push(place);
            }
        }
    };
    l.body.iter().for_each(|s| s.for_each_expr(|e| e.visit(&mut note)));
    places
}

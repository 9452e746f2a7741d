//! Computes what a block makes anew for each tile of an axis of its readers, which it does not depend on.
//!
//! ```text
//! for i, k: b0: X[v0] += A[v0, v1]                   for t, g, i, k: b0: X[vt, vg, v0] += A[v0, v1]
//! for i, j: b1: Y[v2, v3] = B[v2, v3] * X[v2]   ->   for i, j: b1: Y[v2, v3] = B[v2, v3] * X[v3 // 8, v3 // 2 % 4, v2]
//!                          replicate(b0, [v3], [4, 2])
//! ```
//!
//! So that those who share a tile need nothing of others: each has its own copy, and the tiles may be
//! computed at once.
//!
//! Preconditions: `block_exists`; `plain_nest`; `complete_or_reduction_block`; `one_output`; `single_writer`: no
//! other block writes it; `not_parameter`, `no_alias`, `plain_layout`: its dimensions may be others; `one_block`:
//! the block's nest holds nothing else; `tile_sizes`: one at least, all positive; `reader_iterators`: one
//! spatial iterator of each other block that reads the result is named, all of one extent.
//!
//! Effect: the result gets a dimension for the tiles, and one for each size but the last, outermost; loops over
//! these are put around the nest and returned. A reader takes the copy of its own tile.

use crate::analysis::{Ranges, simplify};
use crate::ir::{BinOp, Block, Expr, For, IterKind, IterVar, Name, Stmt};
use crate::schedule::help::{motion, nest, query, regions, relayout, scope, tree};
use crate::schedule::{Draft, Failure};

pub fn apply(d: &mut Draft, block: &Name, along: &[Name], sizes: &[i64]) -> Result<Vec<Name>, Failure> {
    let made = d.find_block(block)?.clone();
    motion::check_plain(d, block)?;
    motion::check_block(&made)?;
    let buffer = motion::output(&made)?;
    if let Some(other) = query::writers(&d.func, &buffer).iter().find(|b| b.name != *block) {
        return Err(Failure::new("single_writer", &other.name, format!("it writes `{buffer}` too")));
    }
    let shape = relayout::movable(d, &buffer)?.shape;
    let top = own_nest(d, block)?;
    let whole = sizes.iter().try_fold(1i64, |n, s| n.checked_mul(*s)).filter(|n| *n < i64::MAX / 2);
    let whole = whole.filter(|_| !sizes.is_empty() && sizes.iter().all(|s| *s > 0));
    let whole = whole.ok_or_else(|| Failure::new("tile_sizes", block, "the sizes of tiles are not positive"))?;
    let readers = readers(d, &made, &buffer, along)?;
    let Some((_, first)) = readers.first() else {
        return Err(Failure::new("reader_iterators", block, format!("no other block reads `{buffer}`")));
    };
    let extents = extents(first, sizes, whole, &Ranges::of_func(&d.func));
    let loops = tiles(d, &extents);
    let iters = iterators(d, &loops);
    let own: Vec<Expr> = iters.iter().map(IterVar::var_expr).collect();
    relayout::rewrite_block(d, block, &buffer, &|old| own.iter().chain(old).cloned().collect());
    let ranges = scope::everywhere(&d.func);
    for (reader, it) in &readers {
        let tile: Vec<Expr> = places(it, sizes, whole).iter().map(|e| simplify(e, &ranges)).collect();
        relayout::rewrite_block(d, reader, &buffer, &|old| tile.iter().chain(old).cloned().collect());
    }
    tree::edit_block(&mut d.func, block, |b| {
        b.iters.splice(0..0, iters);
    });
    relayout::reshape(d, &buffer, extents.into_iter().chain(shape).collect());
    let names = loops.iter().map(|l| l.var.clone()).collect();
    tree::replace(&mut d.func, &top, |nest| vec![nest::around(loops, nest)]);
    Ok(names)
}

/// The outermost loop around a block, or the block itself; or `one_block` where others share its nest.
fn own_nest(d: &Draft, block: &Name) -> Result<Name, Failure> {
    let path = tree::path(&d.func, block).unwrap_or_default();
    let alone = path.iter().all(|s| match s {
        Stmt::For(l) => l.body.len() == 1,
        _ => true,
    });
    let top = path.first().and_then(|s| tree::name_of(s)).filter(|_| alone);
    top.cloned().ok_or_else(|| Failure::new("one_block", block, "its nest holds other statements too"))
}

/// Each other block that reads the buffer, with its iterator among those named.
fn readers(d: &Draft, made: &Block, buffer: &Name, along: &[Name]) -> Result<Vec<(Name, IterVar)>, Failure> {
    let readers = query::readers(&d.func, buffer).into_iter().filter(|b| b.name != made.name);
    let of = |b: &Block| {
        let it = b.iters.iter().find(|it| along.contains(&it.var));
        let it = it.filter(|it| it.kind == IterKind::Spatial && it.min.is_int(0) && tree::inner_blocks(b).is_empty());
        let why = || format!("it reads `{buffer}`, and no spatial iterator of it is named");
        it.map(|it| (b.name.clone(), it.clone())).ok_or_else(|| Failure::new("reader_iterators", &b.name, why()))
    };
    let found = readers.map(of).collect::<Result<Vec<_>, _>>()?;
    let same = found.windows(2).all(|w| w[0].1.extent == w[1].1.extent) && found.len() == along.len();
    Failure::unless(same, "reader_iterators", &made.name, || {
        "the iterators named are not one of each reader, all of one extent".to_string()
    })?;
    Ok(found)
}

/// How many tiles there are, and how many copies each has along each size.
fn extents(it: &IterVar, sizes: &[i64], whole: i64, ranges: &Ranges) -> Vec<Expr> {
    let int = |n: i64| Expr::int(n, it.dtype);
    let tiles = match it.extent.as_int() {
        Some(n) => int(n / whole + i64::from(n % whole > 0)),
        None => {
            let up = it.extent.clone() + int(whole - 1);
            simplify(&Expr::binary(BinOp::FloorDiv, up, int(whole)), ranges)
        }
    };
    [tiles].into_iter().chain(sizes[..sizes.len() - 1].iter().map(|n| int(*n))).collect()
}

/// The copy of an element of a reader.
fn places(it: &IterVar, sizes: &[i64], whole: i64) -> Vec<Expr> {
    let part = |op, e: Expr, n: i64| Expr::binary(op, e, Expr::int(n, it.dtype));
    let mut each = whole;
    let mut found = vec![part(BinOp::FloorDiv, it.var_expr(), each)];
    for size in &sizes[..sizes.len() - 1] {
        each /= size;
        let tile = part(BinOp::FloorDiv, it.var_expr(), each);
        found.push(part(BinOp::FloorMod, tile, *size));
    }
    found
}

/// A loop for each extent.
fn tiles(d: &mut Draft, extents: &[Expr]) -> Vec<For> {
    let one = |(k, e): (usize, &Expr)| For::serial(d.fresh(&format!("tile{k}")), e.clone(), vec![]);
    extents.iter().enumerate().map(one).collect()
}

/// A spatial iterator for each loop.
fn iterators(d: &mut Draft, loops: &[For]) -> Vec<IterVar> {
    let of = |l: &For| IterVar {
        var: regions::iter_for(d, &l.var),
        dtype: l.dtype,
        min: Expr::int(0, l.dtype),
        extent: l.extent.clone(),
        kind: IterKind::Spatial,
        binding: l.var_expr(),
    };
    loops.iter().map(of).collect()
}

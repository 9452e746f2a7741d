//! Puts two reductions over the same loops into one block, so that they pass over memory once.
//!
//! ```text
//! for i, k: b0: init X[v0] = 0                       for i, k: b0: init X[v0] = 0; Y[v0] = 0
//!               X[v0] = X[v0] + A[v0, v1]      ->                   X[v0] = X[v0] + A[v0, v1]
//! for j, l: b1: init Y[v2] = 1                                      Y[v0] = Y[v0] * A[v0, v1]
//!               Y[v2] = Y[v2] * A[v2, v3]
//! ```
//!
//! Preconditions: `block_exists`; `own_nest`: each block stands alone under plain serial loops;
//! `has_init`; `no_guard`; `same_nest`: the loops have the same extents and the iterators the same
//! kinds and bindings; `independent`: neither touches what the other writes; `nothing_between`: the
//! second comes after the first, and no block between them touches what it writes or writes what it
//! reads.
//!
//! Effect: the first block does what the second did; the second and its loops go.

use crate::ir::{Block, Expr, For, Name, Stmt};
use crate::schedule::help::{checks, query, tree};
use crate::schedule::{Draft, Failure};
use std::collections::BTreeMap;

pub fn apply(d: &mut Draft, first: &Name, second: &Name) -> Result<(), Failure> {
    let (a, b) = (d.find_block(first)?.clone(), d.find_block(second)?.clone());
    for block in [&a, &b] {
        Failure::unless(!block.init.is_empty(), "has_init", &block.name, || "it starts nothing".to_string())?;
        checks::no_guard(block)?;
    }
    let map = same_nest((&a, &own_nest(d, &a)?), (&b, &own_nest(d, &b)?)).ok_or_else(|| {
        let why = format!("its loops or iterators are not those of `{first}`");
        Failure::new("same_nest", second, why)
    })?;
    independent(&a, &b)?;
    nothing_between(d, &a, &b)?;
    let rename = |n: &Name| map.get(n).cloned();
    let moved = |list: &[Stmt]| list.iter().map(|s| s.subst(&rename)).collect::<Vec<_>>();
    let (init, body) = (moved(&b.init), moved(&b.body));
    tree::remove(&mut d.func, second);
    tree::edit_block(&mut d.func, first, |block| {
        block.init.extend(init);
        block.body.extend(body);
        block.regions = None;
    });
    Ok(())
}

/// The loops around a block, which hold nothing else.
fn own_nest(d: &Draft, block: &Block) -> Result<Vec<For>, Failure> {
    let fail = || Failure::new("own_nest", &block.name, "it does not stand alone under plain serial loops");
    let mut loops = vec![];
    let path = tree::path(&d.func, &block.name).unwrap_or_default();
    for s in path.iter().take(path.len().saturating_sub(1)) {
        match s {
            Stmt::For(l) if l.body.len() == 1 => {
                checks::replaceable(l).map_err(|_| fail())?;
                loops.push(l.clone());
            }
            _ => return Err(fail()),
        }
    }
    Ok(loops)
}

/// What the loops and iterators of the second block are in the first, where loops, iterators and guards are
/// the same one by one.
pub fn same_nest((a, outer): (&Block, &[For]), (b, other): (&Block, &[For])) -> Option<BTreeMap<Name, Expr>> {
    let mut map: BTreeMap<Name, Expr> = BTreeMap::new();
    map.extend(outer.iter().zip(other).map(|(x, y)| (y.var.clone(), x.var_expr())));
    let renamed = |e: &Expr| e.subst(&|n| map.get(n).cloned());
    let loops = outer.len() == other.len()
        && outer.iter().zip(other).all(|(x, y)| x.extent == y.extent && x.min == y.min && x.kind == y.kind);
    let iters = a.iters.len() == b.iters.len()
        && a.iters.iter().zip(&b.iters).all(|(x, y)| {
            x.kind == y.kind && x.min == y.min && x.extent == y.extent && x.binding == renamed(&y.binding)
        });
    let same = loops && iters && a.guard == b.guard.as_ref().map(renamed);
    map.extend(a.iters.iter().zip(&b.iters).map(|(x, y)| (y.var.clone(), x.var_expr())));
    same.then_some(map)
}

fn independent(a: &Block, b: &Block) -> Result<(), Failure> {
    let touches = |x: &Block, y: &Block| {
        let written = tree::writes(y);
        tree::reads(x).union(&tree::writes(x)).find(|n| written.contains(*n)).cloned()
    };
    match touches(a, b).or_else(|| touches(b, a)) {
        Some(buffer) => {
            let why = format!("it and `{}` do not leave `{buffer}` to one of them", a.name);
            Err(Failure::new("independent", &b.name, why))
        }
        None => Ok(()),
    }
}

/// `nothing_between`: the second comes after the first, and no block between them touches what it writes or
/// writes what it reads.
pub fn nothing_between(d: &Draft, a: &Block, b: &Block) -> Result<(), Failure> {
    let blocks = query::blocks(&d.func);
    let place = |name: &Name| blocks.iter().position(|x| x.name == *name).unwrap_or(0);
    let (from, to) = (place(&a.name), place(&b.name));
    Failure::unless(from < to, "nothing_between", &b.name, || format!("it comes before `{}`", a.name))?;
    let (read, written) = (tree::reads(b), tree::writes(b));
    for x in &blocks[from + 1..to] {
        let mine = tree::writes(x);
        let early = mine.iter().any(|n| read.contains(n)) || mine.union(&tree::reads(x)).any(|n| written.contains(n));
        Failure::unless(!early, "nothing_between", &x.name, || {
            format!("it comes before `{}` and touches the same buffers", b.name)
        })?;
    }
    Ok(())
}

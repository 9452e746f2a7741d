//! `reorder`: permutes the loops of a nest.
//!
//! ```text
//! for i in n:                 for j in m:
//!     for j in m:                 for i in n:
//!         block(i, j)    ->           block(i, j)
//! ```
//!
//! Preconditions: `has_loops`; `distinct`; `one_chain`: the loops lie on one path on which no
//! loop holds a second statement; `rectangular`: no bound on that path uses a loop of the path;
//! `blocks_below`; `known_iterators`; `loops_separate`: no loop drives spatial and reduction
//! iterators of a block with an init; `own_data`: no block under the loops reads what another one
//! under them writes for another iteration; `once_each`: reductions under them run each step once.
//!
//! Effect: the named loops take each other's places in the given order; loops between them that
//! are not named stay where they are.

use crate::ir::{For, Name, Stmt};
use crate::schedule::help::{checks, flow, injective, scope, tree};
use crate::schedule::{Draft, Failure};

/// Puts `loops` into the given order, outermost first.
pub fn apply(d: &mut Draft, loops: &[Name]) -> Result<(), Failure> {
    let Some(first) = loops.first() else {
        return Err(Failure::new("has_loops", &Name::new(""), "reorder needs at least one loop"));
    };
    loops.iter().try_for_each(|n| d.find_loop(n).map(|_| ()))?;
    if let Some(twice) = loops.iter().enumerate().find(|(k, n)| loops[..*k].contains(n)) {
        return Err(Failure::new("distinct", twice.1, format!("loop `{}` is named twice", twice.1)));
    }
    let chain = chain(d, loops, first)?;
    let order = permuted(&chain, loops);
    if order.iter().map(|l| &l.var).eq(chain.iter().map(|l| &l.var)) {
        return Ok(());
    }
    movable(d, &chain)?;
    let body = chain[chain.len() - 1].body.clone();
    let new = order.into_iter().rev().fold(body, |body, l| vec![Stmt::For(For { body, ..l.clone() })]);
    tree::replace(&mut d.func, &chain[0].var, |_| new);
    Ok(())
}

/// What has to hold for any new order of the chain.
fn movable(d: &Draft, chain: &[For]) -> Result<(), Failure> {
    let inner = &chain[chain.len() - 1];
    checks::rectangular(chain)?;
    checks::blocks_below(inner)?;
    checks::known_iterators(inner)?;
    chain.iter().try_for_each(|l| checks::loops_separate(inner, l))?;
    flow::own_data(&d.func, inner)?;
    injective::once_each_below(inner, chain, &scope::everywhere(&d.func))
}

/// The chain with the named loops in each other's places, in the given order.
fn permuted<'a>(chain: &'a [For], loops: &[Name]) -> Vec<&'a For> {
    let mut named = loops.iter().filter_map(|n| find(chain, n));
    chain.iter().map(|l| if loops.contains(&l.var) { named.next().unwrap_or(l) } else { l }).collect()
}

fn find<'a>(chain: &'a [For], name: &Name) -> Option<&'a For> {
    chain.iter().find(|l| l.var == *name)
}

/// The loops from the outermost to the innermost of the named ones.
fn chain(d: &Draft, loops: &[Name], first: &Name) -> Result<Vec<For>, Failure> {
    let paths: Vec<Vec<&Stmt>> = loops.iter().filter_map(|n| tree::path(&d.func, n)).collect();
    let longest = paths.iter().max_by_key(|p| p.len()).map_or(&[][..], |p| p);
    let top = paths.iter().map(|p| p.len()).min().unwrap_or(1) - 1;
    let mut chain = vec![];
    for (k, s) in longest[top..].iter().enumerate() {
        match s {
            Stmt::For(l) if l.body.len() == 1 || top + k + 1 == longest.len() => chain.push(l.clone()),
            other => return Err(not_one_chain(tree::name_of(other).unwrap_or(first), loops)),
        }
    }
    match loops.iter().find(|n| find(&chain, n).is_none()) {
        None => Ok(chain),
        Some(out) => Err(not_one_chain(out, loops)),
    }
}

fn not_one_chain(at: &Name, loops: &[Name]) -> Failure {
    let names = loops.iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", ");
    let why = format!("loops {names} are not one nest: a second statement, a block or a branch lies between them");
    Failure::new("one_chain", at, why)
}

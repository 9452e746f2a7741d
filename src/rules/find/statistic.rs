//! Statistics of a product's vectors: reductions over the axis that the product reduces, of what each row of the
//! matrix reads alike, whose results only the epilogues of the product want, as in y[i, n] = sum_k W[n, k] x[i, k]
//! * rsqrt(sum_k x[i, k]^2).

use super::shape::{Axis, OneReduction, find_block};
use crate::analysis::{Access, BlockFacts, Decline, Facts};
use crate::ir::{Block, Expr, IterKind, Name};
use crate::rules::Ask;
use std::collections::BTreeMap;

/// A reduction beside a product.
#[derive(Clone)]
pub struct Statistic {
    /// Its block.
    pub block: Name,
    /// What it reads.
    pub reads: Vec<Name>,
    /// The iterators of its readers that walk over the rows of the matrix.
    pub along: Vec<Name>,
    /// Its loops of one iteration.
    pub unit: Vec<Name>,
    /// Its loop over each axis of the product, by the loop of the product.
    loops: BTreeMap<Name, Name>,
}

impl Statistic {
    /// True where its axes are these of the product.
    pub fn has_axes<'a>(&self, mut all: impl Iterator<Item = &'a Axis>) -> bool {
        let mut n = 0;
        all.all(|a| {
            n += 1;
            self.loops.contains_key(&a.at)
        }) && n == self.loops.len()
    }

    /// Its own axes for axes of the product.
    pub fn axes(&self, of: &[Axis]) -> Vec<Axis> {
        of.iter().map(|a| Axis { at: self.loops[&a.at].clone(), extent: a.extent }).collect()
    }
}

/// What is one reduction but for statistics of what it reads. Statistics are not looked for in pieces of a function, which
/// are cut so that each stays what it is.
///
/// # Errors
/// The predicates of [`OneReduction::of`].
pub fn with_statistics(ask: &Ask) -> Result<(OneReduction, Vec<Statistic>), Decline> {
    let found = if ask.own.is_none() { beside_product(ask) } else { None };
    match found {
        Some(found) => Ok(found),
        None => OneReduction::of(ask).map(|one| (one, vec![])),
    }
}

fn beside_product(ask: &Ask) -> Option<(OneReduction, Vec<Statistic>)> {
    let reductions: Vec<&BlockFacts> = ask.facts.blocks.iter().filter(|b| b.is_reduction).collect();
    let product = *reductions.iter().max_by_key(|b| b.iters.iter().filter(|i| !i.extent.is_int(1)).count())?;
    let aside: Vec<&BlockFacts> = reductions.into_iter().filter(|b| b.name != product.name).collect();
    let long = |b: &BlockFacts| b.iters.iter().filter(|i| !i.extent.is_int(1)).count();
    let fewer = aside.iter().all(|b| long(b) + 1 == long(product));
    if aside.is_empty() || !fewer {
        return None;
    }
    let names: Vec<Name> = aside.iter().map(|b| b.name.clone()).collect();
    let one = OneReduction::beside(ask, &names).ok()?;
    let statistics = aside.into_iter().map(|b| statistic(ask, &one, b)).collect::<Option<_>>()?;
    Some((one, statistics))
}

/// The block as a statistic of the product.
fn statistic(ask: &Ask, one: &OneReduction, facts: &BlockFacts) -> Option<Statistic> {
    let func = ask.start.func();
    let (block, product) = (find_block(func, &facts.name), find_block(func, &one.chain.block));
    let [made] = &facts.writes[..] else { return None };
    let readers = ask.start.readers(&made.buffer);
    let known = |r: &Name| *r == block.name || one.chain.epilogues.contains(r);
    if func.is_param(&made.buffer) || facts.reducers.is_empty() || !readers.iter().all(known) {
        return None;
    }
    let same = same_axes(facts, &block, &one.facts, &product)?;
    let all = Facts::of(func);
    let readers: Vec<&BlockFacts> = readers.iter().filter(|r| **r != block.name).filter_map(|r| all.block(r)).collect();
    let along = readers.into_iter().map(|r| row_of(r, made, one, &same, &product)).collect::<Option<Vec<_>>>()?;
    let of = |b: &Block, v: &Name| b.iters.iter().position(|i| i.var == *v);
    let at = |b: &Block, v: &Name| Some(ask.start.loops(&b.name).get(of(b, v)?)?.clone());
    let loops = same.iter().map(|(own, theirs)| Some((at(&product, theirs)?, at(&block, own)?)));
    let loops = loops.collect::<Option<_>>()?;
    let unit = block.iters.iter().filter(|i| i.extent.is_int(1)).filter_map(|i| at(&block, &i.var)).collect();
    let reads = facts.reads.iter().map(|a| a.buffer.clone()).filter(|b| *b != made.buffer).collect();
    (!along.is_empty()).then_some(Statistic { block: block.name, reads, along, unit, loops })
}

/// The iterators of the product that those of a statistic are, by what both read; `None` where one is of its own.
fn same_axes(own: &BlockFacts, block: &Block, theirs: &BlockFacts, product: &Block) -> Option<BTreeMap<Name, Name>> {
    let mut same: BTreeMap<Name, Name> = BTreeMap::new();
    for read in own.reads.iter().filter(|a| own.writes.iter().all(|w| w.buffer != a.buffer)) {
        let other = theirs.reads.iter().find(|a| a.buffer == read.buffer);
        for (e, f) in other.into_iter().flat_map(|a| read.indices.iter().zip(&a.indices)) {
            match (block.as_iter(e), product.as_iter(f)) {
                (Some(i), Some(j)) if i.kind == j.kind && i.extent == j.extent => {
                    let before = same.insert(i.var.clone(), j.var.clone());
                    before.filter(|v| *v != j.var).map_or(Some(()), |_| None)?;
                }
                (Some(i), None) if i.extent.is_int(1) && f.is_int(0) => {}
                (None, None) if e.as_int().is_some() && e.as_int() == f.as_int() => {}
                _ => return None,
            }
        }
    }
    let all = block.iters.iter().all(|i| i.extent.is_int(1) || same.contains_key(&i.var));
    all.then_some(same)
}

/// The iterator of an epilogue that walks over the axis which the statistic lacks; `None` where it takes the
/// statistic of other vectors than the product's.
fn row_of(
    reader: &BlockFacts,
    made: &Access,
    one: &OneReduction,
    same: &BTreeMap<Name, Name>,
    product: &Block,
) -> Option<Name> {
    let result = one.facts.writes.first()?;
    let main = reader.reads.iter().find(|a| a.buffer == result.buffer)?;
    let place = |v: &Name| result.indices.iter().position(|e| e.as_var() == Some(v));
    // A result without an iterator of the product in an index has one element there.
    let fits = |e: &Expr, f: &Expr| match e.as_var().and_then(|v| same.get(v)) {
        Some(v) => place(v).is_some_and(|d| main.indices[d] == *f),
        None => f.is_int(0),
    };
    let mut own = reader.reads.iter().filter(|a| a.buffer == made.buffer);
    if !own.all(|a| made.indices.iter().zip(&a.indices).all(|(e, f)| fits(e, f))) {
        return None;
    }
    let lacks = |i: &&crate::ir::IterVar| i.kind == IterKind::Spatial && !same.values().any(|v| *v == i.var);
    let row = product.iters.iter().find(lacks)?;
    main.indices[place(&row.var)?].as_var().cloned()
}

//! Moves the init of a reduction into a block of its own.
//!
//! ```text
//! for i, ko, kt:                       for i:
//!     b0: init X[v0] = 0                   b0_init: X[v0_init] = 0
//!         X[v0] = X[v0] + ...      ->      for ko, kt:
//!                                              b0: X[v0] = X[v0] + ...
//! ```
//!
//! Preconditions: `block_exists`; `loop_exists`; `loop_around_block`; `plain_nest`; `has_init`;
//! `reduction_loops_inside`: every loop that feeds a reduction iterator is the loop or lies inside
//! it; `loops_separate`: no loop inside feeds spatial and reduction iterators alike; `once_each`:
//! the loop and those inside run each step of the reduction once.
//!
//! Effect: the init block lands right before the loop, inside copies of those loops inside that
//! feed spatial iterators, of the same kinds. For an intermediate it starts every element of the
//! spatial domain; for a parameter only those that the guard lets the reduction start.

use crate::ir::{Block, Expr, For, IterKind, IterVar, Name, Stmt};
use crate::schedule::help::guards::{conjoin, conjuncts, unproven, uses_any};
use crate::schedule::help::nest::around;
use crate::schedule::help::{injective, motion, regions, tree};
use crate::schedule::{Draft, Failure};
use std::collections::BTreeMap;

pub fn apply(d: &mut Draft, block: &Name, at: &Name) -> Result<Name, Failure> {
    let target = d.find_block(block)?.clone();
    d.find_loop(at)?;
    Failure::unless(motion::is_under(&d.func, block, at), "loop_around_block", block, || {
        format!("it does not lie under loop `{at}`")
    })?;
    motion::check_plain(d, block)?;
    Failure::unless(!target.init.is_empty(), "has_init", block, || "it has no init to move".to_string())?;
    let around: Vec<For> = tree::loops_around(&d.func, block).into_iter().cloned().collect();
    let start = around.iter().position(|l| l.var == *at).unwrap_or(0);
    let (outside, inside) = around.split_at(start);
    check_outside(&target, outside)?;
    let spatial = spatial_loops(&target, inside)?;
    injective::once_each(&target, inside, &regions::loop_ranges(&d.func))?;
    let name = d.fresh_like(block, "_init");
    let nest = init_nest(d, &target, name.clone(), inside, &spatial);
    tree::replace(&mut d.func, at, |l| vec![nest, l]);
    tree::edit_block(&mut d.func, block, |b| {
        b.init = vec![];
        b.regions = None;
    });
    Ok(name)
}

fn feeding(block: &Block, kind: IterKind, loops: &[For]) -> Vec<Name> {
    regions::loops_feeding(block, kind, &loops.iter().collect::<Vec<_>>())
}

/// Fails with `reduction_loops_inside` where a loop outside feeds a reduction iterator.
fn check_outside(block: &Block, outside: &[For]) -> Result<(), Failure> {
    feeding(block, IterKind::Reduce, outside).first().map_or(Ok(()), |l| {
        let why = format!("it feeds a reduction iterator of `{}` and lies outside", block.name);
        Err(Failure::new("reduction_loops_inside", l, why))
    })
}

/// The loops inside that feed spatial iterators; fails with `loops_separate` where one feeds reduction
/// iterators too.
pub fn spatial_loops(block: &Block, inside: &[For]) -> Result<Vec<Name>, Failure> {
    let (spatial, reduce) = (feeding(block, IterKind::Spatial, inside), feeding(block, IterKind::Reduce, inside));
    if let Some(both) = spatial.iter().find(|l| reduce.contains(l)) {
        let why = format!("it feeds spatial and reduction iterators of `{}`", block.name);
        return Err(Failure::new("loops_separate", both, why));
    }
    Ok(spatial)
}

/// The init of a block as a block of its own, under copies of those of the loops inside that are spatial.
pub fn init_nest(d: &mut Draft, block: &Block, name: Name, inside: &[For], spatial: &[Name]) -> Stmt {
    let mut ranges = regions::loop_ranges(&d.func);
    let mut loops = vec![];
    let mut map: BTreeMap<Name, Expr> = BTreeMap::new();
    for l in inside {
        if spatial.contains(&l.var) {
            let new = For { var: d.fresh_like(&l.var, "_init"), annotations: vec![], body: vec![], ..l.clone() };
            ranges.enter_loop(&new);
            map.insert(l.var.clone(), new.var_expr());
            loops.push(new);
        }
    }
    let conditions = start_conditions(d, block, inside, spatial);
    let renamed = |e: &Expr| e.subst(&|n| map.get(n).cloned());
    let guard = conjoin(unproven(conditions.iter().map(renamed), &ranges));
    let mut iters = vec![];
    let mut iter_map: BTreeMap<Name, Expr> = BTreeMap::new();
    for it in block.iters.iter().filter(|it| it.kind != IterKind::Reduce) {
        let new = IterVar { var: d.fresh_like(&it.var, "_init"), binding: renamed(&it.binding), ..it.clone() };
        iter_map.insert(it.var.clone(), new.var_expr());
        iters.push(new);
    }
    let body = block.init.iter().map(|s| s.subst(&|n| iter_map.get(n).cloned())).collect();
    let init = Block { guard, ..Block::new(name, iters, body) };
    around(loops, Stmt::Block(init))
}

/// The conditions under which an element is started: those on spatial loops, and for a parameter
/// those on the first step of the reduction.
fn start_conditions(d: &Draft, block: &Block, inside: &[For], spatial: &[Name]) -> Vec<Expr> {
    let reduce: Vec<&For> = inside.iter().filter(|l| !spatial.contains(&l.var)).collect();
    let is_param = tree::writes(block).iter().any(|b| d.func.is_param(b));
    let first = |name: &Name| reduce.iter().find(|l| l.var == *name).map(|l| l.min.clone());
    let all = conjuncts(block.guard.as_ref()).into_iter();
    let kept = all.filter(|c| is_param || !uses_any(c, reduce.iter().map(|l| &l.var)));
    kept.map(|c| c.subst(&first)).collect()
}

//! The normal form that rules start from.
//!
//! Accepted is what TVM's `NormalizePrimFunc` accepts: every leaf block that has loops has exactly
//! one per iterator, in the same order, bound as it is, from 0; loops that run the same iterations in another way are
//! replaced (`own_loops`). Then every leaf loses its iterators
//! of extent 1 together with their loops; where no spatial iterator is left, a fresh one of extent
//! 1 is put in front. So scalars become `S`, whole reductions `SR`. Before that, reductions into several
//! independent buffers are taken apart (`apart`), and iterators whose neighbours share a factor (`groups`).

use super::apart::take_apart;
use super::groups::split_groups;
use super::own_loops::own_loops;
use super::walk::{Leaf, chain_end, fresh, leaves, names};
use super::{Decline, Ranges, simplify};
use crate::ir::{Block, DType, Expr, For, IterKind, IterVar, Name, PrimFunc, Reason, Stmt};
use std::collections::{BTreeMap, BTreeSet};

const BY: &str = "normalize";

/// The function in normal form: a leaf block under a chain of loops of its own has one loop per
/// iterator, in order, and no unit iterators but the one that stands for "no spatial iterator".
///
/// # Errors
/// `loops_match_iterators`, `bindings_are_loops` or `zero_based_loops`.
pub fn normalize(f: &PrimFunc) -> Result<PrimFunc, Decline> {
    let f = &own_loops(f);
    let found = leaves(f);
    found.iter().try_for_each(|leaf| accept(f, leaf))?;
    let f = &split_groups(&take_apart(f));
    let found = leaves(f);
    let mut used = names(f);
    let mut chains: BTreeMap<Name, Plan> = BTreeMap::new();
    for leaf in found.iter().filter(|l| l.chain && matches_loops(l)) {
        chains.insert(leaf.block.name.clone(), Plan::of(leaf, &mut used));
    }
    let ranges = Ranges::of_func(f);
    let mut g = f.clone();
    g.body = f.body.iter().map(|s| rebuild(s, &chains, &ranges)).collect();
    Ok(g)
}

fn accept(f: &PrimFunc, leaf: &Leaf) -> Result<(), Decline> {
    if leaf.loops.is_empty() {
        return Ok(());
    }
    let name = f.display_name(&leaf.block.name);
    let decline = |predicate: &'static str, text| Err(Decline { by: BY, reason: Reason::new(predicate, text) });
    let (loops, iters) = (leaf.loops.len(), leaf.block.iters.len());
    if loops != iters {
        let reason = format!("block `{name}` has {iters} iterators under {loops} loops, not one loop for each");
        return decline("loops_match_iterators", reason);
    }
    for (l, it) in leaf.loops.iter().zip(&leaf.block.iters) {
        if it.binding.as_var() != Some(&l.var) {
            let iter = f.display_name(&it.var);
            let reason = format!("iterator `{iter}` of block `{name}` is not bound to the loop at its own position");
            return decline("bindings_are_loops", reason);
        }
        if !l.min.is_int(0) {
            let var = f.display_name(&l.var);
            return decline("zero_based_loops", format!("loop `{var}` of block `{name}` does not start at 0"));
        }
    }
    Ok(())
}

/// One loop per iterator, or no loops and only constant bindings of unit iterators.
fn matches_loops(leaf: &Leaf) -> bool {
    leaf.loops.len() == leaf.block.iters.len() || (leaf.loops.is_empty() && leaf.block.iters.iter().all(is_unit))
}

fn is_unit(it: &IterVar) -> bool {
    it.extent.is_int(1)
}

/// What happens to one leaf.
struct Plan {
    /// Loops and iterators that go away, with the value that replaces them.
    dropped: BTreeMap<Name, Expr>,
    /// The loop and the iterator that are put in front.
    unit: Option<(Name, Name)>,
}

impl Plan {
    fn of(leaf: &Leaf, used: &mut BTreeSet<Name>) -> Plan {
        let spatial = |it: &IterVar| it.kind == IterKind::Spatial && !is_unit(it);
        let unit = !leaf.block.iters.iter().any(spatial);
        // A unit spatial iterator that stands in front already does the job.
        let stays = |i: usize, it: &IterVar| unit && i == 0 && it.kind == IterKind::Spatial && !leaf.loops.is_empty();
        let kept = leaf.block.iters.first().is_some_and(|it| stays(0, it));
        let mut dropped = BTreeMap::new();
        for (i, it) in leaf.block.iters.iter().enumerate().filter(|(i, it)| is_unit(it) && !stays(*i, it)) {
            dropped.insert(it.var.clone(), it.min.clone());
            if let Some(l) = leaf.loops.get(i) {
                dropped.insert(l.var.clone(), l.min.clone());
            }
        }
        Plan { dropped, unit: (unit && !kept).then(|| (fresh(used, "u"), fresh(used, "vu"))) }
    }
}

fn rebuild(s: &Stmt, chains: &BTreeMap<Name, Plan>, r: &Ranges) -> Stmt {
    if let Some(plan) = chain_end(s).and_then(|b| chains.get(&b.name)) {
        return plan.apply(s, r);
    }
    match s.map_body(|s| rebuild(s, chains, r)) {
        Stmt::Block(b) => {
            let init = b.init.iter().map(|s| rebuild(s, chains, r)).collect();
            Stmt::Block(Block { init, ..b })
        }
        other => other,
    }
}

impl Plan {
    fn apply(&self, s: &Stmt, r: &Ranges) -> Stmt {
        let tidy = s.map_exprs(&mut |e| {
            let new = e.subst(&|n| self.dropped.get(n).cloned());
            if new.same(e) { new } else { simplify(&new, r) }
        });
        let chain = self.without_unit(tidy);
        match &self.unit {
            Some((var, _)) => Stmt::For(For::serial(var.clone(), Expr::i64(1), vec![chain])),
            None => chain,
        }
    }

    fn without_unit(&self, s: Stmt) -> Stmt {
        match s {
            Stmt::For(mut l) => {
                let inner = l.body.pop().map(|s| self.without_unit(s));
                if self.dropped.contains_key(&l.var)
                    && let Some(inner) = inner
                {
                    return inner;
                }
                l.body.extend(inner);
                Stmt::For(l)
            }
            Stmt::Block(mut b) => {
                b.iters.retain(|it| !self.dropped.contains_key(&it.var));
                if let Some((var, iter)) = &self.unit {
                    b.iters.insert(0, unit_iter(iter, var));
                }
                Stmt::Block(b)
            }
            other => other,
        }
    }
}

fn unit_iter(iter: &Name, var: &Name) -> IterVar {
    IterVar {
        var: iter.clone(),
        dtype: DType::I64,
        min: Expr::i64(0),
        extent: Expr::i64(1),
        kind: IterKind::Spatial,
        binding: Expr::var(var.clone(), DType::I64),
    }
}

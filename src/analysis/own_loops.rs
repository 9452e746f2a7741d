//! Loops of its own for each iterator, in the order of the iterators and from 0, where others run the same iterations.
//!
//! before: `for i in 1 .. 9: for j, k in 4, 8: v0 = j * 8 + k of 32, v1 = i of 1 .. 9, v2 = 0 of 1; B[v1, v0] = A[v1 - 1, v0]`
//! after:  `for l0, l1, l2 in 32, 8, 1: v0 = l0, v1 = l1, v2 = l2; B[v1 + 1, v0] = A[v1, v0]`

use super::walk::{Leaf, chain_end, fresh, leaves, names};
use super::{Ranges, affine, simplify};
use crate::ir::{Block, Expr, For, ForKind, IterVar, Name, PrimFunc, Stmt};
use std::collections::{BTreeMap, BTreeSet};

/// The function with its own loops for each block that loops drive in another way; others stay as they are.
pub(super) fn own_loops(f: &PrimFunc) -> PrimFunc {
    let ranges = Ranges::of_func(f);
    let found = leaves(f);
    let other: BTreeMap<&Name, &Leaf> =
        found.iter().filter(|l| is_driven(l, &ranges)).map(|l| (&l.block.name, l)).collect();
    let mut used = names(f);
    let body = f.body.iter().map(|s| match chain_end(s).and_then(|b| other.get(&b.name)) {
        Some(leaf) => with_own(leaf.block, &mut used, &ranges),
        None => s.clone(),
    });
    let body = body.collect();
    PrimFunc { body, ..f.clone() }
}

/// True where the loops are not one for each iterator yet, and run every iteration of the block's domain once.
fn is_driven(leaf: &Leaf, ranges: &Ranges) -> bool {
    let plain = |l: &For| l.kind == ForKind::Serial && l.annotations.is_empty() && l.extent.as_int() != Some(0);
    let square = |l: &For| !leaf.loops.iter().any(|o| l.min.uses_var(&o.var) || l.extent.uses_var(&o.var));
    let free = leaf.chain && !leaf.nested && leaf.block.guard.is_none() && leaf.block.matches.is_empty();
    if !free || leaf.loops.is_empty() || is_own(leaf) || !leaf.loops.iter().all(|l| plain(l) && square(l)) {
        return false;
    }
    let mut left: Vec<&For> = leaf.loops.clone();
    let drives = |it: &IterVar| {
        let (own, others): (Vec<&For>, Vec<&For>) = left.iter().partition(|l| it.binding.uses_var(&l.var));
        left = others;
        covers(it, &own, ranges)
    };
    leaf.block.iters.iter().all(drives) && left.iter().all(|l| l.extent.is_int(1))
}

fn is_own(leaf: &Leaf) -> bool {
    let own = |(l, it): (&&For, &IterVar)| it.binding.as_var() == Some(&l.var) && l.min.is_int(0) && it.min.is_int(0);
    leaf.loops.len() == leaf.block.iters.len() && leaf.loops.iter().zip(&leaf.block.iters).all(own)
}

/// True where the binding takes each value of the domain once: a number whose digits the loops are.
fn covers(it: &IterVar, own: &[&For], ranges: &Ranges) -> bool {
    let mut inner = ranges.clone();
    let from_zero = |n: &Name| {
        let l = own.iter().find(|l| l.var == *n).filter(|l| !l.min.is_int(0))?;
        Some(Expr::var(l.var.clone(), l.dtype) + l.min.clone())
    };
    own.iter().for_each(|l| inner.enter_loop(&For { min: Expr::int(0, l.dtype), ..(*l).clone() }));
    let offset = it.binding.subst(&from_zero) - it.min.clone();
    let Some(sum) = affine(&simplify(&offset, &inner), &inner).filter(|s| s.base == 0) else { return false };
    if let ([one], [l]) = (&sum.terms[..], own)
        && l.extent == it.extent
    {
        return one.coeff == 1 && one.lower == 1 && one.modulo.is_none();
    }
    let mut reach = Some(1i64);
    for t in sum.terms.iter().rev() {
        let digit = t.lower == 1 && t.modulo.is_none() && Some(t.coeff) == reach;
        let extent = own.iter().find(|l| l.var == t.var).and_then(|l| l.extent.as_int());
        reach = reach.zip(extent).filter(|_| digit).and_then(|(r, n)| r.checked_mul(n));
    }
    let unit = |l: &&&For| l.extent.is_int(1) || sum.terms.iter().any(|t| t.var == l.var);
    reach.is_some() && reach == it.extent.as_int() && own.iter().filter(unit).count() == own.len()
}

/// The block under one loop for each iterator.
fn with_own(block: &Block, used: &mut BTreeSet<Name>, ranges: &Ranges) -> Stmt {
    let loops: Vec<Name> = block.iters.iter().map(|_| fresh(used, "l")).collect();
    let shifted = |n: &Name| {
        let it = block.iters.iter().find(|it| it.var == *n).filter(|it| !it.min.is_int(0))?;
        Some(it.var_expr() + it.min.clone())
    };
    let list = |all: &[Stmt]| {
        let moved = all.iter().map(|s| s.map_exprs(&mut |e| simplify(&e.subst(&shifted), ranges)));
        moved.collect::<Vec<_>>()
    };
    let iters = block.iters.iter().zip(&loops).map(|(it, l)| IterVar {
        min: Expr::int(0, it.dtype),
        binding: Expr::var(l.clone(), it.dtype),
        ..it.clone()
    });
    let own = Block {
        iters: iters.collect(),
        regions: None,
        init: list(&block.init),
        body: list(&block.body),
        ..block.clone()
    };
    let nest = block.iters.iter().zip(&loops).rev();
    nest.fold(Stmt::Block(own), |s, (it, l)| Stmt::For(For::serial(l.clone(), it.extent.clone(), vec![s])))
}

//! Rebuilds a block over other iterators: groups of old ones, each with one loop.
//!
//! ```text
//! for i, j, u, k:                                      for k, i_j_f:
//!     b0: v0 = i, v1 = j, v2 = u, v3 = k       ->          b0: v3 = k, v0_v1_f = i_j_f
//!         X[v0, v1, v2] += A[v0, v1, v3]                       X[v0_v1_f // 5, v0_v1_f % 5, 0] += ...
//!                        transform_block_layout(b0, [[v3], [v0, v1]])
//! ```
//!
//! Preconditions: `block_exists`; `own_loops`: each iterator is bound to a loop of its own over
//! its whole domain, and nothing else lies under these loops; `no_guard`; `serial_loop`,
//! `no_annotations`, `zero_min` for the loops; `bijective`: each iterator is in one group, or left
//! out with extent 1; `one_kind`: the iterators of a group are of one kind.
//!
//! Effect: a group of one keeps its iterator and loop; a longer one is fused, row-major; an empty
//! one is a new spatial iterator of extent 1.

use crate::analysis::{self, Ranges};
use crate::ir::{BinOp, Block, DType, Expr, For, IterKind, IterVar, Name, Stmt};
use crate::schedule::help::nest::around;
use crate::schedule::help::span::cast;
use crate::schedule::help::{checks, tree};
use crate::schedule::{Draft, Failure};
use std::collections::BTreeMap;

pub fn apply(d: &mut Draft, block: &Name, map: &[Vec<Name>]) -> Result<(), Failure> {
    let old = d.find_block(block)?.clone();
    checks::no_guard(&old)?;
    check_map(&old, map)?;
    let chain = own_chain(d, &old)?;
    let mut values: BTreeMap<Name, Expr> = BTreeMap::new();
    let (mut iters, mut loops) = (vec![], vec![]);
    for group in map {
        let (it, at) = fused(d, &old, &chain, group, &mut values);
        iters.push(it);
        loops.push(at);
    }
    for it in &old.iters {
        values.entry(it.var.clone()).or_insert(Expr::int(0, it.dtype));
    }
    let ranges = ranges_of(d, &iters);
    let value = |n: &Name| values.get(n).cloned();
    let rewrite = |list: &[Stmt]| -> Vec<Stmt> {
        list.iter().map(|s| s.map_exprs(&mut |e| indices_simplified(&e.subst(&value), &ranges))).collect()
    };
    let new = Block { iters, init: rewrite(&old.init), body: rewrite(&old.body), regions: None, ..old };
    let top = chain.first().map_or(block.clone(), |l| l.var.clone());
    tree::replace(&mut d.func, &top, |_| vec![around(loops, Stmt::Block(new))]);
    Ok(())
}

fn check_map(block: &Block, map: &[Vec<Name>]) -> Result<(), Failure> {
    let uses = |v: &Name| map.iter().flatten().filter(|n| *n == v).count();
    for it in &block.iters {
        let ok = uses(&it.var) == 1 || (uses(&it.var) == 0 && it.extent.is_int(1));
        Failure::unless(ok, "bijective", &block.name, || {
            format!("iterator `{}` is in {} groups; it has to be in one", it.var, uses(&it.var))
        })?;
    }
    for group in map {
        let kinds = group.iter().map(|v| {
            let it = block.iter(v);
            it.map(|it| it.kind)
                .ok_or_else(|| Failure::new("bijective", &block.name, format!("it has no iterator `{v}`")))
        });
        let kinds = kinds.collect::<Result<Vec<_>, _>>()?;
        Failure::unless(kinds.windows(2).all(|k| k[0] == k[1]), "one_kind", &block.name, || {
            "a group mixes spatial and reduction iterators".to_string()
        })?;
    }
    Ok(())
}

/// The loops around the block, of which each stands for one iterator and holds nothing else.
pub fn own_chain(d: &Draft, block: &Block) -> Result<Vec<For>, Failure> {
    let fail = |why: String| Err(Failure::new("own_loops", &block.name, why));
    let mut bound = vec![];
    for it in &block.iters {
        match it.binding.as_var() {
            Some(l) if !bound.contains(l) => bound.push(l.clone()),
            None if it.extent.is_int(1) && it.binding.is_int(0) => {}
            _ => return fail(format!("iterator `{}` is not bound to a loop of its own", it.var)),
        }
    }
    let around = tree::loops_around(&d.func, &block.name);
    let start = around.iter().position(|l| bound.contains(&l.var)).unwrap_or(around.len());
    for l in &around[start..] {
        checks::replaceable(l)?;
        let it = block.iters.iter().find(|it| it.binding.as_var() == Some(&l.var));
        let whole = it.is_some_and(|it| it.min.is_int(0) && it.extent == l.extent);
        if l.body.len() != 1 || !(whole || l.extent.is_int(1)) {
            return fail(format!("loop `{}` is not the whole domain of one iterator alone", l.var));
        }
    }
    let chain: Vec<For> = around[start..].iter().map(|l| (*l).clone()).collect();
    let lost = bound.iter().find(|n| chain.iter().all(|l| l.var != **n));
    lost.map_or(Ok(chain), |n| fail(format!("loop `{n}` is not around it")))
}

/// The iterator and loop of a group; notes what the old iterators become.
fn fused(
    d: &mut Draft,
    block: &Block,
    chain: &[For],
    group: &[Name],
    values: &mut BTreeMap<Name, Expr>,
) -> (IterVar, For) {
    let olds: Vec<&IterVar> = group.iter().filter_map(|v| block.iter(v)).collect();
    let loop_of = |it: &IterVar| chain.iter().find(|l| it.binding.as_var() == Some(&l.var)).cloned();
    let dtype = olds.iter().chain(&block.iters.iter().collect::<Vec<_>>()).next().map_or(DType::I64, |it| it.dtype);
    if let [it] = olds.as_slice() {
        let at = loop_of(it).unwrap_or_else(|| For::serial(d.fresh("u"), it.extent.clone(), vec![]));
        values.insert(it.var.clone(), it.var_expr());
        return (IterVar { binding: at.var_expr(), ..(*it).clone() }, at);
    }
    let extent = olds.iter().map(|it| cast(dtype, &it.extent)).reduce(|a, b| a * b);
    let extent = analysis::simplify(&extent.unwrap_or(Expr::int(1, dtype)), &Ranges::of_func(&d.func));
    let at = match joined(olds.iter().filter_map(|it| loop_of(it)).map(|l| l.var)) {
        Some(base) => d.fresh(&base),
        None => d.fresh("u"),
    };
    let at = For::serial(at, extent.clone(), vec![]);
    let var = joined(group.iter().cloned()).unwrap_or_else(|| format!("v{}", at.var));
    let kind = olds.first().map_or(IterKind::Spatial, |it| it.kind);
    let zero = Expr::int(0, dtype);
    let it = IterVar { var: d.fresh(&var), dtype, min: zero, extent, kind, binding: at.var_expr() };
    take_apart(&it, &olds, values);
    (it, at)
}

/// Notes what the old iterators are in terms of the one that they are fused into.
pub fn take_apart(it: &IterVar, olds: &[&IterVar], values: &mut BTreeMap<Name, Expr>) {
    let mut rest = it.var_expr();
    for (place, old) in olds.iter().enumerate().rev() {
        let size = cast(it.dtype, &old.extent);
        let digit = if place == 0 { rest.clone() } else { Expr::binary(BinOp::FloorMod, rest.clone(), size.clone()) };
        values.insert(old.var.clone(), cast(old.dtype, &digit));
        rest = Expr::binary(BinOp::FloorDiv, rest, size);
    }
}

/// `a_b_c_f`; `None` for no names.
fn joined(names: impl Iterator<Item = Name>) -> Option<String> {
    let all: Vec<String> = names.map(|n| n.to_string()).collect();
    (!all.is_empty()).then(|| format!("{}_f", all.join("_")))
}

pub fn ranges_of(d: &Draft, iters: &[IterVar]) -> Ranges {
    let mut ranges = Ranges::of_func(&d.func);
    iters.iter().for_each(|it| ranges.set_span(it.var.clone(), &it.min, &it.extent));
    ranges
}

/// Simplifies integer index expressions; leaves values alone.
pub fn indices_simplified(e: &Expr, ranges: &Ranges) -> Expr {
    if matches!(e.dtype(), DType::I32 | DType::I64) && !e.has_load() {
        return analysis::simplify(e, ranges);
    }
    e.map_children(|c| indices_simplified(c, ranges))
}

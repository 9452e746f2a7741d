//! Stages an operand of a sum of products at the block's iterators themselves.
//!
//! ```text
//!                                                   for ax0, ax1:
//!                                                       b0_right_b: w0 = ax0, w1 = ax1
//! for i, j, k:                                              b0_right[w0, w1] = float16(W[w1, w0 // 2]) * 2
//!     b0: v0 = i, v1 = j, v2 = k            ->      for i, j, k:
//!         C[v0, v1] += A[v0, v2]                        b0: C[v0, v1] += A[v0, v2] * b0_right[v2, v1]
//!             * (float16(W[v1, v2 // 2]) * 2)
//!                        reindex(b0, "right", [[v2], [v1]])
//! ```
//!
//! Preconditions: `block_exists`; `plain_nest`; `sum_of_products`: one store adds a product of two
//! factors; `no_guard`; `iterators_only`; `each_once`: an iterator is in one group at most;
//! `groups_cover`: the operand uses no iterator that is in no group; `written_before`: what a factor
//! reads is written before the block's nest begins; `plain_store`: the result lies at iterators or
//! constants; `result_iterators`: the groups of the result hold only iterators that it lies at;
//! `untouched_in_nest`: no other block of the nest reads or writes the result.
//!
//! Effect: one dimension per group, row-major in it; an empty group is a dimension of extent 1. A factor
//! (without conversions that keep its value) is computed into a new buffer by a block before the nest; the
//! result is accumulated in a new buffer and copied by a block after the nest.

use crate::analysis::{self, Combiner, Facts, Ranges, Reducer};
use crate::ir::{Block, Buffer, DType, Expr, ExprKind, IterKind, IterVar, Name, Scope, Stmt};
use crate::schedule::help::copies::{fork, late_writer};
use crate::schedule::help::span::cast;
use crate::schedule::help::{checks, nest, regions, tree};
use crate::schedule::primitive::layout::transform_block_layout::{indices_simplified, ranges_of, take_apart};
use crate::schedule::{Draft, Failure};
use std::collections::{BTreeMap, BTreeSet};

/// A part of a sum of products, `result += left * right`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum Operand {
    Left,
    Right,
    Result,
}

impl Operand {
    /// Every operand.
    pub const ALL: [Operand; 3] = [Operand::Left, Operand::Right, Operand::Result];

    /// The name in the text form.
    pub fn name(self) -> &'static str {
        match self {
            Operand::Left => "left",
            Operand::Right => "right",
            Operand::Result => "result",
        }
    }
}

pub fn apply(d: &mut Draft, block: &Name, &operand: &Operand, map: &[Vec<Name>]) -> Result<Name, Failure> {
    let old = d.find_block(block)?.clone();
    let top = fork(d, block, &[])?.child;
    checks::no_guard(&old)?;
    checks::iterators_only(&d.func, &old)?;
    let reducer = sum_of_products(d, &old)?;
    let groups = groups(&old, map)?;
    let staged = match operand {
        Operand::Left | Operand::Right => factor(d, &old, &reducer, operand, &groups, &top)?,
        Operand::Result => result(d, &old, &reducer, &groups, &top)?,
    };
    Ok(staged)
}

/// The reducer of a block that sums products.
pub fn sum_of_products(d: &Draft, block: &Block) -> Result<Reducer, Failure> {
    let facts = Facts::of(&d.func);
    let reducer = facts.block(&block.name).and_then(|b| b.reducer.clone());
    let fits = |r: &Reducer| r.combiner == Combiner::Sum && analysis::factors(&r.term).is_some();
    reducer.filter(fits).ok_or_else(|| {
        Failure::new("sum_of_products", &block.name, "its one store does not add a product of two factors")
    })
}

/// The iterators of each group.
fn groups<'a>(block: &'a Block, map: &[Vec<Name>]) -> Result<Vec<Vec<&'a IterVar>>, Failure> {
    let mut seen = BTreeSet::new();
    let mut find = |v: &Name| {
        let it = block.iter(v).filter(|it| it.min.is_int(0));
        it.filter(|_| seen.insert(v.clone())).ok_or_else(|| {
            Failure::new("each_once", &block.name, format!("`{v}` is no iterator from 0 on, or comes twice"))
        })
    };
    map.iter().map(|g| g.iter().map(&mut find).collect()).collect()
}

/// Fails unless every iterator that the expressions use is in a group.
fn check_cover<'a>(
    block: &Block,
    groups: &[Vec<&IterVar>],
    used: impl Iterator<Item = &'a Expr> + Clone,
) -> Result<(), Failure> {
    let covered = |v: &Name| groups.iter().flatten().any(|it| it.var == *v);
    let left_out = |it: &&IterVar| !covered(&it.var) && used.clone().any(|e| e.uses_var(&it.var));
    block.iters.iter().find(left_out).map_or(Ok(()), |it| {
        let why = format!("the operand uses `{}`, which is in no group", it.var);
        Err(Failure::new("groups_cover", &block.name, why))
    })
}

/// Type of indices where a group tells none.
fn index_dtype(block: &Block) -> DType {
    block.iters.first().map_or(DType::I64, |it| it.dtype)
}

/// The extent of each group.
fn extents(block: &Block, groups: &[Vec<&IterVar>], ranges: &Ranges) -> Vec<Expr> {
    let size = |g: &Vec<&IterVar>| {
        let dtype = g.first().map_or(index_dtype(block), |it| it.dtype);
        let all = g.iter().map(|it| cast(dtype, &it.extent)).reduce(|a, b| a * b);
        analysis::simplify(&all.unwrap_or(Expr::int(1, dtype)), ranges)
    };
    groups.iter().map(size).collect()
}

/// The index of each group at the block's iterators.
fn fused_indices(block: &Block, groups: &[Vec<&IterVar>]) -> Vec<Expr> {
    let fused = |g: &Vec<&IterVar>| {
        let dtype = g.first().map_or(index_dtype(block), |it| it.dtype);
        let own = |it: &IterVar| cast(dtype, &it.var_expr());
        let steps = g.iter().skip(1);
        let first = g.first().map_or(Expr::int(0, dtype), |it| own(it));
        steps.fold(first, |at, it| at * cast(dtype, &it.extent) + own(it))
    };
    groups.iter().map(fused).collect()
}

/// Declares the staging buffer.
fn declare(d: &mut Draft, block: &Name, operand: Operand, dtype: DType, shape: Vec<Expr>) -> Name {
    let name = d.fresh(&format!("{block}_{}", operand.name()));
    d.declare(Buffer::new(name.clone(), dtype, shape, Scope::Global));
    name
}

fn factor(
    d: &mut Draft,
    old: &Block,
    reducer: &Reducer,
    operand: Operand,
    groups: &[Vec<&IterVar>],
    top: &Name,
) -> Result<Name, Failure> {
    let side = (operand == Operand::Right) as usize;
    let factors = analysis::factors(&reducer.term).map(|f| analysis::narrow(&f[side]));
    let Some(value) = factors else {
        return Err(Failure::new("sum_of_products", &old.name, "its term is no product of two factors"));
    };
    check_cover(old, groups, [&value].into_iter())?;
    late_writer(d, &value, top).map_or(Ok(()), |(buffer, late)| {
        let why = format!("it writes `{buffer}`, which the factor reads, in or after the nest");
        Err(Failure::new("written_before", &late, why))
    })?;
    let shape = extents(old, groups, &Ranges::of_func(&d.func));
    let buffer = declare(d, &old.name, operand, value.dtype(), shape.clone());
    let copy = staging(d, old, groups, &shape, &buffer, &value);
    let name = copy.name.clone();
    let all = vec![None; copy.iters.len()];
    let nest = nest::build(d, copy, &all, &[]);
    let load = Expr::load(buffer, fused_indices(old, groups), value.dtype());
    let term = analysis::with_factor(&reducer.term, side, &mut |_| load.clone()).unwrap_or(reducer.term.clone());
    tree::edit_values(&mut d.func, &old.name, |e| e.replaced(&reducer.term, &term));
    tree::replace(&mut d.func, top, |child| vec![nest, child]);
    Ok(name)
}

/// `buffer[w..] = value`, with the block's iterators as digits of new ones.
fn staging(d: &mut Draft, old: &Block, groups: &[Vec<&IterVar>], shape: &[Expr], buffer: &Name, value: &Expr) -> Block {
    let mut values: BTreeMap<Name, Expr> = BTreeMap::new();
    let mut iters = vec![];
    for (axis, (group, extent)) in groups.iter().zip(shape).enumerate() {
        let zero = Expr::int(0, extent.dtype());
        let it = IterVar {
            var: d.fresh(&format!("w{axis}")),
            dtype: extent.dtype(),
            min: zero.clone(),
            extent: extent.clone(),
            kind: IterKind::Spatial,
            binding: zero,
        };
        take_apart(&it, group, &mut values);
        iters.push(it);
    }
    let ranges = ranges_of(d, &iters);
    let value = indices_simplified(&value.subst(&|n| values.get(n).cloned()), &ranges);
    let indices = iters.iter().map(IterVar::var_expr).collect();
    let name = d.fresh_like(buffer, "_b");
    debug_assert!(old.iters.len() >= values.len());
    Block::new(name, iters, vec![Stmt::Store { buffer: buffer.clone(), indices, value }])
}

fn result(
    d: &mut Draft,
    old: &Block,
    reducer: &Reducer,
    groups: &[Vec<&IterVar>],
    top: &Name,
) -> Result<Name, Failure> {
    let Some(indices) = regions::store_indices(old, &reducer.buffer).into_iter().next() else {
        return Err(Failure::new("plain_store", &old.name, "it stores nothing"));
    };
    let iter_of = |e: &Expr| old.as_iter(e).cloned();
    if let Some(e) = indices.iter().find(|e| iter_of(e).is_none() && e.as_int().is_none()) {
        return Err(Failure::new("plain_store", &old.name, format!("its result lies at {e}, which is no iterator")));
    }
    check_cover(old, groups, indices.iter())?;
    if let Some(it) = groups.iter().flatten().find(|it| !indices.iter().any(|e| e.uses_var(&it.var))) {
        let why = format!("its result does not lie at `{}`, so there is no one element to copy", it.var);
        return Err(Failure::new("result_iterators", &old.name, why));
    }
    untouched_in_nest(d, old, &reducer.buffer, top)?;
    let shape = extents(old, groups, &Ranges::of_func(&d.func));
    let buffer = declare(d, &old.name, Operand::Result, reducer.dtype, shape);
    let at = fused_indices(old, groups);
    let mut renamed = BTreeMap::new();
    let mut iters: Vec<IterVar> = vec![];
    for it in indices.iter().filter_map(iter_of) {
        if !renamed.contains_key(&it.var) {
            let var = d.fresh(&format!("w{}", iters.len()));
            renamed.insert(it.var.clone(), Expr::var(var.clone(), it.dtype));
            iters.push(IterVar { var, binding: Expr::int(0, it.dtype), ..it });
        }
    }
    let own = |e: &Expr| e.subst(&|n| renamed.get(n).cloned());
    let value = Expr::load(buffer.clone(), at.iter().map(own).collect(), reducer.dtype);
    let name = d.fresh_like(&buffer, "_b");
    let store = Stmt::Store { buffer: reducer.buffer.clone(), indices: indices.iter().map(own).collect(), value };
    let all = vec![None; iters.len()];
    let nest = nest::build(d, Block::new(name.clone(), iters, vec![store]), &all, &[]);
    let (from, to) = (reducer.buffer.clone(), buffer);
    tree::edit_block(&mut d.func, &old.name, |b| {
        b.regions = None;
        b.init = b.init.iter().map(|s| moved(s, &from, &to, &at)).collect();
        b.body = b.body.iter().map(|s| moved(s, &from, &to, &at)).collect();
    });
    tree::replace(&mut d.func, top, |child| vec![child, nest]);
    Ok(name)
}

/// Fails where another block under the statement `top` reads or writes the result, which is copied to its place
/// after that statement.
fn untouched_in_nest(d: &Draft, old: &Block, buffer: &Name, top: &Name) -> Result<(), Failure> {
    let nest = tree::path(&d.func, top).unwrap_or_default();
    let blocks = nest.last().map_or(vec![], |s| tree::blocks_in(s));
    let touches = |b: &&&Block| tree::reads(b).contains(buffer) || tree::writes(b).contains(buffer);
    blocks.iter().filter(|b| b.name != old.name).find(touches).map_or(Ok(()), |b| {
        let why = format!("it reads or writes `{buffer}` in the nest after which the result is copied there");
        Err(Failure::new("untouched_in_nest", &b.name, why))
    })
}

/// A store and its loads of `from` brought to `to[at]`.
fn moved(s: &Stmt, from: &Name, to: &Name, at: &[Expr]) -> Stmt {
    let load = |e: &Expr| loads_moved(e, from, to, at);
    match s {
        Stmt::Store { buffer, value, .. } if buffer == from => {
            Stmt::Store { buffer: to.clone(), indices: at.to_vec(), value: load(value) }
        }
        other => other.map_exprs(&mut |e| load(e)),
    }
}

fn loads_moved(e: &Expr, from: &Name, to: &Name, at: &[Expr]) -> Expr {
    match e.kind() {
        ExprKind::Load { buffer, dtype, .. } if buffer == from => Expr::load(to.clone(), at.to_vec(), *dtype),
        _ => e.map_children(|c| loads_moved(c, from, to, at)),
    }
}

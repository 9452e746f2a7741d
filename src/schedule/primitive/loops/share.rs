//! Computes once what several blocks compute alike, in a block and a buffer of its own.
//!
//! ```text
//! for i, k: b0: t0[v0] = max(t0[v0], p0[v0, v1])            for i, k: p0_local_b: p0_local[v0, v1] = p0[v0, v1]
//! for i, j: b1: p1[v2, v3] = p0[v2, v3] - t0[v2]      ->    for i, k: b0: ... p0_local[v0, v1]
//!                                                           for i, j: b1: ... p0_local[v2, v3]
//!                        share([b0, b1], p0, "local")
//! ```
//!
//! With a buffer, what is shared are the loads of one of its elements, the one that depends on most
//! iterators; without, the largest expression with a function in it, such as `exp(p0[v0, v1] - t0[v0])`.
//!
//! Preconditions: `block_exists`; `several_blocks`: one at least; `plain_nest`: each block lies under loops alone;
//! `no_guard`; `same_iterators`: the blocks have as many iterators, from 0 and of the same extents, one
//! by one; `same_value`: each block has the value, computed under no condition; `inputs_unchanged`:
//! what the value reads is written before the outermost loop around the first of them.
//!
//! Effect: a block over the iterators that the value depends on, right before the first block, writes
//! it to a new buffer with one dimension for each; the blocks read that.

use crate::analysis::{self, Ranges};
use crate::ir::{BinOp, Block, Buffer, Expr, ExprKind, IterVar, Name, Scope, Stmt};
use crate::schedule::help::copies::{copied_iters, late_writer, position};
use crate::schedule::help::{checks, motion, nest, regions, scope, tree};
use crate::schedule::{Draft, Failure};

pub fn apply(d: &mut Draft, blocks: &[Name], buffer: &Option<Name>, scope: &Scope) -> Result<Name, Failure> {
    let wanted = buffer.as_ref().map_or(Wanted::Function, Wanted::Element);
    shared(d, blocks, &wanted, scope)
}

/// What is computed once.
pub enum Wanted<'a> {
    /// The loads of one element of a buffer.
    Element(&'a Name),
    /// The largest expression with a function in it.
    Function,
    /// The largest expression of elements of all of these buffers.
    Elements(&'a [Name]),
}

impl Wanted<'_> {
    fn buffers(&self) -> &[Name] {
        match self {
            Wanted::Element(buffer) => std::slice::from_ref(*buffer),
            Wanted::Function => &[],
            Wanted::Elements(buffers) => buffers,
        }
    }
}

/// Computes once what is wanted, for all blocks.
pub fn shared(d: &mut Draft, blocks: &[Name], wanted: &Wanted, scope: &Scope) -> Result<Name, Failure> {
    let all = blocks.iter().map(|b| d.find_block(b).cloned()).collect::<Result<Vec<Block>, Failure>>()?;
    let Some((first, others)) = all.split_first() else {
        return Err(Failure::new("several_blocks", &Name::new(""), "it names no block"));
    };
    wanted.buffers().iter().try_for_each(|b| d.find_buffer(b).map(|_| ()))?;
    all.iter().try_for_each(|b| check_block(d, b, first))?;
    let ranges = scope::everywhere(&d.func);
    let value = common(first, others, wanted, &ranges).ok_or_else(|| {
        let names: Vec<String> = wanted.buffers().iter().map(|b| format!("`{b}`")).collect();
        let what = match wanted {
            Wanted::Element(_) => format!("no element of {}", names[0]),
            Wanted::Function => "no function of a load".to_string(),
            Wanted::Elements(_) => format!("no value of elements of {}", names.join(" and ")),
        };
        Failure::new("same_value", &first.name, format!("{what} is computed by all of these blocks alike"))
    })?;
    let top = tree::loops_around(&d.func, &first.name).first().map_or(first.name.clone(), |l| l.var.clone());
    late_writer(d, &value, &top).map_or(Ok(()), |(buffer, late)| {
        let why = format!("it writes `{buffer}`, which the shared value reads");
        Err(Failure::new("inputs_unchanged", &late, why))
    })?;
    let places: Vec<usize> = (0..first.iters.len()).filter(|k| is_dimension(&first.iters[*k], &value)).collect();
    let iters: Vec<IterVar> = places.iter().map(|k| first.iters[*k].clone()).collect();
    let (block, staged) = stage(d, first, &value, &iters, wanted, scope);
    let name = block.name.clone();
    let domains = vec![None; block.iters.len()];
    let nest = nest::build(d, block, &domains, &[]);
    tree::replace(&mut d.func, &top, |old| vec![nest, old]);
    for b in &all {
        let indices: Vec<Expr> = places.iter().map(|k| b.iters[*k].var_expr()).collect();
        let load = Expr::load(staged.clone(), indices, value.dtype());
        let own = regions::renamed(&value, first, b);
        tree::edit_values(&mut d.func, &b.name, |e| replaced(e, &own, &load, &ranges));
    }
    Ok(name)
}

/// Iterators of one value are dimensions too, so that places look alike whatever the extents are.
fn is_dimension(it: &IterVar, value: &Expr) -> bool {
    it.extent.is_int(1) || value.uses_var(&it.var)
}

fn check_block(d: &Draft, b: &Block, first: &Block) -> Result<(), Failure> {
    motion::check_plain(d, &b.name)?;
    checks::no_guard(b)?;
    let alike = b.iters.len() == first.iters.len()
        && b.iters.iter().zip(&first.iters).all(|(a, c)| a.min.is_int(0) && c.min.is_int(0) && a.extent == c.extent);
    Failure::unless(alike, "same_iterators", &b.name, || {
        format!("its iterators are not those of `{}`, one by one", first.name)
    })?;
    Failure::unless(position(d, &first.name) <= position(d, &b.name), "inputs_unchanged", &b.name, || {
        format!("it comes before `{}`", first.name)
    })
}

/// The value that all blocks have, over the iterators of the first.
fn common(first: &Block, others: &[Block], wanted: &Wanted, ranges: &Ranges) -> Option<Expr> {
    let mut found: Vec<Expr> = values(first).into_iter().filter(|e| is_wanted(e, wanted)).collect();
    let weight = |e: &Expr| match wanted {
        Wanted::Element(_) => first.iters.iter().filter(|it| e.uses_var(&it.var)).count(),
        Wanted::Function | Wanted::Elements(_) => size(e),
    };
    found.sort_by_key(|e| std::cmp::Reverse(weight(e)));
    let has = |b: &Block, e: &Expr| {
        let own = regions::renamed(e, first, b);
        values(b).iter().any(|x| same(x, &own, ranges))
    };
    found.into_iter().find(|e| others.iter().all(|b| has(b, e)))
}

fn is_wanted(e: &Expr, wanted: &Wanted) -> bool {
    let has = |is: fn(&ExprKind) -> bool| e.any(&|e| is(e.kind()));
    let value = e.dtype().is_float() && !has(|k| matches!(k, ExprKind::Let { .. }));
    match (e.kind(), wanted) {
        (ExprKind::Load { buffer, .. }, Wanted::Element(want)) => buffer == *want,
        (_, Wanted::Element(_)) => false,
        (_, Wanted::Function) => {
            let computes = has(|k| matches!(k, ExprKind::Call { .. })) && has(|k| matches!(k, ExprKind::Load { .. }));
            value && computes
        }
        (_, Wanted::Elements(all)) => {
            let of_others = |e: &Expr| matches!(e.kind(), ExprKind::Load { buffer, .. } if !all.contains(buffer));
            value && all.iter().all(|b| e.loads(b)) && !e.any(&of_others)
        }
    }
}

fn size(e: &Expr) -> usize {
    let mut n = 0;
    e.visit(&mut |_| n += 1);
    n
}

/// The expressions that a block's body computes under no condition and over its iterators alone.
fn values(b: &Block) -> Vec<Expr> {
    let mut out = vec![];
    let known = |e: &Expr| !e.any(&|x| x.as_var().is_some_and(|v| b.iter(v).is_none() && !is_size(b, v)));
    for s in &b.body {
        s.visit(&mut |s| s.for_each_expr(|e| always(e, &mut out)));
    }
    out.retain(known);
    out
}

/// Variables that are neither iterators nor bound inside the block: symbolic extents, scalars.
fn is_size(b: &Block, name: &Name) -> bool {
    let mut bound = false;
    for s in &b.body {
        s.visit(&mut |s| {
            if let Stmt::Let { var, .. } = s {
                bound |= var == name;
            }
            if let Stmt::For(l) = s {
                bound |= l.var == *name;
            }
            if let Stmt::Block(inner) = s {
                bound |= inner.iter(name).is_some();
            }
            s.for_each_expr(|e| {
                e.visit(&mut |e| {
                    if let ExprKind::Let { var, .. } = e.kind() {
                        bound |= var == name;
                    }
                })
            });
        });
    }
    !bound
}

fn always(e: &Expr, out: &mut Vec<Expr>) {
    out.push(e.clone());
    match e.kind() {
        ExprKind::IfThenElse { cond, .. } => always(cond, out),
        _ => e.for_each_child(|c| always(c, out)),
    }
}

/// True for expressions that are the same, or load an element that is.
fn same(a: &Expr, b: &Expr, ranges: &Ranges) -> bool {
    if a == b {
        return true;
    }
    match (a.kind(), b.kind()) {
        (ExprKind::Load { buffer: x, indices: i, .. }, ExprKind::Load { buffer: y, indices: j, .. }) => {
            let equal =
                |(p, q): (&Expr, &Expr)| analysis::prove(&Expr::binary(BinOp::Eq, p.clone(), q.clone()), ranges);
            x == y && i.len() == j.len() && i.iter().zip(j).all(equal)
        }
        _ => false,
    }
}

fn replaced(e: &Expr, value: &Expr, load: &Expr, ranges: &Ranges) -> Expr {
    if same(e, value, ranges) { load.clone() } else { e.map_children(|c| replaced(c, value, load, ranges)) }
}

/// The block that computes the value, and the buffer it leaves it in.
fn stage(
    d: &mut Draft,
    first: &Block,
    value: &Expr,
    iters: &[IterVar],
    wanted: &Wanted,
    scope: &Scope,
) -> (Block, Name) {
    let suffix = format!("_{}", scope.name().replace('.', "_"));
    let staged = match wanted {
        Wanted::Element(b) => d.fresh_like(b, &suffix),
        Wanted::Function | Wanted::Elements(_) => d.fresh(&format!("{}_value{suffix}", first.name)),
    };
    let shape: Vec<Expr> = iters.iter().map(|it| it.extent.clone()).collect();
    d.declare(Buffer::new(staged.clone(), value.dtype(), shape, scope.clone()));
    let name = d.fresh_like(&staged, "_b");
    let (own, map) = copied_iters(d, iters);
    let indices = own.iter().map(IterVar::var_expr).collect();
    let value = value.subst(&|n| map.get(n).cloned());
    let store = Stmt::Store { buffer: staged.clone(), indices, value };
    (Block::new(name, own, vec![store]), staged)
}

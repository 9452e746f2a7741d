//! Makes the nest under a loop, which holds one block, a block around that one.
//!
//! ```text
//! for i0, k0:                                          for i0, k0:
//!     for i1, k1:                                          b0_o: v0_o = i0, v1_o = k0
//!         b0: v0 = i0*4 + i1, v1 = k0*8 + k1                   init for i1_init: b0_init: X[v0_o*4 + v0_i] = 0
//!             init X[v0] = 0                       ->          for i1, k1:
//!             X[v0] = X[v0] + A[v0, v1]                            b0: v0_i = i1, v1_i = k1
//!                                                                      X[v0_o*4 + v0_i] = X[..] + A[..]
//!                                          blockize(i1)
//! ```
//!
//! Preconditions: `loop_exists`; `one_block`: the loop and those inside it hold one statement each, the
//! innermost a block; `known_iterators`; `zero_min`: iterators start at 0; `no_alias`: the block views no
//! part of a buffer under another name; `iterators_only`; `rectangular`: no bound of these loops depends
//! on a loop outside; `divides`: each iterator is an outer part times a constant plus an inner part that
//! runs below the constant, which divides its extent; `guard_divides`: no condition of the guard depends on loops
//! of both sides. Where the init moves: `loops_separate`: no loop inside feeds spatial and reduction iterators;
//! `once_each`: the loops inside run each step of the reduction once; `starts_at_zero`: the first step of the
//! loops inside is the first of the reduction.
//!
//! Effect: a new block has the outer part of each iterator, the old one the inner part, each with those
//! conditions of the guard that are its own; an iterator of one side alone stays what it is. The init goes to
//! the outer block where that one reduces, else it stays. Whatever moves, stages or inlines blocks takes the
//! outer block for one that reads and writes what those inside do.

use super::transform_block_layout::indices_simplified;
use crate::analysis::{self, Ranges, simplify};
use crate::ir::{BinOp, Block, Expr, ExprKind, For, IterKind, IterVar, Name, Stmt};
use crate::schedule::help::guards::{conjoin, conjuncts, uses_any};
use crate::schedule::help::span::{Running, cast, span_of};
use crate::schedule::help::{checks, injective, nest, regions, scope, tree};
use crate::schedule::primitive::reduction::decompose_reduction::{init_nest, spatial_loops};
use crate::schedule::{Draft, Failure};
use std::collections::BTreeMap;

pub fn apply(d: &mut Draft, at: &Name) -> Result<Name, Failure> {
    let (loops, old) = chain(d.find_loop(at)?)?;
    check_block(d, &old, &loops[0])?;
    let sides = Sides::of(d, at, &loops)?;
    let (outer_guard, inner_guard) = sides.guards(&old)?;
    let name = d.fresh_like(&old.name, "_o");
    let parts: Vec<Part> = old.iters.iter().map(|it| sides.divide(d, &old, it)).collect::<Result<_, _>>()?;
    let inside = rewritten(d, &old, &parts, inner_guard);
    let mut outer = Block::new(name.clone(), parts.iter().filter_map(|p| p.outer.clone()).collect(), vec![]);
    outer.guard = outer_guard;
    let reduces = outer.iters.iter().any(|it| it.kind == IterKind::Reduce);
    let inner = if reduces && !old.init.is_empty() {
        let spatial = sides.check_init(&old, &inside)?;
        let init_name = d.fresh_like(&old.name, "_init");
        outer.init = vec![init_nest(d, &inside, init_name, &loops, &spatial)];
        Block { init: vec![], ..inside }
    } else {
        inside
    };
    outer.body = vec![nest::around(loops, Stmt::Block(inner))];
    tree::replace(&mut d.func, at, |_| vec![Stmt::Block(outer)]);
    Ok(name)
}

/// The loops from `at` down to the only block under it, and the block.
fn chain(at: &For) -> Result<(Vec<For>, Block), Failure> {
    let mut loops = vec![at.clone()];
    let mut l = at;
    loop {
        match l.body.as_slice() {
            [Stmt::For(next)] => {
                loops.push(next.clone());
                l = next;
            }
            [Stmt::Block(b)] => return Ok((loops, b.clone())),
            _ => {
                let why = format!("loop `{}` does not hold one loop or one block alone", l.var);
                return Err(Failure::new("one_block", &at.var, why));
            }
        }
    }
}

fn check_block(d: &Draft, b: &Block, at: &For) -> Result<(), Failure> {
    checks::known_iterators(at)?;
    if let Some(it) = b.iters.iter().find(|it| !it.min.is_int(0)) {
        return Err(Failure::new("zero_min", &b.name, format!("iterator `{}` starts at {}", it.var, it.min)));
    }
    Failure::unless(b.matches.is_empty(), "no_alias", &b.name, || {
        "it views a part of a buffer under another name".to_string()
    })?;
    checks::iterators_only(&d.func, b)
}

/// The loops inside the new block, and what varies outside of it.
struct Sides {
    inside: Vec<For>,
    running: Running,
    outside: Vec<Name>,
    ranges: Ranges,
}

/// What becomes of an iterator.
struct Part {
    outer: Option<IterVar>,
    inner: Option<IterVar>,
    /// The old iterator in terms of the new ones; `None` where it stays.
    value: Option<(Name, Expr)>,
}

impl Sides {
    fn of(d: &Draft, at: &Name, loops: &[For]) -> Result<Sides, Failure> {
        let path = tree::path(&d.func, at).unwrap_or_default();
        let around = path.split_last().map_or(&[][..], |(_, around)| around);
        let outside: Vec<Name> = around.iter().flat_map(|s| checks::variables(s)).collect();
        if let Some(l) = loops.iter().find(|l| uses_any(&l.min, &outside) || uses_any(&l.extent, &outside)) {
            let why = format!("the bounds of loop `{}` depend on loops outside of the new block", l.var);
            return Err(Failure::new("rectangular", &l.var, why));
        }
        let running = loops.iter().map(regions::span_of_loop).collect();
        Ok(Sides { inside: loops.to_vec(), running, outside, ranges: scope::everywhere(&d.func) })
    }

    fn uses_inside(&self, e: &Expr) -> bool {
        uses_any(e, self.running.keys())
    }

    /// The conditions of a block's guard that depend on loops outside, and the others.
    fn guards(&self, b: &Block) -> Result<(Option<Expr>, Option<Expr>), Failure> {
        let (inner, outer): (Vec<Expr>, Vec<Expr>) =
            conjuncts(b.guard.as_ref()).into_iter().partition(|c| self.uses_inside(c));
        if let Some(c) = inner.iter().find(|c| uses_any(c, &self.outside)) {
            let why = format!(
                "its guard {c} depends on loops inside and outside of the new block; split by factors that divide"
            );
            return Err(Failure::new("guard_divides", &b.name, why));
        }
        Ok((conjoin(outer), conjoin(inner)))
    }

    /// Divides an iterator into what the loops outside and those inside choose of it.
    fn divide(&self, d: &mut Draft, b: &Block, it: &IterVar) -> Result<Part, Failure> {
        let fail = |why: &str| {
            let why = format!("iterator `{}`, bound to {}, {why}", it.var, it.binding);
            Failure::new("divides", &b.name, why)
        };
        let binding = simplify(&it.binding, &self.ranges);
        let own = |binding: Expr| IterVar { binding, ..it.clone() };
        if !self.uses_inside(&binding) {
            return Ok(Part { outer: Some(own(binding)), inner: None, value: None });
        }
        let Some((inner, outer)) = self.parts(&binding) else {
            return Err(fail("is no sum of a part for the loops outside and one for those inside"));
        };
        if !uses_any(&outer, &self.outside) {
            return Ok(Part { outer: None, inner: Some(own(binding)), value: None });
        }
        let (low, size) = self.range(&inner).ok_or_else(|| fail("has an inner part whose range is no constant"))?;
        let by = Expr::int(size, it.dtype);
        let rest = simplify(&(outer + low.clone()), &self.ranges);
        let whole = simplify(&Expr::binary(BinOp::FloorMod, it.extent.clone(), by.clone()), &self.ranges).is_int(0);
        if analysis::multiple_of(&rest, &self.ranges) % size != 0 || !whole {
            return Err(fail(&format!(
                "has an inner part of {size} values, which does not divide the rest and the extent"
            )));
        }
        let quotient = |e: &Expr| simplify(&Expr::binary(BinOp::FloorDiv, e.clone(), by.clone()), &self.ranges);
        let (extent, outer) = (quotient(&it.extent), quotient(&rest));
        let outer = IterVar { var: d.fresh_like(&it.var, "_o"), extent, binding: outer, ..it.clone() };
        let binding = simplify(&(inner - low), &self.ranges);
        let inner = IterVar { var: d.fresh_like(&it.var, "_i"), extent: by.clone(), binding, ..it.clone() };
        let value = outer.var_expr() * by + inner.var_expr();
        Ok(Part { outer: Some(outer), inner: Some(inner), value: Some((it.var.clone(), value)) })
    }

    /// The terms of a sum that the loops inside choose, and the others; `None` where one depends on both.
    fn parts(&self, e: &Expr) -> Option<(Expr, Expr)> {
        let zero = Expr::int(0, e.dtype());
        if !uses_any(e, &self.outside) {
            return Some((e.clone(), zero));
        }
        if !self.uses_inside(e) {
            return Some((zero, e.clone()));
        }
        match e.kind() {
            ExprKind::Binary { op: op @ (BinOp::Add | BinOp::Sub), a, b } => {
                let (a, b) = (self.parts(a)?, self.parts(b)?);
                Some((Expr::binary(*op, a.0, b.0), Expr::binary(*op, a.1, b.1)))
            }
            ExprKind::Binary { op: BinOp::Mul, a, b } if b.as_int().is_some() => {
                let a = self.parts(a)?;
                Some((a.0 * b.clone(), a.1 * b.clone()))
            }
            _ => None,
        }
    }

    /// The least value of an expression over the loops inside, and how many there are up to the greatest.
    fn range(&self, e: &Expr) -> Option<(Expr, i64)> {
        let span = span_of(e, &self.running, &self.ranges)?;
        let size = span.extent(&self.ranges).as_int().filter(|n| *n > 0)?;
        span.lo.as_int().map(|low| (cast(e.dtype(), &Expr::i64(low)), size))
    }

    /// What has to hold for the init to come before all loops inside, and those that it runs over.
    fn check_init(&self, old: &Block, inside: &Block) -> Result<Vec<Name>, Failure> {
        let spatial = spatial_loops(inside, &self.inside)?;
        injective::once_each(old, &self.inside, &self.ranges)?;
        let first = |n: &Name| self.inside.iter().find(|l| l.var == *n).map(|l| l.min.clone());
        let late =
            |it: &&IterVar| it.kind == IterKind::Reduce && !simplify(&it.binding.subst(&first), &self.ranges).is_int(0);
        inside.iters.iter().find(late).map_or(Ok(spatial), |it| {
            let why = format!("reduction iterator `{}` is not 0 at the first step of the loops", it.var);
            Err(Failure::new("starts_at_zero", &old.name, why))
        })
    }
}

/// The old block over the inner parts of its iterators, with its init.
fn rewritten(d: &Draft, old: &Block, parts: &[Part], guard: Option<Expr>) -> Block {
    let mut ranges = scope::everywhere(&d.func);
    for it in parts.iter().flat_map(|p| [&p.outer, &p.inner]).flatten() {
        ranges.set_span(it.var.clone(), &it.min, &it.extent);
    }
    let values: BTreeMap<&Name, &Expr> = parts.iter().filter_map(|p| p.value.as_ref()).map(|(n, e)| (n, e)).collect();
    let value = |n: &Name| values.get(n).map(|e| (*e).clone());
    let rewrite = |list: &[Stmt]| -> Vec<Stmt> {
        list.iter().map(|s| s.map_exprs(&mut |e| indices_simplified(&e.subst(&value), &ranges))).collect()
    };
    let iters = parts.iter().filter_map(|p| p.inner.clone()).collect();
    Block { iters, guard, init: rewrite(&old.init), body: rewrite(&old.body), regions: None, ..old.clone() }
}

//! Which part of a buffer a block touches while the loops outside a given one stand still.
//!
//! ```text
//! for ko, kt, ku, kv:
//!     b: v0 = i, v1 = ko*64 + kt*8 + ku*4 + kv       under ku:  p0[i, ko*64 + kt*8 + ku*4 + (0 to 3)]
//!        reads p0[v0, v1]                            under kt:  p0[i, ko*64 + kt*8 + (0 to 7)]
//! ```

use super::digits;
use super::span::{Running, Span, span_of};
use super::tree;
use crate::analysis::{self, Ranges};
use crate::ir::{Block, Expr, ExprKind, For, ForKind, IterKind, IterVar, Name, PrimFunc, Scope, Stmt};
use crate::schedule::Draft;
use std::collections::BTreeMap;

/// The part of a buffer: one range per dimension, `None` where it is not known (all of it).
pub type Region = Vec<Option<Span>>;

/// What is known about every extent and loop of a function. Names are unique, so one table will do.
pub fn loop_ranges(func: &PrimFunc) -> Ranges {
    let mut ranges = Ranges::of_func(func);
    func.visit(&mut |stmt| {
        if let Stmt::For(l) = stmt {
            ranges.enter_loop(l);
        }
    });
    ranges
}

/// Those of `loops` that occur in the bindings of a block's iterators of one kind.
pub fn loops_feeding(block: &Block, kind: IterKind, loops: &[&For]) -> Vec<Name> {
    let feeds = |l: &For| block.iters.iter().any(|it| it.kind == kind && it.binding.uses_var(&l.var));
    loops.iter().filter(|l| feeds(l)).map(|l| l.var.clone()).collect()
}

/// A fresh name for an iterator over a loop: `v` and the loop's name.
pub fn iter_for(d: &mut Draft, at: &Name) -> Name {
    let name = d.fresh(&format!("v{at}"));
    if let Some(display) = d.func.display.get(at) {
        let display = format!("v{display}");
        d.func.display.insert(name.clone(), display);
    }
    name
}

/// The indices of each load of `buffer` in a block, in terms of the loops around and inside it.
pub fn loads(block: &Block, buffer: &Name) -> Vec<Vec<Expr>> {
    load_indices(block, buffer).iter().map(|indices| bound(block, indices)).collect()
}

/// The indices of each store to `buffer` in a block, in terms of the loops around and inside it.
pub fn stores(block: &Block, buffer: &Name) -> Vec<Vec<Expr>> {
    store_indices(block, buffer).iter().map(|indices| bound(block, indices)).collect()
}

/// The indices of each store to `buffer` in a block, in terms of its iterators.
pub fn store_indices(block: &Block, buffer: &Name) -> Vec<Vec<Expr>> {
    let mut found = vec![];
    block.init.iter().chain(&block.body).for_each(|s| {
        s.visit(&mut |s| {
            if let Stmt::Store { buffer: b, indices, .. } = s
                && b == buffer
            {
                found.push(expanded(block, indices));
            }
        })
    });
    found.dedup();
    found
}

/// The indices of each load of `buffer` in a block, in terms of its iterators.
pub fn load_indices(block: &Block, buffer: &Name) -> Vec<Vec<Expr>> {
    let mut found: Vec<Vec<Expr>> = vec![];
    let mut note = |e: &Expr| {
        if let ExprKind::Load { buffer: b, indices, .. } = e.kind()
            && b == buffer
        {
            let indices = expanded(block, indices);
            if !found.contains(&indices) {
                found.push(indices);
            }
        }
    };
    block.guard.iter().for_each(|e| e.visit(&mut note));
    block.init.iter().chain(&block.body).for_each(|s| s.visit(&mut |s| s.for_each_expr(|e| e.visit(&mut note))));
    found
}

/// Replaces lets of the body by their values, and iterators of inner blocks by what they are bound to.
pub fn expanded(block: &Block, indices: &[Expr]) -> Vec<Expr> {
    let mut lets: BTreeMap<Name, Expr> = BTreeMap::new();
    let mut note = |var: &Name, value: &Expr| {
        let value = value.subst(&|n| lets.get(n).cloned());
        lets.insert(var.clone(), value);
    };
    block.init.iter().chain(&block.body).for_each(|s| {
        s.visit(&mut |s| match s {
            Stmt::Let { var, value } => note(var, value),
            Stmt::Block(b) => b.iters.iter().for_each(|it| note(&it.var, &it.binding)),
            _ => {}
        })
    });
    indices.iter().map(|e| e.subst(&|n| lets.get(n).cloned())).collect()
}

/// Replaces iterators by what they are bound to.
pub fn bound(block: &Block, indices: &[Expr]) -> Vec<Expr> {
    indices.iter().map(|e| e.subst(&|n| block.iter(n).map(|it| it.binding.clone()))).collect()
}

/// An expression over the iterators of a block in those of another, one by one.
pub fn renamed(e: &Expr, from: &Block, to: &Block) -> Expr {
    let place = |n: &Name| from.iters.iter().position(|it| it.var == *n);
    e.subst(&|n| place(n).and_then(|k| to.iters.get(k)).map(IterVar::var_expr))
}

/// The loops strictly inside `at` (all of them for `None`) around and inside a block. With a
/// shared `scope` the thread loops outside `at` run too: threads share what one of them makes.
pub fn running(func: &PrimFunc, block: &Block, at: Option<&Name>, scope: Option<&Scope>) -> Running {
    let around = tree::loops_around(func, &block.name);
    let first = at.and_then(|at| around.iter().position(|l| l.var == *at)).map_or(0, |i| i + 1);
    let shared = matches!(scope, Some(Scope::Shared | Scope::SharedDyn));
    let cooperate = |l: &For| shared && matches!(l.kind, ForKind::Thread(tag) if tag.is_thread());
    let runs = around.iter().enumerate().filter(|(i, l)| *i >= first || cooperate(l)).map(|(_, l)| *l);
    let mut found: Running = runs.map(span_of_loop).collect();
    block.init.iter().chain(&block.body).for_each(|s| {
        s.visit(&mut |s| {
            if let Stmt::For(l) = s {
                found.extend([span_of_loop(l)]);
            }
        })
    });
    found
}

pub fn span_of_loop(l: &For) -> (Name, Span) {
    let one = Expr::int(1, l.dtype);
    let hi = l.min.clone() + l.extent.clone() - one;
    (l.var.clone(), Span { lo: l.min.clone(), hi })
}

/// The hull of several accesses, given in terms of loops, while `running` run.
pub fn hull(accesses: &[Vec<Expr>], running: &Running, ranges: &Ranges) -> Region {
    let one = |indices: &Vec<Expr>| indices.iter().map(|e| span_of(e, running, ranges)).collect::<Region>();
    union(accesses.iter().map(one), ranges)
}

/// The hull of several regions.
pub fn union(parts: impl Iterator<Item = Region>, ranges: &Ranges) -> Region {
    let join = |a: Region, b: Region| {
        let pairs = a.into_iter().zip(b);
        pairs.map(|(a, b)| Some(a?.union(&b?, ranges))).collect()
    };
    parts.reduce(join).unwrap_or_default()
}

/// True when the elements are the product of dense ranges: each running loop moves one index.
pub fn is_box(indices: &[Expr], running: &Running, ranges: &Ranges) -> bool {
    let simple: Vec<Expr> = indices.iter().map(|e| analysis::simplify(e, ranges)).collect();
    let running = &moving(running, ranges);
    let once = running.keys().all(|n| simple.iter().filter(|e| e.uses_var(n)).count() <= 1);
    once && simple.iter().all(|e| is_dense(e, running, ranges))
}

/// The same, where a loop may move several indices, each by digits of its own.
pub fn is_box_of_digits(indices: &[Expr], running: &Running, ranges: &Ranges) -> bool {
    let (indices, running, ranges) = digits::apart(indices, &moving(running, ranges), ranges);
    is_box(&indices, &running, &ranges)
}

/// Those that take more than one value.
fn moving(running: &Running, ranges: &Ranges) -> Running {
    let several = |(_, span): &(&Name, &Span)| span.extent(ranges).as_int() != Some(1);
    running.iter().filter(several).map(|(name, span)| (name.clone(), span.clone())).collect()
}

/// True when the values of `e` fill their span without gaps while `running` run.
pub fn is_dense(e: &Expr, running: &Running, ranges: &Ranges) -> bool {
    let e = analysis::simplify(e, ranges);
    let running = &moving(running, ranges);
    if !running.keys().any(|n| e.uses_var(n)) {
        return true;
    }
    let Some(terms) = run_terms(&e, running, ranges) else { return false };
    let mut reach = Some(0i64);
    for (coeff, extent) in terms {
        match reach {
            Some(r) if coeff.abs() <= r + 1 => reach = extent.map(|n| r + coeff.abs() * (n - 1)),
            _ => return false,
        }
    }
    true
}

/// Coefficient and extent (where constant) of each running variable, smallest coefficient first.
fn run_terms(e: &Expr, running: &Running, ranges: &Ranges) -> Option<Vec<(i64, Option<i64>)>> {
    let mut terms = vec![];
    for (name, span) in running {
        if !e.uses_var(name) {
            continue;
        }
        let coeff = analysis::coeff_of(e, name, ranges)?.as_int()?;
        terms.push((coeff, span.extent(ranges).as_int()));
    }
    terms.sort_by_key(|(c, n)| (c.abs(), n.is_none()));
    Some(terms)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{BinOp, DType};

    fn boxed(indices: &[Expr], extent: i64) -> bool {
        let mut ranges = Ranges::new();
        ranges.set("f", 0, extent - 1);
        let running = Running::from([(Name::new("f"), Span::from_zero(&Expr::i64(extent)))]);
        is_box_of_digits(indices, &running, &ranges)
    }

    #[test]
    fn whole_digits_fill_a_box() {
        let f = || Expr::var("f", DType::I64);
        let (div, rem) = (
            |a, c| Expr::binary(BinOp::FloorDiv, a, Expr::i64(c)),
            |a, c| Expr::binary(BinOp::FloorMod, a, Expr::i64(c)),
        );
        assert!(boxed(&[div(f(), 2), rem(f(), 2)], 6));
        assert!(boxed(&[div(f(), 12), rem(div(f(), 4), 3), rem(f(), 4)], 24), "three digits");
        assert!(!boxed(&[div(f(), 2), rem(f(), 2)], 5), "the last row is half full");
        assert!(!boxed(&[f(), rem(f(), 2)], 6), "one digit stands in two indices");
        assert!(!boxed(&[div(f(), 3), rem(f(), 2)], 6), "the digits overlap");
    }
}

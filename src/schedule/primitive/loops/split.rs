//! `split`: one loop becomes a nest.
//!
//! ```text
//! for i in 10:              for i_0 in 3:
//!     block(v = i)    ->        for i_1 in 4:
//!                                   block(v = i_0 * 4 + i_1) where i_0 * 4 + i_1 < 10
//! ```
//!
//! Preconditions: `serial_loop`, `no_annotations`, `zero_min`; `has_factors`, `positive_factors`,
//! `one_open_factor`; `constant_inner`: all loops but the outermost have constant extents;
//! `factors_cover`: without an open factor, the product reaches the extent; `blocks_below`: where
//! the factors do not divide, blocks are there to carry the guard.
//!
//! Effect: loops `i_0`, `i_1`, ... replace the loop; where the product may exceed the extent,
//! every block below is guarded.

use crate::analysis::{Ranges, prove, simplify};
use crate::ir::{BinOp, Expr, For, Name, Stmt};
use crate::schedule::help::{checks, scope};
use crate::schedule::{Draft, Failure};

/// Splits loop `at`, outermost factor first; returns the loops.
pub fn apply(d: &mut Draft, at: &Name, factors: &[Option<i64>]) -> Result<Vec<Name>, Failure> {
    let l = d.find_loop(at)?.clone();
    checks::replaceable(&l)?;
    let ranges = scope::around(&d.func, at);
    let sizes = sizes(&l, factors, &ranges)?;
    let exact = divides(&l, factors, &ranges);
    if !exact {
        checks::blocks_below(&l)?;
    }
    let vars: Vec<Name> = (0..sizes.len()).map(|k| d.fresh_like(at, &format!("_{k}"))).collect();
    let value = value(&l, &vars, &sizes);
    crate::schedule::help::tree::replace(&mut d.func, at, |_| {
        let mut body: Vec<Stmt> = l.body.iter().map(|s| s.subst(&|n| (n == at).then(|| value.clone()))).collect();
        if !exact {
            let guard = Expr::binary(BinOp::Lt, value.clone(), l.extent.clone());
            guard_blocks(&mut body, &guard);
        }
        for (var, size) in vars.iter().zip(&sizes).rev() {
            body = vec![Stmt::For(For::serial(var.clone(), size.clone(), body))];
        }
        body.iter_mut().for_each(|s| scope::simplify_control(s, &ranges));
        body
    });
    Ok(vars)
}

/// The extent of each new loop.
fn sizes(l: &For, factors: &[Option<i64>], ranges: &Ranges) -> Result<Vec<Expr>, Failure> {
    let fail = |precondition, why: String| Err(Failure::new(precondition, &l.var, why));
    let open = factors.iter().filter(|f| f.is_none()).count();
    if factors.is_empty() {
        return fail("has_factors", "a split needs at least one factor".to_string());
    }
    if open > 1 {
        return fail("one_open_factor", format!("at most one factor may be None, here {open} are"));
    }
    if let Some(bad) = factors.iter().flatten().find(|f| **f < 1) {
        return fail("positive_factors", format!("factor {bad} is not positive"));
    }
    let Some(given) = product(factors) else {
        return fail("positive_factors", "the product of the factors overflows".to_string());
    };
    let int = |n| Expr::int(n, l.dtype);
    if open == 0 && !prove(&Expr::binary(BinOp::Le, l.extent.clone(), int(given)), ranges) {
        let extent = l.extent.as_int().map_or_else(|| "a symbolic extent".to_string(), |n| format!("extent {n}"));
        return fail("factors_cover", format!("the factors make {given} iterations, {extent} needs more; use None"));
    }
    let rest = match l.extent.as_int() {
        Some(n) => int(n / given + i64::from(n % given > 0)),
        None => {
            let up = l.extent.clone() + int(given - 1);
            simplify(&Expr::binary(BinOp::FloorDiv, up, int(given)), ranges)
        }
    };
    if factors.iter().skip(1).any(|f| f.is_none()) && rest.as_int().is_none() {
        let why = format!("loop `{}` has a symbolic extent, so only the first factor may be None", l.var);
        return fail("constant_inner", why);
    }
    Ok(factors.iter().map(|f| f.map_or(rest.clone(), int)).collect())
}

fn product(factors: &[Option<i64>]) -> Option<i64> {
    factors.iter().flatten().try_fold(1i64, |n, f| n.checked_mul(*f)).filter(|n| *n < i64::MAX / 2)
}

/// True where the new loops run exactly as often as the old one.
fn divides(l: &For, factors: &[Option<i64>], ranges: &Ranges) -> bool {
    let Some(given) = product(factors) else { return false };
    if factors.iter().all(|f| f.is_some()) {
        return l.extent.is_int(given);
    }
    let rest = Expr::binary(BinOp::FloorMod, l.extent.clone(), Expr::int(given, l.dtype));
    simplify(&rest, ranges).is_int(0)
}

/// The old variable in terms of the new ones: row-major.
fn value(l: &For, vars: &[Name], sizes: &[Expr]) -> Expr {
    let mut value = Expr::var(vars[0].clone(), l.dtype);
    for (var, size) in vars.iter().zip(sizes).skip(1) {
        value = value * size.clone() + Expr::var(var.clone(), l.dtype);
    }
    value
}

/// Adds a condition to the blocks in the list, not to blocks inside those.
fn guard_blocks(list: &mut [Stmt], guard: &Expr) {
    for s in list {
        match s {
            Stmt::Block(b) => b.guard = Some(and(b.guard.take(), guard)),
            other => {
                crate::schedule::help::tree::child_lists_mut(other).into_iter().for_each(|l| guard_blocks(l, guard))
            }
        }
    }
}

fn and(a: Option<Expr>, b: &Expr) -> Expr {
    a.map_or_else(|| b.clone(), |a| Expr::binary(BinOp::And, a, b.clone()))
}

//! Builds the loops of a block that moves: one loop per iterator that still has more than one
//! value, bound as first value plus loop variable.
//!
//! ```text
//! v0 in [i, i], v1 in [ko*4, ko*4 + 3] of 30     ->     for ax0 in range(4):
//!                                                          b: v0 = i, v1 = ko*4 + ax0, where ko*4 + ax0 < 30
//! ```

use super::guards::{conjoin, less, unproven};
use super::regions::{self, Region};
use super::span::{self, Span};
use crate::analysis::{self, Ranges};
use crate::ir::{BinOp, Block, Expr, For, IterKind, IterVar, Name, Param, PrimFunc, Stmt};
use crate::schedule::Draft;

/// The block with new bindings inside new loops `ax0`, `ax1`, ..., those of reduction iterators
/// innermost. Each iterator runs over its range in `domains` cut to its own domain; `None` is all
/// of it. Where the cut is not a range with the loops at hand, a guard makes it. `conditions` are
/// further guards, over iterators.
pub fn build(d: &mut Draft, block: Block, domains: &Region, conditions: &[Expr]) -> Stmt {
    let mut at = Context::of(&d.func);
    let (mut loops, mut guards) = (vec![], vec![]);
    let mut iters = block.iters.clone();
    let mut order: Vec<usize> = (0..iters.len()).collect();
    order.sort_by_key(|k| iters[*k].kind == IterKind::Reduce);
    for k in order {
        let it = &mut iters[k];
        let Cut { lo, extent, within } = cut(it, domains[k].as_ref(), &at);
        it.binding = lo;
        if !extent.is_int(1) {
            let new = For::serial(d.fresh(&format!("ax{}", loops.len())), extent, vec![]);
            at.ranges.enter_loop(&new);
            it.binding = it.binding.clone() + new.var_expr();
            loops.push(new);
        }
        it.binding = analysis::simplify(&it.binding, &at.ranges);
        if !within {
            guards.push(Expr::binary(BinOp::Ge, it.binding.clone(), Expr::int(0, it.dtype)));
            guards.push(less(&it.binding, &it.extent));
        }
    }
    let value = |n: &Name| iters.iter().find(|it| it.var == *n).map(|it| it.binding.clone());
    guards.extend(conditions.iter().map(|e| e.subst(&value)));
    let guard = conjoin(unproven(guards, &at.ranges));
    around(loops, Stmt::Block(Block { iters, guard, ..block }))
}

/// Puts loops, outermost first, around a statement.
pub fn around(loops: Vec<For>, body: Stmt) -> Stmt {
    loops.into_iter().rev().fold(body, |body, l| Stmt::For(For { body: vec![body], ..l }))
}

/// What is known where the block goes.
struct Context {
    ranges: Ranges,
    /// Names whose value the caller sets: symbolic extents and scalar parameters.
    fixed: Vec<Name>,
}

impl Context {
    fn of(func: &PrimFunc) -> Context {
        let scalars = func.params.iter().filter_map(|p| match p {
            Param::Scalar { name, .. } => Some(name.clone()),
            Param::Buffer(_) => None,
        });
        let fixed = func.extents.iter().map(|e| e.name.clone()).chain(scalars).collect();
        Context { ranges: regions::loop_ranges(func), fixed }
    }

    /// True where no loop occurs.
    fn is_fixed(&self, e: &Expr) -> bool {
        let mut fixed = true;
        e.visit(&mut |x| fixed &= x.as_var().is_none_or(|n| self.fixed.contains(n)));
        fixed
    }
}

/// The values that an iterator runs over.
struct Cut {
    lo: Expr,
    extent: Expr,
    /// True where all of them are in the iterator's own domain.
    within: bool,
}

fn cut(it: &IterVar, domain: Option<&Span>, at: &Context) -> Cut {
    let full = Span::from_zero(&it.extent);
    let whole = Cut { lo: full.lo.clone(), extent: it.extent.clone(), within: true };
    let Some(span) = domain else { return whole };
    let (lo, hi) = (span::cast(it.dtype, &span.lo), span::cast(it.dtype, &span.hi));
    let from_start = span::at_most(&lo, &full.lo, &at.ranges);
    let to_end = span::at_most(&full.hi, &hi, &at.ranges);
    if from_start && to_end {
        return whole;
    }
    let lo = if from_start { full.lo.clone() } else { lo };
    let hi = if to_end { full.hi.clone() } else { hi };
    match loop_extent(&Span { lo: lo.clone(), hi }, at) {
        Some(extent) if it.extent.as_int().is_none_or(|n| extent.as_int().is_none_or(|m| m <= n)) => {
            let last = lo.clone() + extent.clone() - Expr::int(1, it.dtype);
            let within = span::at_most(&full.lo, &lo, &at.ranges) && span::at_most(&last, &full.hi, &at.ranges);
            Cut { lo, extent, within }
        }
        _ => whole,
    }
}

/// Larger constant bounds than this are no better than the whole domain.
const MOST: i64 = 1 << 20;

/// A trip count for a span: its extent where that does not change with the loops around, else a
/// constant that bounds it.
fn loop_extent(span: &Span, at: &Context) -> Option<Expr> {
    let extent = span.extent(&at.ranges);
    if extent.as_int().is_some() || at.is_fixed(&extent) {
        return Some(extent);
    }
    let (_, most) = analysis::bounds(&extent, &at.ranges)?;
    (most <= MOST).then(|| Expr::int(most, extent.dtype()))
}

//! Moves a block by repeating the loops of its partner instead of covering a box: exact where the
//! touched elements are not a box, as with fused loops (`f // 7`, `f % 7`) or strides.
//!
//! ```text
//! for b, t, v:                                       for ax0 in range(4):
//!     b0: v0 = f // 7, v1 = f % 7 (f = b*128+t*4+v)      copy: v0 = f' // 7, v1 = f' % 7  (f' = b*128 + t*4 + ax0)
//! ```

use super::guards::{conjoin, conjuncts, less, unproven, uses_any};
use super::nest::around;
use super::regions::{self, Region};
use super::span::cast;
use super::{holes, motion, tree};
use crate::analysis::{self, Ranges};
use crate::ir::{Block, Expr, For, IterKind, IterVar, Name, Scope, Stmt};
use crate::schedule::Draft;
use std::collections::BTreeMap;

/// The nest of a moved producer that repeats the loops of its only consumer; `None` where that
/// cannot be done, or is no better than the box `domains`.
pub fn of_consumer(
    d: &mut Draft,
    moved: &Block,
    consumers: &[Block],
    at: &Name,
    scope: &Scope,
    domains: &Region,
) -> Option<Stmt> {
    let [consumer] = consumers else { return None };
    let buffer = motion::output(moved).ok()?;
    let [reads] = regions::load_indices(consumer, &buffer).try_into().ok().map(|a: [Vec<Expr>; 1]| a)?;
    let partner = Partner::of(d, consumer, at, Some(scope), &reads)?;
    let ranges = regions::loop_ranges(&d.func);
    let box_size = volume(moved, domains, &ranges);
    let points = partner.points()?;
    if box_size.is_some_and(|n| n <= points) {
        return None;
    }
    partner.nest(d, moved, &buffer)
}

/// The nest of a moved consumer that repeats the loops of its producer.
pub fn of_producer(d: &mut Draft, moved: &Block, producer: &Block, at: &Name, buffer: &Name) -> Option<Stmt> {
    let [writes] = regions::store_indices(producer, buffer).try_into().ok().map(|a: [Vec<Expr>; 1]| a)?;
    let partner = Partner::of(d, producer, at, None, &writes)?;
    let running = regions::running(&d.func, producer, Some(at), None);
    let ranges = regions::loop_ranges(&d.func);
    let lost: Vec<Expr> = partner.guard.iter().filter(|c| uses_any(c, &partner.others)).cloned().collect();
    let exact = holes::leaves_none(&d.func, producer, &partner.indices, &lost, &running, &ranges);
    if exact { partner.nest(d, moved, buffer) } else { None }
}

/// Elements in the box, where that is constant.
fn volume(block: &Block, domains: &Region, ranges: &Ranges) -> Option<i64> {
    block.iters.iter().zip(domains).try_fold(1i64, |n, (it, span)| {
        let whole = it.extent.as_int();
        let part = span.as_ref().and_then(|s| Some(analysis::bounds(&s.extent(ranges), ranges)?.1));
        let size = match (whole, part) {
            (Some(a), Some(b)) => a.min(b),
            (a, b) => a.or(b)?,
        };
        n.checked_mul(size)
    })
}

/// The block whose loops are repeated.
struct Partner {
    /// The loops to repeat, outermost first.
    loops: Vec<For>,
    /// The element that it touches, in terms of loops.
    indices: Vec<Expr>,
    /// Its guard.
    guard: Vec<Expr>,
    /// Loops that run but are not repeated.
    others: Vec<Name>,
}

impl Partner {
    fn of(d: &Draft, partner: &Block, at: &Name, scope: Option<&Scope>, indices: &[Expr]) -> Option<Partner> {
        let indices = regions::bound(partner, indices);
        let running = regions::running(&d.func, partner, Some(at), scope);
        let inside = tree::loops_around(&d.func, &partner.name);
        let (used, unused): (Vec<&For>, Vec<&For>) = inside
            .into_iter()
            .filter(|l| running.contains_key(&l.var))
            .partition(|l| indices.iter().any(|e| e.uses_var(&l.var)));
        let loops: Vec<For> = used.into_iter().map(|l| For { body: vec![], ..l.clone() }).collect();
        let known = loops.len() + unused.len() == running.len();
        let simple = !indices.iter().any(Expr::has_load);
        (known && simple).then(|| Partner {
            loops,
            indices,
            guard: conjuncts(partner.guard.as_ref()),
            others: unused.iter().map(|l| l.var.clone()).collect(),
        })
    }

    fn points(&self) -> Option<i64> {
        self.loops.iter().try_fold(1i64, |n, l| n.checked_mul(l.extent.as_int()?))
    }

    /// The moved block, whose access to `buffer` is one iterator per dimension, at the partner's
    /// elements.
    fn nest(self, d: &mut Draft, moved: &Block, buffer: &Name) -> Option<Stmt> {
        let own = own_indices(moved, buffer)?;
        let mut ranges = regions::loop_ranges(&d.func);
        let mut map: BTreeMap<Name, Expr> = BTreeMap::new();
        let mut loops = vec![];
        for l in &self.loops {
            if l.extent.is_int(1) {
                map.insert(l.var.clone(), l.min.clone());
                continue;
            }
            let new = For {
                var: d.fresh(&format!("ax{}", loops.len())),
                ..For::serial(l.var.clone(), l.extent.clone(), vec![])
            };
            ranges.enter_loop(&new);
            map.insert(l.var.clone(), new.var_expr());
            loops.push(new);
        }
        let renamed = |e: &Expr| e.subst(&|n| map.get(n).cloned());
        let (kept, lost): (Vec<Expr>, Vec<Expr>) = self.guard.iter().cloned().partition(|c| !uses_any(c, &self.others));
        let mut guards: Vec<Expr> = kept.iter().map(renamed).collect();
        let mut iters = vec![];
        for it in &moved.iters {
            let index = own.iter().position(|v| **v == it.var)?;
            let binding = cast(it.dtype, &analysis::simplify(&renamed(&self.indices[index]), &ranges));
            // The partner goes through the buffer, which may be larger than what the block is for.
            let size = cast(it.dtype, &d.func.buffer(buffer).shape[index]);
            if !lost.is_empty() || !analysis::simplify(&(size - it.extent.clone()), &ranges).is_int(0) {
                guards.push(less(&binding, &it.extent));
            }
            iters.push(IterVar { binding, ..it.clone() });
        }
        let guard = conjoin(unproven(guards, &ranges));
        Some(around(loops, Stmt::Block(Block { iters, guard, ..moved.clone() })))
    }
}

/// The iterator of each dimension, where every iterator of the block is spatial and its only
/// access to `buffer` is exactly these iterators.
fn own_indices<'a>(block: &'a Block, buffer: &Name) -> Option<Vec<&'a Name>> {
    let mut all = regions::store_indices(block, buffer);
    all.extend(regions::load_indices(block, buffer));
    let [indices] = all.as_slice() else { return None };
    let own: Vec<&Name> = indices.iter().map(|e| Some(&block.as_iter(e)?.var)).collect::<Option<_>>()?;
    let spatial = block.iters.iter().all(|it| it.kind == IterKind::Spatial && own.contains(&&it.var));
    (spatial && own.len() == block.iters.len()).then_some(own)
}

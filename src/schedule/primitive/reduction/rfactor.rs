//! Makes a reduction loop spatial, so that its iterations can run at once.
//!
//! ```text
//! for i, ko, kt:                                     for i, ko, kt:
//!     b: v0 = i (S), v1 = ko*32 + kt (R)                 b_rf: vkt = kt (S), v0_rf = i (S), vko = ko (R)
//!        X[v0] = X[v0] + A[v0, v1]            ->            X_rf[vkt, v0_rf] += A[v0_rf, vko*32 + vkt]
//!                                                    for i_final, kt_final:
//!                                                        b: vkt_final = kt_final (R), v0 = i_final (S)
//!                                                           X[v0] = X[v0] + X_rf[vkt_final, v0]
//! ```
//!
//! Preconditions: `loop_exists`; `serial_loop`;
//! `one_block`: exactly one block lies under it, all its reduction loops in one chain; `has_init`;
//! `known_reducer`: sum, product, max or min into the element itself, an index and a value that are kept
//! together, or several of these side by side; `reduction_loop`: the loop
//! is used by reduction iterators only, or by none and has one iteration; `loops_separate`: no loop feeds spatial and reduction
//! iterators alike; `guard_monotone`: where the guard holds at all for some partial result, it
//! holds at the first step of the reduction; `axis_in_range`.
//!
//! Effect: the nest of the partial results keeps the loops' names; the final nest gets new ones.
//! Partial results start from the identity of the reducer, the final ones as before. A guard that
//! can leave a partial result without any step is kept, for its first step, on the final block.

use crate::analysis::{self, Ranges, Slot};
use crate::ir::{BinOp, Block, Buffer, Expr, ExprKind, For, IterKind, IterVar, Name, Scope, Stmt};
use crate::schedule::help::guards::{conjoin, conjuncts, unproven, uses_any};
use crate::schedule::help::reducer::{Reducer, iters_of};
use crate::schedule::help::{checks, regions, tree};
use crate::schedule::{Draft, Failure};
use std::collections::BTreeMap;

pub fn apply(d: &mut Draft, at: &Name, &axis: &usize) -> Result<Name, Failure> {
    factored(d, at, axis).map(|partial| partial.block)
}

/// The block of partial results.
pub struct Partial {
    pub block: Name,
    /// The iterators of the old block in terms of its own.
    pub values: BTreeMap<Name, Expr>,
}

/// Does the step, and says what has become of the iterators too.
pub fn factored(d: &mut Draft, at: &Name, axis: usize) -> Result<Partial, Failure> {
    let plan = Plan::of(d, at, axis)?;
    let names = plan.names(d);
    let values = plan.values(&names);
    let partial = plan.partial_block(&names, &values);
    let last = plan.final_block(&names);
    let (partials, rf_name) = (plan.partial_buffers(&names), names.rf_block.clone());
    let nest = plan.final_nest(last, &names);
    let block = plan.block.name.clone();
    partials.into_iter().for_each(|b| d.declare(b));
    tree::replace(&mut d.func, &block, |_| vec![Stmt::Block(partial)]);
    tree::replace(&mut d.func, &plan.top, |rf| vec![rf, nest]);
    Ok(Partial { block: rf_name, values })
}

/// What is known before anything changes.
struct Plan {
    /// The loop that becomes spatial.
    at: For,
    axis: usize,
    block: Block,
    reducer: Reducer,
    /// The chain of loops that only this block lies under, outermost first.
    chain: Vec<For>,
    /// Outermost statement of the chain.
    top: Name,
    /// The loops of the chain that feed reduction iterators, `at` included.
    reduce: Vec<Name>,
    /// The shape of each buffer that is accumulated into.
    shapes: Vec<Vec<Expr>>,
    ranges: Ranges,
}

/// The names that the primitive makes.
struct Names {
    rf_block: Name,
    /// One for each buffer that is accumulated into.
    rf_buffers: Vec<Name>,
    /// Old spatial iterator to its copy in the partial block.
    spatial: BTreeMap<Name, Name>,
    /// Reduction loop to its iterator in the partial block.
    partial: BTreeMap<Name, Name>,
    /// Kept loop to its copy in the final nest.
    loops: BTreeMap<Name, Name>,
    /// The iterator over the partial results in the final block.
    last: Name,
}

impl Plan {
    fn of(d: &Draft, at: &Name, axis: usize) -> Result<Plan, Failure> {
        let target = d.find_loop(at)?.clone();
        checks::serial_loop(&target)?;
        let block = only_block(&target)?.clone();
        let chain = chain_of(d, &block.name);
        let ranges = regions::loop_ranges(&d.func);
        let reducer = Reducer::of(&block)?;
        let around = tree::loops_around(&d.func, &block.name);
        let feeds = |kind| regions::loops_feeding(&block, kind, &around);
        let (mut reduce, spatial) = (feeds(IterKind::Reduce), feeds(IterKind::Spatial));
        if target.extent.is_int(1) && !reduce.contains(at) && !spatial.contains(at) {
            reduce.push(at.clone());
        }
        check_loops(&block, at, &chain, &reduce, &spatial)?;
        let mut shapes = vec![];
        for slot in reducer.slots() {
            let shape = d.find_buffer(&slot.buffer)?.shape.clone();
            let rank = shape.len();
            Failure::unless(axis <= rank, "axis_in_range", at, || {
                format!("axis {axis} is not one of the 0 to {rank} places in a buffer of rank {rank}")
            })?;
            shapes.push(shape);
        }
        let top = chain.first().map_or(block.name.clone(), |l| l.var.clone());
        let plan = Plan { at: target, axis, block, reducer, chain, top, reduce, shapes, ranges };
        plan.check_guard()?;
        Ok(plan)
    }

    fn other_reduce(&self) -> impl Iterator<Item = &Name> {
        self.reduce.iter().filter(|n| **n != self.at.var)
    }

    fn check_guard(&self) -> Result<(), Failure> {
        for condition in conjuncts(self.block.guard.as_ref()) {
            let free = !uses_any(&condition, self.other_reduce());
            let ok = free || weakest_at_zero(&condition, &self.reduce, &self.ranges);
            Failure::unless(ok, "guard_monotone", &self.block.name, || {
                format!("its guard {condition} may hold at later steps of the reduction and not at the first")
            })?;
        }
        Ok(())
    }

    fn names(&self, d: &mut Draft) -> Names {
        let rf_block = d.fresh_like(&self.block.name, "_rf");
        let rf_buffers = self.reducer.slots().iter().map(|s| d.fresh_like(&s.buffer, "_rf")).collect();
        let spatial = iters_of(&self.block, IterKind::Spatial);
        let spatial = spatial.into_iter().map(|v| (v.clone(), d.fresh_like(v, "_rf"))).collect();
        let partial = self.reduce.iter().map(|l| (l.clone(), regions::iter_for(d, l))).collect();
        let kept = self.chain.iter().map(|l| &l.var).filter(|l| !self.other_reduce().any(|r| r == *l));
        let loops: BTreeMap<Name, Name> = kept.map(|l| (l.clone(), d.fresh_like(l, "_final"))).collect();
        let last = regions::iter_for(d, &loops[&self.at.var]);
        Names { rf_block, rf_buffers, spatial, partial, loops, last }
    }

    fn partial_buffers(&self, names: &Names) -> Vec<Buffer> {
        let slots = self.reducer.slots();
        let each = names.rf_buffers.iter().zip(slots).zip(&self.shapes);
        each.map(|((name, slot), shape)| {
            let mut shape = shape.clone();
            shape.insert(self.axis, self.at.extent.clone());
            Buffer::new(name.clone(), slot.dtype, shape, Scope::Global)
        })
        .collect()
    }

    /// The elements of the partial results: indices mapped by `map`, `extra` at the new axis.
    fn partial_elements(&self, names: &Names, map: impl Fn(&Expr) -> Expr, extra: &Expr) -> Vec<(Name, Vec<Expr>)> {
        let slots = self.reducer.slots();
        let each = names.rf_buffers.iter().zip(slots);
        each.map(|(name, slot)| {
            let indices: Vec<Expr> = slot.indices.iter().map(&map).collect();
            (name.clone(), self.partial_indices(&indices, extra.clone()))
        })
        .collect()
    }

    /// Indices into the partial results: `extra` at the new axis.
    fn partial_indices(&self, indices: &[Expr], extra: Expr) -> Vec<Expr> {
        let mut all = indices.to_vec();
        all.insert(self.axis, extra);
        all
    }

    fn partial_block(&self, names: &Names, values: &BTreeMap<Name, Expr>) -> Block {
        let rename = |name: &Name| values.get(name).cloned();
        let factor = Expr::var(names.partial[&self.at.var].clone(), self.at.dtype);
        let elements = self.partial_elements(names, |e| e.subst(&rename), &factor);
        let slots = self.reducer.slots();
        let start = |((buffer, indices), slot): (&(Name, Vec<Expr>), &&Slot)| Stmt::Store {
            buffer: buffer.clone(),
            indices: indices.clone(),
            value: slot.identity.clone(),
        };
        let init = elements.iter().zip(&slots).map(start).collect();
        let terms: Vec<Expr> = slots.iter().map(|s| s.term.subst(&rename)).collect();
        let mut body: Vec<Stmt> = self.reducer.lets.iter().map(|s| s.subst(&rename)).collect();
        body.extend(self.reducer.stores(&elements, &terms));
        let mut block = Block::new(names.rf_block.clone(), self.partial_iters(names), body);
        block.init = init;
        block.guard = self.block.guard.clone();
        block.attrs = self.block.attrs.clone();
        block
    }

    /// The old iterators in terms of the partial block's: copies of spatial ones, and those of reduction
    /// loops.
    fn values(&self, names: &Names) -> BTreeMap<Name, Expr> {
        let mut ranges = self.ranges.clone();
        for l in self.chain.iter().filter(|l| names.partial.contains_key(&l.var)) {
            ranges.set_span(names.partial[&l.var].clone(), &l.min, &l.extent);
        }
        let loop_iter = |name: &Name| {
            let l = self.chain.iter().find(|l| l.var == *name)?;
            names.partial.get(name).map(|n| Expr::var(n.clone(), l.dtype))
        };
        let value = |it: &IterVar| match it.kind {
            IterKind::Spatial => Some(Expr::var(names.spatial[&it.var].clone(), it.dtype)),
            IterKind::Reduce => Some(analysis::simplify(&it.binding.subst(&loop_iter), &ranges)),
            IterKind::Opaque => None,
        };
        self.block.iters.iter().filter_map(|it| Some((it.var.clone(), value(it)?))).collect()
    }

    /// The new spatial iterator, the old spatial ones, one reduction iterator for each loop left.
    fn partial_iters(&self, names: &Names) -> Vec<IterVar> {
        let of_loop = |l: &For, kind| IterVar {
            var: names.partial[&l.var].clone(),
            dtype: l.dtype,
            min: l.min.clone(),
            extent: l.extent.clone(),
            kind,
            binding: l.var_expr(),
        };
        let spatial = self
            .block
            .iters
            .iter()
            .filter_map(|it| names.spatial.get(&it.var).map(|n| IterVar { var: n.clone(), ..it.clone() }));
        let rest = self.chain.iter().filter(|l| self.other_reduce().any(|n| *n == l.var));
        let mut iters = vec![of_loop(&self.at, IterKind::Spatial)];
        iters.extend(spatial);
        iters.extend(rest.map(|l| of_loop(l, IterKind::Reduce)));
        iters
    }

    fn final_block(&self, names: &Names) -> Block {
        let factor = IterVar {
            var: names.last.clone(),
            dtype: self.at.dtype,
            min: self.at.min.clone(),
            extent: self.at.extent.clone(),
            kind: IterKind::Reduce,
            binding: Expr::var(names.loops[&self.at.var].clone(), self.at.dtype),
        };
        let copied = |name: &Name| self.final_loop(names, name);
        let spatial = self.block.iters.iter().filter(|it| it.kind != IterKind::Reduce);
        let spatial = spatial.map(|it| IterVar { binding: it.binding.subst(&copied), ..it.clone() });
        let elements = self.partial_elements(names, Expr::clone, &factor.var_expr());
        let slots = self.reducer.slots();
        let load =
            |((buffer, at), slot): (&(Name, Vec<Expr>), &&Slot)| Expr::load(buffer.clone(), at.clone(), slot.dtype);
        let values: Vec<Expr> = elements.iter().zip(&slots).map(load).collect();
        let to: Vec<(Name, Vec<Expr>)> = slots.iter().map(|s| (s.buffer.clone(), s.indices.clone())).collect();
        let body = self.reducer.stores(&to, &values);
        let guard = conjoin(self.final_guard(names));
        let iters = std::iter::once(factor.clone()).chain(spatial).collect();
        Block { iters, body, guard, regions: None, ..self.block.clone() }
    }

    /// The loop of the final nest that stands for a loop of the old one.
    fn final_loop(&self, names: &Names, name: &Name) -> Option<Expr> {
        let l = self.chain.iter().find(|l| l.var == *name)?;
        names.loops.get(name).map(|n| Expr::var(n.clone(), l.dtype))
    }

    /// The conditions under which a partial result has a first step.
    fn final_guard(&self, names: &Names) -> Vec<Expr> {
        let mut ranges = self.ranges.clone();
        for l in self.chain.iter().filter(|l| names.loops.contains_key(&l.var)) {
            ranges.set_span(names.loops[&l.var].clone(), &l.min, &l.extent);
        }
        let first = |name: &Name| {
            let l = self.chain.iter().find(|l| l.var == *name)?;
            Some(self.final_loop(names, name).unwrap_or(l.min.clone()))
        };
        unproven(conjuncts(self.block.guard.as_ref()).iter().map(|e| e.subst(&first)), &ranges)
    }

    fn final_nest(&self, block: Block, names: &Names) -> Stmt {
        let kept = self.chain.iter().filter(|l| names.loops.contains_key(&l.var));
        kept.rev().fold(Stmt::Block(block), |body, l| {
            let var = names.loops[&l.var].clone();
            Stmt::For(For { var, annotations: vec![], body: vec![body], ..l.clone() })
        })
    }
}

/// The one block under a loop.
fn only_block(at: &For) -> Result<&Block, Failure> {
    match at.body.as_slice() {
        [Stmt::Block(b)] => Ok(b),
        [Stmt::For(l)] => only_block(l),
        _ => Err(Failure::new("one_block", &at.var, "more than one statement lies under the loop")),
    }
}

/// The loops around a block under which there is nothing else, outermost first.
pub fn chain_of(d: &Draft, block: &Name) -> Vec<For> {
    let mut chain: Vec<For> = vec![];
    for l in tree::loops_around(&d.func, block).into_iter().rev() {
        if !matches!(l.body.as_slice(), [Stmt::For(_) | Stmt::Block(_)]) {
            break;
        }
        chain.insert(0, l.clone());
    }
    chain
}

fn check_loops(block: &Block, at: &Name, chain: &[For], reduce: &[Name], spatial: &[Name]) -> Result<(), Failure> {
    Failure::unless(!block.init.is_empty(), "has_init", &block.name, || {
        "it has no init; factor a reduction before decomposing it".to_string()
    })?;
    Failure::unless(reduce.contains(at), "reduction_loop", at, || {
        format!("no reduction iterator of `{}` uses the loop", block.name)
    })?;
    if let Some(both) = reduce.iter().find(|n| spatial.contains(n)) {
        let why = format!("loop `{both}` feeds spatial and reduction iterators of `{}`", block.name);
        return Err(Failure::new("loops_separate", both, why));
    }
    if let Some(outer) = reduce.iter().find(|n| chain.iter().all(|l| l.var != **n)) {
        let why = format!("reduction loop `{outer}` holds other statements than `{}` too", block.name);
        return Err(Failure::new("one_block", outer, why));
    }
    Ok(())
}

/// True when the condition holds at the first step of `loops` (all from 0) if it holds at any.
fn weakest_at_zero(condition: &Expr, loops: &[Name], ranges: &Ranges) -> bool {
    let ExprKind::Binary { op: BinOp::Lt | BinOp::Le, a, b } = condition.kind() else { return false };
    if uses_any(b, loops) {
        return false;
    }
    if let Some(sum) = analysis::affine(a, ranges) {
        return sum.terms.iter().all(|t| t.coeff >= 0 || !loops.contains(&t.var));
    }
    loops.iter().all(|l| match analysis::coeff_of(a, l, ranges) {
        Some(c) => analysis::prove(&Expr::binary(BinOp::Ge, c.clone(), Expr::int(0, c.dtype())), ranges),
        None => false,
    })
}

//! Makes two reductions, of which the second reads the first's result of its own row, in one pass.
//!
//! ```text
//! for i, kt, ko, ku: b0: M[i] = max(M[i], x)           for i, kt, ko, ku: step: X[ko, kt, i, ku] = x
//! for i, kt, ko, ku: b1: S[i] += exp(x - M[i])         for i, kt, ko, ku: p:    P[ko, kt, i] = max(P, X)
//!                                                      for i, kt, ko, ku: q:    Q[ko, kt, i] += exp(X - P)
//!           online_reductions(b0, b1, ko)        ->    for i, kt, ko: state: let top = max(m, P)
//!                                                          s[kt, i] = s * exp(m - top) + Q * exp(P - top)
//!                                                          m[kt, i] = top
//!                                                      for i, kt: b0: M[i] = max(M[i], m[kt, i])
//!                                                      for i, kt: b1: S[i] += s[kt, i] * exp(m[kt, i] - M[i])
//! ```
//!
//! The second's terms are taken relative to the greatest element so far, and what was added is put in
//! relation to a greater one when it comes: once for each step, which is what the loops inside the given
//! one run over, and once more where the states come together, one for each iteration of the reduction
//! loops outside of it. Each element is read once and its exponential computed once. States start
//! from the value that the first starts from, which is finite: a state that has seen nothing but -inf
//! has no difference of infinities, and the row's result is that of the two passes, NaN included.
//!
//! A sum and the squares around its mean go the same way (the file `online_form` has the algebra); a
//! state then counts its elements too, and a block counts those of a step.
//!
//! The exponential of a sum is the product of exponentials only up to rounding: each factor rounds by
//! some units in the last place, and a sum is multiplied by one where its greatest element changes.
//! Squares around a part's mean, corrected, round like those around the row's. No rule may do this where
//! an output is wider than 16 bits (`docs/correctness.md`).
//!
//! Preconditions: `block_exists`; `loop_exists`; `not_strict`: the function does not forbid it; those of rfactor; `same_nest`: both blocks stand
//! alone under loops of the same extents in one list, with the same iterators and guards; `steps_of_states`:
//! the loop is a reduction loop of the first with another outside of it, with one only for a mean;
//! `online_form`: the first is a maximum of x in float32 or float64, the second a sum of products with
//! exp(x - maximum) or exp2((x - maximum) * c), c > 0, and with nothing else that has the maximum; or the
//! first is a sum of x and the second one of (x - mean) * (x - mean), the mean the sum over all elements
//! of the row, or times the reciprocal of their number; `finite_start`: a maximum starts from a
//! finite constant, a sum from 0; `nothing_between`: the second comes after the first, and no block between
//! them touches what it writes or writes what it reads.
//!
//! Effect: four new blocks before the first, which, like the second, then reduces what the states
//! hold. The new blocks are the elements of a step, its two results, and the state; for a mean a
//! fifth, the number of a step's elements.

use super::{merge_reductions, rfactor};
use crate::ir::{Block, Buffer, Expr, ExprKind, For, IterKind, IterVar, Name, Scope, Stmt};
use crate::schedule::help::online_form::{Form, Kind, Part};
use crate::schedule::help::reducer::Reducer;
use crate::schedule::help::{regions, tree};
use crate::schedule::{Draft, Failure};
use std::collections::BTreeMap;

pub fn apply(d: &mut Draft, first: &Name, second: &Name, at: &Name) -> Result<Vec<Name>, Failure> {
    let (a, b) = (d.find_block(first)?.clone(), d.find_block(second)?.clone());
    d.find_loop(at)?;
    d.may_round(first)?;
    let nest = Nest::of(d, &a, &b, at)?;
    let form = Form::of(&a, &b, &nest.same)?;
    merge_reductions::nothing_between(d, &a, &b)?;
    let element = d.fresh_like(&form.first.buffer, "_step");
    let theirs = regions::renamed(&form.first.term, &a, &b);
    let firsts = Factored::by(d, first, &nest.loops, form.first.term.clone())?;
    let seconds = Factored::by(d, second, &nest.others, theirs)?;
    let mut levels = Levels { form: &form, firsts: &firsts, seconds: &seconds, counts: None };
    let [p, q] = [firsts.last(), seconds.last()].map(Name::clone);
    let step = stage_elements(d, &p, &firsts.element, &element)?;
    let mut made = vec![step, p.clone(), q];
    match &form.kind {
        Kind::Exponential { start, .. } => levels.start_from(d, start),
        Kind::Moments { .. } => made.extend(levels.count(d, at)?),
    }
    levels.rebase_step(d, &element)?;
    made.insert(3, levels.join_states(d)?);
    for k in 0..levels.last() - 1 {
        levels.rebase_final(d, k)?;
    }
    Ok(made)
}

/// The loops that both blocks stand under.
struct Nest {
    /// The reduction loops from the outermost down to the one that counts steps, of the first block.
    loops: Vec<Name>,
    /// The same of the second.
    others: Vec<Name>,
    /// Loops and iterators of the second in terms of the first's.
    same: BTreeMap<Name, Expr>,
}

impl Nest {
    fn of(d: &Draft, a: &Block, b: &Block, at: &Name) -> Result<Nest, Failure> {
        let (outer, other) = (rfactor::chain_of(d, &a.name), rfactor::chain_of(d, &b.name));
        let above = |block: &Block, chain: &[For]| -> Vec<Name> {
            let path = tree::path(&d.func, &block.name).unwrap_or_default();
            let outside = path.len().saturating_sub(chain.len() + 1);
            path[..outside].iter().filter_map(|s| tree::name_of(s).cloned()).collect()
        };
        let same = merge_reductions::same_nest((a, &outer), (b, &other));
        let same = same.filter(|_| above(a, &outer) == above(b, &other)).ok_or_else(|| {
            let why = format!("its loops, iterators or conditions are not those of `{}`", a.name);
            Failure::new("same_nest", &b.name, why)
        })?;
        let around: Vec<&For> = outer.iter().collect();
        let [feeding, spatial] = [IterKind::Reduce, IterKind::Spatial].map(|k| regions::loops_feeding(a, k, &around));
        let counts = |l: &For| feeding.contains(&l.var) || l.extent.is_int(1) && !spatial.contains(&l.var);
        let place = outer.iter().position(|l| l.var == *at && counts(l)).ok_or_else(|| {
            Failure::new("steps_of_states", at, format!("no reduction iterator of `{}` uses the loop", a.name))
        })?;
        let mut chosen: Vec<usize> = (0..place).filter(|k| feeding.contains(&outer[*k].var)).collect();
        Failure::unless(!chosen.is_empty(), "steps_of_states", at, || {
            "no reduction loop lies outside of it, for a state each".to_string()
        })?;
        chosen.push(place);
        let names = |list: &[For]| chosen.iter().map(|k| list[*k].var.clone()).collect();
        Ok(Nest { loops: names(&outer), others: names(&other), same })
    }
}

/// A reduction by levels.
struct Factored {
    /// The block, then the partial results of each loop, of which the last are those of a step.
    names: Vec<Name>,
    /// The element, over the iterators of the last.
    element: Expr,
}

impl Factored {
    fn by(d: &mut Draft, block: &Name, loops: &[Name], element: Expr) -> Result<Factored, Failure> {
        let mut made = Factored { names: vec![block.clone()], element };
        for l in loops {
            let partial = rfactor::factored(d, l, 0)?;
            made.element = made.element.subst(&|n| partial.values.get(n).cloned());
            made.names.push(partial.block);
        }
        Ok(made)
    }

    fn last(&self) -> &Name {
        &self.names[self.names.len() - 1]
    }
}

/// The blocks of both reductions: final results, one level for each loop over states, the combination of
/// steps, the steps.
struct Levels<'n> {
    form: &'n Form,
    firsts: &'n Factored,
    seconds: &'n Factored,
    /// The buffers of how many elements a step and a state have, where that matters.
    counts: Option<[Name; 2]>,
}

/// A level's update: what is accumulated into, and the partial result that it takes.
struct Update {
    own: Expr,
    partial: Expr,
    block: Block,
}

impl Update {
    fn of(d: &Draft, name: &Name) -> Result<Update, Failure> {
        let block = d.find_block(name)?.clone();
        let reducer = Reducer::of(&block)?;
        let (_, slot) =
            reducer.plain().ok_or_else(|| Failure::new("online_form", name, "it updates several elements"))?;
        let own = Expr::load(slot.buffer.clone(), slot.indices.clone(), slot.dtype);
        Ok(Update { own, partial: slot.term.clone(), block })
    }
}

impl Levels<'_> {
    fn last(&self) -> usize {
        self.firsts.names.len() - 1
    }

    /// Partial maxima start where the maximum does.
    fn start_from(&self, d: &mut Draft, start: &Expr) {
        for name in &self.firsts.names[1..] {
            tree::edit_block(&mut d.func, name, |b| b.init = b.init.iter().map(|s| started(s, start)).collect());
        }
    }

    /// What a load of the first's, with one of the second's, stands for; `k` says which count goes with it.
    fn part(&self, first: &Expr, second: &Expr, k: usize) -> Part {
        let count = self.counts.as_ref().map(|names| beside(first, &names[k]));
        Part { first: first.clone(), second: second.clone(), count }
    }

    /// A block that counts the elements of a step, and buffers for the counts of steps and states.
    fn count(&mut self, d: &mut Draft, at: &Name) -> Result<Vec<Name>, Failure> {
        Failure::unless(self.last() == 2, "steps_of_states", at, || {
            "several reduction loops lie outside of it; fuse them to count what a state has seen".to_string()
        })?;
        let p = self.firsts.last();
        let (step, state) = (Update::of(d, p)?, Update::of(d, &self.firsts.names[1])?);
        let names = [like_buffer_of(d, &step.own, "_count")?, like_buffer_of(d, &state.own, "_count")?];
        let dtype = self.form.first.dtype;
        let (own, one) = (beside(&step.own, &names[0]), Expr::constant(1.0, dtype));
        let body = |copy: &Copied| {
            let own = copy.renamed(&own);
            let init = vec![store(&own, Expr::constant(0.0, dtype))];
            (init, vec![store(&own, own.clone() + one.clone())])
        };
        let (name, nest) = copied(d, p, "_count", None, body)?;
        let top = top_of(d, p);
        tree::replace(&mut d.func, &top, |old| vec![old, nest]);
        self.counts = Some(names);
        Ok(vec![name])
    }

    /// The second's sum of a step is relative to the step's own maximum or mean, and follows it.
    fn rebase_step(&self, d: &mut Draft, element: &Name) -> Result<(), Failure> {
        let [p, q] = [self.firsts.last(), self.seconds.last()];
        let (first, second) = (Update::of(d, p)?, d.find_block(q)?.clone());
        let own = regions::renamed(&first.own, &first.block, &second);
        let part = self.part(&own, &own, 0);
        for (block, term) in [(&first.block, &self.firsts.element), (&second, &self.seconds.element)] {
            let places: Vec<Expr> = block.iters.iter().map(IterVar::var_expr).collect();
            let load = Expr::load(element.clone(), places, self.form.first.dtype);
            tree::edit_values(&mut d.func, &block.name, |e| e.replaced(term, &load));
        }
        tree::edit_values(&mut d.func, q, |e| self.form.relative_to(e, &part));
        let last = self.counts.as_ref().map_or_else(|| top_of(d, p), |_| after(d, p));
        move_after(d, &top_of(d, q), &last);
        Ok(())
    }

    /// One block combines the results of a step with those of the steps before.
    fn join_states(&self, d: &mut Draft) -> Result<Name, Failure> {
        let k = self.last() - 1;
        let (first, second) = (Update::of(d, &self.firsts.names[k])?, Update::of(d, &self.seconds.names[k])?);
        let here = |e: &Expr| regions::renamed(e, &second.block, &first.block);
        let state = self.part(&first.own, &here(&second.own), 1);
        let step = self.part(&first.partial, &here(&second.partial), 0);
        let (mut body, joined) = self.form.joined(d, &state, &step);
        let mut start: Vec<Stmt> = second.block.init.iter().map(|s| s.map_exprs(&mut |e| here(e))).collect();
        body.push(store(&state.second, joined.second));
        body.push(store(&state.first, joined.first));
        if let (Some(own), Some(count)) = (&state.count, joined.count) {
            start.push(store(own, Expr::constant(0.0, count.dtype())));
            body.push(store(own, count));
        }
        tree::remove(&mut d.func, &second.block.name);
        tree::edit_block(&mut d.func, &first.block.name, |b| {
            b.init.extend(start);
            b.body = body;
            b.regions = None;
        });
        Ok(first.block.name)
    }

    /// What the states have is put in relation to the whole row.
    fn rebase_final(&self, d: &mut Draft, k: usize) -> Result<(), Failure> {
        let (first, second) = (Update::of(d, &self.firsts.names[k])?, Update::of(d, &self.seconds.names[k])?);
        let there = |e: &Expr| regions::renamed(e, &first.block, &second.block);
        let [alone, _] = self.form.added(&self.part(&first.partial, &first.partial, 1), &first.own);
        let state = self.part(&there(&first.partial), &second.partial, 1);
        let [_, rebased] = self.form.added(&state, &there(&first.own));
        tree::edit_values(&mut d.func, &first.block.name, |e| e.replaced(&first.partial, &alone));
        tree::edit_values(&mut d.func, &second.block.name, |e| e.replaced(&second.partial, &rebased));
        Ok(())
    }
}

/// The element of another buffer at the place of a load.
fn beside(load: &Expr, buffer: &Name) -> Expr {
    match load.kind() {
        ExprKind::Load { indices, dtype, .. } => Expr::load(buffer.clone(), indices.clone(), *dtype),
        _ => load.clone(),
    }
}

/// A new buffer of the shape of the one that is loaded from.
fn like_buffer_of(d: &mut Draft, load: &Expr, suffix: &str) -> Result<Name, Failure> {
    let ExprKind::Load { buffer, .. } = load.kind() else {
        return Err(Failure::new("online_form", &Name::new(""), "no load"));
    };
    let old = d.find_buffer(buffer)?.clone();
    let name = d.fresh_like(buffer, suffix);
    d.declare(Buffer::new(name.clone(), load.dtype(), old.shape, Scope::Global));
    Ok(name)
}

fn store(to: &Expr, value: Expr) -> Stmt {
    match to.kind() {
        ExprKind::Load { buffer, indices, .. } => {
            Stmt::Store { buffer: buffer.clone(), indices: indices.clone(), value }
        }
        _ => Stmt::Evaluate(value),
    }
}

fn started(s: &Stmt, start: &Expr) -> Stmt {
    match s {
        Stmt::Store { buffer, indices, .. } => {
            Stmt::Store { buffer: buffer.clone(), indices: indices.clone(), value: start.clone() }
        }
        other => other.clone(),
    }
}

/// The outermost loop under which there is nothing but the block.
fn top_of(d: &Draft, block: &Name) -> Name {
    rfactor::chain_of(d, block).first().map_or(block.clone(), |l| l.var.clone())
}

/// Puts one nest right after another.
fn move_after(d: &mut Draft, nest: &Name, place: &Name) {
    let mut moved = vec![];
    tree::replace(&mut d.func, nest, |s| {
        moved.push(s);
        vec![]
    });
    tree::replace(&mut d.func, place, |s| {
        moved.insert(0, s);
        moved
    });
}

/// The nest that holds nothing but the block after the one of `block`.
fn after(d: &Draft, block: &Name) -> Name {
    let blocks = crate::schedule::help::query::blocks(&d.func);
    let place = blocks.iter().position(|b| b.name == *block).map_or(0, |k| k + 1);
    blocks.get(place).map_or(block.clone(), |b| top_of(d, &b.name))
}

/// The loops and iterators of a copy in terms of the new names.
struct Copied {
    map: BTreeMap<Name, Expr>,
    /// The iterators.
    places: Vec<Expr>,
}

impl Copied {
    fn renamed(&self, e: &Expr) -> Expr {
        e.subst(&|n| self.map.get(n).cloned())
    }
}

/// A block under copies of the loops around `like`, with copies of its iterators, all of one kind where
/// `kind` says so, and its guard; `body` makes init and body.
fn copied(
    d: &mut Draft,
    like: &Name,
    suffix: &str,
    kind: Option<IterKind>,
    body: impl FnOnce(&Copied) -> (Vec<Stmt>, Vec<Stmt>),
) -> Result<(Name, Stmt), Failure> {
    let block = d.find_block(like)?.clone();
    let mut copy = Copied { map: BTreeMap::new(), places: vec![] };
    let mut loops = vec![];
    for l in rfactor::chain_of(d, like) {
        let new = For { var: d.fresh_like(&l.var, suffix), annotations: vec![], body: vec![], ..l.clone() };
        copy.map.insert(l.var, new.var_expr());
        loops.push(new);
    }
    let guard = block.guard.as_ref().map(|g| copy.renamed(g));
    let mut iters = vec![];
    for it in &block.iters {
        let var = d.fresh_like(&it.var, suffix);
        let binding = copy.renamed(&it.binding);
        iters.push(IterVar { var, kind: kind.unwrap_or(it.kind), binding, ..it.clone() });
    }
    copy.map.extend(block.iters.iter().zip(&iters).map(|(old, new)| (old.var.clone(), new.var_expr())));
    copy.places = iters.iter().map(IterVar::var_expr).collect();
    let (init, body) = body(&copy);
    let name = d.fresh_like(like, suffix);
    let new = Block { guard, init, ..Block::new(name.clone(), iters, body) };
    Ok((name, crate::schedule::help::nest::around(loops, Stmt::Block(new))))
}

/// A block that computes the elements of each step, before the block `step` that reduces them: `term` is
/// the element over its iterators.
fn stage_elements(d: &mut Draft, step: &Name, term: &Expr, element: &Name) -> Result<Name, Failure> {
    let shape = d.find_block(step)?.iters.iter().map(|it| it.extent.clone()).collect();
    d.declare(Buffer::new(element.clone(), term.dtype(), shape, Scope::Global));
    let (name, nest) = copied(d, step, "_step", Some(IterKind::Spatial), |copy| {
        let value = copy.renamed(term);
        (vec![], vec![Stmt::Store { buffer: element.clone(), indices: copy.places.clone(), value }])
    })?;
    let top = top_of(d, step);
    tree::replace(&mut d.func, &top, |old| vec![nest, old]);
    Ok(name)
}

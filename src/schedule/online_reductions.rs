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
//! relation to a greater one when it comes: once for each step, which is what the loops inside `at`
//! run over, and once more where the states come together, one for each iteration of the reduction
//! loops outside of `at`. Each element is read once and its exponential computed once. States start
//! from the value that the first starts from, which is finite: a state that has seen nothing but -inf
//! has no difference of infinities, and the row's result is that of the two passes, NaN included.
//!
//! The exponential of a sum is the product of exponentials only up to rounding: each factor rounds by
//! some units in the last place, and a sum is multiplied by one where its greatest element changes. No
//! rule may do this where an output is wider than 16 bits (`docs/correctness.md`).
//!
//! Preconditions: `block_exists`; `loop_exists`; those of rfactor; `same_nest`: both blocks stand
//! alone under loops of the same extents in one list, with the same iterators and guards; `steps_of_states`:
//! the loop is a reduction loop of the first with another outside of it; `online_form`: the first
//! is a maximum of x in float32 or float64, the second a sum of products with exp(x - maximum) or
//! exp2((x - maximum) * c), c > 0, and with nothing else that has the maximum; `finite_start`;
//! `nothing_between`: the second comes after the first, and no block between them touches what it
//! writes or writes what it reads.
//!
//! Effect: four new blocks before the first, which, like the second, then reduces what the states
//! hold. The new blocks are the elements of a step, its two results, and the state.

use super::{Draft, Failure, merge_reductions, reducer::Reducer, regions, rfactor, tree};
use crate::analysis::Slot;
use crate::ir::{BinOp, Block, Buffer, DType, Expr, ExprKind, For, Intrin, IterKind, IterVar, Name, Scope, Stmt};
use std::collections::BTreeMap;

pub(super) fn apply(d: &mut Draft, first: &Name, second: &Name, at: &Name) -> Result<Vec<Name>, Failure> {
    let (a, b) = (d.find_block(first)?.clone(), d.find_block(second)?.clone());
    d.find_loop(at)?;
    let nest = Nest::of(d, &a, &b, at)?;
    let pair = Pair::of(&a, &b, &nest.same)?;
    merge_reductions::nothing_between(d, &a, &b)?;
    let element = d.fresh_like(&pair.max.buffer, "_step");
    pair.mark(d, &a, &b, &element);
    let firsts = factored(d, first, &nest.loops)?;
    let seconds = factored(d, second, &nest.others)?;
    let levels = Levels { firsts: &firsts, seconds: &seconds };
    levels.start_from(d, &pair.start);
    let step = stage_elements(d, &a, levels.step()[0], &pair.max.term, &element)?;
    levels.rebase_step(d, &pair, &element)?;
    levels.join_states(d, &pair)?;
    for k in 0..levels.last() - 1 {
        levels.rebase_final(d, &pair, k)?;
    }
    let [p, q] = levels.step();
    Ok(vec![step, p.clone(), q.clone(), firsts[levels.last() - 1].clone()])
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
        let same = same_nest(d, (a, &outer), (b, &other))?;
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

/// What the loops and iterators of the second block are in the first.
fn same_nest(
    d: &Draft,
    (a, outer): (&Block, &[For]),
    (b, other): (&Block, &[For]),
) -> Result<BTreeMap<Name, Expr>, Failure> {
    let mut map: BTreeMap<Name, Expr> = BTreeMap::new();
    map.extend(outer.iter().zip(other).map(|(x, y)| (y.var.clone(), x.var_expr())));
    let renamed = |e: &Expr, map: &BTreeMap<Name, Expr>| e.subst(&|n| map.get(n).cloned());
    let above = |block: &Block, chain: &[For]| -> Vec<Name> {
        let path = tree::path(&d.func, &block.name).unwrap_or_default();
        let outside = path.len().saturating_sub(chain.len() + 1);
        path[..outside].iter().filter_map(|s| tree::name_of(s).cloned()).collect()
    };
    let loops = outer.len() == other.len()
        && outer.iter().zip(other).all(|(x, y)| x.extent == y.extent && x.min == y.min && x.kind == y.kind);
    let iters = a.iters.len() == b.iters.len()
        && a.iters.iter().zip(&b.iters).all(|(x, y)| {
            x.kind == y.kind && x.min == y.min && x.extent == y.extent && x.binding == renamed(&y.binding, &map)
        });
    let guards = a.guard == b.guard.as_ref().map(|g| renamed(g, &map));
    let holds = loops && iters && guards && above(a, outer) == above(b, other);
    Failure::unless(holds, "same_nest", &b.name, || {
        format!("its loops, iterators or conditions are not those of `{}`", a.name)
    })?;
    map.extend(a.iters.iter().zip(&b.iters).map(|(x, y)| (y.var.clone(), x.var_expr())));
    Ok(map)
}

/// A maximum, and a sum of terms with the exponential of what an element is less than it.
struct Pair {
    max: Slot,
    /// What the first starts from.
    start: Expr,
    /// The exponential of the difference, in the first's iterators.
    core: Expr,
    /// The maximum's element as the second reads it.
    top: Expr,
}

impl Pair {
    fn of(a: &Block, b: &Block, same: &BTreeMap<Name, Expr>) -> Result<Pair, Failure> {
        let fail = |block: &Block, why: &str| Failure::new("online_form", &block.name, why);
        let plain = |block: &Block, op: BinOp| -> Result<Option<Slot>, Failure> {
            Ok(Reducer::of(block)?.plain().filter(|(found, _)| *found == op).map(|(_, slot)| slot.clone()))
        };
        let max = plain(a, BinOp::Max)?.ok_or_else(|| fail(a, "it is no maximum"))?;
        let sum = plain(b, BinOp::Add)?.ok_or_else(|| fail(b, "it is no sum"))?;
        if !matches!(max.dtype, DType::F32 | DType::F64) || sum.dtype != max.dtype {
            return Err(fail(a, "it and the sum are not both float32 or float64"));
        }
        let top = Expr::load(max.buffer.clone(), max.indices.clone(), max.dtype);
        let term = sum.term.subst(&|n| same.get(n).cloned());
        let core = exponential(&term, &max.term, &top).ok_or_else(|| {
            fail(b, "its term is no product of exp(x - maximum) with what has no maximum, x as the maximum takes it")
        })?;
        let start = start_of(a, &max).filter(|v| v.as_float().is_some_and(f64::is_finite)).ok_or_else(|| {
            Failure::new(
                "finite_start",
                &a.name,
                "it does not start from a finite constant; differences of infinities are NaN",
            )
        })?;
        Ok(Pair { max, start, core, top })
    }

    /// The factor that puts a sum relative to `from` in relation to `to`.
    fn scale(&self, from: &Expr, to: &Expr) -> Expr {
        replaced(&replaced(&self.core, &self.max.term, from), &self.top, to)
    }

    /// Puts a load at the iterators in place of the element in both blocks, so that what the iterators
    /// have become can be read from it after each step.
    fn mark(&self, d: &mut Draft, a: &Block, b: &Block, element: &Name) {
        let pairs: BTreeMap<&Name, Expr> =
            a.iters.iter().map(|it| &it.var).zip(b.iters.iter().map(IterVar::var_expr)).collect();
        let terms = [self.max.term.clone(), self.max.term.subst(&|n| pairs.get(n).cloned())];
        for (block, term) in [a, b].into_iter().zip(terms) {
            let marker =
                Expr::load(element.clone(), block.iters.iter().map(IterVar::var_expr).collect(), self.max.dtype);
            edit_values(d, &block.name, &|e| replaced(e, &term, &marker));
        }
    }
}

/// The one factor of a product that reads the maximum, where it is the exponential of how much less
/// than it the element is.
fn exponential(term: &Expr, element: &Expr, top: &Expr) -> Option<Expr> {
    let reads = |e: &Expr| contains(e, top);
    match term.kind() {
        ExprKind::Binary { op: BinOp::Mul, a, b } => match (reads(a), reads(b)) {
            (true, false) => exponential(a, element, top),
            (false, true) => exponential(b, element, top),
            _ => None,
        },
        ExprKind::Call { op: Intrin::Exp | Intrin::Exp2, args, .. } => {
            is_difference(args.first()?, element, top).then(|| term.clone())
        }
        _ => None,
    }
}

/// `element - top`, or that times a positive constant.
fn is_difference(e: &Expr, element: &Expr, top: &Expr) -> bool {
    let positive = |e: &Expr| e.as_float().is_some_and(|c| c > 0.0 && c.is_finite());
    match e.kind() {
        ExprKind::Binary { op: BinOp::Sub, a, b } => a == element && b == top,
        ExprKind::Binary { op: BinOp::Mul, a, b } if positive(b) => is_difference(a, element, top),
        ExprKind::Binary { op: BinOp::Mul, a, b } if positive(a) => is_difference(b, element, top),
        _ => false,
    }
}

fn contains(e: &Expr, part: &Expr) -> bool {
    let mut found = false;
    e.visit(&mut |e| found |= e == part);
    found
}

fn replaced(e: &Expr, old: &Expr, new: &Expr) -> Expr {
    if e == old { new.clone() } else { e.map_children(|c| replaced(c, old, new)) }
}

/// The constant that a block starts a slot from.
fn start_of(block: &Block, slot: &Slot) -> Option<Expr> {
    block.init.iter().find_map(|s| match s {
        Stmt::Store { buffer, value, .. } if *buffer == slot.buffer => Some(value.clone()),
        _ => None,
    })
}

fn edit_values(d: &mut Draft, block: &Name, f: &dyn Fn(&Expr) -> Expr) {
    tree::edit_block(&mut d.func, block, |b| {
        b.body = b.body.iter().map(|s| s.map_exprs(&mut |e| f(e))).collect();
        b.regions = None;
    });
}

/// The block, then the partial results of each loop, of which the last are those of a step.
fn factored(d: &mut Draft, block: &Name, loops: &[Name]) -> Result<Vec<Name>, Failure> {
    let mut names = vec![block.clone()];
    for l in loops {
        names.extend(rfactor::apply(d, l, 0)?);
    }
    Ok(names)
}

/// The blocks of both reductions: final results, one level for each loop over states, the combination of
/// steps, the steps.
struct Levels<'n> {
    firsts: &'n [Name],
    seconds: &'n [Name],
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

    /// An expression over this block's iterators in those of another, one by one.
    fn renamed(&self, e: &Expr, to: &Block) -> Expr {
        let pairs: BTreeMap<&Name, Expr> =
            self.block.iters.iter().map(|it| &it.var).zip(to.iters.iter().map(IterVar::var_expr)).collect();
        e.subst(&|n| pairs.get(n).cloned())
    }
}

impl Levels<'_> {
    fn last(&self) -> usize {
        self.firsts.len() - 1
    }

    fn step(&self) -> [&Name; 2] {
        [&self.firsts[self.last()], &self.seconds[self.last()]]
    }

    /// Partial maxima start where the maximum does.
    fn start_from(&self, d: &mut Draft, start: &Expr) {
        for name in &self.firsts[1..] {
            tree::edit_block(&mut d.func, name, |b| b.init = b.init.iter().map(|s| started(s, start)).collect());
        }
    }

    /// The sum of a step is relative to its own maximum, and follows it.
    fn rebase_step(&self, d: &mut Draft, pair: &Pair, element: &Name) -> Result<(), Failure> {
        let [p, q] = self.step();
        let (first, second) = (Update::of(d, p)?, d.find_block(q)?.clone());
        let top = first.renamed(&first.own, &second);
        for (block, top) in [(&first.block, None), (&second, Some(&top))] {
            let own: Vec<Expr> = block.iters.iter().map(IterVar::var_expr).collect();
            let load = Expr::load(element.clone(), own, pair.max.dtype);
            edit_values(d, &block.name, &|e| {
                let e = with_load(e, element, &load);
                top.map_or(e.clone(), |top| with_load(&e, &pair.max.buffer, top))
            });
        }
        let place = top_of(d, p);
        move_after(d, &top_of(d, q), &place);
        Ok(())
    }

    /// One block combines the results of a step with those of the steps before.
    fn join_states(&self, d: &mut Draft, pair: &Pair) -> Result<(), Failure> {
        let k = self.last() - 1;
        let (first, second) = (Update::of(d, &self.firsts[k])?, Update::of(d, &self.seconds[k])?);
        let here = |e: &Expr| second.renamed(e, &first.block);
        let var = d.fresh("top");
        let top = Expr::var(var.clone(), pair.max.dtype);
        let greatest = Expr::binary(BinOp::Max, first.own.clone(), first.partial.clone());
        let kept = here(&second.own) * pair.scale(&first.own, &top);
        let added = here(&second.partial) * pair.scale(&first.partial, &top);
        let body =
            vec![Stmt::Let { var, value: greatest }, store(&here(&second.own), kept + added), store(&first.own, top)];
        let start: Vec<Stmt> = second.block.init.iter().map(|s| s.map_exprs(&mut |e| here(e))).collect();
        tree::remove(&mut d.func, &second.block.name);
        tree::edit_block(&mut d.func, &first.block.name, |b| {
            b.init.extend(start);
            b.body = body;
            b.regions = None;
        });
        Ok(())
    }

    /// Sums of states are put in relation to the maximum of all.
    fn rebase_final(&self, d: &mut Draft, pair: &Pair, k: usize) -> Result<(), Failure> {
        let (first, second) = (Update::of(d, &self.firsts[k])?, Update::of(d, &self.seconds[k])?);
        let there = |e: &Expr| first.renamed(e, &second.block);
        let scale = pair.scale(&there(&first.partial), &there(&first.own));
        let rebased = second.partial.clone() * scale;
        edit_values(d, &second.block.name, &|e| replaced(e, &second.partial, &rebased));
        Ok(())
    }
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

/// Any load of `buffer` replaced by one load.
fn with_load(e: &Expr, buffer: &Name, load: &Expr) -> Expr {
    match e.kind() {
        ExprKind::Load { buffer: from, .. } if from == buffer => load.clone(),
        _ => e.map_children(|c| with_load(c, buffer, load)),
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

/// A block that computes the elements of each step, before the block `step` that reduces them: `term` is
/// the element over the iterators of `a`.
fn stage_elements(d: &mut Draft, a: &Block, step: &Name, term: &Expr, element: &Name) -> Result<Name, Failure> {
    let block = d.find_block(step)?.clone();
    let mut places = vec![];
    block.body.iter().for_each(|s| {
        s.for_each_expr(|e| {
            e.visit(&mut |e| match e.kind() {
                ExprKind::Load { buffer, indices, .. } if buffer == element => places = indices.clone(),
                _ => {}
            })
        })
    });
    let values: BTreeMap<&Name, &Expr> = a.iters.iter().map(|it| &it.var).zip(&places).collect();
    let term = term.subst(&|n| values.get(n).map(|e| (*e).clone()));
    let chain = rfactor::chain_of(d, step);
    let mut map: BTreeMap<Name, Expr> = BTreeMap::new();
    let mut loops = vec![];
    for l in &chain {
        let new = For { var: d.fresh_like(&l.var, "_step"), annotations: vec![], body: vec![], ..l.clone() };
        map.insert(l.var.clone(), new.var_expr());
        loops.push(new);
    }
    let renamed = |e: &Expr, map: &BTreeMap<Name, Expr>| e.subst(&|n| map.get(n).cloned());
    let mut iters = vec![];
    for it in &block.iters {
        let var = d.fresh_like(&it.var, "_step");
        let new = IterVar { var, kind: IterKind::Spatial, binding: renamed(&it.binding, &map), ..it.clone() };
        iters.push(new);
    }
    let guard = block.guard.as_ref().map(|g| renamed(g, &map));
    map.extend(block.iters.iter().zip(&iters).map(|(old, new)| (old.var.clone(), new.var_expr())));
    let indices: Vec<Expr> = iters.iter().map(IterVar::var_expr).collect();
    let value = renamed(&term, &map);
    let shape = iters.iter().map(|it| it.extent.clone()).collect();
    d.func.buffers.push(Buffer::new(element.clone(), value.dtype(), shape, Scope::Global));
    d.func.allocs.push(element.clone());
    let name = d.fresh_like(step, "_step");
    let body = vec![Stmt::Store { buffer: element.clone(), indices, value }];
    let nest = super::nest::around(loops, Stmt::Block(Block { guard, ..Block::new(name.clone(), iters, body) }));
    let top = top_of(d, step);
    tree::replace(&mut d.func, &top, |old| vec![nest, old]);
    Ok(name)
}

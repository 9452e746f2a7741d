//! Moves a consumer under a loop of its producers, to consume there just what they make.
//!
//! ```text
//! for i:                                for i:
//!     for k: b0: writes t0[i]               for k: b0: writes t0[i]
//! for j:                           ->       b1: v0 = i, reads t0[v0]
//!     b1: v0 = j, reads t0[v0]
//! ```
//!
//! Preconditions: `block_exists`; `loop_exists`; `block_outside_loop`; `plain_nest`;
//! `complete_or_reduction_block`; `single_writer`: no other block writes what it writes; `producer_under_loop`: a block under the loop makes what it reads;
//! `all_producers_before`: the others come before it and before the loop's nest is left;
//! `reduction_inside`: the producers' reductions are complete inside the loop;
//! `consumers_after`: nothing that reads or writes its output stands between; `read_by_iterator`:
//! each dimension of what the producers make is read through one iterator, or whole;
//! `always_read`: a read that a condition may leave out chooses no part, unless it finds an element
//! made by the producers whatever the condition is;
//! `regions_agree`: two of its reads do not ask for different parts; `dense_region`: what is
//! written under the loop, by all writers of a buffer together, is a box, or the block reads and
//! writes element by element, or digits of the loops (`f // 2`, `f % 2`) fill a box;
//! `reduction_once`: every step of its own reduction still runs exactly once;
//! `guard_in_iterators`.
//!
//! Effect: each iterator that reads what is made under the loop runs over just that, cut to the
//! iterator's domain, by a guard where need be; the others keep their domains. Where the elements
//! are not a box, the producer's loops are repeated. The block lands at the end of the loop's body.

use crate::analysis::{self, Ranges};
use crate::ir::{BinOp, Block, Expr, ExprKind, IterKind, Name, Stmt};
use crate::schedule::help::copies::position;
use crate::schedule::help::guards::in_iterators;
use crate::schedule::help::regions::{self, Region};
use crate::schedule::help::span::{self, Span, cast};
use crate::schedule::help::{always, holes, motion, nest, query, repeat, tree};
use crate::schedule::primitive::cache::cache_write;
use crate::schedule::{Draft, Failure};
use std::collections::BTreeMap;

pub fn apply(d: &mut Draft, block: &Name, at: &Name) -> Result<(), Failure> {
    let moved = d.find_block(block)?.clone();
    d.find_loop(at)?;
    motion::check_outside(d, block, at)?;
    motion::check_plain(d, block)?;
    motion::check_block(&moved)?;
    check_output(d, &moved)?;
    let made = producers(d, &moved, at)?;
    let ranges = regions::loop_ranges(&d.func);
    let around: Vec<Name> = tree::loops_around(&d.func, block).iter().map(|l| l.var.clone()).collect();
    let conditions = in_iterators(&moved, &around, &ranges)?;
    let boxed = |d: &mut Draft, moved: Block| -> Result<Stmt, Failure> {
        let domains = domains(d, &moved, &made, at, &ranges)?;
        tree::remove(&mut d.func, block);
        Ok(nest::build(d, moved, &domains, &conditions))
    };
    let nest = match (gaps(d, &made, at, &ranges, regions::is_box)?, made.as_slice()) {
        (None, _) => boxed(d, moved)?,
        (Some(why), [one]) if one.writers.len() == 1 => {
            let reads = regions::load_indices(&moved, &one.buffer);
            reads.iter().try_for_each(|indices| check_always(d, &moved, one, indices, &ranges))?;
            let nest = repeat::of_producer(d, &moved, &one.writers[0], at, &one.buffer);
            tree::remove(&mut d.func, block);
            nest.filter(|_| conditions.is_empty()).ok_or(why)?
        }
        // Loops cannot be repeated for several writers, but digits of a fused one may fill a box.
        (Some(_), _) => match gaps(d, &made, at, &ranges, regions::is_box_of_digits)? {
            None => boxed(d, moved)?,
            Some(why) => return Err(why),
        },
    };
    tree::edit_loop(&mut d.func, at, |l| l.body.push(nest));
    Ok(())
}

/// A buffer that the moved block reads, with the blocks under the loop that write it.
struct Made {
    buffer: Name,
    writers: Vec<Block>,
}

fn check_output(d: &Draft, moved: &Block) -> Result<(), Failure> {
    for buffer in tree::writes(moved) {
        if let Some(other) = query::writers(&d.func, &buffer).iter().find(|b| b.name != moved.name) {
            return Err(Failure::new("single_writer", &other.name, format!("it writes `{buffer}` too")));
        }
        let early = |b: &&Block| b.name != moved.name && position(d, &b.name) < position(d, &moved.name);
        if let Some(other) = query::readers(&d.func, &buffer).into_iter().find(early) {
            let why = format!("it reads `{buffer}` before `{}` writes it", moved.name);
            return Err(Failure::new("consumers_after", &other.name, why));
        }
    }
    Ok(())
}

/// What is made under the loop and read by the moved block.
fn producers(d: &Draft, moved: &Block, at: &Name) -> Result<Vec<Made>, Failure> {
    let own = tree::writes(moved);
    let mut made = vec![];
    let mut last = 0;
    for buffer in tree::reads(moved).into_iter().filter(|b| !own.contains(b)) {
        let writers = query::writers(&d.func, &buffer).into_iter().cloned();
        let (inside, outside): (Vec<Block>, Vec<Block>) = writers.partition(|b| motion::is_under(&d.func, &b.name, at));
        for b in &inside {
            motion::check_reduction_inside(d, b, at)?;
            last = last.max(position(d, &b.name));
        }
        if let (false, Some(other)) = (inside.is_empty(), outside.first()) {
            let why = format!("it writes `{buffer}` outside loop `{at}`, other blocks inside");
            return Err(Failure::new("producer_under_loop", &other.name, why));
        }
        made.push((buffer, inside, outside));
    }
    Failure::unless(made.iter().any(|(_, inside, _)| !inside.is_empty()), "producer_under_loop", &moved.name, || {
        format!("no block under loop `{at}` makes what it reads")
    })?;
    for (buffer, _, outside) in &made {
        if let Some(late) = outside.iter().find(|b| position(d, &b.name) > last) {
            let why = format!("it makes `{buffer}` after loop `{at}` needs it");
            return Err(Failure::new("all_producers_before", &late.name, why));
        }
    }
    let inside = made.into_iter().filter(|(_, inside, _)| !inside.is_empty());
    Ok(inside.map(|(buffer, writers, _)| Made { buffer, writers }).collect())
}

/// Why what is made is not a box.
fn gaps(
    d: &Draft,
    made: &[Made],
    at: &Name,
    ranges: &Ranges,
    is_box: holes::IsBox,
) -> Result<Option<Failure>, Failure> {
    for m in made {
        let buffer = d.find_buffer(&m.buffer)?;
        if let Err(writer) = holes::fill_box(&d.func, &m.writers, buffer, at, ranges, is_box) {
            let who = if m.writers.len() == 1 { "what it writes" } else { "what it and others write" };
            let why = format!("{who} of `{}` under loop `{at}` is not a box without gaps", m.buffer);
            return Ok(Some(Failure::new("dense_region", &writer, why)));
        }
    }
    Ok(None)
}

/// The ranges of the moved block's iterators that read what is made under the loop.
fn domains(d: &Draft, moved: &Block, made: &[Made], at: &Name, ranges: &Ranges) -> Result<Region, Failure> {
    let mut found: BTreeMap<Name, Span> = BTreeMap::new();
    let mut most = 0;
    for m in made {
        let hulls = m.writers.iter().map(|w| {
            let running = regions::running(&d.func, w, Some(at), None);
            regions::hull(&regions::stores(w, &m.buffer), &running, ranges)
        });
        let written = regions::union(hulls, ranges);
        let shape = d.find_buffer(&m.buffer)?.shape.clone();
        for indices in regions::load_indices(moved, &m.buffer) {
            let mut own = BTreeMap::new();
            for ((index, span), size) in indices.iter().zip(&written).zip(&shape) {
                solve(moved, index, span.as_ref(), size, ranges, &mut own)?;
            }
            if !own.is_empty() {
                check_always(d, moved, m, &indices, ranges)?;
            }
            most = most.max(own.len());
            own.into_iter().try_for_each(|(var, domain)| note(moved, var, domain, &mut found))?;
        }
    }
    Failure::unless(most == found.len(), "regions_agree", &moved.name, || {
        "its reads choose what is made under the loop through different iterators".to_string()
    })?;
    for it in moved.iters.iter().filter(|it| it.kind == IterKind::Reduce) {
        if let Some(span) = found.get(&it.var) {
            check_once(moved, &it.var, &it.extent, span, ranges)?;
        }
    }
    Ok(moved.iters.iter().map(|it| found.get(&it.var).cloned()).collect())
}

/// Fails with `always_read` where some instance of the moved block may read no element at `indices`, so
/// that the elements made tell too few instances.
fn check_always(d: &Draft, moved: &Block, made: &Made, indices: &[Expr], ranges: &Ranges) -> Result<(), Failure> {
    let buffer = d.find_buffer(&made.buffer)?;
    let mut inside = ranges.clone();
    moved.iters.iter().for_each(|it| inside.set_span(it.var.clone(), &it.min, &it.extent));
    let in_bounds = |(index, size): (&Expr, &Expr)| {
        let whole = Span::from_zero(&cast(index.dtype(), size));
        span::at_most(&whole.lo, index, &inside) && span::at_most(index, &whole.hi, &inside)
    };
    let always = always::load_indices(moved, &made.buffer).iter().any(|a| a == indices)
        || (made.writers.iter().any(|w| cache_write::writes_whole(d, w, buffer))
            && indices.iter().zip(&buffer.shape).all(in_bounds));
    Failure::unless(always, "always_read", &moved.name, || {
        format!("a condition may leave out its read of `{}`, so what is made there tells too little", made.buffer)
    })
}

/// Notes which values of an iterator read inside `span` through `index`.
fn solve(
    moved: &Block,
    index: &Expr,
    span: Option<&Span>,
    size: &Expr,
    ranges: &Ranges,
    found: &mut BTreeMap<Name, Span>,
) -> Result<(), Failure> {
    let Some(part) = span else { return Ok(()) };
    let whole = Span::from_zero(size);
    let at_most = |a: &Expr, b: &Expr| span::at_most(a, &cast(a.dtype(), b), ranges);
    if at_most(&part.lo, &whole.lo) && at_most(&whole.hi, &part.hi) {
        return Ok(());
    }
    let Some((var, domain)) = inverse(moved, index, part, ranges) else {
        if at_most(&part.lo, index) && at_most(index, &part.hi) {
            return Ok(());
        }
        let why = format!("it reads index {index}, from which the part made under the loop cannot be told");
        return Err(Failure::new("read_by_iterator", &moved.name, why));
    };
    note(moved, var, domain, found)
}

/// Notes the values of an iterator; two reads must not want different ones.
fn note(moved: &Block, var: Name, domain: Span, found: &mut BTreeMap<Name, Span>) -> Result<(), Failure> {
    match found.get(&var) {
        Some(old) if *old != domain => {
            let why = format!("two of its reads need different ranges of iterator `{var}`");
            Err(Failure::new("regions_agree", &moved.name, why))
        }
        _ => {
            found.insert(var, domain);
            Ok(())
        }
    }
}

/// The iterator in `index`, `v + c` or `v // c`, and the values of it that fall into `span`.
fn inverse(moved: &Block, index: &Expr, span: &Span, ranges: &Ranges) -> Option<(Name, Span)> {
    let simplify = |e: Expr| analysis::simplify(&e, ranges);
    if let Some((var, shift)) = motion::shifted_iter(moved, index) {
        let back = |e: &Expr| simplify(e.clone() - cast(e.dtype(), &shift));
        return Some((var.clone(), Span { lo: back(&span.lo), hi: back(&span.hi) }));
    }
    let ExprKind::Binary { op: BinOp::FloorDiv, a, b } = index.kind() else { return None };
    let (var, shift) = motion::shifted_iter(moved, a)?;
    let by = b.as_int().filter(|c| *c > 0 && shift.is_int(0))?;
    let times = |e: &Expr, more: i64| simplify(e.clone() * Expr::int(by, e.dtype()) + Expr::int(more, e.dtype()));
    Some((var.clone(), Span { lo: times(&span.lo, 0), hi: times(&span.hi, by - 1) }))
}

/// Fails with `reduction_once` unless the ranges that a reduction iterator runs over, one for each
/// iteration of the loops outside, do not overlap.
fn check_once(moved: &Block, var: &Name, extent: &Expr, span: &Span, ranges: &Ranges) -> Result<(), Failure> {
    let once = covers_once(extent, span, ranges);
    Failure::unless(once, "reduction_once", &moved.name, || {
        format!("its reduction iterator `{var}` would not run over each value once")
    })
}

fn covers_once(extent: &Expr, span: &Span, ranges: &Ranges) -> bool {
    if span.lo.is_int(0) && span::at_most(&(extent.clone() - Expr::int(1, extent.dtype())), &span.hi, ranges) {
        return true;
    }
    let Some(width) = span.extent(ranges).as_int() else { return false };
    let Some(start) = analysis::affine(&span.lo, ranges) else { return false };
    let mut reach = width;
    start.base == 0
        && start.terms.iter().rev().all(|t| {
            let bounds = ranges.get(&t.var);
            let whole = t.lower == 1 && t.modulo.is_none() && t.coeff == reach;
            let next = bounds.and_then(|b| b.finite()).and_then(|(_, hi)| reach.checked_mul(hi + 1));
            reach = next.unwrap_or(i64::MAX);
            whole
        })
}

//! Moves a producer under a loop of its consumers, to compute there just what they need.
//!
//! ```text
//! for ax0, ax1:                              for i, ko:
//!     p0_local_b: p0_local[ax0, ax1]             for ax0_1 in range(4):
//! for i, ko, kv:                        ->           p0_local_b: p0_local[i, ko*4 + ax0_1]
//!     b0: reads p0_local[i, ko*4 + kv]           for kv:
//!                                                    b0: reads p0_local[i, ko*4 + kv]
//! ```
//!
//! Preconditions: `block_exists`; `loop_exists`; `block_outside_loop`; `plain_nest`;
//! `complete_or_reduction_block`; `one_output`; `not_output`: what it writes is not a parameter;
//! `single_writer`: no other block writes it; `all_consumers_under_loop`: every block that reads
//! it lies under the loop; `inputs_unchanged`: nothing after the block writes what it reads;
//! `guard_in_iterators`.
//!
//! Effect: each iterator runs over the hull of what the consumers read while the loops up to `at`
//! stand still, cut to the iterator's domain, by a guard where need be; for a shared buffer the
//! thread loops outside run too, since threads share it. Where one access is all there is and its
//! points are fewer than the hull has (`a // 7`, `a % 7`, strides), the loops of the consumer are
//! repeated instead, so that nothing is computed twice. A reduction of a thread's own has the guard of its one consumer
//! too, as far as it is about these loops. The block lands right before its first
//! consumer. Loops that become empty go; loops with one iteration are not made.

use crate::ir::{Block, Expr, IterKind, Name, Scope, Stmt};
use crate::schedule::help::copies::position;
use crate::schedule::help::guards::{conjoin, conjuncts, in_iterators, uses_any};
use crate::schedule::help::regions::{self, Region};
use crate::schedule::help::span::cast;
use crate::schedule::help::{motion, nest, query, repeat, tree};
use crate::schedule::{Draft, Failure};

pub fn apply(d: &mut Draft, block: &Name, at: &Name) -> Result<(), Failure> {
    let moved = d.find_block(block)?.clone();
    d.find_loop(at)?;
    motion::check_outside(d, block, at)?;
    motion::check_plain(d, block)?;
    motion::check_block(&moved)?;
    let buffer = motion::output(&moved)?;
    let consumers = check_graph(d, &moved, &buffer, at)?;
    let ranges = regions::loop_ranges(&d.func);
    let around: Vec<Name> = tree::loops_around(&d.func, block).iter().map(|l| l.var.clone()).collect();
    let conditions = in_iterators(&moved, &around, &ranges)?;
    let scope = d.find_buffer(&buffer)?.scope.clone();
    let needed = needed(d, &consumers, &buffer, at, &scope);
    let domains = domains(&moved, &buffer, &needed);
    let idle = if scope == Scope::Local && is_reduction(&moved) { common_guard(d, &consumers, at) } else { None };
    tree::remove(&mut d.func, block);
    let nest = match repeat::of_consumer(d, &moved, &consumers, at, &scope, &domains) {
        Some(nest) if conditions.is_empty() => nest,
        _ => nest::build(d, moved, &domains, &conditions),
    };
    insert(d, at, nest, &consumers);
    if let Some(guard) = idle {
        tree::edit_block(&mut d.func, block, |b| b.guard = conjoin(b.guard.take().into_iter().chain([guard])));
    }
    Ok(())
}

fn is_reduction(b: &Block) -> bool {
    b.iters.iter().any(|it| it.kind == IterKind::Reduce)
}

/// Where a consumer, the only one, does not run while the loops up to `at` stand still: a reduction for a thread of its
/// own is not needed there, and would read what others have not written.
fn common_guard(d: &Draft, consumers: &[Block], at: &Name) -> Option<Expr> {
    let [consumer] = consumers else { return None };
    let around = tree::loops_around(&d.func, &consumer.name);
    let inside: Vec<&Name> = around.iter().map(|l| &l.var).skip_while(|l| *l != at).skip(1).collect();
    let outer = conjuncts(consumer.guard.as_ref()).into_iter().filter(|c| !uses_any(c, inside.iter().copied()));
    conjoin(outer)
}

/// The blocks that read what the moved block writes.
fn check_graph(d: &Draft, moved: &Block, buffer: &Name, at: &Name) -> Result<Vec<Block>, Failure> {
    Failure::unless(!d.func.is_param(buffer), "not_output", buffer, || {
        format!("it is a parameter, so `{}` has to run for all of it", moved.name)
    })?;
    if let Some(other) = query::writers(&d.func, buffer).iter().find(|b| b.name != moved.name) {
        return Err(Failure::new("single_writer", &other.name, format!("it writes `{buffer}` too")));
    }
    let readers = query::readers(&d.func, buffer).into_iter().filter(|b| b.name != moved.name);
    let readers: Vec<Block> = readers.cloned().collect();
    let outside = readers.iter().find(|b| !motion::is_under(&d.func, &b.name, at));
    if let Some(other) = outside {
        let why = format!("it reads `{buffer}` outside loop `{at}`");
        return Err(Failure::new("all_consumers_under_loop", &other.name, why));
    }
    Failure::unless(!readers.is_empty(), "all_consumers_under_loop", &moved.name, || {
        format!("no block reads `{buffer}`")
    })?;
    check_inputs(d, moved)?;
    Ok(readers)
}

fn check_inputs(d: &Draft, moved: &Block) -> Result<(), Failure> {
    let own = tree::writes(moved);
    for input in tree::reads(moved).iter().filter(|b| !own.contains(*b)) {
        let late = query::writers(&d.func, input).into_iter().find(|w| position(d, &w.name) > position(d, &moved.name));
        if let Some(w) = late {
            let why = format!("it writes `{input}`, which `{}` reads, after it", moved.name);
            return Err(Failure::new("inputs_unchanged", &w.name, why));
        }
    }
    Ok(())
}

/// The part of `buffer` that the consumers read inside `at`.
fn needed(d: &Draft, consumers: &[Block], buffer: &Name, at: &Name, scope: &Scope) -> Region {
    let ranges = regions::loop_ranges(&d.func);
    let of = |b: &Block| {
        let running = regions::running(&d.func, b, Some(at), Some(scope));
        regions::hull(&regions::loads(b, buffer), &running, &ranges)
    };
    regions::union(consumers.iter().map(of), &ranges)
}

/// The ranges of a block's iterators that write the needed part of its output.
fn domains(block: &Block, buffer: &Name, needed: &Region) -> Region {
    let all = regions::store_indices(block, buffer);
    let [indices] = all.as_slice() else { return block.iters.iter().map(|_| None).collect() };
    let of = |v: &Name| {
        let (index, span) = indices
            .iter()
            .zip(needed)
            .find(|(i, _)| motion::shifted_iter(block, i).is_some_and(|(name, _)| name == v))?;
        let (_, shift) = motion::shifted_iter(block, index)?;
        let back = |e: &Expr| e.clone() - cast(e.dtype(), &shift);
        span.as_ref().map(|s| crate::schedule::help::span::Span { lo: back(&s.lo), hi: back(&s.hi) })
    };
    block.iters.iter().map(|it| of(&it.var)).collect()
}

/// Puts the nest into the loop, right before the first statement that holds a consumer.
fn insert(d: &mut Draft, at: &Name, nest: Stmt, consumers: &[Block]) {
    tree::edit_loop(&mut d.func, at, |l| {
        let holds = |s: &Stmt| tree::blocks_in(s).iter().any(|b| consumers.iter().any(|c| c.name == b.name));
        let place = l.body.iter().position(holds).unwrap_or(l.body.len());
        l.body.insert(place, nest);
    });
}

//! `reverse_compute_inline`: an element-wise block is computed where its only input is produced.
//!
//! ```text
//! for i: block p(v = i): t[v * 2] = f(v)
//! for j: block c(w = j): o[w] = g(t[w])          ->    for i: block p(v = i): o[v * 2] = g(f(v))
//! ```
//!
//! Preconditions on the block: `spatial`, `one_store`, `no_guard`, `iterators_only`; `one_input`:
//! exactly one buffer it reads is an intermediate that no other block reads; `one_pattern`: all
//! loads of that input have the same indices; `distinct_iterators`: they are the iterators, each
//! once; `sole_writer` and `output_untouched`: no other block writes the output, and none up to
//! here reads it; `inputs_ready`: what else it reads is not written from the producer on.
//! Preconditions on the producer: `one_producer`, before the block, `spatial`, `one_store`,
//! `iterators_only`; `covers_domain`: what it writes lies in the domain of the block; `domain_written`: it writes
//! all that the block asks for, or the block reads its input under no condition.
//!
//! Effect: the producer stores the block's value, the input bound with a let where it is needed
//! several times. The block, its loops and the input buffer go.

use crate::analysis::{prove, simplify};
use crate::ir::{BinOp, Block, Expr, ExprKind, Name, PrimFunc, Stmt};
use crate::schedule::help::inline::{Point, iterator_indices, paste, point, values_at};
use crate::schedule::help::span::{at_most, cast};
use crate::schedule::help::{always, checks, query, scope, tree};
use crate::schedule::primitive::cache::cache_write;
use crate::schedule::{Draft, Failure};

/// Inlines `block` into the producer of its input.
pub fn apply(d: &mut Draft, block: &Name) -> Result<(), Failure> {
    let b = d.find_block(block)?.clone();
    let consumer = point(&b)?;
    checks::no_guard(&b)?;
    checks::iterators_only(&d.func, &b)?;
    let input = one_input(&d.func, &b)?;
    let pattern = one_pattern(&b, &consumer.value, &input)?;
    let iterators = iterator_indices(&b, &pattern)?;
    let p = one_producer(&d.func, &b, &input)?.clone();
    let producer = point(&p)?;
    checks::iterators_only(&d.func, &p)?;
    output_untouched(&d.func, &b, &consumer.buffer)?;
    inputs_ready(&d.func, &b, &p, &input)?;
    covers_domain(&d.func, &b, &producer, &iterators)?;
    domain_written(d, &b, &p, &input, &pattern, &iterators)?;
    let store = merged(d, &b, &consumer, &producer, &iterators);
    tree::remove(&mut d.func, block);
    tree::edit_block(&mut d.func, &p.name, |p| {
        p.body = vec![store];
        p.regions = None;
    });
    d.drop_buffer(&input);
    Ok(())
}

/// The producer's store after the step.
fn merged(d: &mut Draft, b: &Block, consumer: &Point, producer: &Point, iterators: &[Option<Name>]) -> Stmt {
    let ranges = scope::everywhere(&d.func);
    let map = values_at(b, iterators, &producer.indices);
    let moved = |e: &Expr| simplify(&e.subst(&|n| map.get(n).cloned()), &ranges);
    let value = paste(d, &moved(&consumer.value), &producer.buffer, &|_: &[Expr]| producer.value.clone());
    let indices = consumer.indices.iter().map(moved).collect();
    Stmt::Store { buffer: consumer.buffer.clone(), indices, value }
}

fn one_input(func: &PrimFunc, b: &Block) -> Result<Name, Failure> {
    let private = |buffer: &Name| {
        let own = |r: &&Block| r.name == b.name || tree::writes(r).contains(buffer);
        !func.is_param(buffer) && query::readers(func, buffer).iter().all(own)
    };
    let inputs: Vec<Name> = tree::reads(b).into_iter().filter(private).collect();
    match inputs.as_slice() {
        [one] => Ok(one.clone()),
        [] => {
            let why = format!("block `{}` reads no intermediate that only it reads", b.name);
            Err(Failure::new("one_input", &b.name, why))
        }
        [a, c, ..] => {
            let why = format!("block `{}` could be inlined into the producer of `{a}` or of `{c}`", b.name);
            Err(Failure::new("one_input", &b.name, why))
        }
    }
}

fn one_pattern(b: &Block, value: &Expr, input: &Name) -> Result<Vec<Expr>, Failure> {
    let mut patterns: Vec<Vec<Expr>> = vec![];
    value.visit(&mut |e| match e.kind() {
        ExprKind::Load { buffer, indices, .. } if buffer == input && !patterns.contains(indices) => {
            patterns.push(indices.clone());
        }
        _ => {}
    });
    match patterns.len() {
        1 => Ok(patterns.remove(0)),
        n => {
            let why = format!("block `{}` reads buffer `{input}` at {n} different places", b.name);
            Err(Failure::new("one_pattern", &b.name, why))
        }
    }
}

fn one_producer<'a>(func: &'a PrimFunc, b: &Block, input: &Name) -> Result<&'a Block, Failure> {
    let blocks = query::blocks(func);
    let place = |name: &Name| blocks.iter().position(|b| b.name == *name);
    match query::writers(func, input).as_slice() {
        [p] if place(&p.name) < place(&b.name) => Ok(p),
        writers => {
            let why =
                format!("buffer `{input}` is not written by one block before `{}`, but by {}", b.name, writers.len());
            Err(Failure::new("one_producer", &b.name, why))
        }
    }
}

fn output_untouched(func: &PrimFunc, b: &Block, output: &Name) -> Result<(), Failure> {
    if let Some(w) = query::writers(func, output).iter().find(|w| w.name != b.name) {
        let why = format!("block `{}` writes buffer `{output}` too", w.name);
        return Err(Failure::new("sole_writer", &b.name, why));
    }
    let blocks = query::blocks(func);
    let earlier = blocks.iter().take_while(|o| o.name != b.name);
    earlier.into_iter().find(|o| tree::reads(o).contains(output)).map_or(Ok(()), |o| {
        let why = format!("block `{}` reads buffer `{output}` before block `{}` writes it", o.name, b.name);
        Err(Failure::new("output_untouched", &b.name, why))
    })
}

fn inputs_ready(func: &PrimFunc, b: &Block, producer: &Block, input: &Name) -> Result<(), Failure> {
    let read = tree::reads(b);
    let blocks = query::blocks(func);
    let later = blocks.iter().skip_while(|o| o.name != producer.name);
    for o in later {
        if let Some(buffer) = tree::writes(o).iter().find(|w| *w != input && read.contains(w)) {
            let why = format!(
                "buffer `{buffer}` is written by block `{}`, too late for the producer `{}`",
                o.name, producer.name
            );
            return Err(Failure::new("inputs_ready", &b.name, why));
        }
    }
    Ok(())
}

fn covers_domain(func: &PrimFunc, b: &Block, producer: &Point, iterators: &[Option<Name>]) -> Result<(), Failure> {
    let ranges = scope::everywhere(func);
    for (k, (var, index)) in iterators.iter().zip(&producer.indices).enumerate() {
        let within = match var.as_ref().and_then(|v| b.iter(v)) {
            Some(it) => {
                let index = Expr::cast(it.dtype, index.clone());
                let above = Expr::binary(BinOp::Le, Expr::int(0, it.dtype), index.clone());
                prove(&above, &ranges) && prove(&Expr::binary(BinOp::Lt, index, it.extent.clone()), &ranges)
            }
            None => simplify(index, &ranges).is_int(0),
        };
        Failure::unless(within, "covers_domain", &b.name, || {
            format!(
                "dimension {k} of buffer `{}` may be written outside the domain of block `{}`",
                producer.buffer, b.name
            )
        })?;
    }
    Ok(())
}

/// Fails where a condition may leave out the block's read of an element that the producer does not write, so that
/// the block has a value there of which the producer knows nothing.
fn domain_written(
    d: &Draft,
    b: &Block,
    producer: &Block,
    input: &Name,
    pattern: &[Expr],
    iterators: &[Option<Name>],
) -> Result<(), Failure> {
    if always::load_indices(b, input).iter().any(|indices| indices == pattern) {
        return Ok(());
    }
    let buffer = d.find_buffer(input)?;
    let ranges = scope::everywhere(&d.func);
    let inside = iterators.iter().zip(&buffer.shape).all(|(var, size)| {
        let it = var.as_ref().and_then(|v| b.iter(v));
        it.is_none_or(|it| at_most(&it.extent, &cast(it.dtype, size), &ranges))
    });
    let written = inside && cache_write::writes_whole(d, producer, buffer);
    Failure::unless(written, "domain_written", &b.name, || {
        format!(
            "a condition may leave out its read of `{input}`, and `{}` may not write all that it asks for",
            producer.name
        )
    })
}

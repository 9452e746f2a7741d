//! Times whole steps and prompts as graphs, and each function of a step alone, beside the bytes that it has to move.
//!
//! Clock: events around several replays in a row, median of seven; the weights do not fit the second-level cache. A function
//! alone runs once for each layer, so that its weights are as cold as in a step; what it shares with its neighbours
//! (launches that overlap, weights that are fetched early) it there has with itself.

use crate::config::Config;
use crate::device::{Error, Memory};
use crate::model::{Layer, Model};

/// Bytes a second that an H200 reads at best, and multiply-adds (as two operations) that it does at best by cuBLAS.
const READS: f64 = 4.62e12;
const OPERATIONS: f64 = 780e12;

/// A function of a step: how often it is called, the bytes that a call reads and writes at least, the operations of its
/// products, and all calls.
struct Part<'a> {
    name: &'static str,
    calls: usize,
    bytes: usize,
    operations: usize,
    run: Box<dyn Fn() -> Result<(), Error> + 'a>,
}

impl Part<'_> {
    /// What the bytes take, or the operations where that is longer.
    fn floor_us(&self) -> f64 {
        (self.bytes as f64 / READS).max(self.operations as f64 / OPERATIONS) * 1e6
    }
}

pub fn bench(model: &mut Model) -> Result<(), Error> {
    println!("{}, {} layers", model.device.name()?, model.config.layers);
    let (batches, prompts) = (model.config.batch.clone(), model.config.prompt.clone());
    let span = model.config.span.iter().copied().max().unwrap_or(1) as usize;
    for batch in batches.iter().map(|b| *b as usize) {
        model.place(&vec![1; batch], &vec![span as i32 - 1; batch])?;
        let ms = clock(model, 10, || model.run_step(batch, span))?;
        let floor = weights(model) as f64 / READS * 1e3;
        println!(
            "\ndecode, batch {batch}, {span} positions: {ms:.3} ms, {:.0} tokens/s; weights alone take {floor:.3} ms",
            batch as f64 * 1e3 / ms
        );
        table(model, &parts(model, batch, span), ms)?;
    }
    for rows in prompts.iter().map(|r| *r as usize) {
        let tokens: Vec<i32> = (0..rows as i32).collect();
        model.prompt(0, &tokens)?;
        let ms = clock(model, 3, || model.run_prompt(0, rows))?;
        let rate = elements(model) as f64 * 2.0 * rows as f64 / (ms * 1e-3);
        println!(
            "\nprompt of {rows}: {ms:.3} ms, {:.0} TFLOP/s, {:.2} of cuBLAS's best",
            rate / 1e12,
            rate / OPERATIONS
        );
        table(model, &prompt_parts(model, rows), ms)?;
    }
    Ok(())
}

/// Milliseconds of `work`, which is recorded once and run `times` times in a row.
fn clock(model: &Model, times: usize, work: impl Fn() -> Result<(), Error>) -> Result<f64, Error> {
    let device = &model.device;
    work()?;
    let graph = device.record(&work)?;
    let replays = || (0..times).try_for_each(|_| device.replay(&graph));
    replays()?;
    let mut found = vec![];
    for _ in 0..7 {
        found.push(device.clock(replays)? / times as f64);
    }
    found.sort_by(f64::total_cmp);
    Ok(found[3])
}

fn table(model: &Model, parts: &[Part<'_>], step: f64) -> Result<(), Error> {
    println!("| function | calls | us each | floor us | of the floor | ms | share |");
    println!("|---|---|---|---|---|---|---|");
    let mut sum = 0.0;
    for p in parts {
        let ms = clock(model, 3, &p.run)?;
        let (each, floor) = (ms * 1e3 / p.calls as f64, p.floor_us());
        let (share, of) = (ms / step, floor / each);
        println!("| {} | {} | {each:.2} | {floor:.2} | {of:.2} | {ms:.3} | {share:.2} |", p.name, p.calls);
        sum += ms;
    }
    println!("| all, one by one | | | | | {sum:.3} | {:.2} |", sum / step);
    Ok(())
}

/// Bytes of the weights that a step reads.
fn weights(model: &Model) -> usize {
    weight_bytes(&model.config, elements(model))
}

/// Weights of the products of a step.
fn elements(model: &Model) -> usize {
    let c = &model.config;
    let layer =
        (c.heads + 2 * c.kv_heads) * c.head_dim * c.hidden + c.hidden * c.heads * c.head_dim + 3 * c.hidden * c.inner;
    c.layers * layer + c.vocab * c.hidden
}

/// Bytes of so many weights of products.
fn weight_bytes(c: &Config, n: usize) -> usize {
    if c.int4 { n / 2 + 2 * n / c.group } else { 2 * n }
}

/// All calls of a function, one for each layer.
fn each<'a>(
    model: &'a Model,
    run: impl Fn(&Layer) -> Result<(), Error> + 'a,
) -> Box<dyn Fn() -> Result<(), Error> + 'a> {
    Box::new(move || model.layers.iter().try_for_each(&run))
}

/// The functions that both a step and a prompt have.
fn common<'a>(model: &'a Model, rows: usize) -> Vec<Part<'a>> {
    let (c, k, s) = (&model.config, &model.kernels, &model.state);
    let at = Memory::address;
    let (e, q, y, f) = (c.hidden, c.heads * c.head_dim, (c.heads + 2 * c.kv_heads) * c.head_dim, c.inner);
    let moves = |name, calls, elements: usize, run| Part { name, calls, bytes: 2 * elements, operations: 0, run };
    let product = |name, calls, (n, k): (usize, usize), others: usize, run| Part {
        name,
        calls,
        bytes: weight_bytes(c, n * k) + 2 * others,
        operations: 2 * rows * n * k,
        run,
    };
    let n = c.layers;
    // SAFETY of all: as in `Model`.
    let norm = |x: &'a Memory, weight: fn(&Layer) -> &Memory| {
        let run = move |l: &Layer| unsafe { k.rms_norm([at(x), at(weight(l)), at(&s.h)], rows) };
        moves("rms_norm", n, 2 * rows * e, each(model, run))
    };
    let mut parts = match rows {
        1 => vec![product("normed qkv", n, (y, e), rows * (e + y), each(model, move |l| model.normed_qkv(l)))],
        _ => vec![
            norm(&s.x[0], |l| &l.norm),
            product("qkv", n, (y, e), rows * (e + y), each(model, move |l| model.qkv(l, rows))),
        ],
    };
    parts.extend([
        moves(
            "rope",
            n,
            2 * rows * (q + 2 * c.kv_heads * c.head_dim),
            each(model, move |l| unsafe {
                k.rope([at(&s.y), at(&s.slot), at(&s.position), at(&model.angle), at(&l.cache), at(&s.q)], rows)
            }),
        ),
        product("out", n, (e, q), rows * (q + 2 * e), each(model, move |l| model.out(l, rows))),
    ]);
    parts.extend(match model.norms_with_units(rows) {
        true => vec![product("normed units", n, (2 * f, e), e + f, each(model, move |l| model.normed_units(l)))],
        false => vec![
            norm(&s.x[1], |l| &l.second_norm),
            product("units", n, (2 * f, e), rows * (e + f), each(model, move |l| model.units(l, rows))),
        ],
    });
    parts.push(product("down", n, (e, f), rows * (f + 2 * e), each(model, move |l| model.down(l, rows))));
    parts
}

fn parts(model: &Model, batch: usize, span: usize) -> Vec<Part<'_>> {
    let (c, k, s) = (&model.config, &model.kernels, &model.state);
    let at = Memory::address;
    let (cache, scores) = (2 * batch * c.kv_heads * span * c.head_dim, batch * c.heads * span);
    let [q, p, w, position] = [&s.q, &s.scores, &s.weights, &s.position].map(at);
    let (n, v) = (c.layers, batch * c.vocab);
    let mut parts = common(model, batch);
    // SAFETY of all: as in `Model`.
    parts.extend([
        Part {
            name: "scores",
            calls: n,
            bytes: cache + 4 * scores,
            operations: 0,
            run: each(model, move |l| unsafe { k.scores([q, at(&l.cache), position, p], batch, span) }),
        },
        Part {
            name: "weights",
            calls: n,
            bytes: 6 * scores,
            operations: 0,
            run: each(model, move |_| unsafe { k.weights([p, w], batch, span) }),
        },
        Part {
            name: "values",
            calls: n,
            bytes: cache + 2 * scores,
            operations: 0,
            run: each(model, move |l| unsafe { k.values([w, at(&l.cache), at(&s.o)], batch, span) }),
        },
        Part {
            name: "head",
            calls: 1,
            bytes: weight_bytes(c, c.vocab * c.hidden) + 4 * v,
            operations: 0,
            run: Box::new(move || model.words(batch)),
        },
        Part {
            name: "softmax",
            calls: 1,
            bytes: 8 * v,
            operations: 0,
            run: Box::new(move || unsafe { k.softmax([at(&s.logits), at(&s.probabilities)], batch) }),
        },
        Part {
            name: "pick",
            calls: 1,
            bytes: 4 * v,
            operations: 0,
            run: Box::new(move || unsafe { k.pick([at(&s.probabilities), at(&s.token)], batch) }),
        },
    ]);
    parts
}

fn prompt_parts(model: &Model, rows: usize) -> Vec<Part<'_>> {
    let (c, k, s) = (&model.config, &model.kernels, &model.state);
    let n = c.layers;
    // Scores that are looked at: those of each chunk as far as it reaches.
    let all: usize = model.chunks(rows).map(|(first, length)| c.heads * length * (first + length)).sum();
    let [q, p, w, o] = [&s.q, &s.scores, &s.weights, &s.o].map(Memory::address);
    let mut parts = common(model, rows);
    let every = move |run: &dyn Fn(usize, usize) -> Result<(), Error>| {
        model.chunks(rows).try_for_each(|(first, length)| run(length, first + length))
    };
    // SAFETY of all: as in `Model`.
    parts.extend([
        Part {
            name: "prompt_scores",
            calls: n,
            bytes: 2 * all,
            operations: 2 * all * c.head_dim,
            run: each(model, move |l| {
                every(&|length, reach| unsafe { k.prompt_scores([q, l.cache.address(), p], length, reach) })
            }),
        },
        Part {
            name: "prompt_weights",
            calls: n,
            bytes: 4 * all,
            operations: 0,
            run: each(model, move |_| every(&|length, reach| unsafe { k.prompt_weights([p, w], length, reach) })),
        },
        Part {
            name: "prompt_values",
            calls: n,
            bytes: 2 * all,
            operations: 2 * all * c.head_dim,
            run: each(model, move |l| {
                every(&|length, reach| unsafe { k.prompt_values([w, l.cache.address(), o], length, reach) })
            }),
        },
    ]);
    parts
}

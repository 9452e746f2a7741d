//! Random functions under random steps: every step either is refused and changes nothing, or the
//! function computes what it computed before, and reads nothing that it has not written.

use crate::common::random::function;
use crate::common::schedule::{SplitMix, check_form, check_numbers, read};
use daylight::ir::{AttrValue, BinOp, Buffer, DType, Expr, IterKind, Name, PrimFunc, Scope, Stmt, ThreadTag};
use daylight::schedule::{Operand, Schedule, Step};
use rayon::prelude::*;
use std::collections::{BTreeMap, VecDeque};

/// Functions tried, and steps tried on each.
const FUNCTIONS: u64 = 2400;
const STEPS: usize = 20;

#[test]
fn random_steps_keep_the_numbers() {
    let mut taken: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, n) in seeds().into_par_iter().flat_map_iter(sequence).collect::<Vec<_>>() {
        *taken.entry(name).or_default() += n;
    }
    println!("steps taken: {taken:?}");
    if seeds().count() == 1 {
        return;
    }
    for name in Step::NAMES.iter().filter(|n| !INEXACT.contains(n)) {
        assert!(taken.get(name).copied().unwrap_or(0) >= 20, "{name} was hardly taken: {taken:?}");
    }
}

/// Primitives that change roundings, so that numbers do not stay the same.
const INEXACT: [&str; 3] = ["keep_float32", "relax_arithmetic", "online_reductions"];

/// Random steps on the random function of a seed: how often each was taken.
fn sequence(seed: u64) -> BTreeMap<&'static str, usize> {
    let mut taken = BTreeMap::new();
    let mut rng = SplitMix(seed);
    let input = read(&function(&mut rng));
    let mut s = Schedule::new(input.clone());
    let mut next = VecDeque::new();
    for _ in 0..STEPS {
        if next.is_empty() {
            next = random_steps(s.func(), &mut rng);
        }
        let Some(step) = next.pop_front() else { continue };
        let name = step.name();
        if s.apply(step).is_ok() {
            *taken.entry(name).or_insert(0) += 1;
            check(&input, &s, seed);
        }
    }
    check_form(&input, &s);
    taken
}

/// All seeds, or the one that `SEED` names.
fn seeds() -> std::ops::Range<u64> {
    match std::env::var("SEED").ok().and_then(|s| s.parse().ok()) {
        Some(seed) => seed..seed + 1,
        None => 20000..20000 + FUNCTIONS,
    }
}

/// Compares the numbers; on a difference the seed and the trace are in the message.
fn check(input: &PrimFunc, s: &Schedule, seed: u64) {
    let result = std::panic::catch_unwind(|| check_numbers(input, s.func(), seed));
    if result.is_err() {
        let trace: Vec<String> = s.trace().iter().map(|t| t.to_string()).collect();
        panic!("seed {seed}, trace:\n{}\n{input}", trace.join("\n"));
    }
}

struct Names {
    loops: Vec<Name>,
    blocks: Vec<Name>,
    /// Those of the blocks that start what they accumulate.
    reductions: Vec<Name>,
    iters: Vec<Vec<Name>>,
}

fn names(func: &PrimFunc) -> Names {
    let mut found = Names { loops: vec![], blocks: vec![], reductions: vec![], iters: vec![] };
    func.visit(&mut |s| match s {
        Stmt::For(l) => found.loops.push(l.var.clone()),
        Stmt::Block(b) => {
            found.blocks.push(b.name.clone());
            found.reductions.extend((!b.init.is_empty()).then(|| b.name.clone()));
            found.iters.push(b.iters.iter().map(|i| i.var.clone()).collect());
        }
        _ => {}
    });
    found
}

/// One step, or several that are for each other.
fn random_steps(func: &PrimFunc, rng: &mut SplitMix) -> VecDeque<Step> {
    match rng.below(24) {
        0 => padded_product(func, rng),
        _ => VecDeque::from([random_step(func, rng)]),
    }
}

pub fn random_step(func: &PrimFunc, rng: &mut SplitMix) -> Step {
    let n = names(func);
    let one = |rng: &mut SplitMix, list: &[Name]| match list.len() {
        0 => Name::new("none"),
        len => list[rng.below(len)].clone(),
    };
    let at = one(rng, &n.loops);
    let block = one(rng, &n.blocks);
    let buffers: Vec<Name> = func.buffers.iter().map(|b| b.name.clone()).collect();
    let buffer = one(rng, &buffers);
    let scope = [Scope::Local, Scope::Shared, Scope::Global][rng.below(3)].clone();
    match rng.below(69) {
        0..=5 => Step::Split { at, factors: factors(rng) },
        6 | 7 => Step::Fuse { loops: neighbours(rng, &n.loops) },
        8..=11 => Step::Reorder { loops: neighbours(rng, &n.loops).into_iter().rev().collect() },
        12 | 13 => Step::Bind { at, tag: ThreadTag::ALL[rng.below(ThreadTag::ALL.len())].0 },
        14 => Step::Parallel { at },
        15 => Step::Vectorize { at },
        16 => Step::Unroll { at },
        17 => Step::Annotate { at: block, key: "k".to_string(), value: AttrValue::Int(1) },
        18 | 19 => Step::ComputeInline { block },
        20 | 21 => Step::ReverseComputeInline { block },
        22..=24 => Step::ComputeAt { block, at },
        25..=27 => Step::ReverseComputeAt { block, at },
        28 | 29 => Step::CacheRead { block, buffer, scope },
        30 | 31 => Step::CacheWrite { block, buffer, scope },
        32 => Step::SetScope { buffer, scope },
        33..=35 => Step::Rfactor { at, axis: rng.below(3) },
        36 | 37 => Step::DecomposeReduction { block, at },
        38 => Step::AddUnitLoop { at: block },
        39 | 40 => Step::StorageAlign {
            buffer,
            axis: rng.below(3),
            factor: 1 + rng.below(8) as i64,
            offset: rng.below(3) as i64,
        },
        41..=43 => transformed(func, rng, buffer),
        44 => Step::FlattenBuffer { buffer },
        45 | 46 => Step::Blockize { at },
        47 | 48 => Step::StageWrite { block, scope },
        49..=53 => merged(rng, &n),
        54 | 55 => Step::Share { blocks: vec![block, one(rng, &n.blocks)], buffer: Some(buffer), scope },
        56 | 57 => reindex(rng, &n),
        58 => Step::SetDtype { buffer, dtype: DType::F64 },
        65 => Step::ShareValue { blocks: vec![block], buffers: vec![buffer], scope },
        60..=62 => merged_loops(func, rng),
        63 | 64 => replicated(func, rng),
        66..=68 => Step::AlignLoop { at, buffer, lanes: 1 << (1 + rng.below(3)) },
        _ => layout(rng, &n),
    }
}

fn factors(rng: &mut SplitMix) -> Vec<Option<i64>> {
    let mut factors: Vec<Option<i64>> = (0..2 + rng.below(2)).map(|_| Some(1 + rng.below(4) as i64)).collect();
    let open = rng.below(factors.len());
    factors[open] = None;
    factors
}

fn neighbours(rng: &mut SplitMix, loops: &[Name]) -> Vec<Name> {
    let start = rng.below(loops.len().max(1));
    loops.iter().skip(start).take(1 + rng.below(3)).cloned().collect()
}

/// Two reductions, one after the other.
fn merged(rng: &mut SplitMix, n: &Names) -> Step {
    let pairs: Vec<_> = n.reductions.windows(2).collect();
    let [first, second] = pairs.get(rng.below(pairs.len().max(1))).copied().unwrap_or_default() else {
        return Step::AddUnitLoop { at: Name::new("none") };
    };
    Step::MergeReductions { first: first.clone(), second: second.clone() }
}

/// Two loops that run as often.
fn merged_loops(func: &PrimFunc, rng: &mut SplitMix) -> Step {
    let mut loops = vec![];
    func.visit(&mut |s| {
        if let Stmt::For(l) = s {
            loops.push((l.var.clone(), l.extent.clone()));
        }
    });
    let none = || (Name::new("none"), Expr::i64(0));
    let (first, extent) = loops.get(rng.below(loops.len().max(1))).cloned().unwrap_or_else(none);
    let later = loops.iter().skip_while(|l| l.0 != first).skip(1).filter(|l| l.1 == extent);
    let later: Vec<_> = later.collect();
    let second = later.get(rng.below(later.len().max(1))).map_or_else(|| none().0, |l| l.0.clone());
    Step::MergeLoops { first, second }
}

/// A block anew for each tile of an iterator of each of its readers.
fn replicated(func: &PrimFunc, rng: &mut SplitMix) -> Step {
    let blocks = Schedule::new(func.clone()).blocks();
    let block = blocks.get(rng.below(blocks.len().max(1))).cloned().unwrap_or_else(|| Name::new("none"));
    let s = Schedule::new(func.clone());
    let readers = if blocks.is_empty() { vec![] } else { s.consumers(&block) };
    let mut along = vec![];
    func.visit(&mut |s| {
        if let Stmt::Block(b) = s
            && readers.contains(&b.name)
        {
            along.extend(b.iters.get(rng.below(b.iters.len().max(1))).map(|it| it.var.clone()));
        }
    });
    let sizes = (0..1 + rng.below(3)).map(|_| 1 + rng.below(3) as i64).collect();
    Step::Replicate { block, along, sizes }
}

/// A layout for a buffer: dimensions permuted, reversed, split or joined.
fn transformed(func: &PrimFunc, rng: &mut SplitMix, buffer: Name) -> Step {
    let shape = func.buffers.iter().find(|b| b.name == buffer).map_or(&[][..], |b: &Buffer| &b.shape);
    let from: Vec<Name> = (0..shape.len()).map(|k| Name::new(format!("x{k}"))).collect();
    let mut to: Vec<Expr> = vec![];
    for (name, extent) in from.iter().zip(shape) {
        let x = Expr::var(name.clone(), DType::I32);
        let int = |n: i64| Expr::int(n, DType::I32);
        let extent = extent.as_int();
        let by = 1 + rng.below(4) as i64;
        match (rng.below(5), extent, to.pop()) {
            (0, Some(n), last) => to.extend(last.into_iter().chain([int(n - 1) - x])),
            (1 | 2, Some(_), last) => {
                to.extend(last);
                to.push(Expr::binary(BinOp::FloorDiv, x.clone(), int(by)));
                to.insert(rng.below(to.len() + 1), Expr::binary(BinOp::FloorMod, x, int(by)));
            }
            (3, Some(n), Some(last)) => to.push(last * int(n) + x),
            (_, _, last) => {
                to.extend(last);
                to.insert(rng.below(to.len() + 1), x);
            }
        }
    }
    Step::TransformLayout { buffer, from, to }
}

/// The operands of a block staged at its iterators, then the iterators rounded up.
fn padded_product(func: &PrimFunc, rng: &mut SplitMix) -> VecDeque<Step> {
    let mut products = vec![];
    func.visit(&mut |s| {
        if let Stmt::Block(b) = s
            && !b.init.is_empty()
        {
            products.push(b.clone());
        }
    });
    if products.is_empty() {
        return VecDeque::new();
    }
    let b = products.swap_remove(rng.below(products.len()));
    let spatial = |all: bool| -> Vec<Vec<Name>> {
        let kept = b.iters.iter().filter(|it| all || it.kind == IterKind::Spatial);
        kept.map(|it| vec![it.var.clone()]).collect()
    };
    let of = |operand, all| Step::Reindex { block: b.name.clone(), operand, map: spatial(all) };
    let multiples = b.iters.iter().map(|_| 1 + rng.below(4) as i64).collect();
    VecDeque::from([
        of(Operand::Left, true),
        of(Operand::Right, true),
        of(Operand::Result, false),
        Step::PadEinsum { block: b.name.clone(), multiples },
    ])
}

/// An operand of a block staged at its iterators in random groups.
fn reindex(rng: &mut SplitMix, n: &Names) -> Step {
    match layout(rng, n) {
        Step::TransformBlockLayout { block, map } => Step::Reindex { block, operand: Operand::ALL[rng.below(3)], map },
        other => other,
    }
}

/// Iterators of a block in random groups.
fn layout(rng: &mut SplitMix, n: &Names) -> Step {
    let Some(k) = (!n.blocks.is_empty()).then(|| rng.below(n.blocks.len())) else {
        return Step::AddUnitLoop { at: Name::new("none") };
    };
    let mut map: Vec<Vec<Name>> = vec![];
    for it in &n.iters[k] {
        match (rng.below(3), map.last_mut()) {
            (0, Some(last)) => last.push(it.clone()),
            (1, _) => map.insert(0, vec![it.clone()]),
            _ => map.push(vec![it.clone()]),
        }
    }
    Step::TransformBlockLayout { block: n.blocks[k].clone(), map }
}

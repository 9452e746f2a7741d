//! Random functions under random steps: every step either is refused and changes nothing, or the
//! function computes what it computed before, and reads nothing that it has not written.

mod common;

use common::random::function;
use common::schedule::{SplitMix, check_form, check_numbers, read};
use daylight::ir::{AttrValue, Name, PrimFunc, Scope, Stmt, ThreadTag};
use daylight::schedule::{Schedule, Step};
use rayon::prelude::*;
use std::collections::BTreeMap;

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
    for name in ["split", "fuse", "reorder", "bind", "compute_inline", "reverse_compute_inline"] {
        assert!(taken.get(name).copied().unwrap_or(0) >= 10, "{name} was hardly tried: {taken:?}");
    }
}

/// Random steps on the random function of a seed: how often each was taken.
fn sequence(seed: u64) -> BTreeMap<&'static str, usize> {
    let mut taken = BTreeMap::new();
    let mut rng = SplitMix(seed);
    let input = read(&function(&mut rng));
    let mut s = Schedule::new(input.clone());
    for _ in 0..STEPS {
        let step = random_step(s.func(), &mut rng);
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
    iters: Vec<Vec<Name>>,
}

fn names(func: &PrimFunc) -> Names {
    let mut found = Names { loops: vec![], blocks: vec![], iters: vec![] };
    func.visit(&mut |s| match s {
        Stmt::For(l) => found.loops.push(l.var.clone()),
        Stmt::Block(b) => {
            found.blocks.push(b.name.clone());
            found.iters.push(b.iters.iter().map(|i| i.var.clone()).collect());
        }
        _ => {}
    });
    found
}

fn random_step(func: &PrimFunc, rng: &mut SplitMix) -> Step {
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
    match rng.below(42) {
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

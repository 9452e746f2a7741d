//! Random functions under random steps: every step either is refused and changes nothing, or the
//! function computes what it computed before.

mod common;

use common::schedule::{SplitMix, check_form, check_numbers, read};
use daylight::ir::{AttrValue, Name, PrimFunc, Scope, Stmt, ThreadTag};
use daylight::schedule::{Schedule, Step};

/// Functions tried, and steps tried on each.
const FUNCTIONS: u64 = 300;
const STEPS: usize = 14;

#[test]
fn random_steps_keep_the_numbers() {
    let mut taken = std::collections::BTreeMap::new();
    for seed in 0..FUNCTIONS {
        let mut rng = SplitMix(seed);
        let text = function(&mut rng);
        let input = read(&text);
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
    }
    println!("steps taken: {taken:?}");
    for name in ["split", "fuse", "reorder", "bind", "compute_inline", "reverse_compute_inline"] {
        assert!(taken.get(name).copied().unwrap_or(0) >= 10, "{name} was hardly tried: {taken:?}");
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

/// The text of a random function: element-wise stages, with a reduction among them half the time.
fn function(rng: &mut SplitMix) -> String {
    let rank = 1 + rng.below(3);
    let dims: Vec<usize> = (0..rank).map(|_| [1, 2, 3, 4, 5, 6, 7][rng.below(7)]).collect();
    let stages = 1 + rng.below(4);
    let reduce_at = if rng.below(2) == 0 { Some(rng.below(stages)) } else { None };
    let shape = |d: &[usize]| format!("({},)", d.iter().map(|n| n.to_string()).collect::<Vec<_>>().join(", "));
    let mut body = String::new();
    let mut allocs = String::new();
    let mut known: Vec<(String, Vec<usize>)> = vec![("A".to_string(), dims.clone()), ("B".to_string(), dims.clone())];
    let mut dims_now = dims.clone();
    for k in 0..stages {
        let name = if k + 1 == stages { "O".to_string() } else { format!("t{k}") };
        let reduce = reduce_at == Some(k) && dims_now.len() > 1;
        let out: Vec<usize> = if reduce { dims_now[..dims_now.len() - 1].to_vec() } else { dims_now.clone() };
        body += &stage(rng, &name, &dims_now, reduce, &known);
        if k + 1 < stages {
            allocs += &format!("    {name} = T.sblock_alloc_buffer({})\n", shape(&out));
        }
        known.push((name, out.clone()));
        dims_now = out;
    }
    let whole = shape(&dims);
    format!(
        "@T.prim_func\ndef f(A: T.Buffer({whole}, \"float32\"), B: T.Buffer({whole}, \"float32\"), O: T.Buffer({}, \"float32\")):\n{allocs}{body}",
        shape(&dims_now)
    )
}

/// One nest that writes `name` over `dims`; a reduction sums or maximises over the last of them.
fn stage(rng: &mut SplitMix, name: &str, dims: &[usize], reduce: bool, known: &[(String, Vec<usize>)]) -> String {
    let loops: Vec<String> = (0..dims.len()).map(|k| format!("i{k}_{name}")).collect();
    let iters: Vec<String> = (0..dims.len()).map(|k| format!("v{k}")).collect();
    let mut kinds = "S".repeat(dims.len());
    if reduce {
        kinds.replace_range(dims.len() - 1.., "R");
    }
    let sizes: Vec<String> = dims.iter().map(|n| n.to_string()).collect();
    let range = if dims.len() == 1 { format!("range({})", sizes[0]) } else { format!("T.grid({})", sizes.join(", ")) };
    let axes = if dims.len() == 1 {
        format!("{} = T.axis.spatial({}, {})", iters[0], sizes[0], loops[0])
    } else {
        format!("{} = T.axis.remap(\"{kinds}\", [{}])", iters.join(", "), loops.join(", "))
    };
    let value = value(rng, dims, &iters, known);
    let at = |n: usize| format!("{name}[{}]", iters[..n].join(", "));
    let mut text =
        format!("    for {} in {range}:\n        with T.sblock(\"{name}\"):\n            {axes}\n", loops.join(", "));
    if reduce {
        let out = at(dims.len() - 1);
        let (start, combined) = match rng.below(2) {
            0 => ("T.float32(0)", format!("{out} + {value}")),
            _ => ("T.float32(-1000)", format!("T.max({out}, {value})")),
        };
        text +=
            &format!("            with T.init():\n                {out} = {start}\n            {out} = {combined}\n");
    } else {
        text += &format!("            {} = {value}\n", at(dims.len()));
    }
    text
}

/// An expression over buffers whose shape starts like `dims`.
fn value(rng: &mut SplitMix, dims: &[usize], iters: &[String], known: &[(String, Vec<usize>)]) -> String {
    let fits: Vec<_> = known.iter().filter(|(_, d)| d.len() <= dims.len() && dims.starts_with(d)).collect();
    let load = |rng: &mut SplitMix| {
        let newest = rng.below(3) > 0;
        let (buffer, d) = if newest { fits[fits.len() - 1] } else { fits[rng.below(fits.len())] };
        let flip = rng.below(4) == 0;
        let index = |k: usize| if flip && k == 0 { format!("{} - {}", d[0] - 1, iters[0]) } else { iters[k].clone() };
        format!("{buffer}[{}]", (0..d.len()).map(index).collect::<Vec<_>>().join(", "))
    };
    if fits.is_empty() {
        return "T.float32(2)".to_string();
    }
    let (a, b) = (load(rng), load(rng));
    match rng.below(5) {
        0 => format!("({a} + T.float32(1))"),
        1 => format!("T.max({a}, {b})"),
        2 => format!("({a} - {b})"),
        3 => format!("({a} + {a} + {b})"),
        _ => format!("({a} * T.float32(2))"),
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
    match rng.below(22) {
        0..=2 => Step::Split { at, factors: factors(rng) },
        3 => Step::Fuse { loops: neighbours(rng, &n.loops) },
        4 | 5 => Step::Reorder { loops: neighbours(rng, &n.loops).into_iter().rev().collect() },
        6 => Step::Bind { at, tag: ThreadTag::ALL[rng.below(ThreadTag::ALL.len())].0 },
        7 => Step::Parallel { at },
        8 => Step::Vectorize { at },
        9 => Step::Unroll { at },
        10 => Step::Annotate { at, key: "k".to_string(), value: AttrValue::Int(1) },
        11 => Step::ComputeInline { block },
        12 => Step::ReverseComputeInline { block },
        13 => Step::ComputeAt { block, at },
        14 => Step::ReverseComputeAt { block, at },
        15 => Step::CacheRead { block, buffer, scope },
        16 => Step::CacheWrite { block, buffer, scope },
        17 => Step::SetScope { buffer, scope },
        18 => Step::Rfactor { at, axis: rng.below(3) },
        19 => Step::DecomposeReduction { block, at },
        20 => Step::AddUnitLoop { at: block },
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

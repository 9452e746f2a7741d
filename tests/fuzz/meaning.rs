//! Structural mutants of the workloads: each is refused, or the interpreter and what a rule makes of it, for a GPU and
//! for the CPU, give what plain evaluation gives.

use super::corpora::{TARGETS, target};
use super::evaluate::{Stop, Stored, evaluate};
use super::mutate::generator;
use super::structure::mutant;
use super::{corpora, count, seed};
use crate::common::random::function;
use crate::common::schedule::SplitMix;
use daylight::analysis::{fission, refuse, shrink};
use daylight::assemble::{Schedulable, caught};
use daylight::interp::{self, Mode};
use daylight::ir::{self, BinOp, DType, Expr, ExprKind, PrimFunc, Stmt};
use daylight::job::Bindings;
use daylight::rules::Spaces;
use daylight::tune::reference::{Given, expected, inputs};
use daylight::tune::{problem, simulate};
use rand::RngExt;
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// Steps of a function, about.
const STEPS: u64 = 600;
/// Operations that a function or a mutant has at most; others are left out.
const MOST: u64 = 40_000;

/// Small twins of the workloads, and drawn functions.
static ORIGINALS: LazyLock<Vec<PrimFunc>> = LazyLock::new(|| {
    let sized = |f: PrimFunc| {
        let bind: Bindings = f.extents.iter().map(|e| (e.name.to_string(), 5)).collect();
        let f = f.bind(&bind);
        shrink(&f, STEPS).unwrap_or(f)
    };
    let files = crate::common::scripts(&corpora::root("tests/workloads"));
    let texts = files.iter().map(|p| std::fs::read_to_string(p).expect("a text"));
    let texts = texts.chain(crate::scatter::FUNCTIONS.map(|(_, text)| text.to_string()));
    let read = texts.flat_map(|t| ir::read(&t, "t.py").unwrap_or_default());
    let drawn = (0..40).map(|n| crate::common::schedule::read(&function(&mut SplitMix(n))));
    let fine = |f: &PrimFunc| refuse(&fission(f)).is_ok() && interp::scalar_ops(f) < MOST;
    read.chain(drawn).map(sized).filter(fine).collect()
});

/// What became of a mutant.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum End {
    /// There was nothing to change so, or the reader refused it.
    NotMade,
    Refused,
    TooLong,
    /// It has no meaning for these inputs, as docs/correctness.md says.
    Undefined(&'static str),
    /// Its results are not within tolerance of each other even when each operation is rounded as the function says.
    Coarse,
    /// No rule takes it for one of the targets, or none whose kernel can be made: the step or the pass that cannot is named.
    NoKernel,
    Agrees,
}

#[test]
fn mutants_of_functions_mean_what_plain_evaluation_says() {
    let all = count(300);
    let outcome = |n: usize| {
        let (text, end) = tried(n);
        end.map_err(|why| format!("mutant {n}: {why}\n{text}"))
    };
    let ends: Vec<Result<End, String>> = (0..all).into_par_iter().map(outcome).collect();
    let mut counts: BTreeMap<End, usize> = BTreeMap::new();
    ends.iter().flatten().for_each(|e| *counts.entry(*e).or_default() += 1);
    eprintln!("{all} structural mutants, seed {}: {counts:?}", seed());
    let wrong: Vec<&String> = ends.iter().filter_map(|e| e.as_ref().err()).collect();
    let text: Vec<String> = wrong.iter().map(|s| s.to_string()).collect();
    assert!(wrong.is_empty(), "{} findings\n{}", wrong.len(), text.join("\n----\n"));
    eprintln!("{} originals", ORIGINALS.len());
    assert!(counts.get(&End::Agrees).is_some_and(|n| *n * 10 > all), "{counts:?}");
}

/// Mutant number `n`: its text, and what became of it or what is wrong.
fn tried(n: usize) -> (String, Result<End, String>) {
    let mut rng = generator(seed(), "structure", n);
    let original = &ORIGINALS[rng.random_range(0..ORIGINALS.len())];
    let Some(f) = mutant(original, &mut rng) else { return (String::new(), Ok(End::NotMade)) };
    let start = std::time::Instant::now();
    let judged = caught(|| judge(&f, n as u64));
    if start.elapsed().as_secs() > 10 {
        eprintln!("mutant {n} takes {:?}", start.elapsed());
    }
    (f.to_string(), judged.unwrap_or_else(|panic| Err(format!("panicked: {panic}"))))
}

fn judge(f: &PrimFunc, seed: u64) -> Result<End, String> {
    if refuse(&fission(f)).is_err() {
        return Ok(End::Refused);
    }
    if interp::scalar_ops(f) > MOST {
        return Ok(End::TooLong);
    }
    let subjects: Vec<Schedulable> = TARGETS.iter().filter_map(|t| Schedulable::new(f, f, target(t)).ok()).collect();
    let Some(first) = subjects.first() else { return Ok(End::Refused) };
    let given = problem::given(f, &Bindings::new(), seed);
    let args = inputs(f, &given, true)?;
    let want = match evaluate(f, &args.tensors, &args.scalars) {
        Ok(want) => want,
        Err(Stop::Undefined(why)) => return Ok(End::Undefined(why)),
        // The author answers for indices and conditions that are read from a tensor.
        Err(Stop::Wrong(_)) if chosen_by_data(f) => return Ok(End::Undefined("an index or a condition that is read")),
        Err(Stop::Wrong(why)) => return Err(format!("taken although {why}")),
    };
    let func = &first.prepared.func;
    interpreted(f, &want, &given).map_err(|e| format!("interpreted: {e}"))?;
    interpreted(func, &want, &given).map_err(|e| format!("interpreted when normalized: {e}"))?;
    let reference = expected(func, &first.prepared.facts, &given)?;
    let mut end = End::Agrees;
    for subject in &subjects {
        let arms = subject.arms(&Spaces::built_in());
        let made = arms.iter().filter_map(|arm| {
            let knobs = arm.space.default()?;
            Some((arm, subject.candidate(arm, &knobs).ok()?, knobs))
        });
        let made: Vec<_> = made.take(2).collect();
        if made.is_empty() {
            end = End::NoKernel;
        }
        for (arm, made, knobs) in made {
            let at = |why: String| format!("{} on {} at {knobs}: {why}", arm.space.form, subject.target.id);
            let options = simulate::Options { seed, ..simulate::Options::default() };
            match simulate::check(subject, &made.program, &given, &reference, options) {
                Ok(_) => {}
                Err(why) if why.starts_with("wrong result") && coarse(func, &want, &given) => return Ok(End::Coarse),
                Err(why) => return Err(at(why)),
            }
        }
    }
    Ok(end)
}

/// True where an index or a condition is read from a tensor.
fn chosen_by_data(f: &PrimFunc) -> bool {
    let reads = |e: &Expr| match e.kind() {
        ExprKind::Load { indices, .. } => indices.iter().any(Expr::has_load),
        ExprKind::IfThenElse { cond, .. } => cond.has_load(),
        ExprKind::Binary { op: BinOp::And | BinOp::Or, a, .. } => a.has_load(),
        _ => false,
    };
    let mut found = false;
    f.visit(&mut |s| {
        s.for_each_expr(|e| found |= e.any(&reads));
        found |= match s {
            Stmt::Store { indices, .. } => indices.iter().any(Expr::has_load),
            Stmt::If { cond, .. } => cond.has_load(),
            Stmt::Let { value, .. } => value.has_load() && !value.dtype().is_float(),
            _ => false,
        };
    });
    found
}

/// The interpreter, on all elements that the function stores.
fn interpreted(f: &PrimFunc, want: &[Stored], given: &Given) -> Result<(), String> {
    let args = inputs(f, given, true)?;
    let mut tensors = args.tensors;
    interp::run(f, &mut tensors, &args.scalars, Mode::F64).map_err(|e| e.to_string())?;
    for (k, (tensor, (values, written))) in tensors.iter().zip(want).enumerate() {
        let largest = values.iter().filter(|v| v.is_finite()).fold(0.0, |m: f64, v| m.max(v.abs()));
        for (i, value) in values.iter().enumerate().filter(|(i, _)| written[*i]) {
            let got = tensor.get_f64(i);
            // What is read and written keeps its type, and is rounded when it is stored.
            let unit = 1e-9f64.max(4.0 * tensor.dtype.roundoff());
            let near = (got - value).abs() <= unit * value.abs().max(1e-3 * largest);
            if got != *value && !near && !(got.is_nan() && value.is_nan()) {
                return Err(format!("parameter {k}, element {i} is {got}, plainly {value}"));
            }
        }
    }
    Ok(())
}

/// True where rounding each operation as the function says moves a result by more than its type rounds it.
fn coarse(f: &PrimFunc, want: &[Stored], given: &Given) -> bool {
    let Ok(args) = inputs(f, given, false) else { return true };
    let mut tensors = args.tensors;
    if interp::run(f, &mut tensors, &args.scalars, Mode::Exact).is_err() {
        return true;
    }
    tensors.iter().zip(want).any(|(tensor, (values, written))| {
        let unit = if tensor.dtype == DType::F32 { 1e-6 } else { 1e-2 };
        let moved = |i: usize| (tensor.get_f64(i) - values[i]).abs() > unit * values[i].abs();
        (0..values.len()).any(|i| written[i] && moved(i))
    })
}

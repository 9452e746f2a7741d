//! What the outputs must be: the interpreter in `float64`, on every element where that is quick, on
//! a sample of them plus all borders where it is not.

pub use super::draw::{Given, Inputs, index_ranges, inputs, inputs_as};
use super::in_order::longest;
use super::output::{Output, outputs, place};
use super::rounding::rounds;
use super::scale::{Sizes, typical};
use super::trust::{Unsure, is_beside, nudged};
use crate::analysis::Facts;
use crate::interp::{self, Mode, Scalar, Scalars, Tensor};
use crate::ir::{DType, Expr, ExprKind, Name, Param, PrimFunc, Stmt};
use crate::measure::expected::ExpectedOutput;
use crate::measure::{Expected, Tolerance};
use std::collections::{BTreeMap, BTreeSet};

/// Scalar operations up to which every element is computed.
const EVERY_ELEMENT: u64 = 100_000_000;

/// Scalar operations from which on it is said that the reference takes long: ten seconds and more.
const LONG: u64 = 1_000_000_000;

/// Elements that are sampled beyond that, the borders not counted.
const SAMPLE: usize = 4096;

/// Of fewer outputs the norm does not tell how large results are that do not cancel.
const FEW: usize = 64;

/// The expected outputs of a bound and normalized function for seeded inputs.
///
/// # Errors
/// A sentence, when the function cannot be evaluated.
pub fn expected(func: &PrimFunc, facts: &Facts, given: &Given) -> Result<Expected, String> {
    let Inputs { mut tensors, scalars, .. } = inputs(func, given, true)?;
    let outputs = outputs(func);
    let mut limits = tolerances(func, facts, (&tensors, &scalars), &outputs);
    if interp::scalar_ops(func) > EVERY_ELEMENT
        && let Some(sampled) = sampled(func, given.seed, (&tensors, &scalars), &outputs, &limits)
    {
        return Ok(sampled);
    }
    let missing = run_whole(func, &mut tensors, &scalars, &outputs)?;
    let unsized_few = outputs.iter().zip(&limits).any(|(o, t)| is_few(&tensors, o, t) && t.scale == 0.0);
    let unsure = Unsure::of(func, given, &outputs, unsized_few).find((&tensors, &scalars), &mut limits)?;
    let all = outputs.iter().zip(missing).zip(&limits).map(|((o, missing), tolerance)| {
        let t = &tensors[o.tensor];
        let missing: BTreeSet<u64> =
            missing.into_iter().chain(unsure.get(&o.param).into_iter().flatten().copied()).collect();
        let stored = || (0..t.len() as u64).filter(|i| !missing.contains(i));
        let values = stored().map(|i| t.get_f64(i as usize)).collect();
        let points = (!missing.is_empty()).then(|| stored().collect());
        ExpectedOutput { param: o.param, points, values, tolerance: *tolerance }
    });
    Ok(Expected { outputs: all.collect() })
}

/// A sentence for people where the reference of a function takes long: its outputs cannot be sampled, so that all of it is
/// interpreted. `None` where it is quick.
pub fn takes_long(func: &PrimFunc, given: &Given) -> Option<String> {
    let steps = interp::scalar_ops(func);
    let value = |name: &Name| given.scalars.get(name).copied().unwrap_or(1.0);
    let scalars = func.params.iter().filter_map(|p| match p {
        Param::Buffer(_) => None,
        Param::Scalar { name, .. } => Some((name.clone(), Scalar::Float(value(name)))),
    });
    let scalars: Scalars = scalars.collect();
    let is_sampled = || outputs(func).iter().all(|o| interp::can_sample(func, &scalars, &o.name));
    (steps >= LONG && !is_sampled()).then(|| {
        let steps = steps as f64 / 1e9;
        format!("single elements of the reference cannot be computed, so all of it is: {steps:.1} billion steps, maybe minutes")
    })
}

/// True for an output that is rounded and has less than [`FEW`] elements.
fn is_few(tensors: &[Tensor], o: &Output, t: &Tolerance) -> bool {
    *t != Tolerance::EXACT && tensors[o.tensor].len() < FEW
}

/// The tolerance of each output, with the size of results where there are [`FEW`].
fn tolerances(
    func: &PrimFunc,
    facts: &Facts,
    (tensors, scalars): (&[Tensor], &Scalars),
    outputs: &[Output],
) -> Vec<Tolerance> {
    let mut limits: Vec<Tolerance> = outputs.iter().map(|o| tolerance(func, facts, o.dtype)).collect();
    if !outputs.iter().zip(&limits).any(|(o, t)| is_few(tensors, o, t)) {
        return limits;
    }
    let Some(sizes) = Sizes::of(func, facts) else { return limits };
    for (o, t) in outputs.iter().zip(&mut limits).filter(|(o, t)| is_few(tensors, o, t)) {
        let tensor = &tensors[o.tensor];
        let all: Vec<Vec<i64>> = (0..tensor.len() as u64).map(|i| place(i, &tensor.shape)).collect();
        if let Some((_, values)) = known(&sizes.func, tensors, scalars, o, &all) {
            t.scale = typical(&values, sizes.squared.contains(&o.name));
        }
    }
    limits
}

/// Runs a function; of each output the elements that the function stores nothing to, and that hold nothing
/// that it read.
fn run_whole(
    func: &PrimFunc,
    tensors: &mut [Tensor],
    scalars: &Scalars,
    outputs: &[Output],
) -> Result<Vec<Vec<u64>>, String> {
    let fresh: Vec<Name> = outputs.iter().filter(|o| !o.kept).map(|o| o.name.clone()).collect();
    let missing = interp::run_defined(func, tensors, scalars, Mode::F64, &fresh).map_err(|e| e.to_string())?;
    let mut missing = missing.into_iter();
    Ok(outputs.iter().map(|o| if o.kept { vec![] } else { missing.next().unwrap_or_default() }).collect())
}

/// The expected values of given elements of some outputs, by parameter.
///
/// # Errors
/// As [`expected`].
pub fn expected_at(
    func: &PrimFunc,
    facts: &Facts,
    given: &Given,
    points: &BTreeMap<usize, Vec<u64>>,
) -> Result<Expected, String> {
    let Inputs { mut tensors, scalars, .. } = inputs(func, given, true)?;
    let outputs = outputs(func);
    let limits = tolerances(func, facts, (&tensors, &scalars), &outputs);
    let wanted: Vec<(usize, &Output, &Vec<u64>)> =
        outputs.iter().enumerate().filter_map(|(n, o)| Some((n, o, points.get(&o.param)?))).collect();
    let sampled: Option<Vec<Known>> = wanted
        .iter()
        .map(|(_, o, flat)| {
            let places: Vec<Vec<i64>> = flat.iter().map(|i| place(*i, &tensors[o.tensor].shape)).collect();
            sure(func, (&tensors, &scalars), o, known(func, &tensors, &scalars, o, &places)?)
        })
        .collect();
    let all = match sampled {
        Some(all) => all,
        None => {
            let missing = run_whole(func, &mut tensors, &scalars, &outputs)?;
            let at = |(n, o, flat): &(usize, &Output, &Vec<u64>)| {
                let missing: BTreeSet<u64> = missing[*n].iter().copied().collect();
                let stored = flat.iter().filter(|i| !missing.contains(i));
                stored.map(|i| (*i, tensors[o.tensor].get_f64(*i as usize))).unzip()
            };
            wanted.iter().map(at).collect()
        }
    };
    let outputs = wanted.iter().zip(all).map(|((n, o, _), (points, values))| ExpectedOutput {
        param: o.param,
        points: Some(points),
        values,
        tolerance: limits[*n],
    });
    Ok(Expected { outputs: outputs.collect() })
}

/// Flat indices of elements and their values.
type Known = (Vec<u64>, Vec<f64>);

/// Elements of an output at some places, without those that the function stores nothing to; `None` for a
/// function that can only be run whole.
fn known(
    func: &PrimFunc,
    tensors: &[Tensor],
    scalars: &Scalars,
    output: &Output,
    places: &[Vec<i64>],
) -> Option<Known> {
    let tensor = &tensors[output.tensor];
    let values = interp::sample(func, tensors, scalars, &output.name, places).ok()?;
    let stored = places.iter().zip(values).filter_map(|(place, value)| {
        let flat = tensor.flat(place);
        let before = output.kept.then(|| tensor.get_f64(flat));
        Some((flat as u64, value.or(before)?))
    });
    Some(stored.unzip())
}

/// Of known elements those that rounding does not decide: of integers that floats become the ones that nearly tie are left out.
fn sure(func: &PrimFunc, (tensors, scalars): (&[Tensor], &Scalars), output: &Output, known: Known) -> Option<Known> {
    if output.dtype.is_float() || !rounds(func) {
        return Some(known);
    }
    let places: Vec<Vec<i64>> = known.0.iter().map(|flat| place(*flat, &tensors[output.tensor].shape)).collect();
    let size = typical(&known.1, false);
    let others: Option<Vec<_>> = nudged(func, tensors, size)
        .map(|(func, tensors)| interp::sample(&func, &tensors, scalars, &output.name, &places).ok())
        .collect();
    let others = others?;
    let is_sure =
        |n: &usize| !others.iter().any(|values| values[*n].is_some_and(|v| is_beside(known.1[*n] as i64, v as i64)));
    Some((0..places.len()).filter(is_sure).map(|n| (known.0[n], known.1[n])).unzip())
}

/// A sample of each output; `None` for a function that can only be run whole.
fn sampled(
    func: &PrimFunc,
    seed: u64,
    (tensors, scalars): (&[Tensor], &Scalars),
    outputs: &[Output],
    limits: &[Tolerance],
) -> Option<Expected> {
    let sampled = outputs.iter().zip(limits).map(|(o, tolerance)| {
        let tensor = &tensors[o.tensor];
        let known = known(func, tensors, scalars, o, &sample_points(&tensor.shape, seed))?;
        let (points, values) = sure(func, (tensors, scalars), o, known)?;
        Some(ExpectedOutput { param: o.param, points: Some(points), values, tolerance: *tolerance })
    });
    Some(Expected { outputs: sampled.collect::<Option<_>>()? })
}

/// All corners, the middles of all edges between them, and seeded points in between.
fn sample_points(shape: &[i64], seed: u64) -> Vec<Vec<i64>> {
    use rand::{RngExt, SeedableRng};
    let mut points = BTreeSet::new();
    let borders = |n: i64| [0, n / 2, n - 1];
    let mut grid: Vec<Vec<i64>> = vec![vec![]];
    for n in shape {
        grid = grid.iter().flat_map(|p| borders(*n).map(|i| p.iter().copied().chain([i]).collect())).collect();
    }
    points.extend(grid);
    let mut rng = rand::rngs::StdRng::seed_from_u64(seed);
    let size = shape.iter().fold(1u64, |n, d| n.saturating_mul(*d as u64));
    let want = points.len() + SAMPLE.min(usize::try_from(size).unwrap_or(SAMPLE));
    for _ in 0..2 * SAMPLE {
        if points.len() >= want {
            break;
        }
        points.insert(shape.iter().map(|n| rng.random_range(0..(*n).max(1))).collect());
    }
    points.into_iter().collect()
}

/// How far an output may be off: nothing where values are only moved, compared or computed in
/// integers; else by the roundoff of what is stored and of the accumulator, and the reduction's
/// length.
pub fn tolerance(func: &PrimFunc, facts: &Facts, output: DType) -> Tolerance {
    if !output.is_float() || !rounds(func) {
        return Tolerance::EXACT;
    }
    let coarser = |a: DType, b: DType| if b.roundoff() > a.roundoff() { b } else { a };
    let stored = func.buffers.iter().filter(|b| written(func, &b.name)).map(|b| b.dtype).fold(output, coarser);
    let mut stored = stored;
    let mut note = |e: &Expr| {
        e.visit(&mut |e| match e.kind() {
            ExprKind::Cast { dtype, .. } if dtype.is_float() => stored = coarser(stored, *dtype),
            _ => {}
        });
    };
    func.visit(&mut |s| s.for_each_expr(&mut note));
    let (mut length, mut accumulator) = longest(func);
    for b in facts.blocks.iter().filter(|b| b.is_reduction) {
        let of = |i: &&crate::ir::IterVar| i.kind == crate::ir::IterKind::Reduce;
        let extents = b.iters.iter().filter(of).filter_map(|i| i.extent.as_int());
        length = length.max(extents.fold(1u64, |n, e| n.saturating_mul(e.max(1) as u64)));
        let dtypes = b.writes.iter().filter_map(|w| func.find_buffer(&w.buffer)).map(|b| b.dtype);
        accumulator = dtypes.filter(|d| d.is_float()).fold(accumulator, coarser);
    }
    Tolerance::of(stored, accumulator, length)
}

fn written(func: &PrimFunc, buffer: &Name) -> bool {
    let mut found = false;
    func.visit(&mut |s| found |= matches!(s, Stmt::Store { buffer: b, .. } if b == buffer));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> PrimFunc {
        let text = format!("from tvm.script import tirx as T\n@T.prim_func(s_tir=True)\n{body}");
        crate::ir::read(&text, "t.py").expect("reads").remove(0)
    }

    /// Rows that are stored at places of another tensor, and the same at their own.
    #[test]
    fn what_takes_long_is_said() {
        let rows = |count: i64, at: &str| {
            read(&format!(
                "def f(A: T.Buffer(({count}, 1024), \"float32\"), P: T.Buffer(({count},), \"int32\"), \
                 s: T.float32, B: T.Buffer(({count}, 1024), \"float32\")):\n    \
                 for i, j in T.grid({count}, 1024):\n        with T.sblock(\"b\"):\n            \
                 v, w = T.axis.remap(\"SS\", [i, j])\n            B[{at}, w] = A[v, w] * s\n"
            ))
        };
        let said = |count, at| takes_long(&rows(count, at), &Given::default());
        let sentence = said(1 << 20, "P[v]").expect("a sentence");
        assert!(sentence.contains(" billion steps"), "{sentence}");
        assert_eq!((said(1 << 20, "v"), said(1 << 10, "P[v]")), (None, None));
    }

    /// 75 times a float32 that is a little less than 0.02 is 1.5 in float32 and less in float64.
    #[test]
    fn a_tie_may_go_either_way() {
        let text = "def f(A: T.Buffer((256,), \"int32\"), \
                    B: T.Buffer((256,), \"int8\")):\n    for i in range(256):\n        with T.sblock(\"b\"):\n            \
                    v = T.axis.spatial(256, i)\n            \
                    B[v] = T.Cast(\"int8\", T.round(T.Cast(\"float32\", A[v] * 25) * T.float32(0.02)))\n";
        let func = read(text);
        let given = Given { seed: 1, ..Given::default() };
        let inputs = inputs(&func, &given, false).expect("inputs");
        let found = expected(&func, &Facts::of(&func), &given).expect("a reference");
        let points = found.outputs[0].points.as_ref().expect("some are left out");
        let left_out = (0..256u64).filter(|i| !points.contains(i));
        let odd: Vec<i64> = left_out.map(|i| inputs.tensors[0].get_i64(i as usize)).collect();
        assert!(!odd.is_empty() && odd.len() < 128, "{odd:?}");
        assert!(odd.iter().all(|a| a % 2 != 0), "only ties: {odd:?}");
    }

    /// Of a product too large to compute whole: where its sums are rounded to float16 before they become integers, these are what is
    /// expected, as ties are left out, which are few.
    #[test]
    fn ties_are_left_out_of_samples() {
        let text = "def f(A: T.Buffer((512, 512), \"float16\"), W: T.Buffer((512, 512), \"float16\"), \
                    O: T.Buffer((512, 512), \"int32\")):\n    C = T.sblock_alloc_buffer((512, 512), \"float16\")\n    \
                    for i, j, k in T.grid(512, 512, 512):\n        with T.sblock(\"C\"):\n            \
                    v, w, r = T.axis.remap(\"SSR\", [i, j, k])\n            with T.init():\n                C[v, w] = T.float16(0)\n            \
                    C[v, w] = C[v, w] + A[v, r] * W[w, r]\n    for i, j in T.grid(512, 512):\n        with T.sblock(\"O\"):\n            \
                    v, w = T.axis.remap(\"SS\", [i, j])\n            O[v, w] = T.Cast(\"int32\", C[v, w])\n";
        let (func, given) = (read(text), Given { seed: 1, ..Given::default() });
        let found = expected(&func, &Facts::of(&func), &given).expect("a reference").outputs.remove(0);
        let points = found.points.expect("a sample");
        let asked = sample_points(&[512, 512], 1).len();
        assert!(points.len() < asked && points.len() > asked * 4 / 5, "{} of {asked}", points.len());
        let inputs = inputs(&func, &given, true).expect("inputs").tensors;
        let sum = |flat: u64| -> f64 {
            let (row, column) = (flat as usize / 512 * 512, flat as usize % 512 * 512);
            (0..512).map(|k| inputs[0].get_f64(row + k) * inputs[1].get_f64(column + k)).sum()
        };
        let rounded = |flat: &u64| half::f16::from_f64(sum(*flat)).to_f64().trunc();
        assert_eq!(points.iter().map(rounded).collect::<Vec<_>>(), found.values);
    }

    /// A sum that goes on from what its output holds, and cancels: no sum that a twin knows the size of.
    #[test]
    fn few_results_that_cancel_are_right() {
        let text = "def f(A: T.Buffer((4,), \"float32\"), O: T.Buffer((1,), \"float32\")):\n    for i in range(4):\n        \
                    with T.sblock(\"b\"):\n            v = T.axis.reduce(4, i)\n            \
                    O[0] = O[0] + (A[v] * A[3 - v] - A[0] * A[v])\n";
        let func = read(text);
        for seed in 0..300 {
            let given = Given { seed, ..Given::default() };
            let mut args = inputs(&func, &given, false).expect("inputs");
            interp::run(&func, &mut args.tensors, &args.scalars, Mode::Exact).expect("it runs");
            let (got, want) = (args.tensors[1].get_f64(0), expected(&func, &Facts::of(&func), &given));
            let want = want.expect("a reference").outputs.remove(0);
            let error = (got - want.values[0]).abs() / want.values[0].abs();
            assert!(error <= want.tolerance.l2, "seed {seed}: {error} of {:?}", want.tolerance);
        }
    }

    /// What overflows in float32 and not in float64 ends as an infinity in one and as no number in the other.
    #[test]
    fn what_overflows_is_not_compared() {
        let text = "def f(A: T.Buffer((8,), \"float32\"), B: T.Buffer((8,), \"float32\")):\n    for i in range(8):\n        \
                    with T.sblock(\"b\"):\n            v = T.axis.spatial(8, i)\n            \
                    B[v] = A[v] * T.float32(3e38) * T.float32(1e3) - T.exp(T.fabs(A[v]) * T.float32(1e30))\n";
        let found = expected(&read(text), &Facts::of(&read(text)), &Given { seed: 1, ..Given::default() });
        let found = found.expect("a reference").outputs.remove(0);
        // Infinity less infinity where A is positive, minus infinity in both where it is negative.
        let points = found.points.expect("some are left out");
        assert!(!points.is_empty() && points.len() < 8, "{points:?} {:?}", found.values);
    }

    /// The difference of two numbers of which one is the other rounded: nothing but rounding.
    #[test]
    fn a_quotient_of_differences_is_compared_where_it_can_be() {
        let function = |divisor: &str| {
            read(&format!(
                "def f(A: T.Buffer((400,), \"float32\"), B: T.Buffer((400,), \"float32\"), C: T.Buffer((400,), \"float32\")):\n    \
                 for i in range(400):\n        with T.sblock(\"b\"):\n            v = T.axis.spatial(400, i)\n            \
                 C[v] = A[v] / ({divisor})\n"
            ))
        };
        let given = Given { seed: 1, ..Given::default() };
        let of = |divisor: &str| {
            let func = function(divisor);
            expected(&func, &Facts::of(&func), &given).expect("a reference").outputs.remove(0)
        };
        let plain = of("B[v] * B[v] + T.float32(1)");
        assert_eq!(plain.points, None);
        let some = of("T.exp(B[v]) - T.float32(1)");
        let compared = some.points.expect("some are left out").len();
        assert!((300..400).contains(&compared) && some.tolerance.max == plain.tolerance.max, "{compared}");
        let all = of("(B[v] + T.float32(1000000)) - T.float32(999999.9375)");
        // All are compared but quotients by what rounds to 0.
        let func = function("(B[v] + T.float32(1000000)) - T.float32(999999.9375)");
        let mut args = inputs(&func, &given, false).expect("inputs");
        interp::run(&func, &mut args.tensors, &args.scalars, Mode::Exact).expect("it runs");
        let numbers = (0..400).filter(|i| args.tensors[2].get_f64(*i as usize).is_finite());
        assert_eq!(all.points.clone().unwrap_or_else(|| (0..400).collect()), numbers.collect::<Vec<u64>>());
        assert!(all.tolerance.max > 100.0 * plain.tolerance.max && all.tolerance.max < 100.0, "{:?}", all.tolerance);
    }
}

//! What the outputs must be: the interpreter in `float64`, on every element where that is quick, on
//! a sample of them plus all borders where it is not.

use super::scale::{Sizes, typical};
use crate::analysis::{Facts, roles};
use crate::interp::{self, Mode, Scalar, Scalars, Tensor};
use crate::ir::{BinOp, DType, Expr, ExprKind, Intrin, Name, Param, PrimFunc, Role, Stmt};
use crate::measure::expected::ExpectedOutput;
use crate::measure::{Expected, Tolerance, inputs};
use std::collections::{BTreeMap, BTreeSet};

/// Scalar operations up to which every element is computed.
const EVERY_ELEMENT: u64 = 100_000_000;

/// Elements that are sampled beyond that, the borders not counted.
const SAMPLE: usize = 4096;

/// Of fewer outputs the norm does not tell how large results are that do not cancel.
const FEW: usize = 64;

/// Values of a function's inputs that are not drawn at random over their whole type.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Given {
    /// Seed of everything that is drawn.
    pub seed: u64,
    /// Scalar parameters and extents, by canonical name; the others are drawn.
    pub scalars: BTreeMap<Name, f64>,
    /// Lowest and highest value of integer tensors, by position.
    pub ranges: BTreeMap<usize, (i64, i64)>,
}

/// Arguments of a run.
pub struct Inputs {
    /// One tensor per buffer parameter: seeded inputs, zeroed outputs.
    pub tensors: Vec<Tensor>,
    /// Values of the scalar parameters.
    pub scalars: Scalars,
    /// Parameters that are read and written.
    pub inout: Vec<Name>,
}

/// The arguments that a bound function is checked with; `wide`: float outputs in `float64`.
///
/// # Errors
/// A sentence, when an extent has no value.
pub fn inputs(func: &PrimFunc, given: &Given, wide: bool) -> Result<Inputs, String> {
    inputs_as(func, &roles(func), given, wide)
}

/// The same for parameters whose roles are known.
///
/// # Errors
/// As [`inputs()`].
pub fn inputs_as(func: &PrimFunc, roles: &[Role], given: &Given, wide: bool) -> Result<Inputs, String> {
    let inout = func.params.iter().zip(roles).filter_map(|(p, r)| match p {
        Param::Buffer(b) if *r == Role::Inout => Some(b.clone()),
        Param::Buffer(_) | Param::Scalar { .. } => None,
    });
    let inout = inout.collect();
    Ok(Inputs { tensors: arguments(func, roles, given, wide)?, scalars: scalars(func, given), inout })
}

/// The expected outputs of a bound and normalized function for seeded inputs.
///
/// # Errors
/// A sentence, when the function cannot be evaluated.
pub fn expected(func: &PrimFunc, facts: &Facts, given: &Given) -> Result<Expected, String> {
    let Inputs { mut tensors, scalars, .. } = inputs(func, given, true)?;
    let outputs = outputs(func);
    let limits = tolerances(func, facts, (&tensors, &scalars), &outputs);
    if interp::scalar_ops(func) > EVERY_ELEMENT
        && let Some(sampled) = sampled(func, given.seed, (&tensors, &scalars), &outputs, &limits)
    {
        return Ok(sampled);
    }
    let missing = run_whole(func, &mut tensors, &scalars, &outputs)?;
    let ties = ties(func, given, (&tensors, &scalars), &outputs)?;
    let all = outputs.iter().zip(missing).zip(&limits).map(|((o, missing), tolerance)| {
        let t = &tensors[o.tensor];
        let missing: BTreeSet<u64> =
            missing.into_iter().chain(ties.get(&o.param).into_iter().flatten().copied()).collect();
        let stored = || (0..t.len() as u64).filter(|i| !missing.contains(i));
        let values = stored().map(|i| t.get_f64(i as usize)).collect();
        let points = (!missing.is_empty()).then(|| stored().collect());
        ExpectedOutput { param: o.param, points, values, tolerance: *tolerance }
    });
    Ok(Expected { outputs: all.collect() })
}

/// Elements of integer outputs that are one unit more or less where every operation is rounded to its type, by
/// parameter: a float lies so near to where its rounding changes that either unit is right.
fn ties(
    func: &PrimFunc,
    given: &Given,
    (reference, scalars): (&[Tensor], &Scalars),
    outputs: &[Output],
) -> Result<BTreeMap<usize, Vec<u64>>, String> {
    let whole: Vec<&Output> = outputs.iter().filter(|o| !o.dtype.is_float()).collect();
    if whole.is_empty() || !rounds(func) {
        return Ok(BTreeMap::new());
    }
    let mut rounded = inputs(func, given, false)?.tensors;
    interp::run(func, &mut rounded, scalars, Mode::Exact).map_err(|e| e.to_string())?;
    let either = |o: &&Output| {
        let (a, b) = (&reference[o.tensor], &rounded[o.tensor]);
        let near = |i: &u64| a.get_i64(*i as usize).abs_diff(b.get_i64(*i as usize)) == 1;
        (o.param, (0..a.len() as u64).filter(near).collect())
    };
    Ok(whole.iter().map(either).collect())
}

/// The tolerance of each output, with the size of results where there are [`FEW`].
fn tolerances(
    func: &PrimFunc,
    facts: &Facts,
    (tensors, scalars): (&[Tensor], &Scalars),
    outputs: &[Output],
) -> Vec<Tolerance> {
    let mut limits: Vec<Tolerance> = outputs.iter().map(|o| tolerance(func, facts, o.dtype)).collect();
    let few = |o: &Output, t: &Tolerance| *t != Tolerance::EXACT && tensors[o.tensor].len() < FEW;
    if !outputs.iter().zip(&limits).any(|(o, t)| few(o, t)) {
        return limits;
    }
    let Some(sizes) = Sizes::of(func, facts) else { return limits };
    for (o, t) in outputs.iter().zip(&mut limits).filter(|(o, t)| few(o, t)) {
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
            known(func, &tensors, &scalars, o, &places)
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

/// The indices of a flat element.
fn place(flat: u64, shape: &[i64]) -> Vec<i64> {
    let mut left = flat as i64;
    let digit = |n: &i64| {
        let digit = left % n;
        left /= n;
        digit
    };
    let mut out: Vec<i64> = shape.iter().rev().map(digit).collect();
    out.reverse();
    out
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
        let (points, values) = known(func, tensors, scalars, o, &sample_points(&tensor.shape, seed))?;
        Some(ExpectedOutput { param: o.param, points: Some(points), values, tolerance: *tolerance })
    });
    Some(Expected { outputs: sampled.collect::<Option<_>>()? })
}

struct Output {
    param: usize,
    tensor: usize,
    name: Name,
    dtype: DType,
    /// It is read before it is written, so that what is not stored to is what it was.
    kept: bool,
}

/// The tensors that the function writes.
fn outputs(func: &PrimFunc) -> Vec<Output> {
    let roles = roles(func);
    let tensors = func.params.iter().enumerate().filter_map(|(i, p)| match p {
        Param::Buffer(b) => Some((i, b)),
        Param::Scalar { .. } => None,
    });
    let written = tensors.enumerate().filter(|(_, (i, _))| matches!(roles[*i], Role::Out | Role::Inout));
    let output = |(tensor, (param, b)): (usize, (usize, &Name))| Output {
        param,
        tensor,
        name: b.clone(),
        dtype: func.buffer(b).dtype,
        kept: roles[param] == Role::Inout,
    };
    written.map(output).collect()
}

/// Seeded inputs and zeroed outputs.
fn arguments(func: &PrimFunc, roles: &[Role], given: &Given, wide: bool) -> Result<Vec<Tensor>, String> {
    let mut out = vec![];
    for (i, p) in func.params.iter().enumerate() {
        let Param::Buffer(b) = p else { continue };
        let buffer = func.buffer(b);
        let shape: Option<Vec<i64>> = buffer.shape.iter().map(Expr::as_int).collect();
        let shape = shape.ok_or_else(|| format!("`{}` has an extent without a value", func.display_name(b)))?;
        let len = shape.iter().product::<i64>().max(0) as usize;
        out.push(if roles[i] == Role::Out {
            let dtype = if wide && buffer.dtype.is_float() { DType::F64 } else { buffer.dtype };
            Tensor::zeros(dtype, &shape)
        } else {
            let range = given.ranges.get(&i).copied();
            Tensor { dtype: buffer.dtype, shape, data: inputs::tensor(buffer.dtype, len, given.seed, i, range) }
        });
    }
    Ok(out)
}

/// Every scalar parameter's value, drawn as the runner draws it where it is not given.
fn scalars(func: &PrimFunc, given: &Given) -> Scalars {
    let drawn = func.params.iter().enumerate().filter_map(|(i, p)| match p {
        Param::Buffer(_) => None,
        Param::Scalar { name, dtype } => {
            let value = given.scalars.get(name).copied();
            let value = value.unwrap_or_else(|| inputs::scalar(*dtype, given.seed, i));
            Some((name.clone(), if dtype.is_float() { Scalar::Float(value) } else { Scalar::Int(value as i64) }))
        }
    });
    drawn.collect()
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
    let (mut length, mut accumulator) = (1u64, DType::F64);
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

/// True when the function does arithmetic on floats that rounds.
fn rounds(func: &PrimFunc) -> bool {
    let mut found = false;
    let mut look = |e: &Expr| e.visit(&mut |e| found |= is_rounding(e));
    func.visit(&mut |s| s.for_each_expr(&mut look));
    found
}

pub(super) fn is_rounding(e: &Expr) -> bool {
    match e.kind() {
        ExprKind::Binary { op: BinOp::Min | BinOp::Max, .. } => false,
        ExprKind::Binary { .. } => e.dtype().is_float(),
        ExprKind::Call {
            op: Intrin::Fabs | Intrin::CopySign | Intrin::Floor | Intrin::Ceil | Intrin::Trunc, ..
        } => false,
        ExprKind::Call { .. } => e.dtype().is_float(),
        ExprKind::Cast { dtype, arg } => dtype.is_float() && dtype.roundoff() > arg.dtype().roundoff(),
        ExprKind::Int { .. }
        | ExprKind::Float { .. }
        | ExprKind::Str(_)
        | ExprKind::Var { .. }
        | ExprKind::Load { .. }
        | ExprKind::Unary { .. }
        | ExprKind::Select { .. }
        | ExprKind::IfThenElse { .. }
        | ExprKind::Reinterpret { .. }
        | ExprKind::Extern { .. }
        | ExprKind::Let { .. } => false,
    }
}

/// Ranges of the integer tensors that are used as indices, by position: what they index bounds them.
pub fn index_ranges(func: &PrimFunc) -> BTreeMap<usize, (i64, i64)> {
    let mut ranges: BTreeMap<usize, (i64, i64)> = BTreeMap::new();
    let mut look = |e: &Expr| {
        e.visit(&mut |e| {
            let ExprKind::Load { buffer, indices, .. } = e.kind() else { return };
            let Some(table) = func.find_buffer(buffer) else { return };
            for (index, extent) in indices.iter().zip(&table.shape) {
                let Some(extent) = extent.as_int() else { continue };
                index.visit(&mut |inner| {
                    if let ExprKind::Load { buffer: b, .. } = inner.kind()
                        && let Some(at) = func.params.iter().position(|p| matches!(p, Param::Buffer(p) if p == b))
                    {
                        let range = ranges.entry(at).or_insert((0, extent - 1));
                        range.1 = range.1.min(extent - 1);
                    }
                });
            }
        });
    };
    func.visit(&mut |s| s.for_each_expr(&mut look));
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 75 times a float32 that is a little less than 0.02 is 1.5 in float32 and less in float64.
    #[test]
    fn a_tie_may_go_either_way() {
        let text = "from tvm.script import tirx as T\n@T.prim_func(s_tir=True)\ndef f(A: T.Buffer((256,), \"int32\"), \
                    B: T.Buffer((256,), \"int8\")):\n    for i in range(256):\n        with T.sblock(\"b\"):\n            \
                    v = T.axis.spatial(256, i)\n            \
                    B[v] = T.Cast(\"int8\", T.round(T.Cast(\"float32\", A[v] * 25) * T.float32(0.02)))\n";
        let func = crate::ir::read(text, "t.py").expect("reads").remove(0);
        let given = Given { seed: 1, ..Given::default() };
        let inputs = inputs(&func, &given, false).expect("inputs");
        let found = expected(&func, &Facts::of(&func), &given).expect("a reference");
        let points = found.outputs[0].points.as_ref().expect("some are left out");
        let left_out = (0..256u64).filter(|i| !points.contains(i));
        let odd: Vec<i64> = left_out.map(|i| inputs.tensors[0].get_i64(i as usize)).collect();
        assert!(!odd.is_empty() && odd.len() < 128, "{odd:?}");
        assert!(odd.iter().all(|a| a % 2 != 0), "only ties: {odd:?}");
    }
}

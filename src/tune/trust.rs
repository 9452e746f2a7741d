//! Which elements of the reference can be trusted. Rounding decides an integer that a float becomes where the
//! float lies near a tie, a quotient of two numbers that nearly cancel, a comparison of two that are nearly equal. The function is
//! evaluated again, with every operation rounded to its type, with inputs that differ a little, and with floats that become integers moved as far as
//! rounding moves them (`rounding`): what then differs by much
//! is not compared. Where that would be much of an output, the function is like that, and its tolerance is wider instead.

use super::draw::{Given, inputs};
use super::output::Output;
use super::rounding::{coarsest, moved, rounds};
use super::scale;
use crate::analysis::indexed_by;
use crate::interp::{self, Mode, Scalars, Tensor, scalar_ops};
use crate::ir::{BinOp, DType, Expr, ExprKind, PrimFunc};
use crate::measure::Tolerance;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Scalar operations up to which floats are looked at.
const MOST: u64 = 20_000_000;

/// Part of the tolerance that an evaluation may differ by.
const PART: f64 = 0.125;

/// Relative change of inputs that shows ties, and of what becomes an integer, if rounding makes no more.
const NUDGE: f64 = 1.0 / 65536.0;

/// Relative change of inputs that shows cancellation: what rounding to float32 does.
const NOISE: f64 = 1.0 / 8388608.0;

/// Roundings one after the other that a value is given.
const ROUNDINGS: f64 = 4.0;

/// What noise multiplies element `i` of an input by.
fn noise(i: usize) -> f64 {
    if i * 7 % 11 < 5 { 1.0 + NOISE } else { 1.0 - NOISE }
}

/// Floating inputs, changed.
fn changed(tensors: &[Tensor], change: impl Fn(usize) -> f64) -> Vec<Tensor> {
    let one = |t: &Tensor| match t.dtype.is_float() && !t.is_empty() {
        true => {
            let values: Vec<f64> = (0..t.len()).map(|i| t.get_f64(i) * change(i)).collect();
            Tensor::from_f64(DType::F64, &t.shape, &values)
        }
        false => t.clone(),
    };
    tensors.iter().map(one).collect()
}

/// What a function is evaluated as, and of which inputs, to see which of the integers that floats become may be others:
/// its inputs a little larger and smaller, and what becomes an integer so much larger and smaller as rounding may make it
/// for values of that size.
pub(super) fn nudged<'a>(
    func: &'a PrimFunc,
    tensors: &'a [Tensor],
    size: f64,
) -> impl Iterator<Item = (Cow<'a, PrimFunc>, Cow<'a, [Tensor]>)> {
    let by = (ROUNDINGS * coarsest(func)).max(NUDGE);
    let inputs = [1.0 + NUDGE, 1.0 - NUDGE].into_iter();
    let inputs = inputs.map(move |factor| (Cow::Borrowed(func), Cow::Owned(changed(tensors, |_| factor))));
    let inside = [by, -by].into_iter().map(move |by| (Cow::Owned(moved(func, by, size)), Cow::Borrowed(tensors)));
    inputs.chain(inside)
}

/// True where an integer is one unit from the reference: at the other side of a tie.
pub(super) fn is_beside(reference: i64, other: i64) -> bool {
    reference.abs_diff(other) == 1
}

/// What has to be evaluated again.
pub(super) struct Unsure<'a> {
    func: &'a PrimFunc,
    given: &'a Given,
    outputs: &'a [Output],
    /// Integers that floats become.
    whole: bool,
    /// Floats that may be ill-conditioned.
    floats: bool,
    /// Elements that several iterations may store to, if indices that were drawn meet.
    scattered: bool,
}

impl<'a> Unsure<'a> {
    /// Of a function; `unsized_few` where it has few results of which nothing says how large they are when they do not
    /// cancel.
    pub fn of(func: &'a PrimFunc, given: &'a Given, outputs: &'a [Output], unsized_few: bool) -> Unsure<'a> {
        let has = |float: bool| outputs.iter().any(|o| o.dtype.is_float() == float);
        let rounds = rounds(func);
        let floats = rounds && has(true) && (unsized_few || sensitive(func)) && scalar_ops(func) <= MOST;
        let scattered = indexed_by(func).iter().any(|i| i.is_store);
        Unsure { func, given, outputs, whole: rounds && has(false), floats, scattered }
    }

    /// The elements of each output, by parameter, that cannot be trusted; widens the limits of those of which
    /// that is much.
    ///
    /// # Errors
    /// A sentence, when the function cannot be evaluated.
    pub fn find(
        &self,
        (reference, scalars): (&[Tensor], &Scalars),
        limits: &mut [Tolerance],
    ) -> Result<BTreeMap<usize, Vec<u64>>, String> {
        let mut runs = vec![];
        if self.whole || self.floats {
            runs.push(run(self.func, self.inputs(Mode::Exact)?, scalars, Mode::Exact)?);
        }
        if self.whole {
            let whole = self.outputs.iter().filter(|o| !o.dtype.is_float()).map(|o| &reference[o.tensor]);
            let size = scale::typical(&whole.flat_map(Tensor::to_f64).collect::<Vec<f64>>(), false);
            for (func, tensors) in nudged(self.func, &self.inputs(Mode::F64)?, size) {
                runs.push(run(&func, tensors.into_owned(), scalars, Mode::F64)?);
            }
        }
        if self.floats {
            runs.push(run(self.func, changed(&self.inputs(Mode::F64)?, noise), scalars, Mode::F64)?);
        }
        let each = self.outputs.iter().zip(limits).map(|(o, limit)| {
            let others: Vec<&Tensor> = runs.iter().map(|r| &r[o.tensor]).collect();
            let found = match o.dtype.is_float() {
                true if self.floats => doubtful(&reference[o.tensor], &others, limit),
                true => vec![],
                false => ties(&reference[o.tensor], &others),
            };
            (o.param, found)
        });
        let mut found: BTreeMap<usize, Vec<u64>> = each.collect();
        if self.scattered {
            let backwards = self.backwards(scalars)?;
            for o in self.outputs {
                found.entry(o.param).or_default().extend(unlike(&reference[o.tensor], &backwards[o.tensor]));
            }
        }
        Ok(found)
    }

    /// The function's values when its iterations run in the opposite order.
    fn backwards(&self, scalars: &Scalars) -> Result<Vec<Tensor>, String> {
        let mut tensors = self.inputs(Mode::F64)?;
        interp::run_backwards(self.func, &mut tensors, scalars, Mode::F64).map_err(|e| e.to_string())?;
        Ok(tensors)
    }

    fn inputs(&self, mode: Mode) -> Result<Vec<Tensor>, String> {
        Ok(inputs(self.func, self.given, mode == Mode::F64)?.tensors)
    }
}

/// A function's values in a mode.
fn run(func: &PrimFunc, mut tensors: Vec<Tensor>, scalars: &Scalars, mode: Mode) -> Result<Vec<Tensor>, String> {
    interp::run(func, &mut tensors, scalars, mode).map_err(|e| e.to_string())?;
    Ok(tensors)
}

/// Elements that differ.
fn unlike<'t>(a: &'t Tensor, b: &'t Tensor) -> impl Iterator<Item = u64> + 't {
    (0..a.len()).filter(|i| a.get_f64(*i).to_bits() != b.get_f64(*i).to_bits()).map(|i| i as u64)
}

/// Integers that are one unit apart.
fn ties(reference: &Tensor, others: &[&Tensor]) -> Vec<u64> {
    let near = |i: usize, t: &Tensor| is_beside(reference.get_i64(i), t.get_i64(i));
    (0..reference.len()).filter(|i| others.iter().any(|t| near(*i, t))).map(|i| i as u64).collect()
}

/// Floats that differ by more than a part of the limit; of numbers none, and a wider limit, where they are a quarter of all.
/// What all others differ by together widens the limit of the norm.
fn doubtful(reference: &Tensor, others: &[&Tensor], limit: &mut Tolerance) -> Vec<u64> {
    let n = reference.len();
    let values = reference.to_f64();
    let apart: Vec<f64> = (0..n).map(|i| spread(values[i], others.iter().map(|t| t.get_f64(i)))).collect();
    let mut kept = vec![true; n];
    let mut size = typical(&values, &kept, limit);
    // Of what is left out the size of the others must not be taken.
    loop {
        let before = size;
        let near = |i: usize| apart[i].is_finite() && apart[i] <= PART * limit.max * values[i].abs().max(size);
        kept = (0..n).map(near).collect();
        size = typical(&values, &kept, limit);
        if size >= before {
            break;
        }
    }
    let found: Vec<u64> = (0..n).filter(|i| !kept[*i]).map(|i| i as u64).collect();
    let much = found.len() * 4 > n;
    if much {
        kept = apart.iter().map(|d| d.is_finite()).collect();
        size = typical(&values, &kept, limit);
    }
    let of_kept = |f: &dyn Fn(usize) -> f64| (0..n).filter(|i| kept[*i]).map(f).collect::<Vec<f64>>();
    let worst =
        of_kept(&|i| apart[i] / values[i].abs().max(size)).into_iter().filter(|e| e.is_finite()).fold(0.0, f64::max);
    let squares: f64 = of_kept(&|i| apart[i] * apart[i]).iter().sum();
    let total = (squares / of_kept(&|_| 1.0).len().max(1) as f64).sqrt() / size;
    let wider = |limit: f64, found: f64| if found.is_finite() { limit.max(found / PART) } else { limit };
    *limit = Tolerance { l2: wider(limit.l2, total), max: wider(limit.max, worst), ..*limit };
    // What overflows in one evaluation and not in the other is no result, however many elements do.
    found.into_iter().filter(|i| !much || apart[*i as usize].is_infinite()).collect()
}

/// How far values are from a reference; infinite where one of them is no number, or another one than the reference.
fn spread(reference: f64, others: impl Iterator<Item = f64>) -> f64 {
    let apart = |v: f64| match v == reference || v.is_nan() && reference.is_nan() {
        true => 0.0,
        false if v.is_finite() && reference.is_finite() => (v - reference).abs(),
        false => f64::INFINITY,
    };
    others.map(apart).fold(0.0, f64::max)
}

/// The root of the mean square of what is kept, or the size that the limit knows.
fn typical(values: &[f64], kept: &[bool], limit: &Tolerance) -> f64 {
    let squares = values.iter().zip(kept).filter(|(v, k)| **k && v.is_finite()).map(|(v, _)| v * v);
    let (n, sum) = squares.fold((0, 0.0), |(n, sum), v| (n + 1, sum + v));
    (sum / f64::from(n.max(1))).sqrt().max(limit.scale)
}

/// True where a small error may become a large one: a quotient by what was computed, a function, a comparison of
/// floats, a float as an integer.
fn sensitive(func: &PrimFunc) -> bool {
    let mut found = false;
    let mut look = |e: &Expr| {
        e.visit(&mut |e| {
            found |= match e.kind() {
                ExprKind::Binary {
                    op: BinOp::Div | BinOp::FloorDiv | BinOp::FloorMod | BinOp::TruncMod, b, ..
                } => b.dtype().is_float() && b.as_float().is_none(),
                ExprKind::Binary { op, a, .. } => op.is_compare() && a.dtype().is_float(),
                ExprKind::Call { dtype, .. } => dtype.is_float(),
                ExprKind::Cast { dtype, arg } => !dtype.is_float() && arg.dtype().is_float(),
                _ => false,
            };
        });
    };
    func.visit(&mut |s| s.for_each_expr(&mut look));
    found
}

//! Which elements of the reference can be trusted. Rounding decides an integer that a float becomes where the
//! float lies near a tie, a quotient of two numbers that nearly cancel, a comparison of two that are nearly equal. The function is
//! evaluated again, with every operation rounded to its type and with inputs that differ a little: what then differs by much
//! is not compared. Where that would be much of an output, the function is like that, and its tolerance is wider instead.

use super::draw::{Given, inputs};
use super::output::Output;
use super::rounding::rounds;
use crate::interp::{self, Mode, Scalars, Tensor, scalar_ops};
use crate::ir::{BinOp, Expr, ExprKind, PrimFunc};
use crate::measure::Tolerance;
use std::collections::BTreeMap;

/// Scalar operations up to which floats are looked at.
const MOST: u64 = 20_000_000;

/// Part of the tolerance that an evaluation may differ by.
const PART: f64 = 0.125;

/// Relative change of inputs that shows ties.
const NUDGE: f64 = 1.0 / 65536.0;

/// Relative change of inputs that shows cancellation: what rounding to float32 does.
const NOISE: f64 = 1.0 / 8388608.0;

/// What has to be evaluated again.
pub(super) struct Unsure<'a> {
    func: &'a PrimFunc,
    given: &'a Given,
    outputs: &'a [Output],
    /// Integers that floats become.
    whole: bool,
    /// Floats that may be ill-conditioned.
    floats: bool,
}

/// How an input is changed: a factor for element `i`.
type Change = fn(usize) -> f64;

impl<'a> Unsure<'a> {
    pub fn of(func: &'a PrimFunc, given: &'a Given, outputs: &'a [Output]) -> Unsure<'a> {
        let has = |float: bool| outputs.iter().any(|o| o.dtype.is_float() == float);
        let rounds = rounds(func);
        let floats = rounds && has(true) && sensitive(func) && scalar_ops(func) <= MOST;
        Unsure { func, given, outputs, whole: rounds && has(false), floats }
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
            runs.push(self.run(scalars, Mode::Exact, |_| 1.0)?);
        }
        if self.whole {
            runs.push(self.run(scalars, Mode::F64, |_| 1.0 + NUDGE)?);
            runs.push(self.run(scalars, Mode::F64, |_| 1.0 - NUDGE)?);
        }
        if self.floats {
            runs.push(self.run(scalars, Mode::F64, |i| if i * 7 % 11 < 5 { 1.0 + NOISE } else { 1.0 - NOISE })?);
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
        Ok(each.collect())
    }

    /// The function's values in a mode, with its floating inputs changed.
    fn run(&self, scalars: &Scalars, mode: Mode, change: Change) -> Result<Vec<Tensor>, String> {
        let mut tensors = inputs(self.func, self.given, mode == Mode::F64)?.tensors;
        for t in tensors.iter_mut().filter(|t| mode == Mode::F64 && t.dtype.is_float() && !t.is_empty()) {
            let values: Vec<f64> = (0..t.len()).map(|i| t.get_f64(i) * change(i)).collect();
            *t = Tensor::from_f64(crate::ir::DType::F64, &t.shape, &values);
        }
        interp::run(self.func, &mut tensors, scalars, mode).map_err(|e| e.to_string())?;
        Ok(tensors)
    }
}

/// Integers that are one unit apart.
fn ties(reference: &Tensor, others: &[&Tensor]) -> Vec<u64> {
    let near = |i: usize, t: &Tensor| reference.get_i64(i).abs_diff(t.get_i64(i)) == 1;
    (0..reference.len()).filter(|i| others.iter().any(|t| near(*i, t))).map(|i| i as u64).collect()
}

/// Floats that differ by more than a part of the limit; none, and a wider limit, where they are a quarter of all.
/// What all others differ by together widens the limit of the norm.
fn doubtful(reference: &Tensor, others: &[&Tensor], limit: &mut Tolerance) -> Vec<u64> {
    let n = reference.len();
    let finite = |v: &f64| v.is_finite();
    let squares: f64 = (0..n).map(|i| reference.get_f64(i)).filter(finite).map(|v| v * v).sum();
    let rms = (squares / n.max(1) as f64).sqrt().max(limit.scale);
    let error = |i: usize| {
        let r = reference.get_f64(i);
        let apart = |t: &&Tensor| (t.get_f64(i) - r).abs() / r.abs().max(rms);
        let lost = |t: &&Tensor| r.is_finite() && !t.get_f64(i).is_finite();
        if others.iter().any(lost) {
            f64::INFINITY
        } else {
            others.iter().map(apart).filter(finite).fold(0.0, f64::max)
        }
    };
    let errors: Vec<f64> = (0..n).map(error).collect();
    let found: Vec<u64> = (0..n as u64).filter(|i| errors[*i as usize] > PART * limit.max).collect();
    let much = found.len() * 4 > n;
    let kept = |i: &usize| errors[*i].is_finite() && (much || errors[*i] <= PART * limit.max);
    let worst = (0..n).filter(kept).map(|i| errors[i]).fold(0.0, f64::max);
    let apart = |i: usize| (errors[i] * reference.get_f64(i).abs().max(rms)).powi(2);
    let total = (0..n).filter(kept).map(apart).sum::<f64>().sqrt() / (rms * (n as f64).sqrt());
    let wider = |limit: f64, found: f64| if found.is_finite() { limit.max(found / PART) } else { limit };
    *limit = Tolerance { l2: wider(limit.l2, total), max: limit.max.max(worst / PART), ..*limit };
    if much { vec![] } else { found }
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

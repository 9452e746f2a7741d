//! The pairs of reductions that `online_reductions` knows, by the form of their terms, and what it takes
//! to put together what they make of two parts of a row.
//!
//! | first | second | a part has | parts combine |
//! |---|---|---|---|
//! | maximum of x | sum of exp(x - maximum) w | m, s | top = max(m, m'), s exp(m - top) + s' exp(m' - top) |
//! | sum of x | sum of (x - sum / n)^2 | mean, s, count c | s + s' + (mean' - mean)^2 c c' / (c + c') |
//!
//! `exp` may be exp2, its argument times a positive constant. The sums of squares combine as Chan, Golub
//! and LeVeque have it.

use super::reducer::Reducer;
use crate::analysis::Slot;
use crate::ir::{BinOp, Block, DType, Expr, ExprKind, Intrin, IterKind, Name, Stmt};
use crate::schedule::{Draft, Failure};
use std::collections::BTreeMap;

/// A pair of reductions.
pub struct Form {
    /// The first's accumulator and term.
    pub first: Slot,
    /// The first's result, as the second reads it, over the first's iterators.
    result: Expr,
    pub kind: Kind,
}

/// What the second is relative to.
pub enum Kind {
    /// A maximum: the factor with the exponential, and what the maximum starts from.
    Exponential { core: Expr, start: Expr },
    /// A mean: the first's result over the number of elements.
    Moments { mean: Expr },
}

/// A part of a row: what the first and the second make of it, and how many elements it has where that
/// matters.
pub struct Part {
    pub first: Expr,
    pub second: Expr,
    pub count: Option<Expr>,
}

impl Form {
    /// The form of two blocks; `same` has the second's iterators in terms of the first's.
    pub fn of(a: &Block, b: &Block, same: &BTreeMap<Name, Expr>) -> Result<Form, Failure> {
        let fail = |block: &Block, why: &str| Failure::new("online_form", &block.name, why);
        let plain = |block: &Block| -> Result<Option<(BinOp, Slot)>, Failure> {
            Ok(Reducer::of(block)?.plain().map(|(op, slot)| (op, slot.clone())))
        };
        let Some((op @ (BinOp::Max | BinOp::Add), first)) = plain(a)? else {
            return Err(fail(a, "it is no maximum and no sum"));
        };
        let Some((BinOp::Add, sum)) = plain(b)? else { return Err(fail(b, "it is no sum")) };
        if !matches!(first.dtype, DType::F32 | DType::F64) || sum.dtype != first.dtype {
            return Err(fail(a, "it and the second sum are not both float32 or float64"));
        }
        let result = Expr::load(first.buffer.clone(), first.indices.clone(), first.dtype);
        let term = sum.term.subst(&|n| same.get(n).cloned());
        let elsewhere = term.replaced(&result, &Expr::constant(0.0, first.dtype)).loads(&first.buffer);
        let start = start_of(a, &first);
        let kind = match op {
            _ if elsewhere => None,
            BinOp::Max => exponential(&term, &first.term, &result).map(|core| Kind::Exponential { core, start }),
            _ => squared(&term, &first.term, &result, count_of(a)).map(|mean| Kind::Moments { mean }),
        };
        let kind = kind.ok_or_else(|| {
            fail(
                b,
                "its term is no product with exp(x - maximum) and no (x - sum / n)^2, x and n as the first has them",
            )
        })?;
        let form = Form { first, result, kind };
        form.check_start(a).map(|()| form)
    }

    /// Parts start where the first does, and nothing may come of that.
    fn check_start(&self, a: &Block) -> Result<(), Failure> {
        let value = start_of(a, &self.first).as_float();
        match &self.kind {
            Kind::Exponential { .. } => {
                Failure::unless(value.is_some_and(f64::is_finite), "finite_start", &a.name, || {
                    "it does not start from a finite constant; differences of infinities are NaN".to_string()
                })
            }
            Kind::Moments { .. } => {
                Failure::unless(value == Some(0.0), "finite_start", &a.name, || "it does not start from 0".to_string())
            }
        }
    }

    /// A term of the second with `part`'s own maximum or mean in place of the row's.
    pub fn relative_to(&self, term: &Expr, part: &Part) -> Expr {
        let own = |e: &Expr| matches!(e.kind(), ExprKind::Load { buffer, .. } if *buffer == self.first.buffer);
        let (found, value) = match (&self.kind, &part.count) {
            (Kind::Moments { .. }, Some(count)) => {
                let mean = |e: &Expr| matches!(e.kind(), ExprKind::Binary { op: BinOp::Div | BinOp::Mul, a, b } if own(a) || own(b));
                (mean(term), divided(&part.first, count))
            }
            _ => (own(term), part.first.clone()),
        };
        if found { value } else { term.map_children(|c| self.relative_to(c, part)) }
    }

    /// The new state, in terms of the old one and a step: what to name, then first, second and count.
    pub fn joined(&self, d: &mut Draft, state: &Part, step: &Part) -> (Vec<Stmt>, Part) {
        let mut lets = vec![];
        let mut named = |d: &mut Draft, name: &str, value: Expr| {
            let (var, dtype) = (d.fresh(name), value.dtype());
            lets.push(Stmt::Let { var: var.clone(), value });
            Expr::var(var, dtype)
        };
        let part = match (&self.kind, &state.count, &step.count) {
            (Kind::Moments { .. }, Some(had), Some(got)) => {
                let count = named(d, "count", had.clone() + got.clone());
                let share = named(d, "share", divided(got, &count));
                let delta = named(d, "delta", divided(&step.first, got) - state.first.clone());
                let spread = delta.clone() * delta.clone() * (had.clone() * share.clone());
                let second = state.second.clone() + step.second.clone() + spread;
                Part { first: state.first.clone() + delta * share, second, count: Some(count) }
            }
            _ => {
                let top = named(d, "top", Expr::binary(BinOp::Max, state.first.clone(), step.first.clone()));
                let kept = state.second.clone() * self.scale(&state.first, &top);
                let added = step.second.clone() * self.scale(&step.first, &top);
                Part { first: top, second: kept + added, count: None }
            }
        };
        (lets, part)
    }

    /// What a state adds to the final results: to the first, and to the second given the first.
    pub fn added(&self, state: &Part, result: &Expr) -> [Expr; 2] {
        match (&self.kind, &state.count) {
            (Kind::Moments { mean }, Some(count)) => {
                let apart = state.first.clone() - mean.replaced(&self.result, result);
                let spread = apart.clone() * apart * count.clone();
                [state.first.clone() * count.clone(), state.second.clone() + spread]
            }
            _ => [state.first.clone(), state.second.clone() * self.scale(&state.first, result)],
        }
    }

    /// The factor that puts a sum relative to the maximum `from` in relation to `to`.
    fn scale(&self, from: &Expr, to: &Expr) -> Expr {
        match &self.kind {
            Kind::Exponential { core, .. } => core.replaced(&self.first.term, from).replaced(&self.result, to),
            Kind::Moments { .. } => Expr::constant(1.0, self.first.dtype),
        }
    }
}

fn divided(a: &Expr, b: &Expr) -> Expr {
    Expr::binary(BinOp::Div, a.clone(), b.clone())
}

/// The one factor of a product that reads the maximum, where it is the exponential of how much less
/// than it the element is.
fn exponential(term: &Expr, element: &Expr, top: &Expr) -> Option<Expr> {
    match term.kind() {
        ExprKind::Binary { op: BinOp::Mul, a, b } => match (a.any(&|e| e == top), b.any(&|e| e == top)) {
            (true, false) => exponential(a, element, top),
            (false, true) => exponential(b, element, top),
            _ => None,
        },
        ExprKind::Call { op: Intrin::Exp | Intrin::Exp2 | Intrin::Ex2Approx, args, .. } => {
            is_difference(args.first()?, element, top).then(|| term.clone())
        }
        _ => None,
    }
}

/// `element - top`, or that times a positive constant.
fn is_difference(e: &Expr, element: &Expr, top: &Expr) -> bool {
    let positive = |e: &Expr| e.as_float().is_some_and(|c| c > 0.0 && c.is_finite());
    match e.kind() {
        ExprKind::Binary { op: BinOp::Sub, a, b } => a == element && b == top,
        ExprKind::Binary { op: BinOp::Mul, a, b } if positive(b) => is_difference(a, element, top),
        ExprKind::Binary { op: BinOp::Mul, a, b } if positive(a) => is_difference(b, element, top),
        _ => false,
    }
}

/// The mean in `(element - mean) * (element - mean)`, the sum over all `count` elements.
fn squared(term: &Expr, element: &Expr, sum: &Expr, count: Option<f64>) -> Option<Expr> {
    let ExprKind::Binary { op: BinOp::Mul, a, b } = term.kind() else { return None };
    let ExprKind::Binary { op: BinOp::Sub, a: x, b: mean } = a.kind() else { return None };
    let is_count = |c: f64| count.is_some_and(|n| (c / n - 1.0).abs() < 1e-6);
    let over = match mean.kind() {
        ExprKind::Binary { op: BinOp::Div, a, b } if a == sum => b.as_float().is_some_and(is_count),
        ExprKind::Binary { op: BinOp::Mul, a, b } if a == sum => b.as_float().is_some_and(|c| is_count(1.0 / c)),
        ExprKind::Binary { op: BinOp::Mul, a, b } if b == sum => a.as_float().is_some_and(|c| is_count(1.0 / c)),
        _ => false,
    };
    (a == b && x == element && over).then(|| mean.clone())
}

/// How many elements a block reduces, where that is constant.
fn count_of(a: &Block) -> Option<f64> {
    let reduce = a.iters.iter().filter(|it| it.kind == IterKind::Reduce);
    reduce.map(|it| it.extent.as_int().map(|n| n as f64)).product()
}

/// The value that a block starts a slot from; its identity where there is none.
fn start_of(block: &Block, slot: &Slot) -> Expr {
    let start = block.init.iter().find_map(|s| match s {
        Stmt::Store { buffer, value, .. } if *buffer == slot.buffer => Some(value.clone()),
        _ => None,
    });
    start.unwrap_or_else(|| slot.identity.clone())
}

//! Symbolic intervals: the smallest and largest value of an index expression while some of the
//! loops around it run and the others stand still.
//!
//! ```text
//! ko*32 + kt*4 + kv    with kv in [0, 4) running    ->    [ko*32 + kt*4, ko*32 + kt*4 + 3]
//! ```

use crate::analysis::{self, Ranges, gcd};
use crate::ir::{BinOp, DType, Expr, ExprKind, Name};
use std::collections::BTreeMap;

/// The inclusive range of an integer expression.
#[derive(Clone, PartialEq, Debug)]
pub struct Span {
    /// Smallest value.
    pub lo: Expr,
    /// Largest value.
    pub hi: Expr,
}

/// The variables that run, each with its range; every other variable stands still.
pub type Running = BTreeMap<Name, Span>;

impl Span {
    /// A single value.
    pub fn point(e: &Expr) -> Span {
        Span { lo: e.clone(), hi: e.clone() }
    }

    /// `[0, extent)`.
    pub fn from_zero(extent: &Expr) -> Span {
        let dtype = extent.dtype();
        Span { lo: Expr::int(0, dtype), hi: extent.clone() - Expr::int(1, dtype) }
    }

    fn is_point(&self) -> bool {
        self.lo == self.hi
    }

    fn map(self, f: impl Fn(Expr) -> Expr) -> Span {
        Span { lo: f(self.lo), hi: f(self.hi) }
    }

    fn flipped(self) -> Span {
        Span { lo: self.hi, hi: self.lo }
    }

    /// `hi - lo + 1`.
    pub fn extent(&self, ranges: &Ranges) -> Expr {
        let one = Expr::int(1, self.hi.dtype());
        analysis::simplify(&(self.hi.clone() - self.lo.clone() + one), ranges)
    }

    /// The smallest span that holds both.
    pub fn union(&self, other: &Span, ranges: &Ranges) -> Span {
        Span { lo: min(&self.lo, &other.lo, ranges), hi: max(&self.hi, &other.hi, ranges) }
    }
}

/// The range of `e` while the variables of `running` run; `None` where it is not known, for
/// instance because a running variable chooses the element of a loaded index.
pub fn span_of(e: &Expr, running: &Running, ranges: &Ranges) -> Option<Span> {
    let e = analysis::simplify(e, ranges);
    let span = eval(&e, running, ranges)?;
    Some(span.map(|bound| analysis::simplify(&bound, ranges)))
}

/// The smaller of two values, as one of them where that is proven.
pub fn min(a: &Expr, b: &Expr, ranges: &Ranges) -> Expr {
    if at_most(a, b, ranges) {
        a.clone()
    } else if at_most(b, a, ranges) {
        b.clone()
    } else {
        Expr::binary(BinOp::Min, a.clone(), b.clone())
    }
}

/// The larger of two values, as one of them where that is proven.
pub fn max(a: &Expr, b: &Expr, ranges: &Ranges) -> Expr {
    if at_most(b, a, ranges) {
        a.clone()
    } else if at_most(a, b, ranges) {
        b.clone()
    } else {
        Expr::binary(BinOp::Max, a.clone(), b.clone())
    }
}

/// Converts between index types; constants are converted in place.
pub fn cast(dtype: DType, e: &Expr) -> Expr {
    e.as_int().map_or_else(|| Expr::cast(dtype, e.clone()), |n| Expr::int(n, dtype))
}

/// True when `a <= b` is proven.
pub fn at_most(a: &Expr, b: &Expr, ranges: &Ranges) -> bool {
    if a == b || analysis::prove(&Expr::binary(BinOp::Le, a.clone(), b.clone()), ranges) {
        return true;
    }
    let gap = analysis::simplify(&(b.clone() - a.clone()), ranges);
    below_rounding(&gap, ranges).is_some_and(|low| non_negative_const(&low, ranges))
}

/// A lower bound of `gap` without its rounded part: `e // c * c` lies in `[e - (c - 1), e]`.
fn below_rounding(gap: &Expr, ranges: &Ranges) -> Option<Expr> {
    let rounded = first_quotient(gap)?;
    let ExprKind::Binary { a: e, b: c, .. } = rounded.kind() else { return None };
    let (c, dtype) = (c.as_int().filter(|c| *c > 0)?, gap.dtype());
    let stand_in = Name::new("quotient");
    let opened = gap.replaced(&rounded, &Expr::var(stand_in.clone(), dtype));
    let (factor, rest) = analysis::linear(&opened, &stand_in, ranges)?;
    let times = factor.as_int().filter(|k| k % c == 0)? / c;
    let low = if times > 0 { e.clone() - Expr::int(c - 1, dtype) } else { e.clone() };
    Some(rest + low * Expr::int(times, dtype))
}

fn first_quotient(e: &Expr) -> Option<Expr> {
    let mut found = None;
    e.visit(&mut |x| {
        if matches!(x.kind(), ExprKind::Binary { op: BinOp::FloorDiv, .. }) {
            found.get_or_insert_with(|| x.clone());
        }
    });
    found
}

fn non_negative_const(e: &Expr, ranges: &Ranges) -> bool {
    analysis::prove(&Expr::binary(BinOp::Ge, e.clone(), Expr::int(0, e.dtype())), ranges)
}

fn eval(e: &Expr, running: &Running, ranges: &Ranges) -> Option<Span> {
    if !uses_any(e, running) {
        return Some(Span::point(e));
    }
    match e.kind() {
        ExprKind::Var { name, .. } => running.get(name).cloned(),
        ExprKind::Binary { op, a, b } => eval_binary(*op, a, b, running, ranges),
        ExprKind::Select { then, otherwise, .. } | ExprKind::IfThenElse { then, otherwise, .. } => {
            Some(eval(then, running, ranges)?.union(&eval(otherwise, running, ranges)?, ranges))
        }
        ExprKind::Cast { dtype, arg } if dtype.is_int() && arg.dtype().is_int() => {
            Some(eval(arg, running, ranges)?.map(|bound| cast(*dtype, &bound)))
        }
        ExprKind::Let { var, value, body } => {
            eval(&body.subst(&|n| (n == var).then(|| value.clone())), running, ranges)
        }
        ExprKind::Int { .. }
        | ExprKind::Float { .. }
        | ExprKind::Str(_)
        | ExprKind::Load { .. }
        | ExprKind::Unary { .. }
        | ExprKind::Cast { .. }
        | ExprKind::Reinterpret { .. }
        | ExprKind::Call { .. }
        | ExprKind::Extern { .. } => None,
    }
}

fn eval_binary(op: BinOp, a: &Expr, b: &Expr, running: &Running, ranges: &Ranges) -> Option<Span> {
    let (x, y) = (eval(a, running, ranges)?, eval(b, running, ranges)?);
    let pair = |lo: (&Expr, &Expr), hi: (&Expr, &Expr)| Span {
        lo: Expr::binary(op, lo.0.clone(), lo.1.clone()),
        hi: Expr::binary(op, hi.0.clone(), hi.1.clone()),
    };
    match op {
        BinOp::Add | BinOp::Min | BinOp::Max => Some(pair((&x.lo, &y.lo), (&x.hi, &y.hi))),
        BinOp::Sub => Some(pair((&x.lo, &y.hi), (&x.hi, &y.lo))),
        BinOp::Mul if y.is_point() => scale(x, &y.lo, ranges),
        BinOp::Mul if x.is_point() => scale(y, &x.lo, ranges),
        BinOp::FloorDiv => divide(x, y.lo.as_int()?, ranges),
        BinOp::FloorMod => modulo(x, y.lo.as_int()?, ranges),
        BinOp::TruncDiv if non_negative(&x.lo, ranges) => divide(x, y.lo.as_int()?, ranges),
        BinOp::TruncMod if non_negative(&x.lo, ranges) => modulo(x, y.lo.as_int()?, ranges),
        _ => None,
    }
}

fn scale(span: Span, by: &Expr, ranges: &Ranges) -> Option<Span> {
    let zero = Expr::int(0, by.dtype());
    if at_most(&zero, by, ranges) {
        Some(span.map(|bound| bound * by.clone()))
    } else if at_most(by, &zero, ranges) {
        Some(span.map(|bound| bound * by.clone()).flipped())
    } else {
        None
    }
}

/// `floordiv(span, by)`. Where the span starts at a multiple of a divisor of `by` and is no longer
/// than it, all of it falls on one quotient.
fn divide(span: Span, by: i64, ranges: &Ranges) -> Option<Span> {
    if by <= 0 {
        return None;
    }
    let by_expr = Expr::int(by, span.lo.dtype());
    let quotient = |e: &Expr| Expr::binary(BinOp::FloorDiv, e.clone(), by_expr.clone());
    if fits_one_quotient(&span, by, ranges) {
        return Some(Span::point(&quotient(&span.lo)));
    }
    let lo = quotient(&span.lo);
    match span.extent(ranges).as_int() {
        Some(width) if multiple(&span.lo, ranges) % by == 0 => {
            let more = Expr::int((width - 1) / by, span.lo.dtype());
            Some(Span { hi: lo.clone() + more, lo })
        }
        _ => Some(Span { hi: quotient(&span.hi), lo }),
    }
}

/// `floormod(span, by)`.
fn modulo(span: Span, by: i64, ranges: &Ranges) -> Option<Span> {
    if by <= 0 {
        return None;
    }
    let dtype = span.lo.dtype();
    if !fits_one_quotient(&span, by, ranges) {
        return Some(Span { lo: Expr::int(0, dtype), hi: Expr::int(by - 1, dtype) });
    }
    let lo = Expr::binary(BinOp::FloorMod, span.lo.clone(), Expr::int(by, dtype));
    let more = span.hi.clone() - span.lo;
    Some(Span { hi: lo.clone() + more, lo })
}

fn fits_one_quotient(span: &Span, by: i64, ranges: &Ranges) -> bool {
    let Some(width) = span.extent(ranges).as_int() else { return false };
    let step = gcd(multiple(&span.lo, ranges), by);
    width <= step
}

/// A number that is known to divide `e`; 0 for the constant 0.
fn multiple(e: &Expr, ranges: &Ranges) -> i64 {
    let e = analysis::simplify(e, ranges);
    match e.as_int() {
        Some(value) => value.abs(),
        None => analysis::multiple_of(&e, ranges),
    }
}

fn non_negative(e: &Expr, ranges: &Ranges) -> bool {
    at_most(&Expr::int(0, e.dtype()), e, ranges)
}

fn uses_any(e: &Expr, running: &Running) -> bool {
    e.any(&|x| x.as_var().is_some_and(|n| running.contains_key(n)))
}

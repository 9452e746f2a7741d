//! Rewrites arithmetic of a block into a form that is cheaper and rounds otherwise.
//!
//! ```text
//! p1[v0, v1] = t1[v0, v1] / t0[v0]              ->    p1[v0, v1] = t1[v0, v1] * (1 / t0[v0])
//!                       relax_arithmetic(b2, "reciprocal")
//! t1[v0, v1] = exp(p0[v0, v1] - t0[v0])         ->    t1[v0, v1] = exp2((p0[v0, v1] - t0[v0]) * 1.442695)
//!                       relax_arithmetic(b1, "exp2")
//! o0[v0] = p0[v0] / (1 + exp(-p0[v0]))          ->    o0[v0] = p0[v0] * rcp_approx(1 + ex2_approx(-p0[v0] * 1.442695))
//!                       relax_arithmetic(b0, "logistic")
//! o0[v0] = 1 + erf(p0[v0])                      ->    o0[v0] = 1 + copysign(1 - ex2_approx(-t q(t)), p0[v0]), t = |p0[v0]|
//!                       relax_arithmetic(b0, "erf")
//! o0[v0] = 1 + tanh(p0[v0])                     ->    o0[v0] = 1 + copysign(1 - 2 q * rcp_approx(q + 1), p0[v0]), q = ex2_approx(|p0[v0]| * -2.885390)
//!                       relax_arithmetic(b0, "tanh")
//! ```
//!
//! - `reciprocal`: a quotient whose divisor does not depend on an iterator that the dividend depends on;
//!   the reciprocal is then the same for many elements. Two roundings instead of one: the error is at
//!   most 1.5 units in the last place, and quotients that overflow only in the reciprocal do so.
//! - `exp2`: the error grows by |x| / 2 units in the last place, so by less than 64 where the
//!   result is no denormal. In a reduction, relative to a value of the row, denormals are lost beside what others
//!   of the row come to, and the instruction that flushes them does.
//! - `logistic`: the sigmoid, and a quotient by a constant of at least 1 and an exponential, by the approximate
//!   instructions, which flush denormals: those that are added to 1 are lost anyway. The relative error is at most
//!   1e-5, that of the exponential of 88.
//! - `erf`: where it is added to a constant, so that an absolute error of 1.1e-6 is a relative one. `-log2(1 - erf(t))`
//!   is a polynomial without constant term, fitted on 0 to 4 (weights 1 - erf, at least 0.05); where erf is near -1 the
//!   sum keeps 3e-5 of it, besides what float32 loses. Beyond 4 the polynomial falls on, so that the result is 1.
//! - `tanh`: where it is added to a constant, too, by the approximate instructions; the absolute error is at most 1e-7.
//!
//! No rule may do this where an output is wider than 16 bits (`docs/correctness.md`).
//!
//! Preconditions: `block_exists`; `not_strict`: the function does not forbid it; `ends_in_float`: no integer, comparison or rounding is
//! made of its results; `known_form`: the way is one of these; `nothing_changes`: the block has something to rewrite.

use crate::ir::{BinOp, Block, DType, Expr, ExprKind, Intrin, IterKind, IterVar, Name, Stmt};
use crate::schedule::help::{exact::jumps, tree};
use crate::schedule::{Draft, Failure};

/// Rewrites an expression of a block.
type Rewrite = fn(&Expr, &Block) -> Expr;

const WAYS: [(&str, Rewrite); 5] = [
    ("reciprocal", reciprocal),
    ("exp2", exp2),
    ("logistic", |e, _| unless_it_jumps(e, logistic)),
    ("erf", |e, _| unless_it_jumps(e, |e| beside_constant(e, false, (Intrin::Erf, erf)))),
    ("tanh", |e, _| unless_it_jumps(e, |e| beside_constant(e, false, (Intrin::Tanh, tanh)))),
];

/// `q` of `1 - erf(t) = 2^(t q(t))`, from its constant on.
const ERFC: [f64; 7] =
    [-1.627968431e0, -9.177019e-1, -1.51181072e-1, 3.28287892e-2, -4.769629799e-3, 3.948425292e-4, -1.327520386e-5];

pub fn apply(d: &mut Draft, block: &Name, way: &str) -> Result<(), Failure> {
    let old = d.find_block(block)?.clone();
    d.may_round(block)?;
    d.ends_in_float(&old)?;
    let Some((_, rewrite)) = WAYS.iter().find(|(name, _)| *name == way) else {
        let all = WAYS.map(|(name, _)| name).join(", ");
        return Err(Failure::new(
            "known_form",
            block,
            format!("there is no way `{way}` to relax arithmetic; there are {all}"),
        ));
    };
    let body: Vec<Stmt> = old.body.iter().map(|s| s.map_exprs(&mut |e| rewrite(e, &old))).collect();
    Failure::unless(body != old.body, "nothing_changes", block, || "it has nothing of that kind".to_string())?;
    tree::edit_block(&mut d.func, block, |b| b.body = body);
    Ok(())
}

/// What a comparison or a rounding in it is made of stays.
fn unless_it_jumps(e: &Expr, rewrite: fn(&Expr) -> Expr) -> Expr {
    if e.any(&jumps) { e.clone() } else { rewrite(e) }
}

/// The constant and the other operand of an operation that takes them in either order.
fn with_constant(e: &Expr, op: BinOp) -> Option<(f64, &Expr)> {
    match e.kind() {
        ExprKind::Binary { op: is, a, b } if *is == op => {
            a.as_float().map(|c| (c, b)).or_else(|| b.as_float().map(|c| (c, a)))
        }
        _ => None,
    }
}

fn reciprocal(e: &Expr, block: &Block) -> Expr {
    let e = e.map_children(|c| reciprocal(c, block));
    let ExprKind::Binary { op: BinOp::Div, a, b } = e.kind() else { return e };
    if e.dtype() != DType::F32 || !is_of_more(a, b, block) {
        return e;
    }
    a.clone() * Expr::binary(BinOp::Div, Expr::float(1.0, e.dtype()), b.clone())
}

/// True where `a` is another value for each of several elements that share what `b` reads.
fn is_of_more(a: &Expr, b: &Expr, block: &Block) -> bool {
    let alone = |it: &IterVar| a.uses_var(&it.var) && !b.uses_var(&it.var);
    b.has_load() && block.iters.iter().any(alone)
}

fn exp2(e: &Expr, block: &Block) -> Expr {
    let e = e.map_children(|c| exp2(c, block));
    let ExprKind::Call { op: Intrin::Exp, args, dtype: DType::F32 } = e.kind() else { return e };
    let reduces = block.iters.iter().any(|it| it.kind == IterKind::Reduce);
    let function = match args[0].kind() {
        ExprKind::Binary { op: BinOp::Sub, a, b } if reduces && is_of_more(a, b, block) => Intrin::Ex2Approx,
        _ => Intrin::Exp2,
    };
    by_log2e(&args[0], 1.0).math(function)
}

/// `x log2 e`, with that sign.
fn by_log2e(x: &Expr, sign: f64) -> Expr {
    let factor = sign * std::f64::consts::LOG2_E;
    match with_constant(x, BinOp::Mul) {
        Some((c, x)) if c.abs() == 1.0 => x.clone() * (factor * c),
        _ => x.clone() * factor,
    }
}

fn logistic(e: &Expr) -> Expr {
    let e = e.map_children(logistic);
    match e.kind() {
        ExprKind::Call { op: Intrin::Sigmoid, args, dtype: DType::F32 } => {
            (by_log2e(&args[0], -1.0).math(Intrin::Ex2Approx) + 1.0).math(Intrin::RcpApprox)
        }
        ExprKind::Binary { op: BinOp::Div, a, b } if e.dtype() == DType::F32 => {
            let Some(divisor) = beside_exp(b) else { return e };
            let reciprocal = divisor.math(Intrin::RcpApprox);
            if a.as_float() == Some(1.0) { reciprocal } else { a.clone() * reciprocal }
        }
        _ => e,
    }
}

/// A constant of at least 1 plus an exponential, with that relaxed.
fn beside_exp(e: &Expr) -> Option<Expr> {
    let (c, exp) = with_constant(e, BinOp::Add).filter(|(c, _)| *c >= 1.0)?;
    let ExprKind::Call { op: Intrin::Exp, args, .. } = exp.kind() else { return None };
    Some(by_log2e(&args[0], 1.0).math(Intrin::Ex2Approx) + c)
}

/// Rewrites a function, `how`, where its value is added to a constant, alone or times one of at most 1; `added` says that this
/// is so here.
fn beside_constant(e: &Expr, added: bool, how: (Intrin, fn(&Expr) -> Expr)) -> Expr {
    let to_sum = with_constant(e, BinOp::Add).is_some_and(|(c, _)| c.abs() >= 0.5);
    let below = to_sum || added && with_constant(e, BinOp::Mul).is_some_and(|(c, _)| c.abs() <= 1.0);
    let e = e.map_children(|c| beside_constant(c, below, how));
    match e.kind() {
        ExprKind::Call { op, args, dtype: DType::F32 } if added && *op == how.0 => how.1(&args[0]),
        _ => e,
    }
}

fn erf(x: &Expr) -> Expr {
    let t = x.clone().math(Intrin::Fabs);
    let [q @ .., last] = ERFC;
    let q = q.iter().rev().fold(Expr::float(last, DType::F32), |q, c| q * t.clone() + *c);
    with_sign_of(x, (q * t).math(Intrin::Ex2Approx))
}

fn tanh(x: &Expr) -> Expr {
    // e^(-2|x|), so that what is left of 1 where tanh is near -1 is as exact as float32 has it
    let q = (x.clone().math(Intrin::Fabs) * (-2.0 * std::f64::consts::LOG2_E)).math(Intrin::Ex2Approx);
    with_sign_of(x, q.clone() * 2.0 * (q + 1.0).math(Intrin::RcpApprox))
}

/// `1 - rest`, with the sign of `x`.
fn with_sign_of(x: &Expr, rest: Expr) -> Expr {
    Expr::call(Intrin::CopySign, vec![Expr::float(1.0, DType::F32) - rest, x.clone()], DType::F32)
}

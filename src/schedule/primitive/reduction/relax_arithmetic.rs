//! Rewrites arithmetic of a block into a form that is cheaper and rounds otherwise.
//!
//! ```text
//! p1[v0, v1] = t1[v0, v1] / t0[v0]              ->    p1[v0, v1] = t1[v0, v1] * (1 / t0[v0])
//!                       relax_arithmetic(b2, "reciprocal")
//! t1[v0, v1] = exp(p0[v0, v1] - t0[v0])         ->    t1[v0, v1] = exp2((p0[v0, v1] - t0[v0]) * 1.442695)
//!                       relax_arithmetic(b1, "exp2")
//! ```
//!
//! - `reciprocal`: a quotient whose divisor does not depend on an iterator that the dividend depends on;
//!   the reciprocal is then the same for many elements. Two roundings instead of one: the error is at
//!   most 1.5 units in the last place, and quotients that overflow only in the reciprocal do so.
//! - `exp2`: the error grows by |x| / 2 units in the last place, so by less than 64 where the
//!   result is no denormal.
//!
//! No rule may do this where an output is wider than 16 bits (`docs/correctness.md`).
//!
//! Preconditions: `block_exists`; `not_strict`: the function does not forbid it; `known_form`: the way is one of these; `nothing_changes`: the
//! block has something to rewrite.

use crate::ir::{BinOp, Block, DType, Expr, ExprKind, Intrin, IterVar, Name, Stmt};
use crate::schedule::help::tree;
use crate::schedule::{Draft, Failure};

pub fn apply(d: &mut Draft, block: &Name, way: &str) -> Result<(), Failure> {
    let old = d.find_block(block)?.clone();
    d.may_round(block)?;
    let rewrite: &dyn Fn(&Expr) -> Expr = match way {
        "reciprocal" => &|e| reciprocal(e, &old),
        "exp2" => &exp2,
        other => {
            let why = format!("there is no way `{other}` to relax arithmetic; there are reciprocal, exp2");
            return Err(Failure::new("known_form", block, why));
        }
    };
    let body: Vec<Stmt> = old.body.iter().map(|s| s.map_exprs(&mut |e| rewrite(e))).collect();
    Failure::unless(body != old.body, "nothing_changes", block, || "it has nothing of that kind".to_string())?;
    tree::edit_block(&mut d.func, block, |b| b.body = body);
    Ok(())
}

fn reciprocal(e: &Expr, block: &Block) -> Expr {
    let e = e.map_children(|c| reciprocal(c, block));
    let ExprKind::Binary { op: BinOp::Div, a, b } = e.kind() else { return e };
    let alone = |it: &IterVar| a.uses_var(&it.var) && !b.uses_var(&it.var);
    if e.dtype() != DType::F32 || !b.has_load() || !block.iters.iter().any(alone) {
        return e;
    }
    a.clone() * Expr::binary(BinOp::Div, Expr::float(1.0, e.dtype()), b.clone())
}

fn exp2(e: &Expr) -> Expr {
    let e = e.map_children(exp2);
    match e.kind() {
        ExprKind::Call { op: Intrin::Exp, args, dtype: DType::F32 } => {
            let log2e = Expr::float(std::f64::consts::LOG2_E, DType::F32);
            Expr::call(Intrin::Exp2, vec![args[0].clone() * log2e], DType::F32)
        }
        _ => e,
    }
}

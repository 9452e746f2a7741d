//! An index and a value that threads find together, as two reductions one after the other: the best of
//! the threads' values, which all of them learn, and the smallest (or largest) index among those whose
//! value is the best. A thread that found nothing offers no index. Both are plain reductions, so every
//! variant of the dispatch table carries them out, and the result does not depend on the order.
//!
//! before: `I, V <- larger of (I, V), (k, x[k]) over threadIdx.x`
//! after:  `best <- max x[k] over threadIdx.x; I <- min (x[k] == best ? k : none) over threadIdx.x; V = best`
//!
//! Stands in a circle with `thread_reduce`, of which it is the case of two values.

use super::thread_reduce::{Found, init_value};
use crate::analysis::{ArgReducer, Slot, simplify};
use crate::ir::device::{DFor, DKind, DStmt, ThreadReduce, guarded, index_var};
use crate::ir::{BinOp, Buffer, Expr, ExprKind, Scope};
use crate::lower::LowerError;
use crate::lower::pass::blocks::{Env, Lower};

/// The statements that reduce both.
pub fn build(lower: &mut Lower, found: &Found, env: &Env, arg: &ArgReducer) -> Result<Vec<DStmt>, LowerError> {
    let (index, value) = (Side::of(lower, found, env, &arg.index)?, Side::of(lower, found, env, &arg.value)?);
    let step = found.step(lower, env, &[&arg.index.buffer, &arg.value.buffer]);
    let (best, at) = best_of(lower, found, &arg.value);
    let loaded = Expr::load(best.name.clone(), vec![at.clone()], arg.value.dtype);
    let none = found.identity(arg.tie.op(), arg.index.dtype)?;
    let offered = |value: &Expr, index: &Expr| {
        let cond = Expr::binary(BinOp::Eq, value.clone(), loaded.clone());
        Expr::new(ExprKind::Select { cond, then: index.clone(), otherwise: none.clone() })
    };
    let first = ThreadReduce {
        start: Some(value.start.clone()),
        dst: best.name.clone(),
        indices: vec![at],
        write_guard: found.write_guard(lower, env, &step, &best.name, true),
        ..found.reduce(
            arg.combiner.op(),
            step.clone(),
            value.term.clone(),
            found.identity(arg.combiner.op(), arg.value.dtype)?,
        )
    };
    let second = ThreadReduce {
        start: Some(offered(&value.start, &index.start)),
        dst: arg.index.buffer.clone(),
        indices: index.at,
        write_guard: found.write_guard(lower, env, &step, &arg.index.buffer, true),
        needs_all: lower.replicated.any(&arg.index.buffer, &found.tags),
        ..found.reduce(arg.tie.op(), step.clone(), offered(&value.term, &index.term), none.clone())
    };
    let store = DStmt::store(arg.value.buffer.clone(), value.at, loaded);
    let write = guarded(found.write_guard(lower, env, &step, &arg.value.buffer, true), vec![store]);
    let mut out = vec![DStmt::Reduce(Box::new(first)), DStmt::Reduce(Box::new(second))];
    out.extend(each_element(lower, found, write));
    Ok(out)
}

/// One of the two, in terms of loops and threads.
struct Side {
    at: Vec<Expr>,
    term: Expr,
    /// What the element starts from.
    start: Expr,
}

impl Side {
    fn of(lower: &Lower, found: &Found, env: &Env, slot: &Slot) -> Result<Side, LowerError> {
        let at: Vec<Expr> = slot.indices.iter().map(|e| env.value(e, lower.nest)).collect();
        let start = match init_value(found.b, &slot.buffer, &slot.indices)? {
            Some(v) => env.value(&v, lower.nest),
            None => Expr::load(slot.buffer.clone(), at.clone(), slot.dtype),
        };
        Ok(Side { at, term: env.value(&slot.term, lower.nest), start })
    }
}

/// Registers for the best value of each element, and the place of the current one.
fn best_of(lower: &mut Lower, found: &Found, value: &Slot) -> (Buffer, Expr) {
    let name = lower.nest.fresh(&format!("{}_best", value.buffer));
    let n = found.elements.iter().map(|(_, n)| n).product();
    let at = found.elements.iter().fold(Expr::i64(0), |at, (var, n)| at * Expr::i64(*n) + index_var(var));
    let buffer = Buffer::new(name.clone(), value.dtype, vec![Expr::i64(n)], Scope::Local);
    lower.nest.buffers.insert(name, buffer.clone());
    (buffer, simplify(&at, &lower.nest.ranges))
}

/// Loops over the elements around statements, with variables of their own.
fn each_element(lower: &mut Lower, found: &Found, mut body: Vec<DStmt>) -> Vec<DStmt> {
    for (var, n) in found.elements.iter().rev() {
        let own = lower.nest.fresh(var.as_str());
        lower.nest.ranges.set(own.clone(), 0, n - 1);
        let inner = body.iter().map(|s| s.subst(&|name| (name == var).then(|| index_var(&own)))).collect();
        body = vec![DStmt::For(DFor::new(own, Expr::i64(*n), DKind::Unrolled, inner))];
    }
    body
}

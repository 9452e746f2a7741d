//! An index and a value that threads find together, as two reductions one after the other: the best of
//! the threads' values, which all of them learn, and the smallest (or largest) index among those whose
//! value is the best. A thread that found nothing offers no index. Both are plain reductions, so every
//! variant of the dispatch table carries them out, and the result does not depend on the order.
//!
//! before: `I, V <- larger of (I, V), (k, x[k]) over threadIdx.x`
//! after:  `best <- max x[k] over threadIdx.x; I <- min (x[k] == best ? k : none) over threadIdx.x; V = best`
//!
//! Stands in a circle with `thread_reduce`, of which it is the case of two values.

use super::cross_thread::{each_element, number_of};
use super::thread_reduce::{Found, init_value};
use crate::analysis::{ArgReducer, Slot};
use crate::ir::device::{DStmt, ThreadReduce, guarded};
use crate::ir::{BinOp, Expr, ExprKind, Name, Scope};
use crate::lower::LowerError;
use crate::lower::pass::blocks::{Env, Lower};

/// The statements that reduce both.
pub fn build(lower: &mut Lower, found: &Found, env: &Env, arg: &ArgReducer) -> Result<Vec<DStmt>, LowerError> {
    let (index, value) = (Side::of(lower, found, env, &arg.index)?, Side::of(lower, found, env, &arg.value)?);
    let step = found.step(lower, env, &[&arg.index.buffer, &arg.value.buffer]);
    let (best, at) = best_of(lower, found, &arg.value);
    let loaded = Expr::load(best.clone(), vec![at.clone()], arg.value.dtype);
    let none = found.identity(arg.tie.op(), arg.index.dtype)?;
    let offered = |value: &Expr, index: &Expr| {
        let cond = Expr::binary(BinOp::Eq, value.clone(), loaded.clone());
        Expr::new(ExprKind::Select { cond, then: index.clone(), otherwise: none.clone() })
    };
    let first = ThreadReduce {
        start: Some(value.start.clone()),
        dst: best.clone(),
        indices: vec![at],
        write_guard: found.write_guard(lower, env, &step, &best, true),
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
    out.extend(each_element(lower.nest, &found.elements, write));
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
fn best_of(lower: &mut Lower, found: &Found, value: &Slot) -> (Name, Expr) {
    let n = found.elements.iter().map(|(_, n)| n).product();
    let name = lower.nest.scratch(&format!("{}_best", value.buffer), value.dtype, Expr::i64(n), Scope::Local);
    (name, number_of(lower.nest, &found.elements))
}

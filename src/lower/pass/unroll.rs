//! Decides which loops are unrolled.
//!
//! Loops asked to be (`T.unroll`) already are. Under `pragma_auto_unroll_max_step` a constant loop
//! is unrolled when its steps, times those of the unrolled loops in it, stay within the step and no
//! other loop is left inside. On CUDA a loop whose variable picks an element of a register array
//! has to be, because registers have no addresses.
//!
//! before: `for k < 8 { acc[k] = 0 }` with registers `acc`
//! after:  `unroll k < 8 { acc[k] = 0 }`

use crate::analysis::simplify;
use crate::ir::device::{DKind, DStmt, map_list};
use crate::ir::{Expr, Name};
use crate::lower::LowerError;
use crate::lower::nest::Nest;
use std::collections::BTreeSet;

const PASS: &str = "unroll";
/// Copies of a statement that a register array may force.
const MAX_FORCED: i64 = 4096;

/// Marks the loops of a launch.
pub fn run(nest: &mut Nest, body: Vec<DStmt>) -> Result<Vec<DStmt>, LowerError> {
    let mut forced = BTreeSet::new();
    if nest.cuda() {
        register_variables(nest, &body, &mut forced);
    }
    let (body, _) = list(body, &forced)?;
    Ok(body)
}

/// Removes loops of one step; those that were marked for batching are still there until then.
pub fn drop_single_steps(nest: &mut Nest, body: Vec<DStmt>) -> Vec<DStmt> {
    let one = |s: DStmt| match s.map_lists(|inner| drop_single_steps(nest, inner)) {
        DStmt::For(l) if l.extent.is_int(1) => {
            let zero = |n: &Name| (*n == l.var).then(|| Expr::i64(0));
            map_list(&l.body, &mut |e| {
                if e.uses_var(&l.var) { simplify(&e.subst(&zero), &nest.ranges) } else { e.clone() }
            })
        }
        s => vec![s],
    };
    body.into_iter().flat_map(one).collect()
}

/// Unrolls a list; gives the number of copies of its most repeated statement, `None` where a loop
/// is left.
fn list(body: Vec<DStmt>, forced: &BTreeSet<Name>) -> Result<(Vec<DStmt>, Option<i64>), LowerError> {
    let (mut out, mut steps) = (vec![], Some(1));
    for s in body {
        let (s, own) = one(s, forced)?;
        steps = steps.zip(own).map(|(a, b)| a.max(b));
        out.push(s);
    }
    Ok((out, steps))
}

fn one(s: DStmt, forced: &BTreeSet<Name>) -> Result<(DStmt, Option<i64>), LowerError> {
    let mut inner = Some(1);
    let s = s.try_map_lists(|v| {
        let (v, own) = list(v, forced)?;
        inner = inner.zip(own).map(|(a, b)| a.max(b));
        Ok(v)
    })?;
    let DStmt::For(mut l) = s else { return Ok((s, inner)) };
    let steps = l.extent.as_int().zip(inner).map(|(n, m)| n * m);
    if l.kind == DKind::Serial && l.unroll_step.zip(steps).is_some_and(|(most, steps)| steps <= most) {
        l.kind = DKind::Unrolled;
    }
    if forced.contains(&l.var) {
        if l.extent.as_int().is_none_or(|n| n > MAX_FORCED) {
            let why = "its variable picks a register, so its extent has to be a small constant";
            return Err(LowerError::new(PASS, &l.var, why));
        }
        l.kind = DKind::Unrolled;
    }
    let steps = steps.filter(|_| l.kind == DKind::Unrolled);
    Ok((DStmt::For(l), steps))
}

/// The variables that occur in indices of register arrays.
fn register_variables(nest: &Nest, body: &[DStmt], out: &mut BTreeSet<Name>) {
    let mut index = |array: &Name, indices: &[Expr]| {
        if nest.is_local(array) {
            indices.iter().for_each(|e| e.visit(&mut |e| out.extend(e.as_var().cloned())));
        }
    };
    for s in body {
        s.visit(&mut |s| s.for_each_access(|array, indices, _| index(array, indices)));
    }
}

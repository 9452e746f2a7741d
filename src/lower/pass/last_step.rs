//! Gives the steps of a loop whose loads are all inside a tensor statements without conditions.
//!
//! Loads under conditions of their own are not in flight together: a compiler has few predicates, and uses each value right
//! after its load, while it has the predicate at hand. Where the number of steps is known, the last is written apart: sizes
//! tell which of its conditions hold. Where it is not, each step asks whether it is whole. Registers of a step under
//! conditions are its own.
//!
//! before: `for k < 2 { unroll u < 16, batch { if k * 512 + u * 32 + threadIdx.x < 953 { r[0] = p0[...]; ... } } }`
//! after:  `for k < 1 { unroll u < 16, batch { r[0] = p0[...]; ... } }; unroll u < 16, batch { if u * 32 + ... < 441 ... } }`
//!
//! before: `for k < (n + 511) / 512 { unroll u < 16, batch { if k * 512 + u * 32 + threadIdx.x < n { r[0] = p0[...]; ... } } }`
//! after:  `for k < (n + 511) / 512 { if k * 512 + 511 < n { unroll u < 16, batch { r[0] = p0[...]; ... } } else { ... } }`

use super::batch::uses;
use super::guards::uniform;
use super::whole_tiles::{apart, with_own_registers};
use crate::ir::device::{DFor, DKind, DStmt};
use crate::ir::{Expr, Name};
use crate::lower::nest::Nest;
use std::collections::BTreeMap;

/// Goes through the innermost loops that are not unrolled.
pub fn run(nest: &mut Nest, body: Vec<DStmt>) -> Vec<DStmt> {
    list(nest, &uses(&body), body)
}

/// `everywhere` says how often the whole launch uses each buffer.
fn list(nest: &mut Nest, everywhere: &BTreeMap<Name, usize>, body: Vec<DStmt>) -> Vec<DStmt> {
    body.into_iter().flat_map(|s| one(nest, everywhere, s)).collect()
}

fn one(nest: &mut Nest, everywhere: &BTreeMap<Name, usize>, s: DStmt) -> Vec<DStmt> {
    match s {
        DStmt::For(l) if steps_alike(&l) => match l.extent.as_int() {
            Some(steps) if steps > 1 => last_apart(nest, everywhere, l, steps),
            Some(_) => vec![DStmt::For(l)],
            None => vec![DStmt::For(whole_apart(nest, everywhere, l))],
        },
        s => vec![s.map_lists(|inner| list(nest, everywhere, inner))],
    }
}

/// True for a loop whose steps run one after the other under conditions on the step, all of it in straight code with loads that
/// go together.
fn steps_alike(l: &DFor) -> bool {
    let plain = l.kind == DKind::Serial && l.live.is_none() && l.tile.is_none() && l.stages == 1 && l.roles == 0;
    let (mut batches, mut straight) = (false, true);
    for s in &l.body {
        s.visit(&mut |s| match s {
            DStmt::For(l) => {
                batches |= l.batch;
                straight &= l.kind != DKind::Serial;
            }
            DStmt::Instr(i) if i.op.takes_runs() => {}
            DStmt::Barrier(_) | DStmt::Instr(_) | DStmt::Let { .. } | DStmt::Var { .. } => straight = false,
            _ => {}
        });
    }
    plain && batches && straight && conditions(&l.body, &l.var) > 0
}

/// All steps but the last, and that, where they need fewer conditions.
fn last_apart(nest: &mut Nest, everywhere: &BTreeMap<Name, usize>, l: DFor, steps: i64) -> Vec<DStmt> {
    nest.ranges.set(l.var.clone(), 0, steps - 2);
    let first = uniform(nest, l.body.clone());
    if conditions(&first, &l.var) == conditions(&l.body, &l.var) {
        nest.ranges.set(l.var.clone(), 0, steps - 1);
        return vec![DStmt::For(l)];
    }
    let last = with_own_registers(nest, everywhere, &l.body);
    let last = nest.with_value(&last, &l.var, &Expr::i64(steps - 1));
    let mut out = vec![DStmt::For(DFor { extent: Expr::i64(steps - 1), ..l.with_body(first) })];
    out.extend(uniform(nest, last));
    out
}

/// A step without conditions where it is whole, and as it was where it is not.
fn whole_apart(nest: &mut Nest, everywhere: &BTreeMap<Name, usize>, l: DFor) -> DFor {
    let step = apart(nest, everywhere, &l.body, |_, cond, _| cond.uses_var(&l.var));
    step.map_or_else(|| l.clone(), |s| l.with_body(vec![s]))
}

/// How many statements stand under a condition on the step.
fn conditions(body: &[DStmt], step: &Name) -> usize {
    let mut n = 0;
    for s in body {
        s.visit(&mut |s| n += usize::from(matches!(s, DStmt::If { cond, .. } if cond.uses_var(step))));
    }
    n
}
